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
	rsredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	rsrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

// redsyncLocks is redsync on any driver.
type redsyncLocks struct {
	rs      *redsync.Redsync
	options []redsync.Option
	fresh   bool          // a new Mutex for each lock
	bound   time.Duration // of a context around Unlock; 0: none, the driver's time-outs do
	closers []func()
}

func openRedsync(s setup, pool func(addr string) (rsredis.Pool, func(), error)) (*redsyncLocks, error) {
	l := &redsyncLocks{options: []redsync.Option{
		redsync.WithExpiry(s.TTL),
		redsync.WithTries(math.MaxInt),
		redsync.WithTimeoutFactor(s.NodeTimeout.Seconds() / s.TTL.Seconds()),
	}}
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

// redigoPools makes redigo pools; most is their limit of connections, 0: none.
func redigoPools(idle, most int, options ...redis.DialOption) func(string) (rsredis.Pool, func(), error) {
	return func(addr string) (rsredis.Pool, func(), error) {
		p := &redis.Pool{
			MaxIdle:     idle,
			MaxActive:   most,
			Wait:        most > 0,
			IdleTimeout: 240 * time.Second,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", addr, options...)
			},
		}
		return rsredigo.NewPool(p), func() { p.Close() }, nil
	}
}

func redigoTimeouts(s setup) []redis.DialOption {
	return []redis.DialOption{
		redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(s.NodeTimeout), redis.DialWriteTimeout(s.NodeTimeout),
	}
}

func openRedsyncRedigo(s setup) (locks, error) {
	return openRedsync(s, redigoPools(poolSize(), poolSize(), redigoTimeouts(s)...))
}

func openRedsyncFailFast(s setup) (locks, error) {
	most := 2 * poolSize()
	if s.Callers == 1 {
		most = 0 // where masters are frozen, its stragglers would take all and have it wait
	}
	l, err := openRedsync(s, redigoPools(2*poolSize(), most, redigoTimeouts(s)...))
	if err != nil {
		return nil, err
	}
	l.options = append(l.options, redsync.WithFailFast(true))
	l.fresh = true
	return l, nil
}

func openRedsyncPlain(s setup) (locks, error) {
	return openRedsync(s, redigoPools(3, 0))
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
	l, err := openRedsync(s, func(addr string) (rsredis.Pool, func(), error) {
		c := goRedisClient(addr, s)
		return rsgoredis.NewPool(c), func() { c.Close() }, nil
	})
	if err != nil {
		return nil, err
	}
	l.bound = s.NodeTimeout
	return l, nil
}

func openRedsyncRueidis(s setup) (locks, error) {
	l, err := openRedsync(s, func(addr string) (rsredis.Pool, func(), error) {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
		if err != nil {
			return nil, nil, err
		}
		return rsrueidis.NewPool(rueidiscompat.NewAdapter(c)), c.Close, nil
	})
	if err != nil {
		return nil, err
	}
	l.bound = s.NodeTimeout
	return l, nil
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
