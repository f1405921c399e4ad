package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/gate"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// LockContext locks l like Lock, but waits no longer than ctx lasts: ctx bounds
// the wait, not the holding. It returns nil only with the lock.
//
// If ctx ends, the error matches ctx.Err and its cause, and wraps what the last
// attempt found, if there was one: errors.Is(err, ErrHeld) says that somebody
// held the lock; a *QuorumError without that says what was wrong with which
// master. No key is left on any master that answers, now or later, as long as
// the Client is open. If Options.NewBackOff's schedule stops, the error is the
// last *QuorumError alone. On a closed Client it is ErrClosed.
func (l *Locker) LockContext(ctx context.Context) error {
	_, err := l.lock(ctx, false)
	return err
}

// TryLockContext tries to lock l in one attempt. It does not wait behind other
// goroutines. The error is ErrHeld, or matches it, if somebody holds the lock;
// a *QuorumError that does not match ErrHeld if too few masters granted it for
// other reasons; one that matches ctx.Err if ctx ended; ErrClosed on a closed
// Client.
func (l *Locker) TryLockContext(ctx context.Context) error {
	return l.tryLock(ctx)
}

// UnlockContext unlocks l and says how that went. ctx bounds the caller's wait:
// the release is sent to all masters even if ctx has ended.
//
// The error is nil if the lease lasted until now and a quorum answered. It is
// ErrNotHeld if l is not locked. It matches ErrLost if the lease had ended
// before: then somebody else may have held the lock meanwhile. It is a
// *QuorumError if too few masters answered within NodeTimeout, and matches
// ctx.Err if ctx ended first: in both cases the lease lasted, l is unlocked,
// and the masters that did not answer will be told when they do, as long as the
// Client is open. On a closed Client it is ErrClosed.
func (l *Locker) UnlockContext(ctx context.Context) error {
	return l.unlock(ctx)
}

// Do calls f while it holds the lock. It waits for the lock like LockContext, and
// returns that error without calling f if it does not get it. f's context ends
// with ctx or with the lease; then its cause says which, and f should return.
//
// Do returns f's error unchanged if the lease lasted until f returned. If it did
// not, somebody else may have been in, and whatever f returned, Do returns an
// error that matches ErrLost, says why, and wraps f's. It unlocks also if f
// panics or calls runtime.Goexit. If f has unlocked by itself, Do unlocks no
// successor.
func (l *Locker) Do(ctx context.Context, f func(ctx context.Context) error) (err error) {
	s, err := l.lock(ctx, false)
	if err != nil {
		return err
	}
	// The release must not be held up, nor cut short, by a context that ended.
	defer func() {
		if !l.lease.CompareAndSwap(s, nil) { // f has unlocked it
			if lost := lossOf(s, s.Err()); lost != nil {
				err = &doError{lost: lost, err: err}
			}
			return
		}
		if lost := lossOf(s, l.leave(context.WithoutCancel(ctx), s)); lost != nil {
			err = &doError{lost: lost, err: err}
		}
	}()
	return f(s.Context(ctx))
}

// lossOf returns err if it says that the lease s was lost, and nil otherwise.
// The end of the Client is a loss to a function that was to hold the lock.
func lossOf(s *Lease, err error) error {
	switch ended := s.Err(); {
	case errors.Is(ended, ErrLost): // before the Client was closed, if it was
		return ended
	case errors.Is(err, ErrClosed):
		return &lostError{name: s.name, reason: ErrClosed}
	case errors.Is(err, ErrLost):
		return err
	}
	return nil
}

// A doError says that a lease did not outlast a function.
type doError struct {
	lost error
	err  error // the function's, or nil
}

func (e *doError) Error() string {
	if e.err == nil {
		return e.lost.Error()
	}
	return e.lost.Error() + "; the function returned: " + oneLine(e.err)
}

func (e *doError) Unwrap() []error {
	if e.err == nil {
		return []error{e.lost}
	}
	return []error{e.lost, e.err}
}

