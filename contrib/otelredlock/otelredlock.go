// Package otelredlock exports metrics and spans of a redlock.Client to OpenTelemetry.
//
//	telemetry, err := otelredlock.New(nil)
//	…
//	client, err := redlock.Open(masters, &redlock.Options{Trace: telemetry.Trace()})
//	…
//	err = telemetry.Watch(client)
//
// Each call that locks is a span "redlock.lock". The metrics, whose names follow those of OpenTelemetry's
// connection pools:
//
//	redlock.lock.requests            counter: calls that lock, when they have the lock or give up; redlock.outcome
//	redlock.lock.pending_requests    up-down counter: calls that wait for a lock
//	redlock.lock.acquire.duration    histogram, s: from a call that locks until it has the lock
//	redlock.lease.acquired           counter: leases acquired from the masters
//	redlock.lock.held                up-down counter: leases held or kept
//	redlock.lock.hold.duration       histogram, s: from an acquisition or a handover until the unlock or the loss
//	redlock.lease.lost               counter
//	redlock.lease.renewal.duration   histogram, s: from the first byte until a quorum had renewed
//	redlock.permit.held              up-down counter: permits of Semaphores that are held
//	redlock.permit.wanted            up-down counter: permits that calls wait for
//	redlock.semaphore.limit          gauge: the limit with which permits were asked for last
//	redlock.master.count             up-down counter: watched Clients that see the master in this state;
//	                                 redlock.master.name, redlock.master.state
//
// The readers of a Client share one lease, which may be kept for a moment after the last of them. So it counts once in
// redlock.lock.held, and is one value of redlock.lock.hold.duration. A lock that LockOptions.Keep keeps counts in
// redlock.lock.held, and an unlock after which it is kept is no value. Calls that got the lock without the masters, by
// handover or since it was shared or kept, are those with the outcome acquired less redlock.lease.acquired. Leases that Client.Close ends are counted as held
// for ever: unlock first, or use Client.Shutdown.
//
// The events of a Semaphore count in all metrics, with its name; the lease of several permits counts once where leases are counted. The limit
// is that of one semaphore if NameAttribute tells semaphores apart.
//
// The outcome is acquired, shared, held, quarantined, unavailable, timeout, timeout_unavailable, canceled or closed. Counters begin at 0: without
// NameAttribute when New returns, else when the first call with this attribute begins. So a rate sees the first event.
// For each master one state has the value 1 and the others 0, if one Client is watched.
//
// Lock names are no attributes unless Options.NameAttribute says so: each name would be a time series of its own. To
// have own functions in Options.Trace beside the metrics, use redlock.JoinTraces.
//
// The module path is a placeholder, and no version has been released. A module that imports this package needs two lines,
// with the path of a checkout:
//
//	go mod edit -replace github.com/redlock-go/redlock=/path/to/redlock
//	go mod edit -replace github.com/redlock-go/redlock/contrib/otelredlock=/path/to/redlock/contrib/otelredlock
package otelredlock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlock-go/redlock"
)

const scope = "github.com/redlock-go/redlock/contrib/otelredlock"

// Options are the settings of New. Nil or zero means defaults.
type Options struct {
	// MeterProvider makes the instruments. Nil means the global one.
	MeterProvider metric.MeterProvider
	// TracerProvider makes the spans. Nil means the global one.
	TracerProvider trace.TracerProvider
	// NameAttribute returns the attribute redlock.lock.name for the name of a lock, on metrics and
	// spans. It should return few values, for example the part before the first colon. Nil means
	// that there is no such attribute. Bytes that are not UTF-8 become U+FFFD.
	NameAttribute func(name string) string
}

// Telemetry has the instruments. It is safe for concurrent use.
type Telemetry struct {
	opts     Options
	meter    metric.Meter
	tracer   trace.Tracer
	requests metric.Int64Counter
	pending  metric.Int64UpDownCounter
	acquire  metric.Float64Histogram
	acquired metric.Int64Counter
	held     metric.Int64UpDownCounter
	hold     metric.Float64Histogram
	lost     metric.Int64Counter
	renewal  metric.Float64Histogram
	permits  metric.Int64UpDownCounter
	wanted   metric.Int64UpDownCounter
	limit    metric.Int64Gauge
	masters  metric.Int64ObservableUpDownCounter
	born     sync.Map // the values of redlock.lock.name whose counters exist
}

