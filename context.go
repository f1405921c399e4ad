package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redlock-go/redlock/internal/engine"
	"github.com/redlock-go/redlock/internal/reasons"
)

// LockContext locks l like Lock, but stops waiting when ctx ends. ctx bounds the wait, not how long the lock
// is held. LockContext returns nil only with the lock.
//
// If ctx ends, the error matches ctx.Err and its cause. It wraps the error of the last attempt, if there was
// one: it matches ErrHeld if another client or goroutine held the lock; otherwise a *QuorumError says which
// masters failed, and why. As long as the Client is open, a failed LockContext leaves no key on a master that
// answers, now or later. If the schedule of Options.NewBackOff stops, the error is the last *QuorumError. On
// a closed Client it is ErrClosed.
func (l *Locker) LockContext(ctx context.Context) error {
	_, err := l.lock().Lock(ctx)
	return err
}

// TryLockContext tries to lock l in one attempt. It does not wait for other goroutines. The error
//
//   - matches ErrHeld if the lock is held, or ErrNotALock if its key is not a lock. To tell, and to name the holder, TryLockContext asks the
//     masters, which takes another round trip; at most once a second for each name. TryLock does not ask;
//   - is a *QuorumError that does not match ErrHeld if too few masters granted the lock for other reasons;
//   - matches ctx.Err if ctx ended;
//   - is ErrClosed on a closed Client.
func (l *Locker) TryLockContext(ctx context.Context) error {
	return l.lock().TryLock(ctx, true)
}

// UnlockContext unlocks l and returns the outcome. ctx bounds only the wait for the answers: the release is
// sent to all masters even if ctx has ended. The error
//
//   - is nil if the lease lasted until now and a quorum answered;
//   - matches ErrNotHeld if l is not locked;
//   - matches ErrLost if the lease had ended before: then another client may have held the lock meanwhile;
//   - is a *QuorumError if too few masters answered within NodeTimeout;
//   - matches ctx.Err if ctx ended first;
//   - is ErrClosed on a closed Client.
//
// After a *QuorumError, and after an error that matches ctx.Err, the lease lasted and l is unlocked. As long
// as the Client is open, a master that did not answer receives the release as soon as it answers again.
func (l *Locker) UnlockContext(ctx context.Context) error {
	e := l.lock()
	ctx.Done() // a nil ctx panics before anything has changed
	err := e.Unlock(ctx, true)
	if err == ErrNotHeld {
		return fmt.Errorf("%w%s", err, e.HeldOtherwise())
	}
	return err
}

// Do calls f while it holds the lock. It waits for the lock like LockContext. If that fails, Do returns the
// error without calling f. The context of f ends with ctx or with the lease, and its cause says which. f
// should then return.
//
// So a deadline of ctx bounds both the wait and f. To bound only the wait, call LockContext with the deadline,
// defer UnlockContext, and call f with Lease.Context of a context without it: see the example of LockContext.
//
// If the lease lasted until f returned, Do returns f's error unchanged. Otherwise another client may have
// held the lock, and Do returns an error that matches ErrLost, says why, and wraps f's error. Do also unlocks
// if f panics or calls runtime.Goexit. If f has unlocked l, Do does not unlock l again.
func (l *Locker) Do(ctx context.Context, f func(ctx context.Context) error) (err error) {
	e := l.lock()
	s, err := e.Lock(ctx)
	if err != nil {
		return err
	}
	return call(ctx, e, s, f)
}

// call is Do once l is locked, with the lease s.
func call(ctx context.Context, l *engine.Locker, s *engine.Lease, f func(ctx context.Context) error) (err error) {
	inner := s.Work(ctx)
	defer func() {
		inner.End(ErrReleased) // the lease may last, if readers share it
		// The end of ctx must neither prevent the release nor shorten the wait for its outcome.
		if lost := lossOf(s, l.UnlockLease(context.WithoutCancel(ctx), s)); lost != nil {
			err = &doError{lost: lost, err: err}
		}
	}()
	return f(inner)
}

// lossOf returns why the lease s was lost, or nil if it was not. err is the error of its release. For Do,
// whose function should have held the lock until it returned, the end of the Client is a loss.
func lossOf(s *engine.Lease, err error) error {
	switch ended := s.Err(); {
	case errors.Is(ended, ErrLost): // the loss came before the Client was closed, if it was closed
		return ended
	case errors.Is(err, ErrClosed):
		return &lostError{name: s.Name(), reason: ErrClosed}
	case errors.Is(err, ErrLost):
		return err
	}
	return nil
}

// A doError says that a lease did not outlast the function that Do called.
type doError struct {
	lost error
	err  error // what the function returned
}

func (e *doError) Error() string {
	lost := e.lost.Error()
	if e.err == nil {
		return lost
	}
	said := reasons.OneLine(e.err)
	if strings.Contains(said, lost) { // the function returned the cause of its context, which says the same
		return said
	}
	return lost + "; the function returned: " + said
}

func (e *doError) Unwrap() []error {
	if e.err == nil {
		return []error{e.lost}
	}
	return []error{e.lost, e.err}
}