// A wait is one call's way to the lock.
type wait struct {
	locker   *Locker
	forever  bool // nothing but Close ends it
	began    clock.Reading
	attempts int
	queued   bool        // the gate was taken when the call came
	inside   bool        // the gate is taken
	lease    *Lease      // acquired, and not yet the Locker's
	last     error       // of the last attempt that was not cut short
	watch    *time.Timer // warns of a long wait
	over     atomic.Bool // the wait is
}

// enter waits for the gate.
func (w *wait) enter(ctx context.Context) error {
	l, c := w.locker, w.locker.client
	if ok, _, _ := c.gates.TryEnter(l.key); ok {
		w.inside = true
		return nil
	}
	w.queued = true
	w.warn()
	switch baton, err := c.gates.Enter(ctx, l.key, l); {
	case err == nil:
		w.inside = true
		w.lease, _ = baton.(*Lease)
		return nil
	case errors.Is(err, gate.ErrClosed):
		return ErrClosed
	}
	return &endedError{op: opAcquire, name: l.name, ctx: ctx, last: l.taken(c.gates.Last(l.key))}
}

// acquire makes attempts until one succeeds, in the gate. The first is a plain
// SET, and so is the first after a wake-up: then it is our turn. If it is
// refused, the next follows at once, and joins the name's queue, to be woken.
// Before the others come sleeps.
func (w *wait) acquire(ctx context.Context) error {
	l, c := w.locker, w.locker.client
	kind, now := master.Acquire, true
	if c.sleepers.yields(l.key) {
		kind = master.Behind
	} else if w.attempt(ctx, master.Set) == nil {
		return nil
	} else {
		now = errors.Is(w.last, ErrHeld)
	}
	w.warn()
	sleeper := c.sleepers.add(l.key)
	defer c.sleepers.remove(l.key)
	defer w.quit()
	delays := retrier{schedule: c.opts.NewBackOff(), forever: w.forever}
	for {
		if !now {
			d, more := delays.next()
			if !more {
				return w.outcome(ctx)
			}
			if c.sleep(ctx, w.notPast(d), sleeper) {
				delays.schedule = c.opts.NewBackOff()
				kind = master.Set
			}
		}
		if ctx.Err() != nil || c.isClosing() {
			return w.outcome(ctx)
		}
		if w.attempt(ctx, kind) == nil {
			return nil
		}
		kind, now = master.Acquire, kind == master.Set && errors.Is(w.last, ErrHeld)
	}
}

// queueStep is how long a client sleeps at least that stands in the queue of a
// quorum of masters: it will be woken, and tries again only in case that the
// message is lost. Many who wait and try every few milliseconds would keep the
// masters from whom they wait for.
const queueStep = 100 * time.Millisecond

// notPast lengthens a sleep from which we expect to be woken, and shortens it to
// the moment when the lock will be free if nobody renews it, and a little more,
// so that not all come at once.
func (w *wait) notPast(d time.Duration) time.Duration {
	if errors.Is(w.last, ErrHeld) && w.locker.client.listening() {
		d = max(d, queueStep)
	}
	var e *QuorumError
	if errors.As(w.last, &e) && e.frees && e.free < d {
		return e.free + time.Millisecond + rand.N(5*time.Millisecond)
	}
	return d
}

// quit leaves the queue, unless the lock was acquired, which does it too.
func (w *wait) quit() {
	if c := w.locker.client; w.lease == nil && !c.opts.DisableWakeups {
		c.tellAll(master.Quit, master.NewClaim(w.locker.key, newToken(), 0, 0))
	}
}

// attempt makes one attempt. Its error is a *QuorumError even if ctx or the
// Client ended it: see outcome.
func (w *wait) attempt(ctx context.Context, kind master.Kind) error {
	l, c := w.locker, w.locker.client
	start := w.began
	if w.attempts++; w.attempts > 1 || w.queued {
		start = c.clock() // time has passed since the call
	}
	s, err := c.acquire(ctx, l, kind, start, start.Since(w.began))
	w.lease = s
	if w.last == nil || ctx.Err() == nil {
		w.last = err
	}
	if err != nil {
		c.gates.Note(l.key, w.last)
	}
	if f := c.opts.Trace.AttemptDone; f != nil {
		f(ctx, AttemptInfo{Name: l.name, Elapsed: c.clock().Since(start), Err: err})
	}
	if f := c.opts.Trace.Acquired; f != nil && err == nil {
		f(ctx, AcquiredInfo{Name: l.name, Attempts: w.attempts, Waited: c.clock().Since(w.began), Until: s.Until(), Rounds: s.rounds, Fence: s.Fence()})
	}
	return err
}

