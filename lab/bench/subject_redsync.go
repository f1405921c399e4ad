package main

import (
	"context"
	"errors"
	"math"
	"runtime"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	rsgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rsrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"

	"github.com/redlock-go/redlock/lab/internal/peers"
)

// redsyncLocks is redsync on any driver.
type redsyncLocks struct {
	rs      *redsync.Redsync
	options []redsync.Option
	fresh   bool          // a new Mutex for each lock
	bound   time.Duration // of a context around Unlock; 0: none, the driver's time-outs do
	closers []func()
}

func newRedsync(s setup) *redsyncLocks {
	return &redsyncLocks{options: []redsync.Option{
		redsync.WithExpiry(s.TTL),
		redsync.WithTries(math.MaxInt),
		redsync.WithTimeoutFactor(s.NodeTimeout.Seconds() / s.TTL.Seconds()),
	}}
}

// openRedsync opens redsync on a driver that has a pool for each master, and bounds Unlock by a context.
func openRedsync(s setup, pool func(addr string) (rsredis.Pool, func(), error)) (locks, error) {
	l := newRedsync(s)
	l.bound = s.NodeTimeout
	var pools []rsredis.Pool
	for _, addr := range s.Addrs {
		p, closer, err := pool(addr)
		if err != nil {
			l.close()
			return nil, err
		}
		pools = append(pools, p)
		l.closers = append(l.closers, closer)
	}
	l.rs = redsync.New(pools...)
	return l, nil
}

// poolSize is how many connections to each master a library with pools may
// have: go-redis' default. With one for each of hundreds of callers, all
// that have pools are slower.
func poolSize() int { return 10 * runtime.GOMAXPROCS(0) }

// onRedigo opens redsync on redigo: see peers.NewRedigo.
func onRedigo(s setup, idle, most int, options ...redis.DialOption) *redsyncLocks {
	l, pools := newRedsync(s), peers.NewRedigo(s.Addrs, idle, most, options...)
	l.rs, l.closers = pools.Redsync(), []func(){pools.Close}
	return l
}

func openRedsyncRedigo(s setup) (locks, error) {
	return onRedigo(s, poolSize(), poolSize(), peers.Timeouts(s.NodeTimeout)...), nil
}

func openRedsyncFailFast(s setup) (locks, error) {
	most := 2 * poolSize()
	if s.Callers == 1 {
		most = 0 // where masters are frozen, its stragglers would take all and have it wait
	}
	l := onRedigo(s, 2*poolSize(), most, peers.Timeouts(s.NodeTimeout)...)
	l.options = append(l.options, redsync.WithFailFast(true))
	l.fresh = true
	return l, nil
}

func openRedsyncPlain(s setup) (locks, error) {
	return onRedigo(s, 3, 0), nil
}

// goRedisClient is the client that redsync and bsm/redislock get.
func goRedisClient(addr string, s setup) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr:                  addr,
		PoolSize:              poolSize(),
		ReadTimeout:           s.NodeTimeout,
		WriteTimeout:          s.NodeTimeout,
		ContextTimeoutEnabled: true,
	})
}

func openRedsyncGoRedis(s setup) (locks, error) {
	return openRedsync(s, func(addr string) (rsredis.Pool, func(), error) {
		c := goRedisClient(addr, s)
		return rsgoredis.NewPool(c), func() { c.Close() }, nil
	})
}

func openRedsyncRueidis(s setup) (locks, error) {
	return openRedsync(s, func(addr string) (rsredis.Pool, func(), error) {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
		if err != nil {
			return nil, nil, err
		}
		return rsrueidis.NewPool(rueidiscompat.NewAdapter(c)), c.Close, nil
	})
}

func (l *redsyncLocks) mutex(name string) mutex {
	m := &redsyncMutex{locks: l, name: name}
	m.current = l.rs.NewMutex(name, l.options...)
	return m
}

func (l *redsyncLocks) close() {
	for _, c := range l.closers {
		c()
	}
}

type redsyncMutex struct {
	locks   *redsyncLocks
	name    string
	current *redsync.Mutex
}

func (m *redsyncMutex) lock(ctx context.Context) error {
	return untilLocked(ctx, func() error {
		if m.locks.fresh {
			m.current = m.locks.rs.NewMutex(m.name, m.locks.options...)
		}
		return m.current.LockContext(ctx)
	})
}

var errNotUnlocked = errors.New("redsync: Unlock returned false")

func (m *redsyncMutex) unlock() error {
	ctx := context.Background()
	if m.locks.bound > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.locks.bound)
		defer cancel()
	}
	ok, err := m.current.UnlockContext(ctx)
	if !ok && err == nil {
		err = errNotUnlocked
	}
	if ok {
		return nil // a failure at a minority is none
	}
	return err
}
