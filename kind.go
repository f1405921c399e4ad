package redlock

import "context"

// A kind is what differs between Lockers: of one name (mutex), of several names (set), and of the reader's side of an
// RWLocker (readers). The methods with a wait are those of that call.
type kind interface {
	// join returns the lease that other goroutines hold, if the caller shares it from now on.
	join() *Lease
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
	// unlock unlocks l. If wait is true, it waits for the outcome. It returns ErrNotHeld if l is not locked.
	unlock(ctx context.Context, l *Locker, wait bool) error
	// unlockLease unlocks l if s is its lease, and waits for the outcome. It returns why s has ended if it is not.
	unlockLease(ctx context.Context, l *Locker, s *Lease) error
}