// hold makes what was acquired the Locker's lease.
func (w *wait) hold() *Lease {
	l, s := w.locker, w.lease
	l.lease.Store(s)
	// For whoever finds the gate taken from now on: until the unlock, also if
	// the lease is lost before.
	l.client.gates.Note(l.key, ErrHeld)
	w.inside, w.lease = false, nil
	return s
}

// end ends the wait. Unless the lock is the caller's now, the gate is left, and
// what may have been acquired is given back: a function of the user's, in the
// Trace or the schedule, may have panicked meanwhile.
func (w *wait) end() {
	w.over.Store(true)
	if w.watch != nil {
		w.watch.Stop()
	}
	if w.lease != nil {
		w.lease.drop()
	}
	if w.inside {
		w.locker.client.gates.Leave(w.locker.key)
	}
}

// outcome returns what to tell the caller after the last attempt.
func (w *wait) outcome(ctx context.Context) error {
	switch c := w.locker.client; {
	case c.isClosing():
		return ErrClosed
	case ctx.Err() != nil:
		return &endedError{op: opAcquire, name: w.locker.name, ctx: ctx, last: w.last}
	}
	return w.last
}

// warnAfter is how long a Lock waits before it tells the Logger.
const warnAfter = time.Second

// warn has the Logger told of a wait that has no other way to say why it lasts.
func (w *wait) warn() {
	if !w.forever || w.watch != nil {
		return
	}
	l, began := w.locker, time.Now()
	w.watch = time.AfterFunc(warnAfter, func() {
		if !l.client.begin() { // Close waits for this
			return
		}
		defer l.client.end()
		if why := l.taken(l.client.gates.Last(l.key)); !w.over.Load() {
			l.client.notices.waiting(l.name, began, why)
		}
	})
}

// sleep waits for d, or for the end of ctx or the Client, or for a wake-up, and
// reports whether it was that.
func (c *Client) sleep(ctx context.Context, d time.Duration, s *sleeper) (woken bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.wake:
		return true
	case <-t.C:
	case <-ctx.Done():
	case <-c.closing:
	}
	return false
}

// quorumError makes an error of a round that was not won.
func (c *Client) quorumError(op, name string, round *quorum.Round) *QuorumError {
	return c.quorumErrorOf(op, name, round.Votes())
}

func (c *Client) quorumErrorOf(op, name string, votes []quorum.Vote) *QuorumError {
	t := quorum.Count(votes)
	e := &QuorumError{Op: op, Name: name, Granted: t.Granted, Need: t.Need, held: op == opAcquire && t.Held()}
	if e.held {
		e.free, e.frees = freeAfter(votes)
	}
	for i, v := range votes {
		err := v.Err
		switch {
		case v.Granted():
			continue
		case !v.In:
			err = errNoAnswer
		case err != nil:
		case op == opAcquire:
			err = errRefused
		case op == opFence && v.Value < -1:
			err = errOvertaken
		case v.Value < 0:
			err = errNotOurs
		default:
			err = errMissing
		}
		e.Errs = append(e.Errs, &NodeError{Master: c.opts.Names[i], Op: op, Err: err})
	}
	return e
}

// unasked makes the error of a caller who finds another goroutine asking, which
// has no answer yet.
func (c *Client) unasked(op, name string) *QuorumError {
	e := &QuorumError{Op: op, Name: name, Need: quorum.Majority(len(c.masters))}
	for _, m := range c.opts.Names {
		e.Errs = append(e.Errs, &NodeError{Master: m, Op: op, Err: errUnasked})
	}
	return e
}

func quote(name string) string { return strconv.Quote(name) }
