package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock"
)

// A worker is one goroutine of a process. It makes its calls one after another, in whatever life
// the process has.
type worker struct {
	process *process
	name    string
	calls   []call
}

// work makes the worker's calls.
func (w *worker) work() {
	r := w.process.run
	for i := 0; i < len(w.calls) || time.Since(r.begun) < r.plan.busyUntil && len(w.calls) > 0; i++ {
		c := w.calls[i%len(w.calls)]
		if !r.sleep(c.think) {
			return
		}
		l := w.process.running()
		if l == nil {
			return
		}
		t := &turn{worker: w, call: c, life: l}
		switch rw := l.client.RWLocker(c.name); c.side {
		case alone:
			t.locker = l.client.Locker(c.name, c.more...)
		case writer:
			t.locker = rw.Locker()
		case reader:
			t.locker, t.rw = rw.RLocker(), rw
		}
		if c.slots > 0 {
			t.locker = newPermitLocker(l, c)
		}
		switch c.kind {
		case callDo:
			t.do()
		case callFlight:
			t.fly()
		default:
			t.take()
		}
	}
}

// A turn is one call under way.
type turn struct {
	*worker
	call    call
	life    *life
	locker  locker
	rw      *redlock.RWLocker // of a reader
	began   time.Time
	waiting *waiter
	held    *holding
}

// begin notes that the turn waits from now on.
func (t *turn) begin() (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = context.Background(), func() {}
	if t.call.within > 0 {
		ctx, cancel = context.WithTimeout(ctx, t.call.within)
	}
	t.began = time.Now()
	if t.call.kind != callTryLock {
		t.waiting = t.process.run.judge.comes(t)
	}
	return ctx, cancel
}

// undisturbed reports whether nothing has touched the process since the turn began.
func (t *turn) undisturbed() bool { return t.process.present() == t.life && !t.life.gone() }

// take locks, holds and unlocks.
func (t *turn) take() {
	ctx, cancel := t.begin()
	defer cancel()
	var err error
	switch t.call.kind {
	case callLock:
		err = t.lock()
	case callLockContext:
		err = t.locker.LockContext(ctx)
	case callTryLock:
		err = t.locker.TryLockContext(context.Background())
	}
	if !t.outcome(ctx, err) {
		return
	}
	t.hold(context.Background())
	if !t.process.awake(t.life) {
		return // crashed or closed; nobody unlocks
	}
	t.unlock()
}

// lock calls Lock, which panics if the Client is closed.
func (t *turn) lock() (err error) {
	defer func() {
		if p := recover(); p != nil {
			if !t.life.gone() {
				panic(p)
			}
			err = redlock.ErrClosed
		}
	}()
	if t.rw != nil {
		t.rw.RLock()
	} else {
		t.locker.Lock()
	}
	return nil
}

// outcome checks what a call that locks has returned, and reports whether the lock is held.
func (t *turn) outcome(ctx context.Context, err error) bool {
	j := t.process.run.judge
	took := time.Since(t.began)
	if err != nil {
		j.leaves(t, err)
		t.checkRefusal(ctx, err, took)
		return false
	}
	t.held = j.enters(t, t.locker.Lease())
	t.checkTook("returned", took)
	return t.held != nil
}

// checkRefusal checks the error of a call that did not get the lock.
func (t *turn) checkRefusal(ctx context.Context, err error, took time.Duration) {
	var votes *redlock.QuorumError
	switch {
	case t.life.gone():
		return
	case errors.Is(err, redlock.ErrClosed):
		t.fail("errors", "ErrClosed from an open Client")
	case t.call.kind == callTryLock && !errors.As(err, &votes) && !errors.Is(err, redlock.ErrHeld):
		t.fail("errors", "TryLockContext = %v, want ErrHeld or a *QuorumError", err)
	case t.call.kind != callTryLock && !errors.Is(err, context.Cause(ctx)):
		t.fail("errors", "%v = %v, want the context's error", t.call.kind, err)
	}
	t.checkTook("gave up", took)
}

