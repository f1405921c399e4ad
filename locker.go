package redlock

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redlock-go/redlock/internal/master"
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
	key    string // Options.Prefix + name; for several names: see set
	opts   LockOptions
	terms  master.Terms // of all claims
	set    *set         // nil: l has one name
	ofSet  bool         // it is for one name of a set: see wait.oneByOne

	writes bool     // it is the writer's side of an RWLocker
	shared *readers // of the reader's side of an RWLocker; nil for other Lockers

	lease atomic.Pointer[Lease] // set by locking, nil after unlocking
}

// Lock locks l. If another goroutine or process holds the lock, or if no quorum of masters can be reached,
// Lock waits. It never returns without the lock. After 1 s it reports the wait and its reason to the Logger.
// It panics if the Client is closed before or during the wait. Use LockContext for a wait that can be
// interrupted and for errors.
func (l *Locker) Lock() {
	if _, err := l.lock(context.Background(), true); err != nil {
		panic("redlock: Lock of " + quote(l.name) + " on a closed Client")
	}
}

// TryLock tries to lock l and reports whether it succeeded. It makes one attempt at most, and does not wait
// for other goroutines. TryLockContext returns why it failed.
func (l *Locker) TryLock() bool {
	return l.TryLockContext(context.Background()) == nil
}

// Unlock unlocks l. It panics if l is not locked on entry. It queues the release for all masters and returns
// without waiting for them. If another goroutine waits for the lock, the lease may be handed over instead:
// see LockOptions.Handover. If the lease was lost before, Unlock sends nothing.
//
// The Logger and Trace.Released report the outcome of the release. UnlockContext waits for the outcome and
// returns it. A program should call UnlockContext or Client.Close before it exits. Otherwise the keys that it
// released last may stay for their TTL.
func (l *Locker) Unlock() {
	l.mustClient()
	if l.shared != nil {
		if !l.shared.exit() {
			panic("redlock: RUnlock of unlocked RWLocker")
		}
		return
	}
	s := l.lease.Swap(nil)
	if s == nil {
		panic("redlock: unlock of unlocked Locker")
	}
	l.leave(context.Background(), s, false)
}

// Name returns the name that was given to Client.Locker. If there are several, it returns all of them in the
// order of their keys, separated by a comma and a space.
func (l *Locker) Name() string {
	l.mustClient()
	return l.name
}

// Lease returns the current lease of l, or nil if l is not locked. Call it between locking and unlocking. The
// returned lease does not change when l is locked again.
func (l *Locker) Lease() *Lease {
	l.mustClient()
	if l.shared != nil {
		return l.shared.held()
	}
	return l.lease.Load()
}

// lock waits for the gate of the name and then acquires the lock. If forever is false, it gives up when the
// schedule stops.
func (l *Locker) lock(ctx context.Context, forever bool) (_ *Lease, err error) {
	c := l.mustClient()
	if l.shared != nil && !l.shared.traced && ctx.Err() == nil {
		if s := l.shared.enter(); s != nil {
			return s, nil
		}
	}
	if !c.beginCall() {
		return nil, ErrClosed
	}
	defer c.endCall()
	w := &wait{locker: l, forever: forever, began: c.clock()}
	w.traceStart(ctx)
	defer func() { w.traceDone(ctx, err) }()
	if ctx.Err() != nil {
		return nil, &endedError{op: opAcquire, name: l.name, ctx: ctx}
	}
	defer w.end()
	if l.shared != nil {
		return w.share(ctx)
	}
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	if w.lease == nil { // no lease was handed over
		if err := w.acquire(ctx); err != nil {
			return nil, err
		}
	}
	w.traceDone(ctx, nil) // if this panics, w.end still releases the lock
	return w.hold(), nil
}

// tryLock makes one attempt.
func (l *Locker) tryLock(ctx context.Context) (err error) {
	c := l.mustClient()
	if !c.beginCall() {
		return ErrClosed
	}
	defer c.endCall()
	w := &wait{locker: l, once: true, began: c.clock()}
	w.traceStart(ctx)
	defer func() { w.traceDone(ctx, err) }()
	if ctx.Err() != nil {
		return &endedError{op: opAcquire, name: l.name, ctx: ctx}
	}
	if l.shared != nil {
		defer w.end()
		return w.tryShare(ctx)
	}
	ok, note, err := c.tryGate(l.key)
	if err != nil {
		return ErrClosed
	}
	if !ok {
		return l.taken(note)
	}
	w.inside = true
	defer w.end()
	if ok, note := w.tryNames(); !ok {
		return l.taken(note)
	}
	w.letOthers(ctx)
	if err := w.attempt(ctx, l.firstKind()); err != nil {
		return w.outcome(ctx)
	}
	w.traceDone(ctx, nil)
	w.hold()
	return nil
}

// tryGate takes the gate of a key if it is free, or if only a lease that is kept without readers holds it: that
// lease is released. It returns what TryEnter returns.
func (c *Client) tryGate(key string) (ok bool, note, err error) {
	ok, note, err = c.gates.TryEnter(key)
	if !ok && c.shares.giveBack(key) {
		return c.gates.TryEnter(key)
	}
	return ok, note, err
}

// leave hands over or releases the lease s, which l no longer refers to, and leaves the gate. If wait is
// true, it waits for the outcome of the release and returns it.
//
// The gate is left as soon as the release is queued. The next acquisition of the name then follows the
// release on the same ordered connections, so it finds the key deleted: see lastReleases.
func (l *Locker) leave(ctx context.Context, s *Lease, wait bool) error {
	c := l.client
	if l.handOver(ctx, s) {
		return nil
	}
	l.noteHeld(false) // from now on, our lease does not hold the lock
	if !c.beginCall() {
		l.leaveGate()
		return ErrClosed
	}
	defer c.endCall()
	if wait { // the release ends the contexts of the lease, and ctx may be one of them
		var cancel context.CancelFunc
		ctx, cancel = s.outlive(ctx)
		defer cancel()
	}
	err := s.finish()
	switch {
	case err != nil:
		l.leaveGate()
		return err
	case !wait:
		c.group.Tell(master.Release, s.claim, (*releasing)(s))
		l.leaveGate()
		return nil
	}
	round := c.group.Ask(master.Release, s.claim, c.opts.limit(s.opts.TTL))
	l.leaveGate()
	return s.await(ctx, round)
}

// taken returns the error for a gate that another goroutine has taken. note is the last note of that
// goroutine.
func (l *Locker) taken(note error) error {
	if note == nil {
		return l.client.unasked(opAcquire, l.name)
	}
	return note
}

// mustClient returns the Client, or panics if there is none.
func (l *Locker) mustClient() *Client {
	if l.client == nil {
		panic("redlock: use of a zero Locker; Client.Locker makes one that can be used")
	}
	return l.client
}
