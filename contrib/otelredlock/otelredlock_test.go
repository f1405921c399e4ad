package otelredlock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/contrib/otelredlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// values collects the metrics: sums by name, and counts of histograms, for each set of attributes.
func values(t *testing.T, reader *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	key := func(name string, set attribute.Set) string {
		return name + "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
	}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					got[key(m.Name, p.Attributes)] = p.Value
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					got[key(m.Name, p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					got[key(m.Name, p.Attributes)] = int64(p.Count)
				}
			default:
				t.Errorf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	return got
}

func TestNamesThatAreNotUTF8AreAttributesAllTheSame(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		reader, spans := sdkmetric.NewManualReader(), tracetest.NewSpanRecorder()
		telemetry, err := otelredlock.New(&otelredlock.Options{
			MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
			TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
			NameAttribute:  func(name string) string { return name },
		})
		if err != nil {
			t.Fatal(err)
		}
		masters := redlocktest.StartN(t, 1)
		client := masters.Open(&redlock.Options{Trace: telemetry.Trace(), Names: []string{"a\xff"}})
		if err := telemetry.Watch(client); err != nil {
			t.Fatal(err)
		}
		client.Locker("job\xff").Lock()
		synctest.Wait()
		for name := range values(t, reader) {
			if !utf8.ValidString(name) {
				t.Errorf("the metric %q is not UTF-8", name)
			}
		}
		for _, span := range spans.Ended() {
			for _, a := range span.Attributes() {
				if !utf8.ValidString(a.Value.Emit()) {
					t.Errorf("the attribute %s is %q, which is not UTF-8", a.Key, a.Value.Emit())
				}
			}
		}
	})
}

func TestMetricsAndSpansFollowTheLocks(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		reader, spans := sdkmetric.NewManualReader(), tracetest.NewSpanRecorder()
		telemetry, err := otelredlock.New(&otelredlock.Options{
			MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
			TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
			NameAttribute:  func(string) string { return "order" },
		})
		if err != nil {
			t.Fatal(err)
		}
		masters := redlocktest.StartN(t, 3)
		client := masters.Open(&redlock.Options{Trace: telemetry.Trace(), LockOptions: redlock.LockOptions{TTL: 3 * time.Second}})
		if err := telemetry.Watch(client); err != nil {
			t.Fatal(err)
		}
		want := func(when string, metrics map[string]int64) {
			t.Helper()
			synctest.Wait()
			got := values(t, reader)
			for name, n := range metrics {
				if value, ok := got[name]; !ok || value != n {
					t.Errorf("%s: %s = %d, want %d; all: %v", when, name, got[name], n, got)
				}
			}
		}
		lock := client.Locker("order:17")
		lock.Lock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		waiting := make(chan error, 1)
		go func() {
			waiting <- masters.Open(&redlock.Options{Trace: telemetry.Trace()}).Locker("order:17").LockContext(ctx)
		}()
		time.Sleep(100 * time.Millisecond)
		const name = "redlock.lock.name=order"
		want("one is held and one waits", map[string]int64{
			"redlock.lock.held{" + name + "}":                                              1,
			"redlock.lock.pending_requests{" + name + "}":                                  1,
			"redlock.lock.requests{" + name + ",redlock.outcome=acquired}":                 1,
			"redlock.lock.acquire.duration{" + name + "}":                                  1,
			"redlock.master.count{redlock.master.name=master 1,redlock.master.state=up}":   1,
			"redlock.master.count{redlock.master.name=master 3,redlock.master.state=up}":   1,
			"redlock.master.count{redlock.master.name=master 3,redlock.master.state=down}": 0,
		})
		if err := <-waiting; err == nil {
			t.Fatal("two hold the lock")
		}
		time.Sleep(500 * time.Millisecond) // between the first renewal and the second
		lock.Unlock()
		lock.Lock()
		for i := range 3 {
			masters.Master(i).Del("order:17")
		}
		time.Sleep(5 * time.Second)
		want("one was unlocked, and one lost", map[string]int64{
			"redlock.lock.held{" + name + "}":                             0,
			"redlock.lock.pending_requests{" + name + "}":                 0,
			"redlock.lease.lost{" + name + "}":                            1,
			"redlock.lock.hold.duration{" + name + "}":                    2,
			"redlock.lease.renewal.duration{" + name + "}":                1,
			"redlock.lock.requests{" + name + ",redlock.outcome=timeout}": 1,
			"redlock.lock.acquire.duration{" + name + "}":                 2,
		})
		lock.Unlock()
		ended := spans.Ended()
		if len(ended) != 3 {
			t.Fatalf("%d spans, want one for each call", len(ended))
		}
		if s := ended[1]; s.Name() != "redlock.lock" || s.EndTime().Sub(s.StartTime()) != time.Second {
			t.Errorf("the span of the wait is %s, %v long, want redlock.lock, 1s", s.Name(), s.EndTime().Sub(s.StartTime()))
		}
	})
}

