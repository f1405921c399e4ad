package redlock

import (
	"context"
	"strconv"
	"sync"

	"github.com/redlock-go/redlock/internal/engine"
)

var _ sync.Locker = (*Locker)(nil)

// A Locker is a mutual exclusion lock between processes. It is used like a sync.Mutex: any number of
// goroutines share it, and lock and unlock it in pairs. It must not be copied. A goroutine may unlock a
// Locker that another goroutine has locked. Client.Locker and NewLocker return Lockers. Keep one in a field, or
// call Client.Locker each time with Do: both are cheap. The methods of a zero Locker panic.
//
// For data that only one process uses, use a sync.Mutex: a Locker is held only as long as its lease lasts.
// The package comment says what a holder may rely on.
type Locker engine.Locker

// lock returns l as the engine knows it. It panics for a zero Locker, which has no Client.
func (l *Locker) lock() *engine.Locker {
	e := (*engine.Locker)(l)
	if !e.Made() {
		panic("redlock: use of a zero Locker; Client.Locker makes one that can be used")
	}
	return e
}

// Lock locks l. If another goroutine or process holds the lock, or if no quorum of masters can be reached,
// Lock waits. It never returns without the lock. After 1 s it reports the wait and its reason to the Logger.
// It panics if the Client is closed before or during the wait. Use LockContext for a wait that can be
// interrupted and for errors.
func (l *Locker) Lock() {
	if !l.lock().Forever() {
		panic("redlock: Lock of " + strconv.Quote(l.lock().Name()) + " on a closed Client")
	}
}

// TryLock tries to lock l and reports whether it succeeded. It makes one attempt at most (two with LockOptions.Keep), and
// does not wait for other goroutines. TryLockContext returns why it failed.
func (l *Locker) TryLock() bool {
	return l.lock().TryLock(context.Background(), false) == nil
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
	if e := l.lock(); e.Unlock(context.Background(), false) == ErrNotHeld {
		panic("redlock: unlock of unlocked Locker" + e.HeldOtherwise())
	}
}

// Name returns the name that was given to Client.Locker. If there are several, it returns all of them in the
// order of their keys, separated by a comma and a space.
func (l *Locker) Name() string { return l.lock().Name() }

// Lease returns the current lease of l, or nil if l is not locked. Call it between locking and unlocking. The
// returned lease does not change when l is locked again.
func (l *Locker) Lease() *Lease { return (*Lease)(l.lock().Lease()) }