// New makes the instruments. Give the Trace to a Client.
func New(opts *Options) (*Telemetry, error) {
	t := &Telemetry{}
	if opts != nil {
		t.opts = *opts
	}
	if t.opts.MeterProvider == nil {
		t.opts.MeterProvider = otel.GetMeterProvider()
	}
	if t.opts.TracerProvider == nil {
		t.opts.TracerProvider = otel.GetTracerProvider()
	}
	t.meter = t.opts.MeterProvider.Meter(scope)
	t.tracer = t.opts.TracerProvider.Tracer(scope)
	var errs []error
	seconds := func(name, description string) metric.Float64Histogram {
		h, err := t.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 100))
		errs = append(errs, err)
		return h
	}
	upDown := func(name, unit, description string) metric.Int64UpDownCounter {
		c, err := t.meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := t.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	t.requests = counter("redlock.lock.requests", "{request}", "Calls that lock, by how they ended.")
	t.pending = upDown("redlock.lock.pending_requests", "{request}", "Calls that wait for a lock.")
	t.acquire = seconds("redlock.lock.acquire.duration", "Time from a call that locks until it has the lock.")
	t.acquired = counter("redlock.lease.acquired", "{lease}", "Leases acquired from the masters.")
	t.held = upDown("redlock.lock.held", "{lease}", "Leases held or kept. The readers of a Client share one.")
	t.hold = seconds("redlock.lock.hold.duration", "Time from an acquisition or a handover until the unlock or the loss.")
	t.lost = counter("redlock.lease.lost", "{lease}", "Leases lost while they were held.")
	t.renewal = seconds("redlock.lease.renewal.duration", "Time until a quorum of masters had renewed a lease.")
	t.permits = upDown("redlock.permit.held", "{permit}", "Permits of semaphores that are held.")
	t.wanted = upDown("redlock.permit.wanted", "{permit}", "Permits of semaphores that calls wait for.")
	var err error
	t.limit, err = t.meter.Int64Gauge("redlock.semaphore.limit", metric.WithUnit("{permit}"),
		metric.WithDescription("The limit with which permits were asked for last."))
	errs = append(errs, err)
	t.masters, err = t.meter.Int64ObservableUpDownCounter("redlock.master.count", metric.WithUnit("{client}"),
		metric.WithDescription("Watched Clients that see the master in this state."))
	if err = errors.Join(append(errs, err)...); err == nil && t.opts.NameAttribute == nil {
		t.bear(context.Background(), "")
	}
	return t, err
}

// outcomes are the words that LockDoneInfo.Outcome returns.
var outcomes = []string{"acquired", "shared", "held", "quarantined", "unavailable", "timeout", "timeout_unavailable", "canceled", "closed"}

// bear makes the counters of a name's attribute, with the value 0, unless they exist.
func (t *Telemetry) bear(ctx context.Context, name string) {
	key := ""
	if t.opts.NameAttribute != nil {
		key = t.opts.NameAttribute(name)
	}
	if _, done := t.born.LoadOrStore(key, nil); done {
		return
	}
	for _, outcome := range outcomes {
		t.requests.Add(ctx, 0, t.attributes(name), metric.WithAttributes(attribute.String("redlock.outcome", outcome)))
	}
	t.pending.Add(ctx, 0, t.attributes(name))
	t.acquired.Add(ctx, 0, t.attributes(name))
	t.held.Add(ctx, 0, t.attributes(name))
	t.lost.Add(ctx, 0, t.attributes(name))
}

// Watch shows the masters of Clients, from now on. Masters with the same name are taken to be the same: see
// redlock.Options.Names. To add several Clients up, give them all at once.
func (t *Telemetry) Watch(clients ...*redlock.Client) error {
	_, err := t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		count := make(map[string]map[redlock.MasterState]int64)
		for _, c := range clients {
			for _, m := range c.Masters() {
				name := printable(m.Name)
				if count[name] == nil {
					count[name] = make(map[redlock.MasterState]int64)
				}
				count[name][m.State]++
			}
		}
		for name, states := range count {
			for s := redlock.MasterConnecting; s <= redlock.MasterUnwritable; s++ {
				o.ObserveInt64(t.masters, states[s], metric.WithAttributes(
					attribute.String("redlock.master.name", name), attribute.String("redlock.master.state", s.String())))
			}
		}
		return nil
	}, t.masters)
	return err
}

