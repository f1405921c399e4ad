package realtest_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/proxy"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// These tests run on real redis-server processes, started on free ports of the
// loopback address. They skip where there is no redis-server.

func TestAMinorityOfRealMastersMayFreezeAndDie(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 5)
	l := openReal(t, servers, nil).Locker("a")
	cycle := func(when string) {
		t.Helper()
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if err := l.LockContext(ctx); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			if err := l.UnlockContext(ctx); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			cancel()
		}
	}
	cycle("healthy")
	servers[0].Freeze()
	servers[3].Freeze()
	cycle("two frozen")
	servers[1].Freeze()
	err := l.TryLockContext(t.Context())
	if locktest.Outcome(err) != "no quorum" {
		t.Errorf("TryLockContext with three frozen = %v, want a QuorumError that is not ErrHeld", err)
	}
	servers[1].Thaw()
	eventually(t, "the third master is back", func() bool {
		err := l.TryLockContext(t.Context())
		if err == nil {
			l.Unlock()
		}
		return err == nil
	})
	servers[0].Thaw()
	servers[3].Thaw()
	servers[1].Kill()
	servers[2].Kill()
	eventually(t, "the thawed ones vote", func() bool { return l.TryLockContext(t.Context()) == nil })
	l.Unlock()
	cycle("two killed")
	servers[1].Restart()
	servers[2].Restart()
	wantEmpty(t, servers)
}

// A SET that was sent to a frozen master takes effect when the master thaws, long after its sender has given up,
// and lasts for an hour. Only the sender can delete it.
func TestASetThatAFrozenMasterAppliesLateIsUndone(t *testing.T) {
	t.Parallel()
	const locks = 100
	servers := redisserver.AdoptedTB(t, 5)
	opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}, DialTimeout: time.Second}
	c := openReal(t, servers, opts)
	for _, thaw := range []struct {
		name string
		wait func() bool
	}{
		{"the connection stands", func() bool { return true }},
		{"the connection was given up", func() bool { return locktest.States(c, redlock.MasterDown) >= 3 }},
	} {
		for i := range 3 {
			servers[i].Freeze()
		}
		var wg sync.WaitGroup
		for i := range locks {
			wg.Go(func() {
				if err := c.Locker("a" + strconv.Itoa(i)).TryLockContext(t.Context()); locktest.Outcome(err) != "no quorum" {
					t.Errorf("TryLockContext = %v, want no quorum", err)
				}
			})
		}
		wg.Wait()
		eventually(t, thaw.name, thaw.wait)
		for i := range 3 {
			servers[i].Thaw()
		}
		eventually(t, "the masters are up", func() bool { return locktest.States(c, redlock.MasterUp) == 5 })
		wantEmpty(t, servers)
	}
}

// TestAnOldConnectionCannotUndoARelease holds back the SETs of a connection until the client has lost that
// connection, made another one, and sent the release there. Then the SETs arrive.
func TestAnOldConnectionCannotUndoARelease(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		args []string
		ttl  time.Duration // after which no key is left
		late bool          // the SET is executed
	}{
		{name: "the server kills it", ttl: time.Hour},
		{name: "the server forbids CLIENT, so the key lives for its TTL", args: []string{"--rename-command", "CLIENT", ""}, ttl: 3 * time.Second, late: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			servers := redisserver.AdoptedTB(t, 1)
			if len(row.args) > 0 {
				servers = redisserver.AdoptedTB(t, 1, row.args...)
			}
			network := proxy.TB(t, servers[0].Addr())
			c, err := redlock.Open([]string{network.Addr()}, &redlock.Options{
				LockOptions: redlock.LockOptions{TTL: row.ttl}, DialTimeout: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			eventually(t, "the server answers", func() bool { return c.Ping(t.Context()) == nil })
			scripts := calls(t, servers[0], "evalsha")
			network.Hold()
			if err := c.Locker("a").TryLockContext(t.Context()); locktest.Outcome(err) != "no quorum" {
				t.Errorf("TryLockContext = %v, want no quorum", err)
			}
			eventually(t, "the release has been sent on another connection", func() bool {
				return calls(t, servers[0], "evalsha") > scripts+2 // the check of the rights, and the inspection
			})
			deletions := calls(t, servers[0], "del") // an undo that finds the token deletes the key; trial writes are SETs, too
			network.Mend()
			if row.late {
				eventually(t, "the late SET is executed", func() bool { return calls(t, servers[0], "del") == deletions+1 })
			} else {
				eventually(t, "the late SET is refused a hearing", func() bool { return connections(t, servers[0]) <= 3 })
				if n := calls(t, servers[0], "del") - deletions; n != 0 {
					t.Errorf("%d SETs came through a connection that was killed, and were undone", n)
				}
			}
			wantEmpty(t, servers)
		})
	}
}
