package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// A MasterState says whether a master's votes count, and if not, why.
type MasterState int

// The states are numbered from MasterConnecting to MasterQuarantined, as in package master, which has no number for MasterUnwritable:
// see statusOf.
const (
	// MasterConnecting is the state until the first connection has succeeded or failed.
	MasterConnecting MasterState = iota
	// MasterUp is the state of a master whose votes count.
	MasterUp
	// MasterDown is the state of a master that cannot be reached. The Client dials it again until it can.
	MasterDown
	// MasterRefused is the state of a master that answers but may not vote: a replica, a member of a cluster, a
	// server whose maxmemory-policy may evict locks, or the same server as another master. It is checked again
	// every second.
	MasterRefused
	// MasterQuarantined is the state of a master that answers but may have lost locks: it has restarted, or lost
	// its data, or is new to redlock. Its votes do not count before Until: see Options.DisableRestartGuard.
	MasterQuarantined
	// MasterUnwritable is the state of a master that answers but refuses to write, so it grants no locks: its memory is full
	// (OOM), it cannot save its data (MISCONF), it has too few replicas (NOREPLICAS), or another reason that Err says. If only its
	// memory is full, it renews and releases the locks that are held. Whether it accepts writes again is checked every second.
	MasterUnwritable
)

func (s MasterState) String() string {
	switch {
	case s == MasterUnwritable:
		return "unwritable"
	case s < MasterConnecting || s > MasterUnwritable:
		return fmt.Sprintf("MasterState(%d)", int(s))
	}
	return master.State(s).String()
}

// A MasterStatus is the status of one master.
type MasterStatus struct {
	Name  string        // see Options.Names
	State MasterState   // whether its votes count
	Since time.Time     // when the state began
	Until time.Time     // when its quarantine is expected to end; zero otherwise
	Err   error         // why it is down, refused, quarantined (matches ErrQuarantined) or unwritable; nil otherwise
	RTT   time.Duration // the last round trip: from writing a command to its reply; 0 before the first reply

	// WakeErr says why this master cannot wake this Client, which then polls. It is nil if the master can
	// wake it, and with Options.DisableWakeups.
	WakeErr error

	// WakesDropped counts the messages from this master that were ignored: malformed ones, and those about
	// locks that this Client has not waited for lately. If there are more than a few, another program
	// publishes on this Client's channel.
	WakesDropped uint64

	// MaxTTL is the largest Options.MaxTTL that any client of this master has declared. Quarantines last for
	// MaxTTL + 2 s. It is 0 before the first connection, and with Options.DisableRestartGuard.
	MaxTTL time.Duration

	// GuardErr says why a restart of this master may remain unnoticed: the master does not report the run_id
	// of its process. Its votes count once its record is old enough. GuardErr is nil if restarts are noticed,
	// and with Options.DisableRestartGuard.
	GuardErr error

	// ListErr says that other Clients of this master have another number of masters: they or this Client have a wrong list,
	// and can hold a lock that somebody else holds. It is nil if none was found for a minute, and with
	// Options.DisableWakeups. Lists of the same length are not compared: redlock doctor compares the servers.
	ListErr error
}

// Masters returns the status of each master, in the order of the masters.
func (c *Client) Masters() []MasterStatus {
	masters := c.core.Masters()
	all := make([]MasterStatus, len(masters))
	for i, m := range masters {
		all[i] = statusOf(c.opts.Names[i], m.Status())
	}
	return all
}

// statusOf returns the status of a master for users. Package master does not take a master for down that refuses writes: renewals and
// releases are sent there.
func statusOf(name string, s master.Status) MasterStatus {
	state, since, err := MasterState(s.State), s.Since, s.Err
	if s.WriteErr != nil && (s.State == master.Up || s.State == master.Down) {
		state, since, err = MasterUnwritable, s.WriteSince, s.WriteErr
	}
	return MasterStatus{
		Name: name, State: state, Since: since, Until: s.Until, Err: err, RTT: s.RTT,
		WakeErr: s.WakeErr, WakesDropped: s.WakesDropped, MaxTTL: s.MaxTTL, GuardErr: s.GuardErr,
		ListErr: s.ListErr,
	}
}

// masterChanged is called by a goroutine of the master.
func (c *Client) masterChanged(i int, now master.Status) {
	c.notices.MasterChanged(i, now)
	if f := c.opts.Trace.MasterChanged; f != nil {
		status := statusOf(c.opts.Names[i], now)
		c.events.post(func() { f(context.Background(), status) })
	}
}

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

	// MayBeKept says that the Client of the owner may keep the lock while nobody holds it: see LockOptions.Keep. Only that
	// Client knows whether a goroutine holds the lock. Another client that locks the name recalls the lock if it is kept.
	// MayBeKept is false for a lock that its Client will not keep, since others have wanted it lately.
	MayBeKept bool

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

// A Waiter is a Client that waits for a lock, or a call that waits for permits.
type Waiter struct {
	Owner   string    // see Options.Owner; empty for a Client with DisableOwner
	Since   time.Time // since when it waits, by this machine's clock
	Reads   bool      // it waits to read: see RWLocker
	Permits int       // for how many it waits; 0 for a lock
	Limit   int       // with which it waits for them: see Semaphore.Limit
}