// A lease counts once, however many callers share it.
func TestTheCounterOfLeasesDoesNotLeak(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		telemetry, err := otelredlock.New(&otelredlock.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
		if err != nil {
			t.Fatal(err)
		}
		client := redlocktest.StartN(t, 3).Open(&redlock.Options{Trace: telemetry.Trace()})
		rw := client.RWLocker("a")
		for range 1000 {
			rw.RLock()
			rw.RUnlock()
		}
		synctest.Wait()
		if got := values(t, reader)["redlock.lock.held{}"]; got != 1 {
			t.Errorf("redlock.lock.held = %d after 1000 readers, want 1: the lease is kept", got)
		}
		time.Sleep(time.Minute)
		if got := values(t, reader)["redlock.lock.held{}"]; got != 0 {
			t.Errorf("redlock.lock.held = %d after the lease that was kept, want 0", got)
		}
	})
}

// Calls that enter a kept lock need no lease of their own. A lock that is lost while it is kept was lost by nobody.
func TestAKeptLockIsOneLease(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		telemetry, err := otelredlock.New(&otelredlock.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
		if err != nil {
			t.Fatal(err)
		}
		masters := redlocktest.StartN(t, 3)
		client := locktest.Connected(t, masters, &redlock.Options{Trace: telemetry.Trace(), LockOptions: redlock.LockOptions{Keep: time.Hour}})
		lock := client.Locker("a")
		check := func(when string, want ...int64) {
			t.Helper()
			synctest.Wait()
			all := values(t, reader)
			for i, name := range []string{"redlock.lease.acquired{}", "redlock.lock.held{}", "redlock.lease.lost{}"} {
				if got := all[name]; got != want[i] {
					t.Errorf("%s: %s = %d, want %d", when, name, got, want[i])
				}
			}
		}
		pass := func() {
			for range 1000 {
				lock.Lock()
				lock.Unlock() //nolint:staticcheck // it is the locking that is counted
			}
		}
		pass()
		check("while it is kept", 1, 1, 0)
		for i := range 3 {
			masters.Master(i).Del("a")
		}
		pass() // so that it is renewed
		time.Sleep(5 * time.Second)
		check("after a renewal that finds the key gone", 1, 0, 0)
	})
}

// A counter that appears with its first event is invisible to a rate.
func TestCountersAreBornAtZero(t *testing.T) {
	for name, c := range map[string]struct {
		of        func(string) string
		attribute string
	}{
		"without names": {nil, ""},
		"with names":    {func(string) string { return "order" }, "redlock.lock.name=order"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := sdkmetric.NewManualReader()
			telemetry, err := otelredlock.New(&otelredlock.Options{
				MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), NameAttribute: c.of,
			})
			if err != nil {
				t.Fatal(err)
			}
			if c.of != nil {
				telemetry.Trace().LockStart(t.Context(), redlock.LockStartInfo{Name: "a"})
			}
			got := values(t, reader)
			if n, ok := got["redlock.lease.lost{"+c.attribute+"}"]; !ok || n != 0 {
				t.Errorf("redlock.lease.lost = %d, %v, want 0; all: %v", n, ok, got)
			}
			requests := 0
			for name := range got {
				if strings.HasPrefix(name, "redlock.lock.requests{") {
					requests++
				}
			}
			if requests != 9 {
				t.Errorf("redlock.lock.requests has %d series, want one for each of 9 outcomes", requests)
			}
		})
	}
}

// BenchmarkTrace is what a lock and unlock cost beside the Client's work.
func BenchmarkTrace(b *testing.B) {
	telemetry, err := otelredlock.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	trace := telemetry.Trace()
	b.ReportAllocs()
	for b.Loop() {
		trace.LockStart(b.Context(), redlock.LockStartInfo{Name: "a"})
		trace.LockDone(b.Context(), redlock.LockDoneInfo{Name: "a"})
		trace.Released(b.Context(), redlock.ReleasedInfo{Name: "a"})
	}
}

func TestMetricsFollowThePermits(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		telemetry, err := otelredlock.New(&otelredlock.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
		if err != nil {
			t.Fatal(err)
		}
		s := redlocktest.StartN(t, 3).Open(&redlock.Options{Trace: telemetry.Trace()}).Semaphore("gpus", 4)
		p, err := s.AcquireN(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		waiting := make(chan error)
		go func() {
			_, err := s.AcquireN(ctx, 2)
			waiting <- err
		}()
		check := func(when string, held, wanted int64) {
			t.Helper()
			synctest.Wait()
			got := values(t, reader)
			if h, w, l := got["redlock.permit.held{}"], got["redlock.permit.wanted{}"], got["redlock.semaphore.limit{}"]; h != held || w != wanted || l != 4 {
				t.Errorf("%s: %d held, %d wanted, limit %d; want %d, %d, 4; all: %v", when, h, w, l, held, wanted, got)
			}
		}
		time.Sleep(100 * time.Millisecond)
		check("a call waits for two", 3, 2)
		cancel()
		if err := <-waiting; err == nil {
			t.Error("the call has permits")
		}
		check("the call has given up", 3, 0)
		p.Release()
		time.Sleep(time.Second)
		check("all are free", 0, 0)
	})
}
