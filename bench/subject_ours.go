package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
)

type ours struct {
	client *redlock.Client
	count  *roundCount // nil unless rounds are counted
}

// roundCount counts acquisitions, and those that took one round.
type roundCount struct{ one, all atomic.Int64 }

func openOurs(s setup) (locks, error) { return openRedlock(s, &redlock.Options{}) }

func openUnguarded(s setup) (locks, error) {
	return openRedlock(s, &redlock.Options{DisableRestartGuard: true})
}

func openFenced(s setup) (locks, error) {
	n := &roundCount{}
	l, err := openRedlock(s, &redlock.Options{
		LockOptions: redlock.LockOptions{Fencing: true},
		Trace: &redlock.Trace{Acquired: func(_ context.Context, info redlock.AcquiredInfo) {
			n.all.Add(1)
			if info.Rounds == 1 {
				n.one.Add(1)
			}
		}},
	})
	l.count = n
	return l, err
}

func openRedlock(s setup, o *redlock.Options) (ours, error) {
	o.LockOptions.TTL = s.TTL
	o.Logger = slog.New(slog.DiscardHandler)
	c, err := redlock.Open(s.Addrs, o)
	if err != nil {
		return ours{}, err
	}
	return ours{client: c}, nil
}

func (o ours) mutex(name string) mutex { return ourMutex{o.client.Locker(name)} }
func (o ours) close()                  { o.client.Close() }

func (o ours) rounds() rounds {
	if o.count == nil {
		return rounds{}
	}
	return rounds{One: o.count.one.Load(), All: o.count.all.Load()}
}

type ourMutex struct{ *redlock.Locker }

func (m ourMutex) lock(ctx context.Context) error {
	return untilLocked(ctx, func() error { return m.LockContext(ctx) })
}

func (m ourMutex) unlock() error { return m.UnlockContext(context.Background()) }
func (m ourMutex) held() bool    { return m.Lease().Valid() }

// awaitVoters returns when all masters may vote for our library, which must not
// be measured with fewer of them than its peers.
func awaitVoters(addrs []string, limit time.Duration) error {
	c, err := redlock.Open(addrs, &redlock.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		err := c.Ping(ctx)
		up := 0
		for _, m := range c.Masters() {
			if m.State == redlock.MasterUp {
				up++
			} else {
				err = errors.Join(err, m.Err)
			}
		}
		if up == len(addrs) && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d masters may vote after %v: %w", up, len(addrs), limit, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
