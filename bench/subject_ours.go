package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redlock-go/redlock"
)

type ours struct{ client *redlock.Client }

func openOurs(s setup) (locks, error) {
	c, err := redlock.Open(s.Addrs, &redlock.Options{
		LockOptions: redlock.LockOptions{TTL: s.TTL},
		Logger:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	return ours{c}, nil
}

func (o ours) mutex(name string) mutex { return ourMutex{o.client.Locker(name)} }
func (o ours) close()                  { o.client.Close() }

type ourMutex struct{ *redlock.Locker }

func (m ourMutex) lock(ctx context.Context) error {
	return untilLocked(ctx, func() error { return m.LockContext(ctx) })
}

func (m ourMutex) unlock() error { return m.UnlockContext(context.Background()) }
func (m ourMutex) held() bool    { return m.Lease().Valid() }

// awaitVoters returns when all masters may vote for our library. Masters that
// it has never seen must first be known for the longest TTL, for lack of which
// it would be measured with fewer masters than its peers.
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
