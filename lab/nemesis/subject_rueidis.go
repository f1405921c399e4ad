package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

var rueidisLock = &subject{
	name: "rueidislock",
	settings: "KeyMajority 3, hence five keys; NoLoopTracking as its README recommends for Redis 7.0.5 and later; TryNextAfter a twentieth of the TTL " +
		"(its default of 20 ms makes it fail on a busy machine); KeyValidity the TTL. It knows one client only, so its ClientBuilder is given one that sends key i to master i; " +
		"holders rely on the context that it returns",
	open: openRueidisLock,
	key:  func(name string, master int) string { return fmt.Sprintf("%s:%d:%s", rueidisPrefix, master, name) },
}

const rueidisPrefix = "rueidislock"

type rueidisLocks struct{ rueidislock.Locker }

func openRueidisLock(s setup) (locks, error) {
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

// A router is a rueidis client of several independent masters, for rueidislock only. It sends the
// key "prefix:i:name" to master i.
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

// Do sends a command to the master that its key names. All that rueidislock sends
// are scripts of one key.
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
