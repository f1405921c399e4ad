package main

import (
	"context"

	"github.com/redis/rueidis/rueidislock"

	"github.com/redlock-go/redlock/lab/internal/peers"
)

var rueidisLock = &subject{
	name: "rueidislock",
	settings: "KeyMajority 3, hence five keys; NoLoopTracking as its README recommends for Redis 7.0.5 and later; TryNextAfter a twentieth of the TTL " +
		"(its default of 20 ms makes it fail on a busy machine); KeyValidity the TTL. It knows one client only, so its ClientBuilder is given one that sends key i to master i; " +
		"holders rely on the context that it returns",
	open: openRueidisLock,
	key:  peers.RueidisKey,
}

type rueidisLocks struct{ rueidislock.Locker }

func openRueidisLock(s setup) (locks, error) {
	l, err := peers.Rueidislock(s.Addrs, s.TTL, s.NodeTimeout)
	if err != nil {
		return nil, err
	}
	return rueidisLocks{l}, nil
}

func (l rueidisLocks) await(context.Context) error { return nil }
func (l rueidisLocks) close()                      { l.Close() }
func (l rueidisLocks) mutex(w wanted) mutex {
	return &rueidisMutex{locker: l.Locker, name: w.names[0]}
}

type rueidisMutex struct {
	locker rueidislock.Locker
	name   string
	lease  context.Context
	cancel context.CancelFunc
}

// lock uses ctx to limit the wait only, like the other subjects. In rueidislock a context limits the
// holding, too.
func (m *rueidisMutex) lock(ctx context.Context) error {
	for {
		err := m.once(ctx, m.locker.WithContext)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func (m *rueidisMutex) try(ctx context.Context) error { return m.once(ctx, m.locker.TryWithContext) }

func (m *rueidisMutex) once(ctx context.Context, f func(context.Context, string) (context.Context, context.CancelFunc, error)) error {
	waiting, giveUp := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, giveUp)
	lease, cancel, err := f(waiting, m.name)
	if err != nil {
		stop()
		giveUp()
		return err
	}
	if !stop() {
		cancel()
		return ctx.Err()
	}
	m.lease, m.cancel = lease, func() { cancel(); giveUp() }
	return nil
}

func (m *rueidisMutex) unlock() error {
	m.cancel()
	return nil
}

func (m *rueidisMutex) held() bool    { return m.lease.Err() == nil }
func (m *rueidisMutex) extend()       {} // leases renew themselves
func (m *rueidisMutex) token() string { return "" }
func (m *rueidisMutex) fence() uint64 { return 0 }
