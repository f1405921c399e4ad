package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/gate"
	"github.com/redlock-go/redlock/internal/notices"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/reasons"
	"github.com/redlock-go/redlock/internal/wire"
)

// Ends of a lease, and of an operation, that need no explanation. They are what users see.
var (
	ErrReleased = errors.New("redlock: lease released")
	ErrNotHeld  = errors.New("redlock: not locked")
	ErrClosed   = errors.New("redlock: client is closed")
	ErrReceived = errors.New("redlock: another caller's value was taken") // see Locker.LockFor
	ErrPanicked = errors.New("a function of the caller panicked")
)

// Reasons why a lease was lost: see Failure.Lost. Others are those of package renew.
var (
	errGone = errors.New("its key is gone, or somebody else's, at too many masters " +
		"(deleted by hand or by redlock break, or lost by masters)")
	errGoneAtUnlock = errors.New("the key was gone when it was unlocked")
)

// What an operation is called in errors.
var (
	OpAcquire = wire.Set.String()
	OpFence   = wire.Commit.String()
	OpRenew   = wire.Renew.String()
	OpRelease = wire.Release.String()
	OpPing    = wire.Ping.String()
	OpInspect = wire.Asks.String()
)

// A Failure says why an operation has failed. Hooks.Error makes the error for users. It is one of these:
//
//   - Ended is set: a context has ended the operation;
//   - Lost is set: a lease was lost;
//   - Own is set: a goroutine of this Client holds the lock, so the masters were not asked;
//   - Votes are set: too few masters have granted what they were asked, or Vain says why their grants are of no use;
//   - none of these: another goroutine of this Client asks the masters, and has no answer yet.
type Failure struct {
	Op   string // what was to be done
	Name string // of the lock; empty for a ping

	Ended context.Context // the context that has ended the operation
	Lost  error           // the reason of the loss
	Own   string          // how the goroutine holds the lock
	Votes []quorum.Vote   // by master
	Vain  error           // why the grants are of no use; nil: there were too few
	Last  *Failure        // with Ended: of the last attempt; with Lost: of the last renewal; nil: there was none

	Names    []string // of several names, those that Vote.Which counts
	Held     string   // the name that is held, or whose key is not a lock; empty: none is known to be
	Owner    string   // who holds Held, if that is known
	Readers  []string // the same, if readers do
	NotALock []error  // by master, what is wrong with the key of Held; nil: nothing is known to be

	made *made // the error for users; nil: it is made anew each time
}

// A made error is made once: the last attempt of a wait is told to hooks, to the caller, and to goroutines that wait behind it.
type made struct {
	once sync.Once
	err  error
}

// Error is for tests and bugs: users see what Hooks.Error returns.
func (f *Failure) Error() string { return fmt.Sprintf("failed to %s %q", f.Op, f.Name) }

// failed returns why a round was not won that had these votes.
func failed(op, name string, votes []quorum.Vote) *Failure {
	f := &Failure{Op: op, Name: name, Votes: votes, made: new(made)}
	if op == OpAcquire && quorum.Count(votes).RuledOut() {
		f.Held = name
	}
	return f
}

// wasted returns why a round of grants did not become a lease: because of err.
func wasted(name string, round *quorum.Round, err error) *Failure {
	if f, ok := err.(*Failure); ok {
		return f
	}
	f := failed(OpAcquire, name, round.Votes())
	f.Vain = err
	return f
}

// tooLate returns the reason of wasted for a round that took longer than limit.
func tooLate(took, limit, validity time.Duration) error {
	if limit < validity {
		return fmt.Errorf("it took %v: with Fencing, %v is the limit", took, limit)
	}
	return fmt.Errorf("it took %v, which leaves nothing of a validity of %v", took, limit)
}

// ofSet completes f for a Locker of several names: it says which of them is held, at most of the masters.
func (f *Failure) ofSet(names []string) {
	f.Names = names
	if f.Held == "" || f.Votes == nil {
		return
	}
	masters := make([]int, len(names)) // at how many a name is held
	most := 0
	for _, v := range f.Votes {
		if v.Outcome == wire.Taken && v.Which > 0 {
			masters[v.Which-1]++
		}
	}
	for i, n := range masters {
		if n > masters[most] {
			most = i
		}
	}
	f.Held = names[most]
}

// taken reports whether masters have refused an attempt since its key was there, or a goroutine of this Client holds the lock. The lock is held
// then, or its key is not a lock.
func (f *Failure) taken() bool { return f != nil && (f.Held != "" || f.Own != "") }

