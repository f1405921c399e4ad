package master

import (
	"sync/atomic"
	"time"
)

// A roundTrip is an estimate of how long a master takes to answer. Its methods need the Master's mutex.
type roundTrip struct {
	last     time.Duration // the estimate; 0: nothing is known
	measured atomic.Int64  // last in ns while the master is up, and 0 otherwise
	least    time.Duration // an estimate of what the network alone takes; 0: nothing is known
	distance atomic.Int64  // least in ns while the master is up, and 0 otherwise
}

// begin replaces the estimates of an earlier connection, which may have led to another server.
func (r *roundTrip) begin(first time.Duration) {
	r.last = max(first, 1)
	r.least = r.last
}

// observe takes in a measured round trip. It counts for one eighth, so that one slow answer changes little.
// A round waits for four times the estimate, so three answers are enough after the network has become
// slower.
func (r *roundTrip) observe(d time.Duration) {
	r.last = max(r.last+(d-r.last)/8, 1)
	// A slow answer has its cause in a busy server more often than in the network. Therefore the second
	// estimate follows a shorter round trip at once, and grows by little more than an eighth.
	r.least = max(min(d, r.least+r.least/8+time.Microsecond), 1)
	if r.measured.Load() != 0 {
		r.use(true)
	}
}

// use publishes the estimates while the master is up.
func (r *roundTrip) use(up bool) {
	if up {
		r.measured.Store(int64(r.last))
		r.distance.Store(int64(r.least))
	} else {
		r.measured.Store(0)
		r.distance.Store(0)
	}
}

// RoundTrip returns an estimate of the master's round trip. It is 0 unless the master is up.
func (m *Master) RoundTrip() time.Duration { return time.Duration(m.roundTrip.measured.Load()) }

// Distance returns an estimate of the round trip without the time that a busy server or client
// takes: one slow answer changes it little. It is 0 unless the master is up.
func (m *Master) Distance() time.Duration { return time.Duration(m.roundTrip.distance.Load()) }
