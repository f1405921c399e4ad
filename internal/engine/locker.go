package engine

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/flight"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Locker is a lock: see Locker of package redlock. The methods that lock and unlock return errors for users.
type Locker struct {
	core           *Core
	name           string
	key            string // prefix + name; for several names it stands for all: see set
	opts           Options
	terms          wire.Terms // of all claims
	kind           kind
	registers      bool     // all attempts are a Register, which, unlike a plain SET, recalls a kept lock and does not overtake waiting writers
	writes         bool     // it is the writer's side of an RWLocker
	shares         sharing  // how goroutines share a tenure, unless the kind says otherwise
	permits, limit int      // of an acquisition of a Semaphore: how many of how many; 0: it is for a lock
	names          []string // of a set, in the order of the keys; nil: l has one name
	keys           []string // of these names; sorted, all different

	silent bool // it is for one name of a set: neither losses nor releases of its leases are reported

	lease     atomic.Pointer[Lease] // set by locking, nil after unlocking; not used by readers
	announced atomic.Bool           // a call has asked readers to leave, and none has had the lock since
}

// Locker returns a Locker of one name, whose key is key.
func (c *Core) Locker(name, key string, opts Options) *Locker {
	l := &Locker{core: c, name: name, key: key, opts: opts, terms: wire.NewTerms(key, opts.TTL)}
	c.entrances.initKind(l)
	return l
}

// Made reports whether l is not the zero Locker.
func (l *Locker) Made() bool { return l.core != nil }

// Name returns the name, or the names in the order of their keys, separated by a comma and a space.
func (l *Locker) Name() string { return l.name }

// Lease returns the lease of the present holder, or nil.
func (l *Locker) Lease() *Lease { return l.kind.held(l) }

// Unlock unlocks l. If block is true, it waits for the outcome. It returns ErrNotHeld if l is not locked.
func (l *Locker) Unlock(ctx context.Context, block bool) error {
	return l.kind.unlock(ctx, l, nil, block)
}

// UnlockLease unlocks l if s is its lease, and waits for the outcome. It returns why s has ended if it is not.
func (l *Locker) UnlockLease(ctx context.Context, s *Lease) error {
	return l.kind.unlock(ctx, l, s, true)
}

// Join returns the flight of l's name that the next goroutine can join, and the place of the caller in it: see flight.Flights.
func (l *Locker) Join() (f *flight.Flight, place int) { return l.core.flights.Join(l.key) }

// NotServed returns the error for a goroutine that has waited for the value of a flight until ctx or the Client ended.
func (l *Locker) NotServed(ctx context.Context) error {
	w := &wait{locker: l, ctx: ctx, last: l.blockedBy(l.core.gates.Inside(l.key))}
	return l.core.public(w.outcome())
}

// Closing returns a channel that is closed when l's Client refuses locks.
func (l *Locker) Closing() <-chan struct{} { return l.core.closing }

// HeldOtherwise says who holds l in this Client, for the error of an Unlock of a Locker that is not locked. Such an Unlock does not unlock
// another Locker of the name: that one may belong to another goroutine, and the Unlock may be the second of its own goroutine.
func (l *Locker) HeldOtherwise() string {
	names, keys := l.names, l.keys
	if keys == nil {
		names, keys = []string{l.name}, []string{l.key}
	}
	for i, key := range keys {
		holds := l.core.gates.Inside(key).Holds
		if e := l.core.entrances.byKey.Find(key); e != nil && e.idle() {
			continue
		}
		switch holds {
		case HeldByReaders:
			return ": readers of this Client hold " + strconv.Quote(names[i]) + "; they call RUnlock"
		case HeldAlone, heldInSet:
			return ": another Locker of this Client holds " + strconv.Quote(names[i]) + "; unlock the Locker that was locked"
		}
	}
	return ""
}

// How a goroutine of this Client holds a lock: see gate.Inside.
const (
	HeldAlone     = "by a goroutine of this Client"
	HeldByReaders = "by readers of this Client"
	heldInSet     = "with other names by a goroutine of this Client"
)

// A kind is what differs between Lockers: of one name (mutex), of one name with Keep (keeper), of several names (set), of the
// readers' side of an RWLocker (Readers), and of an acquisition of a Semaphore (permits). The methods with a wait are those of
// that call. What differs between the claims on a lock and those on slots of a semaphore is a subject. Other code asks what the claims are on
// (wire.Terms.OfSlots, wire.Terms.Reads, Locker.names), but not of which kind a Locker is.
//
// A kind is like mutex, but for the methods that it has of its own:
//
//	              keeper  set     Readers permits
//	join          own     .       own     .
//	lock          own     own     own     own
//	hold          own     .       own     .
//	ended         .       own     own     own
//	held          own     .       own     .
//	unlock        .       .       own     .
//	unlocked      own     .       .       own
//	claimOf       own     .       .       .
type kind interface {
	// join returns a lease that the caller now holds without asking the masters, or nil.
	join(l *Locker) *Lease
	// lock waits until the goroutine has a lease, and reports whether it has: see wait.outcome. With wait.once it makes one attempt.
	lock(w *wait) bool
	// hold makes the lease of the wait that of the Locker.
	hold(w *wait) *Lease
	// ended is called when the wait has ended, with the lock or without it. It leaves what the wait has entered, except what the Locker needs while it
	// is locked.
	ended(w *wait)
	// held returns the lease of the present holder, or nil.
	held(l *Locker) *Lease
	// unlock unlocks l if s is its lease; nil: any. If block is true, it waits for the outcome. It returns ErrNotHeld if l is not locked, and
	// why s has ended if it is not the lease.
	unlock(ctx context.Context, l *Locker, s *Lease, block bool) error
	// unlocked is the second half of unlock. It keeps, hands over or releases the lease s, to which l no longer refers.
	unlocked(ctx context.Context, l *Locker, s *Lease, block bool) error
	// claimOf returns what the claim of an acquisition by the wait says, token included, and how its tenure is shared.
	// waited is for how long the wait has lasted, or wire.NoQueue, or wire.TakesFree.
	claimOf(w *wait, waited time.Duration) (wire.ClaimOf, sharing)
}

// mutex is the kind of a Locker of one name, and a part of that of several names.
type mutex struct{}

var _ kind = mutex{}

func (mutex) held(l *Locker) *Lease { return l.lease.Load() }

func (mutex) unlock(ctx context.Context, l *Locker, s *Lease, block bool) error {
	if s == nil {
		if s = l.lease.Swap(nil); s == nil {
			return ErrNotHeld
		}
	} else if !l.lease.CompareAndSwap(s, nil) {
		return s.Err()
	}
	return l.kind.unlocked(ctx, l, s, block)
}

func (mutex) unlocked(ctx context.Context, l *Locker, s *Lease, block bool) error {
	if next := s.handOver(s.tenure.opts.Handover); next != nil {
		s.traceHandover(ctx, next)
		return nil
	}
	return l.releaseLease(ctx, s, block)
}

// leaveGate leaves the gate of l and, for a set, those of its names.
func (l *Locker) leaveGate() {
	l.core.gates.Leave(l.keys...)
	l.core.gates.Leave(l.key)
}
