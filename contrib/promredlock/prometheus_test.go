package promredlock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/contrib/promredlock"
	"github.com/redlock-go/redlock/internal/programs"
	"github.com/redlock-go/redlock/redlocktest"
)

// A scene is a job of the Prometheus of the test: a process with metrics, and what happens to it.
type scene struct {
	name  string
	play  func(s *stage)
	fires []string // the alerts that must fire for the job; all others must not
}

var scenes = []scene{
	{name: "ordinary use", play: func(s *stage) { s.use() }},
	{name: "a lock that others hold for a moment", play: func(s *stage) { s.use(); s.occupy("busy", time.Hour); s.try("busy") }},
	{name: "one master is down", play: func(s *stage) { s.use(); s.masters.Master(0).Stop() }, fires: []string{"RedlockMasterDoesNotVote"}},
	{name: "one master refuses writes", play: func(s *stage) { s.use(); s.masters.Master(0).Fail("MISCONF no disk") },
		fires: []string{"RedlockMasterDoesNotVote"}},
	{name: "a majority is down", play: func(s *stage) { s.masters.Master(0).Stop(); s.masters.Master(1).Stop(); s.try("a"); s.wait("b") },
		fires: []string{"RedlockNoQuorum", "RedlockMasterDoesNotVote", "RedlockCallsFail", "RedlockNoLockGranted", "RedlockCallsPendForLong"}},
	{name: "a lease is lost", play: func(s *stage) { s.use(); s.lose("a") }, fires: []string{"RedlockLeaseLost"}},
	{name: "a call waits for another holder", play: func(s *stage) { s.use(); s.occupy("stuck", time.Hour); s.wait("stuck") },
		fires: []string{"RedlockCallsPendForLong"}},
	{name: "all calls wait for another holder", play: func(s *stage) { s.occupy("stuck", time.Hour); s.wait("stuck") },
		fires: []string{"RedlockCallsPendForLong", "RedlockNoLockGranted"}},
}

// Each alert fires in a Prometheus in the scenes that deserve it, and in no other. The durations of the rules are shortened.
func TestEachAlertFiresInAPrometheusWhereItShould(t *testing.T) {
	programs.Need(t, "prometheus")
	var jobs strings.Builder
	for _, scene := range scenes {
		s := newStage(t)
		scene.play(s)
		fmt.Fprintf(&jobs, "- job_name: %q\n  static_configs: [{targets: [%q]}]\n", scene.name, s.addr)
	}
	url := startPrometheus(t, jobs.String())
	var wrong string
	right := 0
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end) && right < 5; time.Sleep(500 * time.Millisecond) { // right for a while
		if wrong = compareAlerts(url); wrong == "" {
			right++
		} else {
			right = 0
		}
	}
	if right < 5 {
		t.Error(wrong)
	}
}

// compareAlerts says in which scenes other alerts fire than should; "": in none.
func compareAlerts(url string) (wrong string) {
	var reply struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	resp, err := http.Get(url + "/api/v1/alerts")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		return err.Error()
	}
	for _, scene := range scenes {
		var fires []string
		for _, a := range reply.Data.Alerts {
			if a.State == "firing" && a.Labels["job"] == scene.name {
				fires = append(fires, a.Labels["alertname"])
			}
		}
		slices.Sort(fires)
		fires = slices.Compact(fires)
		if want := slices.Sorted(slices.Values(scene.fires)); !slices.Equal(fires, want) {
			wrong += fmt.Sprintf("%s: %q fire, want %q\n", scene.name, fires, want)
		}
	}
	return wrong
}

var (
	forTimes   = regexp.MustCompile(`for: \d+m`)
	rangeTimes = regexp.MustCompile(`\[\d+m\]`)
)

// startPrometheus starts a Prometheus that has the rules of alerts.yml, with short durations, and these jobs. It returns its URL.
func startPrometheus(t *testing.T, jobs string) (url string) {
	rules, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := rangeTimes.ReplaceAllString(forTimes.ReplaceAllString(string(rules), "for: 2s"), "[6s]")
	config := "global: {scrape_interval: 500ms, evaluation_interval: 500ms}\nrule_files: [rules.yml]\nscrape_configs:\n" + jobs
	for name, text := range map[string]string{"rules.yml": text, "prometheus.yml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close() // a port that is free now
	cmd := programs.Command(t, "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr)
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus says:\n%s", log.String())
		}
	})
	url = "http://" + addr
	for range 300 {
		if resp, err := http.Get(url + "/-/ready"); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return url
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("Prometheus is not ready within 30 s")
	return ""
}

// A stage is one process with metrics, and its masters.
type stage struct {
	t       *testing.T
	masters *redlocktest.Masters
	client  *redlock.Client
	addr    string // of its metrics
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, masters: redlocktest.StartN(t, 3)}
	metrics := promredlock.New(&promredlock.Options{NameLabel: func(name string) string { return name }})
	s.client = s.masters.Open(&redlock.Options{Trace: metrics.Trace(), Logger: slog.New(slog.DiscardHandler), NodeTimeout: time.Second})
	metrics.Watch(s.client)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	s.addr = server.Listener.Addr().String()
	return s
}

// each calls f every 100 ms until the test ends.
func (s *stage) each(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			f(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	s.t.Cleanup(func() { cancel(); <-done })
}

// use locks and unlocks again and again.
func (s *stage) use() {
	s.each(func(ctx context.Context) {
		if l := s.client.Locker("used"); l.LockContext(ctx) == nil {
			l.Unlock()
		}
	})
}

// try waits for a lock again and again, up to 1.5 s each time.
func (s *stage) try(name string) {
	s.each(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		defer cancel()
		if l := s.client.Locker(name); l.LockContext(ctx) == nil {
			l.Unlock()
		}
	})
}

// wait waits for a lock until the test ends.
func (s *stage) wait(name string) {
	s.each(func(ctx context.Context) {
		if l := s.client.Locker(name); l.LockContext(ctx) == nil {
			l.Unlock()
		}
	})
}

// lose has leases of a name lost again and again.
func (s *stage) lose(name string) {
	s.each(func(ctx context.Context) {
		l := s.client.Locker(name)
		if l.LockContext(ctx) != nil {
			return
		}
		defer l.Unlock()
		for i := range 3 {
			s.masters.Master(i).Del(name)
		}
		l.Lease().Extend(ctx)
	})
}

// occupy sets the keys of a name as another client would.
func (s *stage) occupy(name string, ttl time.Duration) {
	for i := range 3 {
		s.masters.Master(i).Set(name, "another", ttl)
	}
}
