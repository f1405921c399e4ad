package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"

	"github.com/redlock-go/redlock/lab/internal/peers"
)

type rueidisLocks struct{ rueidislock.Locker }

func openRueidislock(s setup) (locks, error) {
	l, err := peers.Rueidislock(s.Addrs, s.TTL, s.NodeTimeout)
	if err != nil {
		return nil, err
	}
	return rueidisLocks{l}, nil
}

func (l rueidisLocks) mutex(name string) mutex { return &rueidisMutex{locker: l.Locker, name: name} }
func (l rueidisLocks) close()                  { l.Close() }

type rueidisMutex struct {
	locker rueidislock.Locker
	name   string
	lease  context.Context
	cancel context.CancelFunc
}

// lock lets ctx bound the wait alone, as the others do: to rueidislock it
// bounds the holding too.
func (m *rueidisMutex) lock(ctx context.Context) error {
	return untilLocked(ctx, func() error {
		waiting, giveUp := context.WithCancel(context.Background())
		stop := context.AfterFunc(ctx, giveUp)
		lease, cancel, err := m.locker.WithContext(waiting, m.name)
		if err != nil {
			giveUp()
			return err
		}
		if !stop() {
			cancel()
			return ctx.Err()
		}
		m.lease, m.cancel = lease, cancel
		return nil
	})
}

func (m *rueidisMutex) unlock() error {
	m.cancel()
	return nil
}

func (m *rueidisMutex) held() bool { return m.lease.Err() == nil }

// bsmLocks is bsm/redislock on the first master.
type bsmLocks struct {
	client *goredis.Client
	locker *redislock.Client
	ttl    time.Duration
}

func openBSM(s setup) (locks, error) {
	c := goRedisClient(s.Addrs[0], s)
	return &bsmLocks{client: c, locker: redislock.New(c), ttl: s.TTL}, nil
}

func (l *bsmLocks) mutex(name string) mutex { return &bsmMutex{locks: l, name: name} }
func (l *bsmLocks) close()                  { l.client.Close() }

type bsmMutex struct {
	locks *bsmLocks
	name  string
	lease *redislock.Lock
}

func (m *bsmMutex) lock(ctx context.Context) error {
	return untilLocked(ctx, func() (err error) {
		m.lease, err = m.locks.locker.Obtain(ctx, m.name, m.locks.ttl, &redislock.Options{
			RetryStrategy: redislock.ExponentialBackoff(16*time.Millisecond, 250*time.Millisecond),
		})
		return err
	})
}

func (m *bsmMutex) unlock() error { return m.lease.Release(context.Background()) }