// Trace returns the functions that fill the instruments, for Options.Trace of any number of Clients.
func (t *Telemetry) Trace() *redlock.Trace {
	held := func(ctx context.Context, name string, held time.Duration) {
		t.hold.Record(ctx, held.Seconds(), t.attributes(name))
	}
	permits := func(ctx context.Context, name string, n int) {
		if n != 0 {
			t.permits.Add(ctx, int64(n), t.attributes(name))
		}
	}
	return &redlock.Trace{
		LockStart: func(ctx context.Context, i redlock.LockStartInfo) {
			t.bear(ctx, i.Name)
			t.pending.Add(ctx, 1, t.attributes(i.Name))
			if i.Permits > 0 {
				t.permits.Add(ctx, 0, t.attributes(i.Name))
				t.wanted.Add(ctx, int64(i.Permits), t.attributes(i.Name))
				t.limit.Record(ctx, int64(i.Limit), t.attributes(i.Name))
			}
		},
		LockDone: t.lockDone,
		// Leases are counted by their own events, not by those of calls: several calls may share a lease.
		Acquired: func(ctx context.Context, i redlock.AcquiredInfo) {
			t.acquired.Add(ctx, 1, t.attributes(i.Name))
			t.held.Add(ctx, 1, t.attributes(i.Name))
			permits(ctx, i.Name, i.Permits)
		},
		HandedOver: func(ctx context.Context, i redlock.HandedOverInfo) { held(ctx, i.Name, i.Held) },
		Released: func(ctx context.Context, i redlock.ReleasedInfo) {
			t.held.Add(ctx, -1, t.attributes(i.Name))
			permits(ctx, i.Name, -i.Permits)
			if i.Kept {
				return
			}
			held(ctx, i.Name, i.Held)
			if errors.Is(i.Err, redlock.ErrLost) { // the keys were gone
				t.lost.Add(ctx, 1, t.attributes(i.Name))
			}
		},
		Lost: func(ctx context.Context, i redlock.LostInfo) {
			t.held.Add(ctx, -1, t.attributes(i.Name))
			permits(ctx, i.Name, -i.Permits)
			if i.Kept {
				return
			}
			held(ctx, i.Name, i.Held)
			t.lost.Add(ctx, 1, t.attributes(i.Name))
		},
		Renewed: func(ctx context.Context, i redlock.RenewedInfo) {
			t.renewal.Record(ctx, i.Elapsed.Seconds(), t.attributes(i.Name))
		},
	}
}

func (t *Telemetry) lockDone(ctx context.Context, i redlock.LockDoneInfo) {
	outcome := attribute.String("redlock.outcome", i.Outcome())
	t.pending.Add(ctx, -1, t.attributes(i.Name))
	if i.Permits > 0 {
		t.wanted.Add(ctx, int64(-i.Permits), t.attributes(i.Name))
	}
	t.requests.Add(ctx, 1, t.attributes(i.Name), metric.WithAttributes(outcome))
	if i.Err == nil {
		t.acquire.Record(ctx, i.Waited.Seconds(), t.attributes(i.Name))
	}
	now := time.Now()
	_, span := t.tracer.Start(ctx, "redlock.lock", trace.WithTimestamp(now.Add(-i.Waited)), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(outcome, attribute.Int("redlock.attempts", i.Attempts)))
	if t.opts.NameAttribute != nil {
		span.SetAttributes(t.name(i.Name))
	}
	if i.Err != nil {
		span.SetStatus(codes.Error, i.Err.Error())
	}
	span.End(trace.WithTimestamp(now))
}

func (t *Telemetry) name(name string) attribute.KeyValue {
	return attribute.String("redlock.lock.name", printable(t.opts.NameAttribute(name)))
}

// printable returns an attribute's value. Any bytes can be the name of a lock or of a master, but OTLP sends nothing that has a value which is not
// UTF-8.
func printable(value string) string { return strings.ToValidUTF8(value, "\ufffd") }

// attributes returns the attributes that all metrics of a lock have.
func (t *Telemetry) attributes(name string) metric.MeasurementOption {
	if t.opts.NameAttribute == nil {
		return none
	}
	return metric.WithAttributes(t.name(name))
}

var none = metric.WithAttributeSet(*attribute.EmptySet())