// checkTook checks that a call did not take longer than it may.
func (t *turn) checkTook(what string, took time.Duration) {
	limit := t.call.within
	if t.call.kind == callTryLock {
		// A first connection may be under way; with fences there are up to five rounds more.
		limit = time.Second + t.process.run.plan.timeout()
		if t.call.slots > 0 { // if the votes are split, it asks, and aims, for as long as they last
			limit += time.Second + 2*t.process.run.plan.timeout()
		}
		if t.process.run.plan.lock.Fencing {
			limit += 5 * t.process.run.plan.timeout()
		}
		if t.process.run.plan.lock.Keep > 0 { // a second attempt follows the first a round trip later
			limit += 2 * t.process.run.plan.timeout()
		}
	}
	if limit > 0 && took > limit+time.Millisecond && t.undisturbed() {
		t.fail("bounds", "%v %s after %v, want %v at most", t.call.kind, what, took, limit)
	}
}

// hold is the critical section.
func (t *turn) hold(ctx context.Context) {
	var over <-chan struct{}
	if t.call.heeds {
		over = t.held.lease.Done()
		if ctx.Done() != nil {
			over = ctx.Done()
		}
	}
	if t.call.extend {
		defer t.extend()()
	}
	timer := time.NewTimer(t.call.hold + 1)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-over:
	case <-t.life.ended:
	case <-t.process.run.stop:
	}
}

// extend renews the lease by hand until the returned function is called.
func (t *turn) extend() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(t.process.ttl() / 3)
		defer tick.Stop()
		for ctx.Err() == nil {
			select {
			case <-tick.C:
				t.held.lease.Extend(ctx)
			case <-ctx.Done():
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// unlock unlocks, and checks the outcome.
func (t *turn) unlock() {
	j := t.process.run.judge
	valid := j.exits(t.held)
	began := time.Now()
	var err error
	switch {
	case t.call.unlock == 0 && t.rw != nil:
		t.rw.RUnlock()
	case t.call.unlock == 0:
		t.locker.Unlock()
	default:
		ctx, cancel := context.WithTimeout(context.Background(), t.call.unlock)
		err = t.locker.UnlockContext(ctx)
		cancel()
		t.checkUnlock(valid, err)
	}
	if took := time.Since(began); took > t.process.run.plan.timeout()+time.Millisecond && t.undisturbed() {
		t.fail("bounds", "Unlock took %v", took)
	}
}

// checkUnlock checks what UnlockContext has returned for a lease that was valid, or not, when it was
// called.
func (t *turn) checkUnlock(valid bool, err error) {
	switch {
	case t.life.gone():
	case valid && errors.Is(err, redlock.ErrNotHeld):
		t.fail("errors", "UnlockContext of a locked Locker = %v", err)
	case !valid && !errors.Is(err, redlock.ErrLost):
		t.fail("errors", "UnlockContext of a lost lease = %v, want ErrLost", err)
	}
}

// do calls Do.
func (t *turn) do() {
	ctx, cancel := t.begin()
	defer cancel()
	var valid bool
	ran := false
	err := t.locker.Do(ctx, func(held context.Context) error {
		ran = true
		if !t.outcome(ctx, nil) {
			return nil
		}
		t.hold(held)
		if t.process.awake(t.life) {
			valid = t.process.run.judge.exits(t.held)
			if !valid && held.Err() == nil {
				t.fail("errors", "the context of Do lasts although the lease is over")
			}
		}
		return nil
	})
	switch {
	case !ran:
		t.outcome(ctx, err)
	case t.life.gone() || t.process.run.stopped():
	case !valid && !errors.Is(err, redlock.ErrLost):
		t.fail("errors", "Do = %v although its lease was lost, want ErrLost", err)
	case valid && err != nil && !errors.Is(err, redlock.ErrLost):
		t.fail("errors", "Do = %v although its lease lasted, want nil", err)
	}
}

func (t *turn) fail(property, format string, args ...any) {
	t.process.run.judge.fail(property, t.name+": "+fmt.Sprintf(format, args...))
}
