package redlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/leasectx"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/waits"
	"github.com/redlock-go/redlock/internal/wire"
)

var _ sync.Locker = (*Locker)(nil)

// A Locker is a mutual exclusion lock between processes. It is used like a sync.Mutex: any number of
// goroutines share it, and lock and unlock it in pairs. It must not be copied. A goroutine may unlock a
// Locker that another goroutine has locked. Client.Locker and NewLocker return Lockers. Keep one in a field, or
// call Client.Locker each time with Do: both are cheap. The methods of a zero Locker panic.
//
// For data that only one process uses, use a sync.Mutex: a Locker is held only as long as its lease lasts.
// The package comment says what a holder may rely on.
type Locker struct {
	client *Client
	name   string
	key    string // Options.Prefix + name; for several names it stands for all: see set
	opts   LockOptions
	terms  wire.Terms // of all claims
	kind   kind
	first  wire.Kind // of the first attempt of a wait. Register: a plain SET would recall no kept lock, or overtake writers that wait beside readers
	writes bool      // it is the writer's side of an RWLocker
	on     subject   // what claims are on
	names  []string  // of a set, in the order of the keys; nil: l has one name
	keys   []string  // of these names; sorted, all different

	silent bool // it is for one name of a set: neither losses nor releases of its leases are reported

	lease atomic.Pointer[Lease] // set by locking, nil after unlocking; not used by readers
}

// Lock locks l. If another goroutine or process holds the lock, or if no quorum of masters can be reached,
// Lock waits. It never returns without the lock. After 1 s it reports the wait and its reason to the Logger.
// It panics if the Client is closed before or during the wait. Use LockContext for a wait that can be
// interrupted and for errors.
func (l *Locker) Lock() {
	mustBeMade(l.client, "Locker")
	if l.kind.join(l) != nil {
		return
	}
	if _, err := (&wait{locker: l, ctx: context.Background(), forever: true}).run(); err != nil {
		panic("redlock: Lock of " + quote(l.name) + " on a closed Client")
	}
}

// TryLock tries to lock l and reports whether it succeeded. It makes one attempt at most (two with LockOptions.Keep), and
// does not wait for other goroutines. TryLockContext returns why it failed.
func (l *Locker) TryLock() bool {
	return l.tryLock(context.Background()) == nil
}

// Unlock unlocks l. It panics if l is not locked on entry, even if another Locker of the name is. It queues the release for all masters and returns
// without waiting for them. If another goroutine waits for the lock, the lease may be handed over instead:
// see LockOptions.Handover. If nobody waits, the lock may stay with the Client: see LockOptions.Keep. If the lease was
// lost before, Unlock sends nothing.
//
// The Logger and Trace.Released report the outcome of the release. UnlockContext waits for the outcome and
// returns it. A program should call UnlockContext or Client.Close before it exits. Otherwise the keys that it
// released last may stay for their TTL.
func (l *Locker) Unlock() {
	mustBeMade(l.client, "Locker")
	if l.kind.unlock(context.Background(), l, false) == ErrNotHeld {
		panic("redlock: unlock of unlocked Locker" + l.heldOtherwise())
	}
}

// heldOtherwise says who holds l in this Client, for the error of an Unlock of a Locker that is not locked. Such an Unlock does not unlock
// another Locker of the name: that one may belong to another goroutine, and the Unlock may be the second of its own goroutine.
func (l *Locker) heldOtherwise() string {
	names, keys := l.names, l.keys
	if keys == nil {
		names, keys = []string{l.name}, []string{l.key}
	}
	for i, key := range keys {
		reason := l.client.gates.Reason(key)
		if e := l.client.entrances.of(l.client, key); e.tenure.Load() != nil && !e.state.Load().Held() {
			continue // it is kept
		}
		switch reason {
		case errOwnReaders:
			return ": readers of this Client hold " + quote(names[i]) + "; they call RUnlock"
		case ErrHeld, errHeldInSet:
			return ": another Locker of this Client holds " + quote(names[i]) + "; unlock the Locker that was locked"
		}
	}
	return ""
}

// Name returns the name that was given to Client.Locker. If there are several, it returns all of them in the
// order of their keys, separated by a comma and a space.
func (l *Locker) Name() string {
	mustBeMade(l.client, "Locker")
	return l.name
}

