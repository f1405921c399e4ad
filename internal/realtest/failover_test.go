package realtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/proxy"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// Each address leads to another server at some moment. The connections for commands are ended, as by a failover, and the
// subscriptions to the former servers live on.
func TestSubscriptionsFollowAnAddressToAnotherServer(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 6)
	before, after := servers[:3], servers[3:]
	var urls []string
	var proxies []*proxy.Proxy
	for _, s := range before {
		p := proxy.TB(t, s.Addr())
		proxies, urls = append(proxies, p), append(urls, p.Addr())
	}
	subscriptions := func(servers []*redisserver.Server) (n int) {
		for _, s := range servers {
			channels, err := redis.Strings(s.Do("PUBSUB", "CHANNELS", "redlock:wake:*@*")) // each client's own
			if err != nil {
				t.Fatal(err)
			}
			n += len(channels)
		}
		return n
	}
	moved := open(t, nil, urls...)
	eventually(t, "it has subscribed", func() bool { return subscriptions(before) == 3 })
	for i, p := range proxies {
		p.Aim(after[i].Addr())
		do(t, before[i], "CLIENT", "KILL", "TYPE", "normal")
	}
	eventually(t, "it votes", func() bool { return locktest.States(moved, redlock.MasterUp) == 3 })
	eventually(t, "its subscriptions have followed", func() bool { return subscriptions(before) == 0 && subscriptions(after) == 3 })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	other := openReal(t, after, nil)
	go func() {
		for l := other.Locker("a"); l.LockContext(ctx) == nil; l.Unlock() {
			time.Sleep(time.Millisecond)
		}
	}()
	for l, turn := moved.Locker("a"), 0; turn < 20; turn++ {
		if err := l.LockContext(ctx); err != nil {
			t.Fatalf("turn %d: LockContext = %v", turn, err)
		}
		l.Unlock()
	}
}
