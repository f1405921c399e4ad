package realtest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

func TestANameThatIsForbiddenHarmsNoOther(t *testing.T) {
	t.Parallel()
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
	if err := permitted.UnlockContext(t.Context()); err != nil { // all its script calls have been answered
		t.Errorf("UnlockContext = %v", err)
	}
	// Nothing is repeated for ever: no further command is sent.
	scripts := func() int { // except for probes, each of which runs PTTL
		return calls(t, servers[0], "evalsha") - calls(t, servers[0], "pttl")
	}
	eventually(t, "no script is called by itself", func() bool { // a server on a busy machine may be behind
		before := scripts()
		time.Sleep(2500 * time.Millisecond) // two heartbeats
		return scripts() <= before+1
	})
}

func TestForbiddenWakeUpsAreReportedAndWaitersPoll(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		rules []any
		deaf  bool
	}{
		{"no channels", []any{"+@all", "~*", "resetchannels"}, true},
		{"no SUBSCRIBE", []any{"+@all", "-subscribe", "~*", "&*"}, true},
		{"no PUBLISH", []any{"+@all", "-publish", "~*", "&*"}, false},
		{"no queues", []any{"+@all", "~a", "~redlock:incarnation", "&*"}, false},
		{"no INFO", []any{"+@all", "-info", "~*", "&*"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			servers := redisserver.AdoptedTB(t, 3)
			a, b := openAs(t, servers, row.rules...), openAs(t, servers, row.rules...)
			holder, waiter := a.Locker("a"), b.Locker("a")
			for range 3 {
				if err := lockRenewed(t.Context(), holder); err != nil {
					t.Fatal(err)
				}
				in := locktest.Enter(waiter)
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
				eventually(t, "Masters tells why nobody is told of grants", func() bool {
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

// Without the check on connecting, such a lock would be acquired, and lost when its renewal or its
// release was refused.
func TestAMasterWhoseUserMayNotRenewOrReleaseNeverVotes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		rules []any
		want  string // "" if the master votes
	}{
		{"PEXPIRE is forbidden", []any{"+@all", "-pexpire", "~*", "&*"}, "may not run PEXPIRE, which"},
		{"DEL and GET are forbidden", []any{"+@all", "-del", "-get", "~*", "&*"}, "may not run GET, DEL, which"},
		{"EVALSHA is forbidden", []any{"+@all", "-evalsha", "~*", "&*"}, "may not run EVALSHA, which"},
		{"the probe is forbidden", []any{"+@all", "-pttl", "~*", "&*"}, "may not run PTTL, which"},
		{"the keys may be written only", []any{"+@all", "%W~*", "~redlock:*", "&*"}, "may not run GET, EVALSHA, which"},
		{"the keys of some locks are allowed", []any{"+@all", "~ok*", "~redlock:*", "&*"}, ""},
		{"everything is allowed", []any{"+@all", "~*", "&*"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := redisserver.AdoptedTB(t, 1)[0]
			if _, err := s.Do("ACL", append([]any{"SETUSER", "shop", "on", ">s3cr3t"}, row.rules...)...); err != nil {
				t.Fatal(err)
			}
			c := open(t, nil, "redis://shop:s3cr3t@"+s.Addr())
			err := c.Locker("ok").TryLockContext(t.Context())
			if row.want == "" {
				if err != nil {
					t.Errorf("TryLockContext = %v, want the lock", err)
				}
				return
			}
			m := c.Masters()[0]
			for _, err := range []error{err, c.Ping(t.Context()), m.Err} {
				if err == nil || errors.Is(err, redlock.ErrHeld) || !strings.Contains(err.Error(), row.want) {
					t.Errorf("%v, want %q", err, row.want)
				}
			}
			if m.State != redlock.MasterRefused {
				t.Errorf("the master is %s, want refused", m.State)
			}
			if n, err := s.Do("DBSIZE"); err != nil || n != int64(1) {
				t.Errorf("the server has %v keys (%v), want the record alone", n, err)
			}
		})
	}
}