// Lease returns the current lease of l, or nil if l is not locked. Call it between locking and unlocking. The
// returned lease does not change when l is locked again.
func (l *Locker) Lease() *Lease {
	mustBeMade(l.client, "Locker")
	return l.kind.held(l)
}

// lock waits for the lock until the schedule stops.
func (l *Locker) lock(ctx context.Context) (*Lease, error) {
	mustBeMade(l.client, "Locker")
	if ctx.Err() == nil {
		if s := l.kind.join(l); s != nil {
			return s, nil
		}
	}
	return (&wait{locker: l, ctx: ctx}).run()
}

// releaseLease releases the lease s, which l no longer refers to, and leaves the gate. If block is
// true, it waits for the outcome of the release and returns it.
//
// The gate is left as soon as the release is queued. The next acquisition of the name then follows the
// release on the same ordered connections, so it finds the key deleted: see package turns.
func (l *Locker) releaseLease(ctx context.Context, s *Lease, block bool) error {
	c, t := l.client, s.tenure
	l.noteHeld(false) // from now on, our lease does not hold the lock
	if !c.calls.Begin() {
		l.leaveGate()
		return ErrClosed
	}
	defer c.calls.Done()
	if !block {
		defer l.leaveGate()
		return (*releasing)(t).queue()
	}
	ctx, cancel := leasectx.Outlive(ctx, s) // the release ends the contexts of the lease, and ctx may be one of them
	defer cancel()
	if err := (*releasing)(t).finish(); err != nil {
		l.leaveGate()
		return err
	}
	round := c.group.Ask((*releasing)(t).passesOn(), t.claim, c.opts.bounds.Limit(t.opts.TTL))
	l.leaveGate()
	return (*releasing)(t).await(ctx, round)
}

// leaveGate leaves the gate of l and, for a set, those of its names.
func (l *Locker) leaveGate() {
	l.client.gates.Leave(l.keys...)
	l.client.gates.Leave(l.key)
}

// noteHeld sets the error for goroutines that find a gate of l taken: ErrHeld or errHeldInSet if is is true, otherwise nil.
func (l *Locker) noteHeld(is bool) {
	reason, inSet := error(nil), error(nil)
	if is {
		reason, inSet = ErrHeld, errHeldInSet
	}
	l.client.gates.SetReason(l.key, reason)
	for _, key := range l.keys {
		l.client.gates.SetReason(key, inSet)
	}
}

// mustBeMade panics for a zero Locker or Semaphore, which has no Client.
func mustBeMade(c *Client, what string) {
	if c == nil {
		panic("redlock: use of a zero " + what + "; Client." + what + " makes one that can be used")
	}
}

// A kind is what differs between Lockers: of one name (mutex), of one name with Keep (keeper), of several names (set), of the
// readers' side of an RWLocker (readers), and of an acquisition of a Semaphore (permits). The methods with a wait are those of
// that call. What differs between a lock and slots of a semaphore is a subject. Other code may ask
// whether a wait is for slots (wire.Terms.OfSlots, wire.OfSlots), but not of which kind a Locker is.
//
// A kind is like mutex, but for the methods that it has of its own:
//
//	              keeper  set     readers permits
//	join          own     .       own     .
//	lock          own     own     own     own
//	try           own     own     own     own
//	hold          own     .       own     own
//	giveUp        .       own     own     own
//	held          own     .       own     .
//	unlock        .       .       own     .
//	unlockLease   .       .       own     .
//	unlocked      own     .       .       own
//	claimOf       own     .       own     own
type kind interface {
	// join returns a lease that the caller now holds without asking the masters, or nil.
	join(l *Locker) *Lease
	// lock waits until the goroutine has a lease, and reports whether it has: see wait.outcome.
	lock(w *wait) bool
	// try is lock in one attempt.
	try(w *wait) bool
	// hold makes the lease of the wait that of the Locker.
	hold(w *wait) *Lease
	// giveUp leaves what the wait has entered, unless it has ended with hold.
	giveUp(w *wait)
	// held returns the lease of the present holder, or nil.
	held(l *Locker) *Lease
	// unlock unlocks l. If block is true, it waits for the outcome. It returns ErrNotHeld if l is not locked.
	unlock(ctx context.Context, l *Locker, block bool) error
	// unlockLease unlocks l if s is its lease, and waits for the outcome. It returns why s has ended if it is not.
	unlockLease(ctx context.Context, l *Locker, s *Lease) error
	// unlocked is the second half of unlock. It keeps, hands over or releases the lease s, to which l no longer refers.
	unlocked(ctx context.Context, l *Locker, s *Lease, block bool) error
	// claimOf returns what the claim of an acquisition by the wait says, token included, and how its tenure is shared.
	// waited is for how long the wait has lasted, or wire.NoQueue, or wire.TakesFree.
	claimOf(w *wait, waited time.Duration) (wire.ClaimOf, holders)
}

