package promredlock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/contrib/promredlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// Any bytes can be the name of a lock or of a master. The test's names differ in their bytes and have one label.
func TestNamesThatAreNotUTF8AreLabelsAllTheSame(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		m := promredlock.New(&promredlock.Options{NameLabel: func(name string) string { return name }})
		masters := redlocktest.StartN(t, 2)
		client := masters.Open(&redlock.Options{Trace: m.Trace(), Names: []string{"a\xff", "a\xfe"}})
		m.Watch(client)
		for _, name := range []string{"job\xff", "job\xfe"} {
			client.Locker(name).Lock()
		}
		s, err := client.NewSemaphore("pool\xff", 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want(t, m, "three are held", `
			# HELP redlock_locks_held Leases held or kept. The readers of a Client share one.
			# TYPE redlock_locks_held gauge
			redlock_locks_held{name="job�"} 2
			redlock_locks_held{name="pool�"} 1
		`, "redlock_locks_held")
		if n, err := testutil.GatherAndCount(registry(m), "redlock_master_state"); err != nil || n != int(redlock.MasterUnwritable)+1 {
			t.Errorf("%d states of masters, %v, want those of one name", n, err)
		}
	})
}

// registry returns a registry with the metrics.
func registry(m *promredlock.Metrics) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(m)
	return r
}

func TestTheMetricsFollowTheLocks(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.StartN(t, 3)
		m := promredlock.New(&promredlock.Options{
			NameLabel: func(name string) string { kind, _, _ := strings.Cut(name, ":"); return kind },
			Buckets:   []float64{.5, 5},
		})
		client := masters.Open(&redlock.Options{Trace: m.Trace(), LockOptions: redlock.LockOptions{TTL: 3 * time.Second}})
		m.Watch(client)
		lock := client.Locker("order:17")

		lock.Lock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		waiting := make(chan error, 1)
		go func() {
			waiting <- masters.Open(&redlock.Options{Trace: m.Trace()}).Locker("order:17").LockContext(ctx)
		}()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		want(t, m, "one is held and one waits", `
			# HELP redlock_lock_pending_requests Calls that wait for a lock.
			# TYPE redlock_lock_pending_requests gauge
			redlock_lock_pending_requests{name="order"} 1
			# HELP redlock_locks_held Leases held or kept. The readers of a Client share one.
			# TYPE redlock_locks_held gauge
			redlock_locks_held{name="order"} 1
		`, "redlock_lock_pending_requests", "redlock_locks_held")
		if err := <-waiting; err == nil {
			t.Fatal("two hold the lock")
		}
		time.Sleep(time.Second)
		lock.Unlock()
		lock.Lock()
		for i := range 3 {
			masters.Master(i).Del("order:17")
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		want(t, m, "one was unlocked, and one lost", `
			# HELP redlock_leases_lost_total Leases lost while they were held.
			# TYPE redlock_leases_lost_total counter
			redlock_leases_lost_total{name="order"} 1
			# HELP redlock_lock_pending_requests Calls that wait for a lock.
			# TYPE redlock_lock_pending_requests gauge
			redlock_lock_pending_requests{name="order"} 0
			# HELP redlock_lock_requests_total Calls that lock, by how they ended.
			# TYPE redlock_lock_requests_total counter
			redlock_lock_requests_total{name="order",outcome="acquired"} 2
			redlock_lock_requests_total{name="order",outcome="canceled"} 0
			redlock_lock_requests_total{name="order",outcome="closed"} 0
			redlock_lock_requests_total{name="order",outcome="held"} 0
			redlock_lock_requests_total{name="order",outcome="quarantined"} 0
			redlock_lock_requests_total{name="order",outcome="shared"} 0
			redlock_lock_requests_total{name="order",outcome="timeout"} 1
			redlock_lock_requests_total{name="order",outcome="timeout_unavailable"} 0
			redlock_lock_requests_total{name="order",outcome="unavailable"} 0
			# HELP redlock_locks_held Leases held or kept. The readers of a Client share one.
			# TYPE redlock_locks_held gauge
			redlock_locks_held{name="order"} 0
		`, "redlock_leases_lost_total", "redlock_lock_pending_requests", "redlock_lock_requests_total", "redlock_locks_held")
		for name, n := range map[string]int{
			"redlock_lock_acquire_duration_seconds":  1,
			"redlock_lock_hold_duration_seconds":     1,
			"redlock_lease_renewal_duration_seconds": 1,
		} {
			if got := testutil.CollectAndCount(m, name); got != n {
				t.Errorf("%s has %d series, want %d", name, got, n)
			}
		}
		lock.Unlock()
	})
}

// want compares metrics, which prometheus' own goroutines collect, with the text format.
func want(t *testing.T, m prometheus.Collector, when, text string, names ...string) {
	t.Helper()
	if err := testutil.CollectAndCompare(m, strings.NewReader(text), names...); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}

