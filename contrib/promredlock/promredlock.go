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
//	redlock_lock_requests_total{outcome}       counter: calls that lock, when they have the lock or give up
//	redlock_lock_pending_requests              gauge: calls that wait for a lock
//	redlock_lock_acquire_duration_seconds      histogram: from a call that locks until it has the lock
//	redlock_leases_acquired_total              counter: leases acquired from the masters
//	redlock_locks_held                         gauge: leases held or kept
//	redlock_lock_hold_duration_seconds         histogram: from an acquisition or a handover until the unlock or the loss
//	redlock_leases_lost_total                  counter
//	redlock_lease_renewal_duration_seconds     histogram: from the first byte until a quorum had renewed
//	redlock_permits_held                       gauge: permits of Semaphores that are held
//	redlock_permits_wanted                     gauge: permits that calls wait for
//	redlock_semaphore_limit                    gauge: the limit with which permits were asked for last
//	redlock_master_state{master,state}         gauge: watched Clients that see the master in this state; see MasterState
//
// The readers of a Client share one lease, which may be kept for a moment after the last of them. So it counts once in
// redlock_locks_held, and is one observation of redlock_lock_hold_duration_seconds. A lock that LockOptions.Keep keeps counts
// in redlock_locks_held, and an unlock after which it is kept is no observation. Calls that got the lock without the masters,
// by handover or since it was shared or kept, are those with the outcome acquired less redlock_leases_acquired_total. Leases that Client.Close ends are
// counted as held for ever: unlock first, or use Client.Shutdown.
//
// The events of a Semaphore count in all metrics, with its name; the lease of several permits counts once where leases are counted. Its three
// gauges appear with the first call. The limit is that of one semaphore if NameLabel tells semaphores apart. How full these are:
//
//	sum by (name) (redlock_permits_held) / max by (name) (redlock_semaphore_limit)
//
// The outcome is acquired, shared, held, quarantined, unavailable, timeout, timeout_unavailable, canceled or closed. Counters begin at 0: without
// NameLabel when New returns, else when the first call with this label begins. So rate and increase see the first event.
// For each master one state has the value 1 and the others 0, if one Client is watched.
//
// Lock names are no labels unless Options.NameLabel says so: each name would be a time series of its own.
//
// The directory has a Grafana dashboard, dashboard.json, and rules for alerts, alerts.yml. To have own functions in
// Options.Trace beside the metrics, use redlock.JoinTraces.
//
// The module path is a placeholder, and no version has been released. A module that imports this package needs two lines,
// with the path of a checkout:
//
//	go mod edit -replace github.com/redlock-go/redlock=/path/to/redlock
//	go mod edit -replace github.com/redlock-go/redlock/contrib/promredlock=/path/to/redlock/contrib/promredlock
package promredlock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redlock-go/redlock"
)

// Options are the settings of New. Nil or zero means defaults.
type Options struct {
	// NameLabel returns the value of the label "name" for the name of a lock. It should return few
	// values, for example the part before the first colon. Bytes that are not UTF-8 become U+FFFD. Nil means
	// that there is no such label.
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
	requests *prometheus.CounterVec
	pending  *prometheus.GaugeVec
	acquire  *prometheus.HistogramVec
	acquired *prometheus.CounterVec
	held     *prometheus.GaugeVec
	hold     *prometheus.HistogramVec
	lost     *prometheus.CounterVec
	renewal  *prometheus.HistogramVec
	permits  *prometheus.GaugeVec
	wanted   *prometheus.GaugeVec
	limit    *prometheus.GaugeVec
	masters  *prometheus.Desc
	children []prometheus.Collector
	born     sync.Map // the values of the label "name" whose series exist

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
	counter := func(metric, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: metric, Help: help, ConstLabels: m.opts.Labels}, append(labels, name...))
	}
	gauge := func(metric, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: metric, Help: help, ConstLabels: m.opts.Labels}, name)
	}
	histogram := func(metric, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metric, Help: help, ConstLabels: m.opts.Labels, Buckets: m.opts.Buckets,
		}, name)
	}
	m.requests = counter("redlock_lock_requests_total", "Calls that lock, by how they ended.", "outcome")
	m.pending = gauge("redlock_lock_pending_requests", "Calls that wait for a lock.")
	m.acquire = histogram("redlock_lock_acquire_duration_seconds", "Time from a call that locks until it has the lock.")
	m.acquired = counter("redlock_leases_acquired_total", "Leases acquired from the masters.")
	m.held = gauge("redlock_locks_held", "Leases held or kept. The readers of a Client share one.")
	m.hold = histogram("redlock_lock_hold_duration_seconds", "Time from an acquisition or a handover until the unlock or the loss.")
	m.lost = counter("redlock_leases_lost_total", "Leases lost while they were held.")
	m.renewal = histogram("redlock_lease_renewal_duration_seconds", "Time until a quorum of masters had renewed a lease.")
	m.permits = gauge("redlock_permits_held", "Permits of semaphores that are held.")
	m.wanted = gauge("redlock_permits_wanted", "Permits of semaphores that calls wait for.")
	m.limit = gauge("redlock_semaphore_limit", "The limit with which permits were asked for last.")
	m.masters = prometheus.NewDesc("redlock_master_state", "Watched Clients that see the master in this state.",
		[]string{"master", "state"}, m.opts.Labels)
	m.children = []prometheus.Collector{m.requests, m.pending, m.acquire, m.acquired, m.held, m.hold, m.lost, m.renewal, m.permits, m.wanted, m.limit}
	if m.opts.NameLabel == nil {
		m.bear("")
	}
	return m
}

