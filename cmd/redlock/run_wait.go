package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
)

// An inbox is the signals that come to this process while it waits, and while it holds.
type inbox struct {
	signals   chan os.Signal // what ends a wait, and is passed on to the command
	continued chan os.Signal // this process was stopped and goes on; nil where that is unknown
}

// A signalError is the cause of a wait's end.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("ended by a signal (%v)", e.signal) }

// noticeAfter is how long a wait for the lock lasts before its reason is logged.
const noticeAfter = time.Second

// A lockWait is the wait for the lock.
type lockWait struct {
	name    string
	limit   time.Duration // see runConfig
	log     *slog.Logger
	began   time.Time
	masters func() []redlock.MasterStatus // how they do; set before lock

	mu   sync.Mutex // guards what follows
	last error      // of the last attempt that came to a result; nil: there was none
	told string     // the reason that was logged last
}

// lock locks l, or returns an error that says what to exit with.
func (w *lockWait) lock(ctx context.Context, l *redlock.Locker, in *inbox) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	locked, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-in.signals:
			end(&signalError{s})
		case <-locked:
		}
	}()
	err := w.acquire(ctx, l)
	close(locked)
	<-watched // from here on signals are the command's
	ended := (*signalError)(nil)
	if !errors.As(context.Cause(ctx), &ended) {
		return w.explain(ctx, err)
	}
	if err == nil { // it came at the last moment, and the command has not begun
		l.Unlock()
	}
	return &statusError{exitSignal + number(ended.signal), fmt.Errorf("%w while waiting for the lock %q", ended, w.name)}
}

// acquire makes one attempt, or as many as the limit allows.
func (w *lockWait) acquire(ctx context.Context, l *redlock.Locker) error {
	if w.limit == 0 {
		return l.TryLockContext(ctx)
	}
	if w.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.limit)
		defer cancel()
	}
	return l.LockContext(ctx)
}

// explain returns what to tell of an acquisition that ended in err: whether the lock was
// held or the masters are the reason.
func (w *lockWait) explain(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil { // without a signal, only a test's context ends
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// An attempt that the limit cut off knows less than the one before it.
	if w.last != nil {
		err = w.last
	}
	waited := ""
	if w.limit > 0 {
		waited = fmt.Sprintf("; waited %v for it", w.limit)
	}
	if errors.Is(err, redlock.ErrHeld) {
		return &statusError{exitHeld, fmt.Errorf("%q is held by another%s", w.name, waited)}
	}
	if inQuarantine(w.masters()) {
		return &statusError{exitNoQuorum, withHint(
			fmt.Errorf("no quorum of the masters: they are in quarantine, for they are new to redlock or may have forgotten locks%s: %w", waited, err),
			"wait until then; or, only if nobody holds a lock on these masters: redlock doctor --adopt")}
	}
	return &statusError{exitNoQuorum, withHint(fmt.Errorf("no quorum of the masters: %w", err),
		"a majority of the masters must answer")}
}

// inQuarantine reports whether too few masters may vote, and enough might but for quarantines.
func inQuarantine(masters []redlock.MasterStatus) bool {
	n := make(map[redlock.MasterState]int)
	for _, m := range masters {
		n[m.State]++
	}
	need, up, quarantined := len(masters)/2+1, n[redlock.MasterUp], n[redlock.MasterQuarantined]
	// A round is decided before the last ones have connected, which may be in quarantine too.
	return quarantined > 0 && up < need && up+quarantined+n[redlock.MasterConnecting] >= need
}

// attemptDone is the Trace's: it notes why an attempt failed, and logs the reason of a wait
// that is getting long, once for each reason.
func (w *lockWait) attemptDone(ctx context.Context, info redlock.AttemptInfo) {
	if info.Err == nil || ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = info.Err
	reason := "no quorum of the masters"
	if errors.Is(info.Err, redlock.ErrHeld) {
		reason = "held by another"
	}
	waited := time.Since(w.began)
	if waited < noticeAfter || reason == w.told {
		return
	}
	w.told = reason
	w.log.Warn("redlock: still waiting for the lock", "name", w.name,
		"waited", waited.Round(time.Millisecond), "why", reason)
}