// A SemaphoreHolding says who holds the permits of a semaphore, and who waits. Like a Holding, it is for people and their tools,
// and describes a moment that has passed.
type SemaphoreHolding struct {
	Name string // of the semaphore

	// Slots are the slots that are taken at some master, in ascending order. Of more than 256, only the first are listed.
	Slots []SlotHolding
	// Taken is how many slots are taken at some master, including those that Slots leaves out.
	Taken int

	// Limits are the limits that holders and waiters use, in ascending order. If there are several, the largest counts:
	// clients should use the same.
	Limits []int

	Need int // how many masters are a quorum

	// Waiting is how many calls wait at the masters, each for one permit or several. Further calls may wait in their Clients, and
	// are not seen.
	Waiting int
	// Waiters are these calls, the longest waiting first. Of more than 256, some are left out.
	Waiters []Waiter

	// Errs has a *NodeError for each master that did not answer.
	Errs []error
}

// A SlotHolding says who holds one slot of a semaphore.
type SlotHolding struct {
	Slot    int           // see Permit.Slots
	Held    bool          // the token stands there at a quorum; if not, somebody is about to acquire it, or it will expire
	Owner   string        // see Holding.Owner
	Token   string        // as Lease.Token returns it; that of all slots of a Permit
	Left    time.Duration // for how long a quorum of masters keeps the token there, unless its permit is renewed
	Masters int           // how many masters have the token there
	Limit   int           // with which the permit was acquired: see Semaphore.Limit
}

// Inspect returns who holds the lock of a name, for how much longer, and who waits for it. It reads
// only, and asks all masters, also those in quarantine. It waits for first connections, up to
// DialTimeout, and for the answers, up to NodeTimeout. Masters that do not answer are listed in
// Holding.Errs. If fewer than a quorum answer, the error is a *QuorumError, and the Holding has what
// the others say. If ctx ends, or the Client is closed, the error is that of LockContext.
func (c *Client) Inspect(ctx context.Context, name string) (Holding, error) {
	h := Holding{Name: name, Need: c.core.Need()}
	errs, err := c.inspect(ctx, name, wire.NewLook, func(votes []quorum.Vote, ask func(wire.Query) []quorum.Vote) (known int) {
		looks := holding.Decode(votes, wire.DecodeLook)
		sum := holding.Of(looks, len(votes))
		if ctx.Err() == nil {
			sum.Census(ask)
		}
		h.Held, h.Owner, h.Token, h.MayBeKept = sum.Held(), sum.Owner(), sum.Token, sum.MayBeKept()
		h.Left, h.Masters, h.Fence, h.Readers = sum.Left, sum.Masters, sum.Fence, sum.Readers
		h.Waiting, h.Waiters = sum.Waiting, waitersOf(sum.Queue)
		return len(looks)
	})
	h.Errs = errs
	return h, err
}

// InspectSemaphore is Inspect for the semaphore of a name, whatever its limit. It says who holds its permits, and who waits.
func (c *Client) InspectSemaphore(ctx context.Context, name string) (SemaphoreHolding, error) {
	h := SemaphoreHolding{Name: name, Need: c.core.Need()}
	errs, err := c.inspect(ctx, name, wire.NewSlotLook, func(votes []quorum.Vote, ask func(wire.Query) []quorum.Vote) (known int) {
		looks := holding.Decode(votes, wire.DecodeSlotLook)
		sum := holding.OfSemaphore(looks, len(votes))
		if ctx.Err() == nil {
			sum.Census(ask)
		}
		for _, s := range sum.Slots {
			h.Slots = append(h.Slots, SlotHolding{s.Number, s.Held(), s.Owner(), s.Token, s.Left, s.Masters, s.Limit})
		}
		h.Taken, h.Limits, h.Waiting, h.Waiters = sum.Taken, sum.Limits(), sum.Waiting, waitersOf(sum.Queue)
		return len(looks)
	})
	h.Errs = errs
	return h, err
}

// inspect sends a query about a name to all masters, and calls heard with the answers, and with a function for further queries. heard
// returns how many of the answers it could use.
func (c *Client) inspect(ctx context.Context, name string, of func(key string) wire.Query, heard func(votes []quorum.Vote, ask func(wire.Query) []quorum.Vote) (known int)) (errs []error, err error) {
	key, err := c.opts.key(name)
	if err != nil {
		return nil, err
	}
	failure, err := c.core.Inspect(ctx, name, of(key), heard)
	if q, ok := failure.(*QuorumError); ok {
		errs = q.Errs
	}
	return errs, err
}

// waitersOf returns who waits.
func waitersOf(q holding.Queue) (waiters []Waiter) {
	now := time.Now()
	for _, w := range q.Waiters {
		waiters = append(waiters, Waiter{Owner: w.Owner(), Since: now.Add(-w.For), Reads: w.Reads, Permits: w.Permits, Limit: w.Limit})
	}
	return waiters
}
