package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// A Holding says who holds a lock, and who waits for it. It is for people and their tools. It describes a
// moment that has passed, so a program must not decide by it whether to write.
type Holding struct {
	Name string // of the lock

	// Held says that one token stands on a quorum of the masters. If it does not, and Masters is
	// above 0, somebody is about to acquire the lock, or has left keys behind that will expire.
	Held bool

	// Owner is who holds the lock: see Options.Owner. It is empty if nobody does, and if the token names
	// no owner: the token of a client with DisableOwner, or of another language.
	Owner string

	// Token is the value that stands on the most masters, as Lease.Token returns it, and empty if the
	// lock is free.
	Token string

	// Readers are the owners of the Clients whose readers hold the lock, each for any number of goroutines, or
	// keep their lease. The owner of a Client with DisableOwner is empty. Token is then "redlock:readers", and
	// Owner is empty. Of more than 256, some are left out.
	Readers []string

	// Left is for how long a quorum of masters keeps the token, unless its lease is renewed. It is
	// negative for a key that does not expire, which is not redlock's.
	Left time.Duration

	Masters int // how many masters have the token
	Need    int // how many are a quorum

	// Fence is the last fence of the name that the masters know, and 0 if there is none. If all clients of
	// the name use LockOptions.Fencing, it is the holder's. The masters do not know of handovers within a
	// process, so the holder's can be slightly higher.
	Fence uint64

	// Waiting is how many Clients wait for the lock, each for any number of goroutines. Clients with
	// DisableWakeups, and those of other languages, are not seen.
	Waiting int

	// Waiters are these Clients, the longest waiting first. Of more than 256, some are left out.
	Waiters []Waiter

	// Errs has a *NodeError for each master that did not answer.
	Errs []error
}

// A Waiter is a Client that waits for a lock.
type Waiter struct {
	Owner string    // see Options.Owner; empty for a Client with DisableOwner
	Since time.Time // since when it waits, by this machine's clock
}

// Inspect returns who holds the lock of a name, for how much longer, and who waits for it. It reads
// only, and asks all masters, also those in quarantine. It waits for first connections, up to
// DialTimeout, and for the answers, up to NodeTimeout. Masters that do not answer are listed in
// Holding.Errs. If fewer than a quorum answer, the error is a *QuorumError, and the Holding has what
// the others say. If ctx ends, or the Client is closed, the error is that of LockContext.
func (c *Client) Inspect(ctx context.Context, name string) (Holding, error) {
	h := Holding{Name: name, Need: quorum.Majority(len(c.masters))}
	key, err := c.opts.key(name)
	if err != nil {
		return h, err
	}
	if ctx.Err() != nil {
		return h, &endedError{op: opInspect, name: name, ctx: ctx}
	}
	if !c.beginCall() {
		return h, ErrClosed
	}
	defer c.endCall()
	votes := c.query(ctx, master.NewLook(key))
	known := looks(votes, master.DecodeLook)
	sum := holding.Of(known, len(votes))
	if len(sum.Waiters) > 0 && ctx.Err() == nil {
		sum.Drop(c.listeners(ctx, sum.IDs()))
	}
	h.take(sum)
	failed := c.quorumError(opInspect, name, votes)
	h.Errs = failed.Errs
	switch {
	case c.isClosing():
		return h, ErrClosed
	case ctx.Err() != nil:
		return h, &endedError{op: opInspect, name: name, ctx: ctx, last: failed}
	case len(known) < sum.Need:
		return h, failed
	}
	return h, nil
}

// looks decodes the answers to a query. An answer that cannot be decoded becomes a failure.
func looks(votes []quorum.Vote, decode func([]any) (master.Look, error)) (known []master.Look) {
	for i, v := range votes {
		if !v.Granted() {
			continue
		}
		look, err := decode(v.Replies)
		if err != nil {
			votes[i] = quorum.Vote{In: true, Answer: master.Answer{Err: err}}
			continue
		}
		known = append(known, look)
	}
	return known
}

// take takes over what the masters say.
func (h *Holding) take(sum holding.Holding) {
	h.Held, h.Owner, h.Token = sum.Held(), sum.Owner(), sum.Token
	h.Left, h.Masters, h.Need = sum.Left, sum.Masters, sum.Need
	h.Fence, h.Waiting = uint64(sum.Fence)<<fenceBits, sum.Waiting
	for _, id := range sum.Readers {
		h.Readers = append(h.Readers, master.OwnerOf(id))
	}
	slices.Sort(h.Readers)
	now := time.Now()
	for _, w := range sum.Waiters {
		h.Waiters = append(h.Waiters, Waiter{Owner: master.OwnerOf(w.ID), Since: now.Add(-w.For)})
	}
}

// query sends a query to all masters, and returns each one's answer.
func (c *Client) query(ctx context.Context, claim *master.Claim) []quorum.Vote {
	round := c.group.Ask(master.Query, claim, c.opts.limit(c.opts.LockOptions.TTL))
	defer round.End()
	round.Wait(ctx, c.closing, func(quorum.Tally) bool { return false }) // until all have answered
	return round.Votes()
}

// listeners returns which of these clients each master has a subscription of, as far as masters say.
func (c *Client) listeners(ctx context.Context, ids []string) (listening []map[string]bool) {
	for _, v := range c.query(ctx, master.NewCensus(ids)) {
		if ids, ok := master.DecodeCensus(v.Replies); v.Granted() && ok {
			listening = append(listening, ids)
		}
	}
	return listening
}
