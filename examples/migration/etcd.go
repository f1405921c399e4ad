package migration

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/redlock-go/redlock"
)

func leadWithEtcd(ctx context.Context, client *clientv3.Client) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	if err != nil {
		return err
	}
	defer session.Close()
	mutex := concurrency.NewMutex(session, "/leader")
	if err := mutex.Lock(ctx); err != nil {
		return err
	}
	defer mutex.Unlock(context.WithoutCancel(ctx))

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-session.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	return lead(ctx, uint64(mutex.Header().Revision))
}

func leadWithRedlock(ctx context.Context, client *redlock.Client) error {
	lock, err := client.NewLocker("leader", &redlock.LockOptions{Fencing: true, MaxHold: -1})
	if err != nil {
		return err
	}
	return lock.Do(ctx, func(ctx context.Context) error {
		return lead(ctx, lock.Lease().Fence())
	})
}

// lead works until ctx ends. term rises with each leader: stores refuse a lower one.
func lead(ctx context.Context, term uint64) error { return ctx.Err() }
