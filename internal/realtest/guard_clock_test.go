package realtest_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/programs"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// These tests set clocks: a master's, by libfaketime, and the client's own.

// A steppable is a server whose wall clock a test sets.
type steppable struct {
	*redisserver.Server
	file string // libfaketime reads the offset there
}

// step sets the clock to be off by an offset such as "+120".
func (s steppable) step(t *testing.T, offset string) {
	t.Helper()
	// The file is replaced by renaming, so that the server never reads half of it.
	if err := os.WriteFile(s.file+".new", []byte(offset+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.file+".new", s.file); err != nil {
		t.Fatal(err)
	}
}

// steppables starts n adopted servers whose clocks can be set. It sets t's
// environment, so t must not be parallel.
func steppables(t *testing.T, n int) (all []steppable, servers []*redisserver.Server) {
	t.Helper()
	t.Setenv("LD_PRELOAD", programs.Faketime(t)+":libc.so.6") // libc first: jemalloc would ask for the time before libfaketime is ready
	t.Setenv("FAKETIME_NO_CACHE", "1")
	t.Setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
	for range n {
		s := steppable{file: filepath.Join(t.TempDir(), "clock")}
		s.step(t, "+0")
		t.Setenv("FAKETIME_TIMESTAMP_FILE", s.file)
		s.Server = redisserver.AdoptedTB(t, 1)[0]
		all, servers = append(all, s), append(servers, s.Server)
	}
	return all, servers
}

func TestAStepOfAMastersClockQuarantinesItForEverybody(t *testing.T) {
	for _, offset := range []string{"+120", "-120"} {
		t.Run(offset+" s", func(t *testing.T) {
			all, servers := steppables(t, 3)
			idle, other := openReal(t, servers, patient()), openReal(t, servers, patient())
			eventually(t, "all are connected", func() bool {
				return locktest.States(idle, redlock.MasterUp) == 3 && locktest.States(other, redlock.MasterUp) == 3
			})
			var before []string
			for _, s := range servers {
				before = append(before, record(t, s))
			}
			all[1].step(t, offset)
			for name, c := range map[string]*redlock.Client{"an idle client": idle, "another": other} {
				eventually(t, name+" sees it", func() bool { return locktest.States(c, redlock.MasterQuarantined) == 1 })
				if m := c.Masters()[1]; m.State != redlock.MasterQuarantined {
					t.Errorf("%s: the master is %s, want it quarantined", name, m.State)
				}
			}
			eventually(t, "the record is written anew", func() bool { return record(t, servers[1]) != before[1] })
			late := openReal(t, servers, patient())
			eventually(t, "a new client is connected", func() bool { return locktest.States(late, redlock.MasterConnecting) == 0 })
			if m := late.Masters()[1]; m.State != redlock.MasterQuarantined {
				t.Errorf("for a new client the master is %s, want it quarantined", m.State)
			}
			for _, c := range []*redlock.Client{idle, other, late} {
				if n := locktest.States(c, redlock.MasterUp); n != 2 {
					t.Errorf("%d masters are up: %v, want the other two", n, c.Masters())
				}
				l := c.Locker("a")
				if err := l.TryLockContext(t.Context()); err != nil {
					t.Errorf("TryLockContext = %v, want the lock from the other two", err)
				} else if err := l.UnlockContext(t.Context()); err != nil {
					t.Errorf("UnlockContext = %v", err)
				}
			}
			for _, i := range []int{0, 2} {
				if got := record(t, servers[i]); got != before[i] {
					t.Errorf("the record of another master is %q, want it to be what it was, %q", got, before[i])
				}
			}
		})
	}
}

func TestAVoteAfterAStepOfTheClockDoesNotCount(t *testing.T) {
	all, servers := steppables(t, 1)
	opts := patient()
	opts.MaxTTL = time.Minute
	opts.LockOptions.TTL = time.Minute
	first, second := openReal(t, servers, opts), openReal(t, servers, opts)
	l := first.Locker("a")
	l.Lock()
	all[0].step(t, "+120")
	wantQuarantined(t, second, "its clock has jumped") // with its first attempt
	if n := do(t, servers[0], "EXISTS", "a"); n != int64(0) {
		t.Error("the key is there: it is not tested that it runs out before its time")
	}
	if err := second.Locker("a").TryLockContext(t.Context()); err == nil || !l.Lease().Valid() {
		t.Errorf("TryLockContext = %v while a lease lasts, which is said to be over: %v", err, l.Lease().Err())
	}
}