func TestTheMetricsHaveNoLintProblems(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		m := promredlock.New(nil)
		lock := redlocktest.StartN(t, 3).Open(&redlock.Options{Trace: m.Trace()}).Locker("a")
		lock.Lock()
		lock.Unlock()
		synctest.Wait()
		problems, err := testutil.CollectAndLint(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	})
}

// A lease counts once, however many callers share it.
func TestTheGaugeOfLeasesDoesNotLeak(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		m := promredlock.New(nil)
		client := redlocktest.StartN(t, 3).Open(&redlock.Options{Trace: m.Trace()})
		held := func(when string, n int) {
			t.Helper()
			synctest.Wait()
			want(t, m, when, fmt.Sprintf(`
				# HELP redlock_locks_held Leases held or kept. The readers of a Client share one.
				# TYPE redlock_locks_held gauge
				redlock_locks_held %d
			`, n), "redlock_locks_held")
		}
		held("before the first lock", 0)
		rw := client.RWLocker("a")
		for range 1000 {
			rw.RLock()
			rw.RUnlock()
		}
		held("after the readers, whose lease is kept", 1)
		time.Sleep(time.Minute)
		held("after the lease that was kept", 0)
		var all sync.WaitGroup
		for range 10 { // the lease is handed over
			all.Go(func() {
				lock := client.Locker("a")
				lock.Lock()
				time.Sleep(time.Millisecond)
				lock.Unlock()
			})
		}
		time.Sleep(5 * time.Millisecond)
		held("while one of ten has it", 1)
		all.Wait()
		held("after all", 0)
	})
}

// Calls that enter a kept lock need no lease of their own. A lock that is lost while it is kept was lost by nobody.
func TestAKeptLockIsOneLease(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		m := promredlock.New(nil)
		masters := redlocktest.StartN(t, 3)
		client := locktest.Connected(t, masters, &redlock.Options{Trace: m.Trace(), LockOptions: redlock.LockOptions{Keep: time.Hour}})
		lock := client.Locker("a")
		check := func(when string, acquired, held int) {
			t.Helper()
			synctest.Wait()
			want(t, m, when, fmt.Sprintf(`
				# HELP redlock_leases_acquired_total Leases acquired from the masters.
				# TYPE redlock_leases_acquired_total counter
				redlock_leases_acquired_total %d
				# HELP redlock_leases_lost_total Leases lost while they were held.
				# TYPE redlock_leases_lost_total counter
				redlock_leases_lost_total 0
				# HELP redlock_locks_held Leases held or kept. The readers of a Client share one.
				# TYPE redlock_locks_held gauge
				redlock_locks_held %d
			`, acquired, held), "redlock_leases_acquired_total", "redlock_leases_lost_total", "redlock_locks_held")
		}
		pass := func() {
			for range 1000 {
				lock.Lock()
				lock.Unlock() //nolint:staticcheck // it is the locking that is counted
			}
		}
		pass()
		check("while it is kept", 1, 1)
		for i := range 3 {
			masters.Master(i).Del("a")
		}
		pass() // so that it is renewed
		time.Sleep(5 * time.Second)
		check("after a renewal that finds the key gone", 1, 0)
		pass()
		check("while it is kept again", 2, 1)
		time.Sleep(time.Minute)
		check("after it was not used", 2, 0)
	})
}

// A counter that appears with its first event is invisible to rate and increase.
func TestCountersAreBornAtZero(t *testing.T) {
	for name, c := range map[string]struct {
		opts *promredlock.Options
		lost string
	}{
		"without names": {nil, "redlock_leases_lost_total 0"},
		"with names":    {&promredlock.Options{NameLabel: strings.ToUpper}, `redlock_leases_lost_total{name="A"} 0`},
	} {
		t.Run(name, func(t *testing.T) {
			m := promredlock.New(c.opts)
			trace := m.Trace()
			if c.opts != nil {
				trace.LockStart(t.Context(), redlock.LockStartInfo{Name: "a"})
			}
			want(t, m, name, "# HELP redlock_leases_lost_total Leases lost while they were held.\n"+
				"# TYPE redlock_leases_lost_total counter\n"+c.lost+"\n", "redlock_leases_lost_total")
			if got := testutil.CollectAndCount(m, "redlock_lock_requests_total"); got != 9 {
				t.Errorf("redlock_lock_requests_total has %d series, want one for each of 9 outcomes", got)
			}
		})
	}
}

