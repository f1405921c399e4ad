package contract_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/fakeserver"
)

// boundedPool returns a pool as the documentation of New recommends it.
func boundedPool(addr string) *redis.Pool {
	return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", addr, redis.DialContextFunc(
			func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return redlock.BoundReplies(conn), nil
			}))
	}}
}

func TestRepliesThatWouldTakeAllMemoryAreRefused(t *testing.T) {
	for _, row := range []struct{ name, answer string }{
		{"nested arrays", strings.Repeat("*4096\r\n", 1<<11)}, // 128 MiB; of 1 MB of this, 10 GB
		{"deep arrays", strings.Repeat("*1\r\n", 1<<18)},
		{"many strings", "*4096\r\n" + strings.Repeat("$524288\r\n"+strings.Repeat("x", 1<<19)+"\r\n", 64)},
		{"a long line", "+" + strings.Repeat("x", 1<<25)},
	} {
		for _, made := range []string{"Open", "New with BoundReplies"} {
			t.Run(row.name+" to "+made, func(t *testing.T) {
				addr := (&fakeserver.Server{Handle: func(int, []string) string { return row.answer }}).ListenTB(t)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				opts := &redlock.Options{DialTimeout: 10 * time.Second}
				open := func() (*redlock.Client, error) { return redlock.Open([]string{addr}, opts) }
				if made != "Open" {
					open = func() (*redlock.Client, error) { return redlock.New([]*redis.Pool{boundedPool(addr)}, opts) }
				}
				c, err := open()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := c.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "a reply too large to read") {
					t.Errorf("Ping = %.200v, want it to say that a reply is too large", err)
				}
				runtime.ReadMemStats(&after)
				if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 32 {
					t.Errorf("%d MiB were allocated, want a few", mib)
				}
			})
		}
	}
}

// A refusal contains the remaining time of the key that exists.
func TestARefusalWhoseTimeIsOutOfRangeCausesNoBusyLoop(t *testing.T) {
	for _, left := range []string{"-9000000000000000000", "-9223372036854775808", "-9223372036856", "-1", "-2", "-3"} {
		t.Run(left, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				var attempts atomic.Int64
				s := fakeserver.Server{Handle: func(_ int, cmd []string) string {
					time.Sleep(time.Millisecond)
					switch cmd[0] {
					case "SCRIPT":
						return "$3\r\nabc\r\n"
					case "SET":
						attempts.Add(1)
						return "$-1\r\n"
					case "GET":
						return "$-1\r\n"
					case "PEXPIRE", "DEL":
						return ":0\r\n"
					case "EVALSHA":
						if strings.HasPrefix(cmd[5], "again") {
							attempts.Add(1)
							return ":" + left + "\r\n"
						}
						return ":0\r\n"
					case "PING":
						return "+PONG\r\n"
					}
					return "-ERR unknown command\r\n"
				}}
				c, err := redlock.New([]*redis.Pool{s.Pool()}, &redlock.Options{DisableRestartGuard: true, DisableWakeups: true})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if err := c.Locker("a").LockContext(ctx); !errors.Is(err, redlock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("LockContext = %v, want it to be held until the deadline", err)
				}
				most := int64(100) // by its own schedule, with steps of 250 ms
				if left == "-2" || left == "-3" {
					most = 3000 // the master says that the key is free in a moment
				}
				if n := attempts.Load(); n < 20 || n > most {
					t.Errorf("%d attempts in 10 s, want %d at most", n, most)
				}
			})
		})
	}
}
