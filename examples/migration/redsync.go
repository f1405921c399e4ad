package migration

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
)

func reportWithRedsync(ctx context.Context, rs *redsync.Redsync) error {
	mutex := rs.NewMutex("report", redsync.WithExpiry(30*time.Second), redsync.WithTries(100))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer mutex.Unlock()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // extend, or stop the work
		for {
			select {
			case <-time.After(10 * time.Second):
				if ok, err := mutex.ExtendContext(ctx); !ok || err != nil {
					cancel()
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return report(ctx)
}

func reportWithRedlock(ctx context.Context, client *redlock.Client) error {
	return client.Locker("report").Do(ctx, report) // renewed while report runs; its ctx ends if the lease is lost
}

// openBesideRedsync returns a Client for the time in which replicas with redsync have the same locks. MaxTTL is not less
// than the longest WithExpiry of any of them.
func openBesideRedsync(masters []*redis.Pool) (*redlock.Client, error) {
	return redlock.New(masters, &redlock.Options{MaxTTL: 30 * time.Second})
}

// tryReport runs the report unless somebody else does.
func tryReport(ctx context.Context, client *redlock.Client) error {
	lock := client.Locker("report")
	err := lock.TryLockContext(ctx)
	if errors.Is(err, redlock.ErrHeld) {
		return nil // redsync: errors.As(err, new(*redsync.ErrTaken))
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return report(lock.Lease().Context(ctx))
}

func report(ctx context.Context) error { return ctx.Err() }
