package master

import (
	"sync/atomic"
	"time"
)

// A roundTrip is an estimate of how long a master takes to answer. Its methods need the Master's mutex; its fields can
// be read without.
type roundTrip struct {
	last  atomic.Int64 // the estimate, in ns; 0: nothing is known
	least atomic.Int64 // an estimate of what the network alone takes, in ns; 0: nothing is known
	up    atomic.Bool  // the master is up
}

// begin replaces the estimates of an earlier connection, which may have led to another server.
func (r *roundTrip) begin(first time.Duration) {
	r.last.Store(max(int64(first), 1))
	r.least.Store(max(int64(first), 1))
}

// observe takes in a measured round trip. It counts for one eighth, so that one slow answer changes little.
// A round waits for four times the estimate, so three answers are enough after the network has become
// slower.
func (r *roundTrip) observe(d time.Duration) {
	last, least := r.last.Load(), r.least.Load()
	r.last.Store(max(last+(int64(d)-last)/8, 1))
	// A slow answer has its cause in a busy server more often than in the network. Therefore the second
	// estimate follows a shorter round trip at once, and grows by little more than a half. Then 16 answers are
	// enough to notice that a master is no longer at 1 ms, but at 600 ms.
	r.least.Store(max(min(int64(d), least+least/2+int64(time.Microsecond)), 1))
}

// RoundTrip returns an estimate of the master's round trip. It is 0 unless the master is up.
func (m *Master) RoundTrip() time.Duration { return m.roundTrip.whileUp(&m.roundTrip.last) }

// Distance returns an estimate of the round trip without the time that a busy server or client
// takes: one slow answer changes it little. It is 0 unless the master is up.
func (m *Master) Distance() time.Duration { return m.roundTrip.whileUp(&m.roundTrip.least) }

func (r *roundTrip) whileUp(estimate *atomic.Int64) time.Duration {
	if !r.up.Load() {
		return 0
	}
	return time.Duration(estimate.Load())
}
