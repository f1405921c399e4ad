// Package locktest contains helpers for tests of package redlock, on embedded masters and on real servers.
package locktest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/redlocktest"
)

// Main runs the tests of a package, and ends the process. It discards the log: tests of the Logger set their own.
func Main(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	log.SetOutput(os.Stderr) // slog.SetDefault has redirected it. Examples end with log.Fatal.
	// Embedded masters allocate much. Fewer collections save a third of the time.
	debug.SetGCPercent(1000)
	os.Exit(m.Run())
}

// Bubble runs f in a synctest bubble with n embedded masters. Time is virtual there, and a goroutine that is
// left fails the test.
func Bubble(t *testing.T, n int, f func(t *testing.T, ms *redlocktest.Masters)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) { f(t, redlocktest.StartN(t, n)) })
}

// Connected returns a Client whose masters are all up.
func Connected(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options) *redlock.Client {
	t.Helper()
	c := ms.Open(opts)
	synctest.Wait()
	for _, m := range c.Masters() {
		if m.State != redlock.MasterUp {
			t.Fatalf("%s is %s: %v", m.Name, m.State, m.Err)
		}
	}
	return c
}

// Holders returns the values of a key at the masters, without empty ones.
func Holders(ms *redlocktest.Masters, key string) []string {
	return slices.DeleteFunc(ms.Get(key), func(s string) bool { return s == "" })
}

// WantFree fails t if a key is left on any master.
func WantFree(t *testing.T, ms *redlocktest.Masters, key string) {
	t.Helper()
	synctest.Wait()
	if got := Holders(ms, key); len(got) != 0 {
		t.Errorf("%d masters keep the key %q, want none", len(got), key)
	}
}

// Sets returns how many SETs of a key a master has executed.
func Sets(m *redlocktest.Master, key string) (n int) {
	for _, command := range m.Commands() {
		if strings.HasPrefix(command, "SET "+key+" ") {
			n++
		}
	}
	return n
}

// Hold sets the key at some masters as another client would.
func Hold(ms *redlocktest.Masters, key string, masters ...int) {
	for _, i := range masters {
		ms.Master(i).Set(key, "somebody else's", time.Hour)
	}
}

// SetClocks changes the clocks of a Client with these Options: the wall clock is off by wall, and the machine
// has slept for asleep.
func SetClocks(o *redlock.Options, offsets func() (wall, asleep time.Duration)) {
	clock.Attach(o, func() clock.Reading {
		now := time.Now()
		wall, asleep := offsets()
		return clock.At(now, now.Add(wall), asleep)
	})
}

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
