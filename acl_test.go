package redlock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// openAs returns a Client of real servers that logs in as a user with rules.
func openAs(t *testing.T, servers []*redisserver.Server, rules ...any) *redlock.Client {
	t.Helper()
	var urls []string
	for _, s := range servers {
		if _, err := s.Do("ACL", append([]any{"SETUSER", "shop", "on", ">s3cr3t"}, rules...)...); err != nil {
			t.Fatal(err)
		}
		urls = append(urls, "redis://shop:s3cr3t@"+s.Addr())
	}
	c, err := redlock.Open(urls, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestANameThatIsForbiddenHarmsNoOther(t *testing.T) {
	servers := redisserver.AdoptedTB(t, 3)
	c := openAs(t, servers, "+@all", "~ok*", "~redlock:*", "&*")
	forbidden, permitted := c.Locker("no"), c.Locker("ok")
	for range 3000 {
		err := forbidden.TryLockContext(t.Context())
		var quorum *redlock.QuorumError
		if !errors.As(err, &quorum) || errors.Is(err, redlock.ErrHeld) || !strings.Contains(err.Error(), "NOPERM") {
			t.Fatalf("TryLockContext of a forbidden name = %v, want a QuorumError that says why", err)
		}
	}
	if err := permitted.TryLockContext(t.Context()); err != nil {
		t.Fatalf("TryLockContext of a permitted name = %v", err)
	}
	permitted.Unlock()
	// Nothing is repeated for ever: the servers are asked no more.
	before := infoNumber(t, servers[0], "commandstats", "cmdstat_evalsha:calls=")
	time.Sleep(2500 * time.Millisecond) // two heartbeats
	if after := infoNumber(t, servers[0], "commandstats", "cmdstat_evalsha:calls="); after > before+1 {
		t.Errorf("%d script calls by themselves", after-before)
	}
}

func TestWakeUpsThatAreForbiddenAreToldAndDoNotMatter(t *testing.T) {
	servers := redisserver.AdoptedTB(t, 3)
	for _, row := range []struct {
		name  string
		rules []any
		deaf  bool
	}{
		{"no channels", []any{"+@all", "~*", "resetchannels"}, true},
		{"no SUBSCRIBE", []any{"+@all", "-subscribe", "~*", "&*"}, true},
		{"no PUBLISH", []any{"+@all", "-publish", "~*", "&*"}, false},
		{"no queues", []any{"+@all", "~a", "~redlock:incarnation", "&*"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, s := range servers {
				s.Do("ACL", "DELUSER", "shop")
			}
			a, b := openAs(t, servers, row.rules...), openAs(t, servers, row.rules...)
			holder, waiter := a.Locker("a"), b.Locker("a")
			for range 3 {
				if err := holder.LockContext(t.Context()); err != nil {
					t.Fatal(err)
				}
				in := enter(waiter)
				time.Sleep(50 * time.Millisecond)
				if err := holder.UnlockContext(t.Context()); err != nil {
					t.Errorf("UnlockContext = %v", err)
				}
				select {
				case <-in:
					waiter.Unlock()
				case <-time.After(20 * time.Second):
					t.Fatal("the waiter hangs")
				}
			}
			if row.deaf {
				eventually(t, "Masters tells why nobody is woken", func() bool {
					for _, m := range b.Masters() {
						if m.State != redlock.MasterUp || m.WakeErr == nil || !strings.Contains(m.WakeErr.Error(), "NOPERM") {
							return false
						}
					}
					return true
				})
			}
			eventually(t, "no key is left", func() bool {
				for _, s := range servers {
					if n, err := s.Do("EXISTS", "a"); err != nil || n != int64(0) {
						return false
					}
				}
				return true
			})
		})
	}
}