func TestEachMasterHasAState(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.StartN(t, 3)
		m := promredlock.New(nil)
		for range 2 {
			client := masters.Open(&redlock.Options{Names: []string{"a", "b", "c"}})
			m.Watch(client)
		}
		synctest.Wait()
		masters.Master(1).Stop()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		text := "# HELP redlock_master_state Watched Clients that see the master in this state.\n# TYPE redlock_master_state gauge\n"
		for _, name := range []string{"a", "b", "c"} {
			for _, state := range []string{"connecting", "down", "quarantined", "refused", "unwritable", "up"} {
				n := 0
				if state == "up" && name != "b" || state == "down" && name == "b" {
					n = 2
				}
				text += fmt.Sprintf("redlock_master_state{master=%q,state=%q} %d\n", name, state, n)
			}
		}
		want(t, m, "two Clients watch three masters, one of which is down", text, "redlock_master_state")
	})
}

// names returns the names of the metrics.
func names() (all []string) {
	descs := make(chan *prometheus.Desc, 20)
	promredlock.New(nil).Describe(descs)
	close(descs)
	for d := range descs {
		all = append(all, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1])
	}
	return all
}

// TestTheDashboardAndTheAlertsAskForTheMetrics compares the names of metrics with those that exist.
func TestTheDashboardAndTheAlertsAskForTheMetrics(t *testing.T) {
	for file, least := range map[string]int{"dashboard.json": len(names()), "alerts.yml": 3, "alerts_test.yml": 3} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		asked := make(map[string]bool)
		for _, name := range regexp.MustCompile(`redlock_[a-z_]+`).FindAllString(string(text), -1) {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")
			asked[name] = true
			if !slices.Contains(names(), name) {
				t.Errorf("%s asks for %s, which does not exist", file, name)
			}
		}
		if len(asked) < least {
			t.Errorf("%s asks for %d metrics, want %d", file, len(asked), least)
		}
	}
}

// A dashboard is the part of dashboard.json that is checked.
type dashboard struct {
	Templating struct{ List []struct{ Name string } }
	Panels     []struct {
		Title       string
		FieldConfig struct{ Defaults struct{ Unit string } }
		Targets     []struct{ Expr string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) == 0 {
		t.Fatal("the dashboard has no panels")
	}
	return d
}

func TestEachPanelHasOneUnitAndAsksForTheChosenJob(t *testing.T) {
	d := readDashboard(t)
	if !slices.ContainsFunc(d.Templating.List, func(v struct{ Name string }) bool { return v.Name == "job" }) {
		t.Error("the dashboard has no variable job")
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			unit := "short"
			switch {
			case strings.Contains(target.Expr, "_seconds"):
				unit = "s"
			case strings.Contains(target.Expr, "rate(") && !strings.Contains(target.Expr, "increase("):
				unit = "ops"
			}
			if got := p.FieldConfig.Defaults.Unit; got != unit {
				t.Errorf("the unit of %q is %s, want %s for %s", p.Title, got, unit, target.Expr)
			}
			if !strings.Contains(target.Expr, `job=~"$job"`) {
				t.Errorf("%q asks for all jobs: %s", p.Title, target.Expr)
			}
		}
	}
}

func TestTheMetricsFollowThePermits(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.StartN(t, 3)
		m := promredlock.New(nil)
		client := masters.Open(&redlock.Options{Trace: m.Trace(), LockOptions: redlock.LockOptions{TTL: 3 * time.Second}})
		wantPermits := func(when string, held, wanted int) {
			t.Helper()
			synctest.Wait()
			want(t, m, when, fmt.Sprintf(`
				# HELP redlock_permits_held Permits of semaphores that are held.
				# TYPE redlock_permits_held gauge
				redlock_permits_held %d
				# HELP redlock_permits_wanted Permits of semaphores that calls wait for.
				# TYPE redlock_permits_wanted gauge
				redlock_permits_wanted %d
				# HELP redlock_semaphore_limit The limit with which permits were asked for last.
				# TYPE redlock_semaphore_limit gauge
				redlock_semaphore_limit 4
			`, held, wanted), "redlock_permits_held", "redlock_permits_wanted", "redlock_semaphore_limit")
		}
		s := client.Semaphore("gpus", 4)
		acquire := func(n int) *redlock.Permit {
			p, err := s.AcquireN(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Acquire(ended); err == nil {
			t.Error("Acquire with a context that has ended: no error")
		}
		wantPermits("a first call has failed", 0, 0)
		p, q := acquire(3), acquire(1)
		wantPermits("four are held", 4, 0)
		next := make(chan *redlock.Permit)
		go func() { next <- acquire(3) }()
		time.Sleep(100 * time.Millisecond)
		wantPermits("a call waits for three", 4, 3)
		p.Release()
		p = <-next
		wantPermits("they were passed on", 4, 0)
		for i := range 3 {
			masters.Master(i).Forget()
		}
		<-p.Done()
		<-q.Done()
		wantPermits("all were lost", 0, 0)
		client.Locker("a").Lock()
		wantPermits("a lock is held", 0, 0)
	})
}
