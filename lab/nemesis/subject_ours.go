package main

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/clock"
)

var ours = &subject{
	name:     "redlock",
	settings: "TTL as below or three quarters of it, for RWLockers of every second client a quarter of it, those of the others are not renewed but for the last, MaxTTL the same for all, fences on some of the names and for some of the permits, the last client without wake-ups but for permits, wall clocks off by a quarter of a second at most for permits, in half of the plans a Keep of 1, 3 or 20 TTLs for three of the clients; by client, as the log says: one or two open in a process, leases without renewal, drift factors, users with fewer rights; defaults otherwise",
	fences:   true,
	open:     openOurs,
	key:      plainKey,
}

type ourLocks struct {
	*redlock.Client
	traits traits
	keep   time.Duration
}

func openOurs(s setup) (locks, error) {
	lock := redlock.LockOptions{TTL: s.TTL, Fencing: s.Fenced, Keep: s.Keep}
	switch { // the marker of readers must live as long as the longest of them
	case s.Client == 4:
	case s.Client%2 == 0:
		lock.TTL /= 4
	default:
		lock.RenewEvery = -1
	}
	var urls []string
	for _, addr := range s.Addrs {
		urls = append(urls, "redis://"+userOf(s.Client)+":any@"+addr)
	}
	opts := &redlock.Options{
		LockOptions:    lock,
		MaxTTL:         s.TTL,
		Names:          []string{"m0", "m1", "m2", "m3", "m4"},
		DisableWakeups: s.Traits.Polls,
		DriftFactor:    s.Traits.Drift,
		Logger:         slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if s.Traits.Stepped {
		clock.Attach(opts, stepped)
	}
	c, err := redlock.Open(urls, opts)
	return ourLocks{c, s.Traits, s.Keep}, err
}

// clockOffset is how far off the wall clock of this process is: see orderClock.
var clockOffset atomic.Int64

// stepped reads the clocks of a process whose wall clock is off.
func stepped() clock.Reading {
	now := time.Now()
	return clock.At(now, now.Add(time.Duration(clockOffset.Load())), 0)
}

func (l ourLocks) await(ctx context.Context) error {
	for {
		err := l.Ping(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (l ourLocks) close() { l.Client.Close() }

func (l ourLocks) mutex(w wanted) mutex {
	if w.permits > 0 {
		return l.permits(w)
	}
	switch w.side {
	case asReader:
		return ourMutex{l.RWLocker(w.names[0]).RLocker()}
	case asWriter:
		return ourMutex{l.RWLocker(w.names[0]).Locker()}
	}
	opts := &redlock.LockOptions{TTL: l.traits.TTL, Fencing: w.fenced, Keep: l.keep}
	if !l.traits.Renewed {
		opts.RenewEvery = -1
	}
	m, err := l.NewLocker(w.names[0], opts, w.names[1:]...)
	if err != nil {
		panic(err)
	}
	return ourMutex{m}
}

type ourMutex struct{ *redlock.Locker }

func (m ourMutex) lock(ctx context.Context) error { return m.LockContext(ctx) }
func (m ourMutex) try(ctx context.Context) error  { return m.TryLockContext(ctx) }
func (m ourMutex) wait()                          { m.Lock() }
func (m ourMutex) unlock() error                  { return m.UnlockContext(context.Background()) }
func (m ourMutex) held() bool                     { return m.Lease().Valid() }
func (m ourMutex) extend()                        {} // leases renew themselves
func (m ourMutex) token() string                  { return m.Lease().Token() }
func (m ourMutex) fence() uint64                  { return m.Lease().Fence() }

func (m ourMutex) do(ctx context.Context, f func()) error {
	return m.Do(ctx, func(context.Context) error { f(); return nil })
}
