package redlock

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/waits"
	"github.com/redlock-go/redlock/internal/wire"
)

// hearOwner notes who holds the lock, as the votes of the current round of the claim say.
func (q *contender) hearOwner(votes []quorum.Vote) {
	h, ask := holding.Standing(votes)
	c, next := q.wait.locker.client, time.Duration(0) // a near claim polls often
	if ask {
		// With DisableWakeups, the schedule may have the next poll made long after.
		if c.opts.DisableWakeups || c.clock().Since(q.wait.began) >= ownerAfter {
			c.askOwner(q.wait.locker.key)
		}
		return
	}
	if n := q.inbox.Ahead(q.claim); n >= wire.Near {
		next = waits.FarPolls(c.opts.claimPolls, n, len(c.masters)) * 5 / 4
	}
	c.owners.Heard(q.wait.locker.key, h, next)
}

// askOwner asks who holds the lock, if the wait is long enough for that. It waits for nothing.
func (w *wait) askOwner() {
	c := w.locker.client
	if !isTakenError(w.last) || c.clock().Since(w.began) < ownerAfter {
		return
	}
	if key, is := w.locker.heldKey(w.last); is {
		c.askOwner(key)
	}
}

// askOwner asks who holds the lock of a key, unless that was asked a moment ago. It waits for nothing.
func (c *Client) askOwner(key string) {
	if !c.owners.BeginAsking(key) || !c.calls.Begin() {
		return
	}
	go func() {
		defer c.calls.Done()
		c.peek(context.Background(), key, quorum.All)
	}()
}

// explained returns err, the error of an attempt that has ended, with who holds the lock, or with why its key is not a lock. It asks the
// masters if nothing is known, and nobody has asked them in the last second.
func (l *Locker) explained(ctx context.Context, err error) error {
	if q, ok := err.(*QuorumError); !ok || !q.held || q.Owner != "" || q.Readers != nil {
		return err
	}
	key, is := l.heldKey(err)
	if c := l.client; is && c.owners.BeginAsking(key) && c.calls.Begin() {
		defer c.calls.Done()
		c.peek(ctx, key, quorum.Tally.Won) // far masters delay nobody
	}
	return l.named(err)
}

// peek asks the masters who holds the lock of a key, and notes their answers when these are enough.
func (c *Client) peek(ctx context.Context, key string, enough func(quorum.Tally) bool) {
	votes := c.group.Query(ctx, c.closing, wire.NewPeek(key), c.opts.bounds.Limit(c.opts.LockOptions.TTL), enough)
	c.owners.Heard(key, holding.Peeked(votes), 0)
}

// delays returns the delays of a call, by schedules of the user. If forever is true, they never stop.
func (c *Client) delays(forever bool) waits.Delays {
	return waits.Delays{Start: c.opts.schedules, Forever: forever, Default: endlessDelay}
}
