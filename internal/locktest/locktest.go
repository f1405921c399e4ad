// Package locktest contains helpers for tests of package redlock, on embedded masters and on real servers.
package locktest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
)

// Pass locks and unlocks.
func Pass(l sync.Locker) {
	l.Lock()
	//lint:ignore SA2001 it is the locking that is tested
	l.Unlock()
}

// Enter locks l in the background, and sends the time on the channel when it has the lock.
func Enter(l *redlock.Locker) <-chan time.Time {
	in := make(chan time.Time, 1)
	go func() {
		if l.LockContext(context.Background()) == nil { // else the Client was closed
			in <- time.Now()
		}
	}()
	return in
}

// Outcome returns a name for the kind of an attempt's error.
func Outcome(err error) string {
	var quorum *redlock.QuorumError
	switch {
	case err == nil:
		return "locked"
	case errors.Is(err, redlock.ErrHeld):
		return "held"
	case errors.As(err, &quorum):
		return "no quorum"
	}
	return "error"
}

// States returns how many masters are in a state.
func States(c *redlock.Client, state redlock.MasterState) (n int) {
	for _, m := range c.Masters() {
		if m.State == state {
			n++
		}
	}
	return n
}

// Inspected returns what c.Inspect reports about a lock.
func Inspected(t *testing.T, c *redlock.Client, name string) redlock.Holding {
	t.Helper()
	h, err := c.Inspect(t.Context(), name)
	if err != nil {
		t.Fatalf("Inspect = %v", err)
	}
	return h
}

// Fenced returns Options with fencing. Unless rounds is nil, it receives the number of acquisitions by the
// number of their rounds.
func Fenced(rounds *sync.Map) *redlock.Options {
	return &redlock.Options{
		LockOptions: redlock.LockOptions{Fencing: true},
		Trace: &redlock.Trace{Acquired: func(_ context.Context, info redlock.AcquiredInfo) {
			if rounds != nil {
				n, _ := rounds.LoadOrStore(info.Rounds, 0)
				rounds.Store(info.Rounds, n.(int)+1)
			}
		}},
	}
}

// Ticks returns a time as a fence counts it, in quarters of a millisecond.
func Ticks(t time.Time) int64 { return t.UnixMicro() / 250 }

// Lasting returns options with a TTL and a MaxTTL of ttl, without renewal.
func Lasting(ttl time.Duration) *redlock.Options {
	return &redlock.Options{LockOptions: redlock.LockOptions{TTL: ttl, RenewEvery: -1}, NodeTimeout: ttl / 4, MaxTTL: ttl}
}

// A BackOffFunc is a schedule that consists of one function.
type BackOffFunc func() time.Duration

// NextBackOff implements redlock.BackOff.
func (f BackOffFunc) NextBackOff() time.Duration { return f() }

// A Buffer is a bytes.Buffer that several goroutines may write to.
type Buffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A Log is a Logger's output.
type Log struct{ Buffer }

// Options returns Options whose Logger writes to the log.
func (l *Log) Options() *redlock.Options {
	return &redlock.Options{Logger: slog.New(slog.NewTextHandler(l, nil))}
}

// Lines returns the lines that contain all of these words, without their times.
func (l *Log) Lines(words ...string) (lines []string) {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
			lines = append(lines, line)
		}
	}
	return lines
}

// Want fails t unless exactly n lines of the log contain all of these words.
func (l *Log) Want(t *testing.T, n int, words ...string) {
	t.Helper()
	if got := l.Lines(words...); len(got) != n {
		t.Errorf("%d lines with %q, want %d; the log:\n%s", len(got), words, n, l.String())
	}
}
