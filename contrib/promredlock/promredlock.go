// Package promredlock exports metrics of a redlock.Client to Prometheus.
//
//	metrics := promredlock.New(nil)
//	client, err := redlock.Open(masters, &redlock.Options{Trace: metrics.Trace()})
//	…
//	metrics.Watch(client)
//	prometheus.MustRegister(metrics)
//
// The metrics, by their Prometheus names:
//
//	redlock_lock_acquire_duration_seconds{outcome}   histogram: from a call that locks until it has the lock or gives up
//	redlock_lock_hold_duration_seconds               histogram: from the acquisition until the unlock or the loss
//	redlock_lock_pending_requests                    gauge: calls that wait for a lock
//	redlock_locks_held                               gauge: leases held
//	redlock_lease_renewal_duration_seconds           histogram: from the first byte until a quorum had renewed
//	redlock_leases_lost_total                        counter
//	redlock_masters{state}                           gauge: masters of the watched Clients
//
// Leases that Client.Close ends are counted as held for ever: unlock first, or use Client.Shutdown.
//
// The outcome is acquired, held, quarantined, unavailable, timeout, canceled or closed. Lock names are no
// labels unless Options.NameLabel says so: each name would be a time series of its own.
package promredlock

import (
	"context"
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redlock-go/redlock"
)

// Options are the settings of New. Nil or zero means defaults.
type Options struct {
	// NameLabel returns the value of the label "name" for the name of a lock. It should return few
	// values, for example the part before the first colon. Nil means that there is no such label.
	NameLabel func(name string) string
	// Buckets are the upper bounds of all histograms, in seconds. Nil means 0.1 ms to 100 s, in steps
	// of a factor of about 3.
	Buckets []float64
	// Labels are added to each metric, to tell several Clients apart.
	Labels prometheus.Labels
}

// Metrics is a prometheus.Collector. It is safe for concurrent use.
type Metrics struct {
	opts     Options
	acquire  *prometheus.HistogramVec
	hold     *prometheus.HistogramVec
	renewal  *prometheus.HistogramVec
	pending  *prometheus.GaugeVec
	held     *prometheus.GaugeVec
	lost     *prometheus.CounterVec
	masters  *prometheus.Desc
	children []prometheus.Collector

	mu      sync.Mutex
	clients []*redlock.Client
}

var _ prometheus.Collector = (*Metrics)(nil)

// New returns metrics without values. Give their Trace to a Client, and register them.
func New(opts *Options) *Metrics {
	m := &Metrics{}
	if opts != nil {
		m.opts = *opts
	}
	if m.opts.Buckets == nil {
		m.opts.Buckets = []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 100}
	}
	var name []string
	if m.opts.NameLabel != nil {
		name = []string{"name"}
	}
	histogram := func(metric, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metric, Help: help, ConstLabels: m.opts.Labels, Buckets: m.opts.Buckets,
		}, append(labels, name...))
	}
	gauge := func(metric, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: metric, Help: help, ConstLabels: m.opts.Labels}, name)
	}
	m.acquire = histogram("redlock_lock_acquire_duration_seconds", "Time from a call that locks until it has the lock or gives up.", "outcome")
	m.hold = histogram("redlock_lock_hold_duration_seconds", "Time from an acquisition until the unlock or the loss.")
	m.renewal = histogram("redlock_lease_renewal_duration_seconds", "Time until a quorum of masters had renewed a lease.")
	m.pending = gauge("redlock_lock_pending_requests", "Calls that wait for a lock.")
	m.held = gauge("redlock_locks_held", "Leases held.")
	m.lost = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "redlock_leases_lost_total", Help: "Leases lost while they were held.", ConstLabels: m.opts.Labels,
	}, name)
	m.masters = prometheus.NewDesc("redlock_masters", "Masters by state.", []string{"state"}, m.opts.Labels)
	m.children = []prometheus.Collector{m.acquire, m.hold, m.renewal, m.pending, m.held, m.lost}
	return m
}

// Watch adds a Client whose masters are counted. It is for the Clients that have m's Trace.
func (m *Metrics) Watch(c *redlock.Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clients = append(m.clients, c)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.children {
		c.Describe(ch)
	}
	ch <- m.masters
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.children {
		c.Collect(ch)
	}
	m.mu.Lock()
	clients := m.clients
	m.mu.Unlock()
	count := make(map[redlock.MasterState]int)
	for _, c := range clients {
		for _, master := range c.Masters() {
			count[master.State]++
		}
	}
	for s := redlock.MasterConnecting; s <= redlock.MasterQuarantined; s++ {
		ch <- prometheus.MustNewConstMetric(m.masters, prometheus.GaugeValue, float64(count[s]), s.String())
	}
}

// labels returns the values of the labels: those given, and the name's if there is one.
func (m *Metrics) labels(name string, values ...string) []string {
	if m.opts.NameLabel != nil {
		values = append(values, m.opts.NameLabel(name))
	}
	return values
}

// Trace returns the functions that fill the metrics, for Options.Trace of any number of Clients.
func (m *Metrics) Trace() *redlock.Trace {
	ended := func(name string, held float64) {
		m.held.WithLabelValues(m.labels(name)...).Dec()
		m.hold.WithLabelValues(m.labels(name)...).Observe(held)
	}
	return &redlock.Trace{
		LockStart: func(_ context.Context, i redlock.LockStartInfo) {
			m.pending.WithLabelValues(m.labels(i.Name)...).Inc()
		},
		LockDone: func(_ context.Context, i redlock.LockDoneInfo) {
			m.pending.WithLabelValues(m.labels(i.Name)...).Dec()
			m.acquire.WithLabelValues(m.labels(i.Name, i.Outcome())...).Observe(i.Waited.Seconds())
			if i.Err == nil {
				m.held.WithLabelValues(m.labels(i.Name)...).Inc()
			}
		},
		HandedOver: func(_ context.Context, i redlock.HandedOverInfo) { ended(i.Name, i.Held.Seconds()) },
		Released: func(_ context.Context, i redlock.ReleasedInfo) {
			ended(i.Name, i.Held.Seconds())
			if errors.Is(i.Err, redlock.ErrLost) { // the keys were gone
				m.lost.WithLabelValues(m.labels(i.Name)...).Inc()
			}
		},
		Lost: func(_ context.Context, i redlock.LostInfo) {
			ended(i.Name, i.Held.Seconds())
			m.lost.WithLabelValues(m.labels(i.Name)...).Inc()
		},
		Renewed: func(_ context.Context, i redlock.RenewedInfo) {
			m.renewal.WithLabelValues(m.labels(i.Name)...).Observe(i.Elapsed.Seconds())
		},
	}
}
