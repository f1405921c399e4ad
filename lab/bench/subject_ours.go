package main

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/redlock-go/redlock"
)

type ours struct {
	client *redlock.Client
	count  *count
}

// count is counts, counted by several goroutines.
type count struct{ one, acquired, failedAttempts, failedReleases atomic.Int64 }

func (n *count) trace() *redlock.Trace {
	return &redlock.Trace{
		AttemptDone: func(_ context.Context, info redlock.AttemptInfo) {
			if info.Err != nil {
				n.failedAttempts.Add(1)
			}
		},
		Acquired: func(_ context.Context, info redlock.AcquiredInfo) {
			n.acquired.Add(1)
			if info.Rounds == 1 {
				n.one.Add(1)
			}
		},
		Released: func(_ context.Context, info redlock.ReleasedInfo) {
			if info.Err != nil {
				n.failedReleases.Add(1)
			}
		},
	}
}

func openOurs(s setup) (locks, error) { return openRedlock(s, &redlock.Options{}) }

func openUnguarded(s setup) (locks, error) {
	return openRedlock(s, &redlock.Options{DisableRestartGuard: true})
}

func openFenced(s setup) (locks, error) {
	return openRedlock(s, &redlock.Options{LockOptions: redlock.LockOptions{Fencing: true}})
}

func openRedlock(s setup, o *redlock.Options) (locks, error) {
	n := &count{}
	o.LockOptions.TTL = s.TTL
	o.Logger = slog.New(slog.DiscardHandler)
	o.Trace = n.trace()
	c, err := redlock.Open(s.Addrs, o)
	if err != nil {
		return nil, err
	}
	return ours{c, n}, nil
}

func (o ours) mutex(name string) mutex { return ourMutex{o.client.Locker(name)} }
func (o ours) close()                  { o.client.Close() }

func (o ours) counts() counts {
	return counts{o.count.one.Load(), o.count.acquired.Load(), o.count.failedAttempts.Load(), o.count.failedReleases.Load()}
}

type ourMutex struct{ *redlock.Locker }

func (m ourMutex) lock(ctx context.Context) error {
	return untilLocked(ctx, func() error { return m.LockContext(ctx) })
}

// unlock returns nil: Trace.Released tells about releases that fail.
func (m ourMutex) unlock() error {
	m.Unlock()
	return nil
}

func (m ourMutex) held() bool { return m.Lease().Valid() }
