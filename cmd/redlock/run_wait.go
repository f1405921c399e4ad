package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisconn"
)

// An inbox has the signals that this process receives.
type inbox struct {
	signals   chan os.Signal // they end the wait for the lock, or are passed on to the command
	continued chan os.Signal // this process was stopped and continues; nil on some systems
}

// A signalError says that a signal has ended the wait for the lock.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("ended by a signal (%v)", e.signal) }

// A lockWait is the wait for the lock, or for a permit. The library logs why it lasts.
type lockWait struct {
	runConfig
	shown *progress // immutable

	mu     sync.Mutex // guards what follows
	last   error      // of the last attempt that was decided; nil if there was none
	giveUp func()     // ends the wait
	holder string     // what is said of who holds the lock; "": nothing is known
}

// acquire waits for the lock. Its error has the exit status.
func (w *lockWait) acquire(ctx context.Context, client *redlock.Client, acquire acquirer, in *inbox) (held *runLease, err error) {
	if ended := w.untilSignal(ctx, in, func(ctx context.Context) {
		defer w.show(ctx, client)()
		held, err = w.attempt(ctx, acquire)
	}); ended != nil {
		if err == nil { // the signal came when the lock was acquired; the command does not run
			held.end()
		}
		return nil, ended
	}
	return held, w.explain(ctx, client, err)
}

// untilSignal calls f, and ends its context if a signal comes. Then it returns an error with the exit status. When it has
// returned, signals are passed on to the command.
func (w *lockWait) untilSignal(ctx context.Context, in *inbox, f func(context.Context)) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	returned, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-in.signals:
			end(&signalError{s})
		case <-returned:
		}
	}()
	f(ctx)
	close(returned)
	<-watched
	if ended := (*signalError)(nil); errors.As(context.Cause(ctx), &ended) {
		return &statusError{exitSignal + number(ended.signal), fmt.Errorf("%w while waiting for %s", ended, w.what())}
	}
	return nil
}

// askEvery is how often the masters are asked who holds the lock, while a progress is shown.
const askEvery = 2 * time.Second

// show shows how long the wait has lasted, and for whom, until the function that it returns is called.
func (w *lockWait) show(ctx context.Context, client *redlock.Client) (end func()) {
	if !w.shown.shows() || w.wait == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	if w.limit == 0 {
		asking.Go(func() {
			for ctx.Err() == nil {
				w.ask(ctx, client)
				sleep(ctx, askEvery)
			}
		})
	}
	shown := w.shown.show(w.progress)
	return func() {
		shown()
		cancel()
		asking.Wait()
	}
}

// ask asks the masters who holds the lock, or the first of several locks that is held.
func (w *lockWait) ask(ctx context.Context, client *redlock.Client) {
	holder := ""
	for _, name := range w.names {
		h, err := client.Inspect(ctx, name)
		if err != nil || !h.Held {
			continue
		}
		holder = fmt.Sprintf("%q is held by %s", name, ownerOr(h.Owner))
		if others := h.Waiting - 1; others > 0 { // without this one
			holder += fmt.Sprintf(", and %d more wait", others)
		}
		break
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holder = holder
}

// progress says how far the wait is.
func (w *lockWait) progress(since time.Duration) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := passed(since, max(w.wait, 0)) + "; " + cmp.Or(w.holder, "waiting for "+w.what())
	return redisconn.Printable(text)
}

// attempt makes one attempt, or as many as --wait allows.
func (w *lockWait) attempt(ctx context.Context, acquire acquirer) (*runLease, error) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	w.mu.Lock()
	w.giveUp = giveUp
	w.mu.Unlock()
	if w.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.wait)
		defer cancel()
	}
	return acquire(ctx, w.wait == 0)
}

// explain returns the error to report if an acquisition has failed with err: the lock is held, no
// permit is free, or there is no quorum.
func (w *lockWait) explain(ctx context.Context, client *redlock.Client, err error) error {
	if err == nil || ctx.Err() != nil { // without a signal, ctx ends in tests only
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// The attempt that the limit has cut off knows less than the one before it. A single attempt knows the most.
	if w.last != nil && w.wait != 0 {
		err = w.last
	}
	waited := ""
	if w.wait > 0 {
		waited = fmt.Sprintf("; waited %v for it", w.wait)
	}
	text := strings.TrimPrefix(err.Error(), "redlock: ")
	switch {
	case errors.Is(err, redlock.ErrNotALock):
		return &statusError{exitNoQuorum, withHint(fmt.Errorf("no lock can have this name: %s", text),
			"use another name; or, if nobody needs the data of the key, delete the key")}
	case errors.Is(err, redlock.ErrDenied):
		return &statusError{exitNoQuorum, withHint(fmt.Errorf("the masters deny access: %s", text),
			"redlock doctor --acl prints the rights that are needed; the name includes their prefix")}
	case errors.Is(err, redlock.ErrHeld):
		if w.quiet {
			return &statusError{status: w.heldExit}
		}
		if w.limit > 0 {
			return &statusError{w.heldExit, fmt.Errorf("no permit of %q is free%s", w.name, waited)}
		}
		name := w.names[0]
		if q := (*redlock.QuorumError)(nil); errors.As(err, &q) && q.Held != "" {
			name = q.Held
		}
		return &statusError{w.heldExit, fmt.Errorf("%q is held by %s%s", name, holderOf(ctx, client, name, err), waited)}
	}
	hint := "a majority of the masters must answer; redlock doctor says more"
	if errors.Is(err, redlock.ErrQuarantined) {
		hint = "wait until the quarantine ends; or, only if nobody holds a lock on these masters: redlock doctor " + adoptFlags(len(w.masters))
	}
	return &statusError{exitNoQuorum, withHint(fmt.Errorf("no quorum of the masters%s: %s", waited, text), hint)}
}

// holderOf returns who holds the lock, after an attempt that failed with err.
func holderOf(ctx context.Context, client *redlock.Client, name string, err error) string {
	if owner := ownerIn(err); owner != "" {
		return owner
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if h, err := client.Inspect(ctx, name); err == nil && h.Owner != "" {
		return h.Owner
	}
	return "another"
}

// ownerIn returns the owner that an error of an attempt names, or "".
func ownerIn(err error) string {
	held := (*redlock.QuorumError)(nil)
	if errors.As(err, &held) {
		return held.Owner
	}
	return ""
}

// attemptDone is called after each attempt. It keeps the reason for a failure, and ends a wait that is in vain.
func (w *lockWait) attemptDone(ctx context.Context, info redlock.AttemptInfo) {
	if info.Err == nil || ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = info.Err
	if errors.Is(info.Err, redlock.ErrDenied) || errors.Is(info.Err, redlock.ErrNotALock) {
		w.giveUp()
	}
}
