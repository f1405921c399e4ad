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
//	redlock.lock.acquire.duration    histogram, s: from a call that locks until it has the lock or gives up; redlock.outcome
//	redlock.lock.hold.duration       histogram, s: from the acquisition until the unlock or the loss
//	redlock.lock.pending_requests    up-down counter: calls that wait for a lock
//	redlock.lock.held                up-down counter: leases held
//	redlock.lease.renewal.duration   histogram, s: from the first byte until a quorum had renewed
//	redlock.lease.lost               counter
//	redlock.master.count             up-down counter: masters of the watched Clients; redlock.master.state
//
// Leases that Client.Close ends are counted as held for ever: unlock first, or use Client.Shutdown.
//
// The outcome is acquired, held, quarantined, unavailable, timeout, canceled or closed. Lock names are no
// attributes unless Options.NameAttribute says so: each name would be a time series of its own.
package otelredlock

import (
	"context"
	"errors"
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
	// that there is no such attribute.
	NameAttribute func(name string) string
}

// Telemetry has the instruments. It is safe for concurrent use.
type Telemetry struct {
	opts    Options
	meter   metric.Meter
	tracer  trace.Tracer
	acquire metric.Float64Histogram
	hold    metric.Float64Histogram
	renewal metric.Float64Histogram
	pending metric.Int64UpDownCounter
	held    metric.Int64UpDownCounter
	lost    metric.Int64Counter
	masters metric.Int64ObservableUpDownCounter
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
	t.acquire = seconds("redlock.lock.acquire.duration", "Time from a call that locks until it has the lock or gives up.")
	t.hold = seconds("redlock.lock.hold.duration", "Time from an acquisition until the unlock or the loss.")
	t.renewal = seconds("redlock.lease.renewal.duration", "Time until a quorum of masters had renewed a lease.")
	t.pending = upDown("redlock.lock.pending_requests", "{request}", "Calls that wait for a lock.")
	t.held = upDown("redlock.lock.held", "{lease}", "Leases held.")
	var err error
	t.lost, err = t.meter.Int64Counter("redlock.lease.lost", metric.WithUnit("{lease}"), metric.WithDescription("Leases lost while they were held."))
	errs = append(errs, err)
	t.masters, err = t.meter.Int64ObservableUpDownCounter("redlock.master.count", metric.WithUnit("{master}"), metric.WithDescription("Masters by state."))
	return t, errors.Join(append(errs, err)...)
}

// Watch counts the masters of a Client, from now on. To add several Clients up, give them all at once.
func (t *Telemetry) Watch(clients ...*redlock.Client) error {
	_, err := t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		count := make(map[redlock.MasterState]int64)
		for _, c := range clients {
			for _, m := range c.Masters() {
				count[m.State]++
			}
		}
		for s := redlock.MasterConnecting; s <= redlock.MasterQuarantined; s++ {
			o.ObserveInt64(t.masters, count[s], metric.WithAttributes(attribute.String("redlock.master.state", s.String())))
		}
		return nil
	}, t.masters)
	return err
}

// Trace returns the functions that fill the instruments, for Options.Trace of any number of Clients.
func (t *Telemetry) Trace() *redlock.Trace {
	ended := func(ctx context.Context, name string, held time.Duration) {
		t.held.Add(ctx, -1, t.attributes(name))
		t.hold.Record(ctx, held.Seconds(), t.attributes(name))
	}
	return &redlock.Trace{
		LockStart: func(ctx context.Context, i redlock.LockStartInfo) { t.pending.Add(ctx, 1, t.attributes(i.Name)) },
		LockDone:  t.lockDone,
		HandedOver: func(ctx context.Context, i redlock.HandedOverInfo) {
			ended(ctx, i.Name, i.Held)
		},
		Released: func(ctx context.Context, i redlock.ReleasedInfo) {
			ended(ctx, i.Name, i.Held)
			if errors.Is(i.Err, redlock.ErrLost) { // the keys were gone
				t.lost.Add(ctx, 1, t.attributes(i.Name))
			}
		},
		Lost: func(ctx context.Context, i redlock.LostInfo) {
			ended(ctx, i.Name, i.Held)
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
	t.acquire.Record(ctx, i.Waited.Seconds(), t.attributes(i.Name), metric.WithAttributes(outcome))
	if i.Err == nil {
		t.held.Add(ctx, 1, t.attributes(i.Name))
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
	return attribute.String("redlock.lock.name", t.opts.NameAttribute(name))
}

// attributes returns the attributes that all metrics of a lock have.
func (t *Telemetry) attributes(name string) metric.MeasurementOption {
	if t.opts.NameAttribute == nil {
		return none
	}
	return metric.WithAttributes(t.name(name))
}

var none = metric.WithAttributeSet(*attribute.EmptySet())
