package promredlock_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/contrib/promredlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

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
			# HELP redlock_locks_held Leases held.
			# TYPE redlock_locks_held gauge
			redlock_locks_held{name="order"} 1
			# HELP redlock_masters Masters by state.
			# TYPE redlock_masters gauge
			redlock_masters{state="connecting"} 0
			redlock_masters{state="down"} 0
			redlock_masters{state="quarantined"} 0
			redlock_masters{state="refused"} 0
			redlock_masters{state="up"} 3
		`, "redlock_lock_pending_requests", "redlock_locks_held", "redlock_masters")
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
			# HELP redlock_locks_held Leases held.
			# TYPE redlock_locks_held gauge
			redlock_locks_held{name="order"} 0
		`, "redlock_leases_lost_total", "redlock_lock_pending_requests", "redlock_locks_held")
		for name, n := range map[string]int{
			"redlock_lock_acquire_duration_seconds":  2, // acquired, timeout
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

// TestTheDashboardAsksForTheMetrics compares the names in the Grafana dashboard with those that exist.
func TestTheDashboardAsksForTheMetrics(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Fatal("dashboard.json is not JSON")
	}
	descs := make(chan *prometheus.Desc, 20)
	promredlock.New(nil).Describe(descs)
	close(descs)
	var all strings.Builder
	for d := range descs {
		all.WriteString(d.String())
	}
	asked := make(map[string]bool)
	for _, name := range regexp.MustCompile(`redlock_[a-z_]+`).FindAllString(string(text), -1) {
		name = strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")
		asked[name] = true
		if !strings.Contains(all.String(), `"`+name+`"`) {
			t.Errorf("the dashboard asks for %s, which does not exist", name)
		}
	}
	if len(asked) != 7 {
		t.Errorf("the dashboard asks for %d metrics, want all 7", len(asked))
	}
}
