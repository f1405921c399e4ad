package migration

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"

	"github.com/redlock-go/redlock"
)

func refreshWithOneServer(ctx context.Context, locks *redislock.Client) error {
	lock, err := locks.Obtain(ctx, "refresh", 30*time.Second, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil // somebody else does it
	}
	if err != nil {
		return err
	}
	defer lock.Release(context.WithoutCancel(ctx))
	return refresh(ctx)
}

func refreshWithRedlock(ctx context.Context, client *redlock.Client) error {
	lock := client.Locker("refresh")
	err := lock.TryLockContext(ctx)
	if errors.Is(err, redlock.ErrHeld) {
		return nil // somebody else does it
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return refresh(lock.Lease().Context(ctx))
}

func refresh(ctx context.Context) error { return ctx.Err() }
