package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

type rueidisLocks struct{ rueidislock.Locker }

func openRueidislock(s setup) (locks, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientBuilder: func(option rueidis.ClientOption) (rueidis.Client, error) {
			return newRouter(option, s.Addrs)
		},
		ClientOption:   rueidis.ClientOption{InitAddress: s.Addrs[:1]},
		KeyPrefix:      rueidisPrefix,
		KeyValidity:    s.TTL,
		TryNextAfter:   s.NodeTimeout,
		KeyMajority:    int32(len(s.Addrs)/2 + 1),
		NoLoopTracking: true,
	})
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

const rueidisPrefix = "rueidislock"

// router is a rueidis client of several independent masters, for rueidislock
// alone: it sends the key "prefix:i:name" to master i.
type router struct {
	rueidis.Client // of master 0; its Builder makes the commands
	masters        []rueidis.Client
}

func newRouter(option rueidis.ClientOption, addrs []string) (rueidis.Client, error) {
	r := &router{}
	for _, addr := range addrs {
		option.InitAddress = []string{addr}
		c, err := rueidis.NewClient(option)
		if err != nil {
			r.Close()
			return nil, err
		}
		r.masters = append(r.masters, c)
	}
	r.Client = r.masters[0]
	return r, nil
}

// Do sends a command to the master that its key names. All that rueidislock
// sends are scripts of one key.
func (r *router) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands() // EVALSHA sha 1 key …
	if len(words) < 4 {
		return rueidis.NewErrorResult(fmt.Errorf("router: no key in %q", words))
	}
	i, err := masterOf(words[3])
	if err != nil || i >= len(r.masters) {
		return rueidis.NewErrorResult(fmt.Errorf("router: no master for %q: %w", words[3], err))
	}
	return r.masters[i].Do(ctx, cmd)
}

func (r *router) Close() {
	for _, c := range r.masters {
		c.Close()
	}
}

func masterOf(key string) (int, error) {
	parts := strings.SplitN(key, ":", 3)
	if len(parts) < 3 {
		return 0, errors.New("not a key of rueidislock")
	}
	return strconv.Atoi(parts[1])
}

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

// rueidisKey returns the key of a name on master i.
func rueidisKey(name string, i int) string { return fmt.Sprintf("%s:%d:%s", rueidisPrefix, i, name) }