// A subject is what the claims of a Locker are on: a lock (theLock), or slots of a semaphore (permits).
type subject interface {
	// newClaim returns a registered claim without votes. It may be granted the lock for g.
	newClaim(c *Client, registered *master.SentClaim, began clock.Reading, g time.Duration) *waits.Ballot
	// permits returns how many permits of which limit are wanted; 0 for a lock.
	permits() (n, limit int)
	// poll returns the next poll of a claim.
	poll(q *contender, now clock.Reading) wire.Request
	// judge decides what becomes of a claim after a round that did not win, and does it: see contender.roundOver.
	judge(q *contender, now clock.Reading, mine uint64, firstVote time.Time) (more bool)
	// accept ends the claim, since a quorum of votes makes it a tenure. It reports false if one of the votes has become void.
	accept(q *contender, won *waits.Quorum, t *tenure) bool
}

// mutex is the kind of a Locker of one name, and a part of that of several names.
type mutex struct{}

var _ kind = mutex{}

func (mutex) join(*Locker) *Lease { return nil }

func (mutex) lock(w *wait) bool {
	return w.enterGate(w.locker) && (w.lease != nil || w.acquire())
}

func (mutex) try(w *wait) bool {
	return w.tryGate() && w.tryAcquire()
}

func (mutex) hold(w *wait) *Lease {
	l, s := w.locker, w.lease
	// It tells goroutines that find the gate taken who holds it, until the unlock, even if the lease
	// is lost before. It is made first, since another goroutine may unlock l, and so leave the gate, as soon
	// as l has the lease.
	l.noteHeld(true)
	l.lease.Store(s)
	w.inside, w.nameGates, w.lease = false, 0, nil
	return s
}

func (mutex) giveUp(*wait) {}

func (mutex) held(l *Locker) *Lease { return l.lease.Load() }

func (mutex) unlock(ctx context.Context, l *Locker, block bool) error {
	if s := l.lease.Swap(nil); s != nil {
		return l.kind.unlocked(ctx, l, s, block)
	}
	return ErrNotHeld
}

func (mutex) unlockLease(ctx context.Context, l *Locker, s *Lease) error {
	if !l.lease.CompareAndSwap(s, nil) {
		return s.Err()
	}
	return l.kind.unlocked(ctx, l, s, true)
}

func (mutex) unlocked(ctx context.Context, l *Locker, s *Lease, block bool) error {
	if next := s.handOver(nil); next != nil {
		s.handedOver(ctx, next)
		return nil
	}
	return l.releaseLease(ctx, s, block)
}

func (mutex) claimOf(w *wait, waited time.Duration) (wire.ClaimOf, holders) {
	return wire.ClaimOf{Token: wire.NewToken(w.locker.client.opts.Owner), Waited: waited}, alone
}

// theLock is the subject of a Locker that is not for permits.
type theLock struct{}

var _ subject = theLock{}

func (theLock) newClaim(c *Client, registered *master.SentClaim, began clock.Reading, g time.Duration) *waits.Ballot {
	return waits.NewBallot(registered, began, g, len(c.masters))
}

func (theLock) permits() (n, limit int) { return 0, 0 }

func (theLock) poll(q *contender, now clock.Reading) wire.Request {
	return wire.Polling(q.apart, q.standing(now), false)
}

func (theLock) judge(q *contender, now clock.Reading, mine uint64, firstVote time.Time) (more bool) {
	return q.judgeLock(now, mine, firstVote)
}

func (theLock) accept(q *contender, won *waits.Quorum, t *tenure) bool {
	return q.inbox.Won(q.claim, won, t.doubt)
}