// denied reports whether so many masters have denied a right that waiting does not help.
func (f *Failure) denied() bool {
	n := 0
	for _, v := range f.Votes {
		if v.Err != nil && reasons.IsDenied(v.Err) {
			n++
		}
	}
	return n > 0 && len(f.Votes)-n < quorum.Majority(len(f.Votes))
}

// grantedNothing reports whether an attempt has failed, and no master has granted it.
func (f *Failure) grantedNothing() bool {
	return f != nil && !slices.ContainsFunc(f.Votes, quorum.Vote.Granted)
}

// Errors and logs name who holds a lock. The answers to a claim say which token stands, so a claim asks only for readers. Any
// other wait asks the masters who holds the lock. Waiting does not depend on the answer, so nobody waits for it: see holding.Owners.

// unnamed reports whether f says that l is held, and neither by whom nor that its key is not a lock. A semaphore has no owner.
func (f *Failure) unnamed(l *Locker) bool {
	return f != nil && f.Held != "" && f.Owner == "" && f.Readers == nil && f.NotALock == nil && !l.terms.OfSlots()
}

// heldKey returns the key of Held.
func (f *Failure) heldKey(c *Core) string { return c.cfg.Prefix + f.Held }

// withOwner returns f with who holds the lock, or with why its key is not a lock, if f says that it is held, and that is known.
func (f *Failure) withOwner(l *Locker) *Failure {
	if !f.unnamed(l) {
		return f
	}
	h, known := l.core.owners.Of(f.heldKey(l.core))
	if !known {
		return f
	}
	named := *f // others may read f
	named.made = new(made)
	if h.NotALock != nil {
		named.NotALock = h.NotALock
	} else {
		named.Owner, named.Readers = h.Owner(), h.Readers
	}
	return &named
}

// Hooks are how a Core tells its Client what happens. They are called outside every mutex. Error and Cause are set; any other may be nil.
// Those without a context are called for what no call waits for: in order, as they happen.
type Hooks struct {
	Error func(f *Failure) error         // returns the error for users
	Cause func(f *Failure) notices.Cause // returns what the Logger is told of a wait that lasts because of f

	LockStart     func(ctx context.Context, e Event) // a call begins to lock
	LockDone      func(ctx context.Context, e Event) // it has ended
	AttemptDone   func(ctx context.Context, e Event) // an attempt has ended
	Acquired      func(ctx context.Context, e Event) // the masters have granted a lease
	HandedOver    func(ctx context.Context, e Event) // an unlock has passed the lock on within the Client
	Released      func(ctx context.Context, e Event) // a release has ended for which a call waits
	Renewed       func(e Event)                      // a renewal has succeeded
	Lost          func(e Event)                      // a lease was lost
	ReleasedLater func(e Event)                      // a release has ended for which no call waits

	TellHeld bool // users are told for how long each holder has held a lock
}

// An Event is what happens to a lock. The fields that do not apply are zero.
type Event struct {
	Name     string        // of the lock
	Permits  int           // of a Semaphore: how many
	Limit    int           // of the Semaphore
	Attempts int           // that the call has made
	Rounds   int           // of the attempt that has won
	Elapsed  time.Duration // of an attempt, or a renewal
	Waited   time.Duration // since the call began
	Held     time.Duration // since the lock was acquired
	Until    time.Time     // the end of validity
	Fence    uint64        // of the lease
	Kept     bool          // nobody held the lock any more
	Err      error         // for users; nil: it has succeeded
}

// outcome returns why a wait has ended without the lock: the one place that tells the end of the Client, the
// end of ctx, and the end of the schedule apart. It is a *Failure, ErrClosed or ErrReceived.
func (w *wait) outcome() error {
	c := w.locker.core
	last := w.last.withOwner(w.locker)
	if w.flight != nil {
		if _, received := w.flight.Received(); received {
			return ErrReceived
		}
	}
	switch {
	case isClosed(c.closing):
		return ErrClosed
	case w.ctx.Err() != nil:
		return &Failure{Op: OpAcquire, Name: w.locker.name, Ended: w.ctx, Last: last, made: new(made)}
	case last == nil:
		return &Failure{Op: OpAcquire, Name: w.locker.name}
	}
	return last
}

// blockedBy returns the failure of a call that has found a gate taken.
func (l *Locker) blockedBy(inside gate.Inside) *Failure {
	if f, ok := inside.Why.(*Failure); ok {
		return f
	}
	return &Failure{Op: OpAcquire, Name: l.name, Own: inside.Holds}
}
