package realtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// leastRights are what `redlock doctor --acl --prefix shop:` prints.
const leastRights = "~shop:* ~redlock:incarnation ~redlock:queue:shop:* ~redlock:waiter:* ~redlock:fence:shop:* ~redlock:readers:shop:* " +
	"~redlock:rqueue:shop:* ~redlock:intent:shop:* &redlock:wake:* +client|id +client|info +client|kill +del +evalsha +exec +exists +get +getrange +info +mget +multi " +
	"+pexpire +pexpireat +ping +pttl +publish +pubsub|numsub +script|exists +script|load +set +subscribe +time +unsubscribe +zadd +zcard +zrandmember +zrange " +
	"+zrangebyscore +zrank +zrem +zremrangebyscore +zrevrange +zscore"

// Processes on real servers, with the least rights, share a value.
func TestAValueIsSharedOnRealServers(t *testing.T) {
	t.Parallel()
	const others = 5
	servers := redisserver.AdoptedTB(t, 3)
	var rules []any
	for _, rule := range strings.Fields(leastRights) {
		rules = append(rules, rule)
	}
	mu := openAs(t, servers, rules...).Locker("shop:page")
	if err := lockRenewed(t.Context(), mu); err != nil {
		t.Fatal(err)
	}
	type result struct {
		value  string
		shared bool
		err    error
	}
	results := make(chan result)
	call := func(c *redlock.Client, f func(context.Context) ([]byte, error)) {
		value, shared, err := c.SingleFlight(t.Context(), "shop:page", f)
		results <- result{string(value), shared, err}
	}
	queued := func(n int) func() bool { // at all servers
		return func() bool {
			for _, s := range servers {
				if got, err := redis.Int(s.Do("ZCARD", "redlock:queue:shop:page")); err != nil || got != n {
					return false
				}
			}
			return true
		}
	}
	f := func(context.Context) ([]byte, error) { return []byte("page"), nil }
	for range others + 1 {
		go call(openAs(t, servers, rules...), f)
	}
	eventually(t, "all wait", queued(others+1))
	mu.Unlock()
	shared := 0
	for range others + 1 {
		r := <-results
		// A lock that is granted may be lost before its first renewal, on a busy machine. The value comes with the error.
		if r.err != nil && !errors.Is(r.err, redlock.ErrLost) || r.value != "page" {
			t.Errorf("SingleFlight = %q, %v", r.value, r.err)
		}
		if r.shared {
			shared++
		}
	}
	// The release of mu may have left the lock open, or a poll may be on its way when f ends. Then some call f themselves.
	if shared == 0 {
		t.Error("no value was shared")
	}
	t.Logf("%d of %d values shared", shared, others)
}
