package interop

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/programs"
	"github.com/redlock-go/redlock/internal/redisserver"
	"github.com/redlock-go/redlock/lab/internal/peers"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// pools returns a pool for each master.
func pools(t *testing.T, masters servers.Fleet) peers.Redigo {
	t.Helper()
	all := peers.NewRedigo(masters.Addrs(), 4, 0, peers.Timeouts(time.Second)...)
	t.Cleanup(all.Close)
	return all
}

// redsyncs returns a party that uses redsync.
func redsyncs(t *testing.T, masters servers.Fleet, name string, times int) party {
	t.Helper()
	rs := pools(t, masters).Redsync()
	return party{"redsync", times, func(ctx context.Context, c counter, times int) error {
		for i := range times {
			m := rs.NewMutex(name, redsync.WithTries(math.MaxInt))
			if err := m.LockContext(ctx); err != nil {
				return fmt.Errorf("lock %d: %w", i+1, err)
			}
			if err := c.increment(); err != nil {
				return err
			}
			if ok, err := m.UnlockContext(ctx); !ok {
				return fmt.Errorf("unlock %d: %w", i+1, err)
			}
		}
		return nil
	}}
}

// plain returns a party that speaks the plain algorithm: SET NX PX, and a script that deletes
// the key if it holds the token.
func plain(t *testing.T, masters servers.Fleet, name string, times int) party {
	t.Helper()
	each := pools(t, masters)
	return party{"plain", times, func(ctx context.Context, c counter, times int) error {
		for i := range times {
			token := "plain-" + strconv.FormatUint(rand.Uint64(), 36)
			for !plainAcquire(each, name, token, 10*time.Second) {
				plainRelease(each, name, token)
				if ctx.Err() != nil {
					return fmt.Errorf("lock %d: %w", i+1, ctx.Err())
				}
				time.Sleep(time.Millisecond + rand.N(20*time.Millisecond))
				token = "plain-" + strconv.FormatUint(rand.Uint64(), 36)
			}
			err := c.increment()
			plainRelease(each, name, token)
			if err != nil {
				return err
			}
		}
		return nil
	}}
}

// plainAcquire reports whether a quorum has granted the lock with validity left.
func plainAcquire(masters peers.Redigo, name, token string, ttl time.Duration) bool {
	start, granted := time.Now(), 0
	for _, p := range masters {
		conn := p.Get()
		if reply, _ := redis.String(conn.Do("SET", name, token, "NX", "PX", ttl.Milliseconds())); reply == "OK" {
			granted++
		}
		conn.Close()
	}
	return granted > len(masters)/2 && time.Since(start) < ttl-ttl/100-2*time.Millisecond
}

var plainScript = redis.NewScript(1, `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

func plainRelease(masters peers.Redigo, name, token string) {
	for _, p := range masters {
		conn := p.Get()
		plainScript.Do(conn, name, token)
		conn.Close()
	}
}

// nodes returns a party that is a process with node-redlock on ioredis.
func nodes(t *testing.T, masters servers.Fleet, name string, times int) party {
	t.Helper()
	needNode(t)
	return party{"node-redlock", times, func(ctx context.Context, c counter, times int) error {
		out, err := programs.CommandContext(ctx, t, "node", "counter.mjs", ports(masters), name, c.path, strconv.Itoa(times)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}}
}

// needNode skips the test without Node or the packages of package.json.
func needNode(t testing.TB) {
	t.Helper()
	programs.Need(t, "node")
	if _, err := os.Stat("node_modules/redlock"); err != nil {
		programs.Missing(t, "node")
	}
}

func TestNoUpdateIsLostBesideNodeRedlock(t *testing.T) {
	masters := redisserver.AdoptedTB(t, 5)
	wantNothingLost(t, nodes(t, masters, "shared", 60), ours(t, masters, "shared", 150), ours(t, masters, "shared", 150))
}

func TestNoUpdateIsLostBesideRedsync(t *testing.T) {
	masters := redisserver.AdoptedTB(t, 5)
	wantNothingLost(t, redsyncs(t, masters, "shared", 60), redsyncs(t, masters, "shared", 60), ours(t, masters, "shared", 150), ours(t, masters, "shared", 150))
}

func TestNoUpdateIsLostBesideThePlainAlgorithm(t *testing.T) {
	masters := redisserver.AdoptedTB(t, 5)
	wantNothingLost(t, plain(t, masters, "shared", 100), plain(t, masters, "shared", 100), ours(t, masters, "shared", 150), ours(t, masters, "shared", 150))
}

// The tests above can fail: with two names, updates are lost.
func TestUpdatesAreLostUnderDifferentNames(t *testing.T) {
	masters := redisserver.AdoptedTB(t, 3)
	if got, want := together(t, plain(t, masters, "one", 300), ours(t, masters, "other", 300)); got >= want {
		t.Errorf("the counter is %d, want less than %d: the test cannot see lost updates", got, want)
	}
}