// outcomes are the words that LockDoneInfo.Outcome returns.
var outcomes = []string{"acquired", "shared", "held", "quarantined", "unavailable", "timeout", "timeout_unavailable", "canceled", "closed"}

// bear makes the counters and gauges of a name's label, with the value 0, unless they exist.
func (m *Metrics) bear(name string) {
	labels := m.labels(name)
	key := ""
	if len(labels) > 0 {
		key = labels[0]
	}
	if _, done := m.born.LoadOrStore(key, nil); done {
		return
	}
	for _, outcome := range outcomes {
		m.requests.WithLabelValues(m.labels(name, outcome)...)
	}
	m.pending.WithLabelValues(labels...)
	m.acquired.WithLabelValues(labels...)
	m.held.WithLabelValues(labels...)
	m.lost.WithLabelValues(labels...)
}

// Watch adds a Client whose masters are shown. It is for the Clients that have m's Trace. Masters with the same name in
// several Clients are taken to be the same: see redlock.Options.Names.
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
	count := make(map[string]map[redlock.MasterState]int)
	for _, c := range clients {
		for _, master := range c.Masters() {
			name := printable(master.Name)
			if count[name] == nil {
				count[name] = make(map[redlock.MasterState]int)
			}
			count[name][master.State]++
		}
	}
	for name, states := range count {
		for s := redlock.MasterConnecting; s <= redlock.MasterUnwritable; s++ {
			ch <- prometheus.MustNewConstMetric(m.masters, prometheus.GaugeValue, float64(states[s]), name, s.String())
		}
	}
}

// labels returns the values of the labels: those given, and the name's if there is one.
func (m *Metrics) labels(name string, values ...string) []string {
	if m.opts.NameLabel != nil {
		values = append(values, printable(m.opts.NameLabel(name)))
	}
	return values
}

// printable returns a label's value. Any bytes can be the name of a lock or of a master, but a label's value must be UTF-8.
func printable(value string) string { return strings.ToValidUTF8(value, "\ufffd") }

// Trace returns the functions that fill the metrics, for Options.Trace of any number of Clients.
func (m *Metrics) Trace() *redlock.Trace {
	held := func(name string, held time.Duration) {
		m.hold.WithLabelValues(m.labels(name)...).Observe(held.Seconds())
	}
	permits := func(name string, n int) {
		if n != 0 {
			m.permits.WithLabelValues(m.labels(name)...).Add(float64(n))
		}
	}
	return &redlock.Trace{
		LockStart: func(_ context.Context, i redlock.LockStartInfo) {
			m.bear(i.Name)
			m.pending.WithLabelValues(m.labels(i.Name)...).Inc()
			if i.Permits > 0 {
				m.permits.WithLabelValues(m.labels(i.Name)...)
				m.wanted.WithLabelValues(m.labels(i.Name)...).Add(float64(i.Permits))
				m.limit.WithLabelValues(m.labels(i.Name)...).Set(float64(i.Limit))
			}
		},
		LockDone: func(_ context.Context, i redlock.LockDoneInfo) {
			m.pending.WithLabelValues(m.labels(i.Name)...).Dec()
			if i.Permits > 0 {
				m.wanted.WithLabelValues(m.labels(i.Name)...).Sub(float64(i.Permits))
			}
			m.requests.WithLabelValues(m.labels(i.Name, i.Outcome())...).Inc()
			if i.Err == nil {
				m.acquire.WithLabelValues(m.labels(i.Name)...).Observe(i.Waited.Seconds())
			}
		},
		// Leases are counted by their own events, not by those of calls: several calls may share a lease.
		Acquired: func(_ context.Context, i redlock.AcquiredInfo) {
			m.acquired.WithLabelValues(m.labels(i.Name)...).Inc()
			m.held.WithLabelValues(m.labels(i.Name)...).Inc()
			permits(i.Name, i.Permits)
		},
		HandedOver: func(_ context.Context, i redlock.HandedOverInfo) { held(i.Name, i.Held) },
		Released: func(_ context.Context, i redlock.ReleasedInfo) {
			m.held.WithLabelValues(m.labels(i.Name)...).Dec()
			permits(i.Name, -i.Permits)
			if i.Kept {
				return
			}
			held(i.Name, i.Held)
			if errors.Is(i.Err, redlock.ErrLost) { // the keys were gone
				m.lost.WithLabelValues(m.labels(i.Name)...).Inc()
			}
		},
		Lost: func(_ context.Context, i redlock.LostInfo) {
			m.held.WithLabelValues(m.labels(i.Name)...).Dec()
			permits(i.Name, -i.Permits)
			if i.Kept {
				return
			}
			held(i.Name, i.Held)
			m.lost.WithLabelValues(m.labels(i.Name)...).Inc()
		},
		Renewed: func(_ context.Context, i redlock.RenewedInfo) {
			m.renewal.WithLabelValues(m.labels(i.Name)...).Observe(i.Elapsed.Seconds())
		},
	}
}
