package realtest_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// One client holds a lock for longer than another client's MaxTTL: a TTL of a minute beside the defaults. All
// masters restart without their data.
func TestAClientWithASmallerMaxTTLWaitsForTheLongestLease(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		before bool // the client with the smaller MaxTTL was connected before the restart
	}{{"it was connected before", true}, {"it connects afterwards", false}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			servers := redisserver.AdoptedTB(t, 3)
			long := openReal(t, servers, locktest.Lasting(6*time.Second))
			var short *redlock.Client
			if row.before {
				short = openReal(t, servers, locktest.Lasting(500*time.Millisecond))
			}
			l := long.Locker("a")
			l.Lock()
			for _, s := range servers {
				if err := s.Restart(); err != nil {
					t.Fatal(err)
				}
			}
			if !row.before {
				short = open(t, locktest.Lasting(500*time.Millisecond), addresses(servers)...)
			}
			second := short.Locker("a")
			for l.Lease().Valid() {
				if second.TryLock() && l.Lease().Valid() {
					t.Fatalf("two holders: the first lease is valid for another %v", time.Until(l.Lease().Until()))
				}
				time.Sleep(10 * time.Millisecond)
			}
			eventually(t, "the second client gets the lock after the quarantine", second.TryLock)
		})
	}
}

// Every client learns of a larger MaxTTL at once, before the client that has declared it may be gone.
func TestALargerMaxTTLReachesEveryClient(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	var log, own locktest.Buffer
	opts := locktest.Lasting(5 * time.Second)
	opts.LockOptions.RenewEvery = 100 * time.Millisecond
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	short := openReal(t, servers, opts)
	l := short.Locker("a")
	l.Lock()
	all := func(c *redlock.Client, want time.Duration) func() bool {
		return func() bool {
			for _, m := range c.Masters() {
				if m.MaxTTL != want || m.State != redlock.MasterUp {
					return false
				}
			}
			return true
		}
	}
	eventually(t, "its own MaxTTL is declared", all(short, 5*time.Second))
	opts = locktest.Lasting(time.Hour)
	opts.Logger = slog.New(slog.NewTextHandler(&own, nil))
	long := openReal(t, servers, opts)
	for name, c := range map[string]*redlock.Client{"the other client": short, "the client that declares it": long} {
		eventually(t, name+" knows the larger MaxTTL", all(c, time.Hour))
	}
	long.Close()
	later := openReal(t, servers, locktest.Lasting(2*time.Second))
	eventually(t, "a later client knows it", all(later, time.Hour))
	until := l.Lease().Until()
	eventually(t, "the lease lasts and is renewed", func() bool { return l.Lease().Until().After(until.Add(200 * time.Millisecond)) })
	for _, s := range servers {
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]*redlock.Client{"the other client": short, "a later client": later} {
		eventually(t, name+" quarantines all masters", func() bool { return locktest.States(c, redlock.MasterQuarantined) == 3 })
		for _, m := range c.Masters() {
			if left := time.Until(m.Until); left < 59*time.Minute {
				t.Errorf("%s: %s votes in %v, want an hour and 2s", name, m.Name, left)
			}
		}
	}
	const line = "another client has declared a larger MaxTTL"
	if n := strings.Count(log.String(), line); n != 1 || !strings.Contains(log.String(), "before=5s now=1h0m0s") {
		t.Errorf("the log says so %d times, want once, with both:\n%s", n, log.String())
	}
	if strings.Contains(own.String(), line) {
		t.Errorf("the client with the larger MaxTTL logs:\n%s", own.String())
	}
}
