package redlock

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// A BackOff is a schedule of delays between the attempts of one wait. It need not be safe for concurrent use.
// The schedules of cenkalti/backoff, v4 and v5, are BackOffs. Their MaxElapsedTime is 15 minutes by default;
// zero means that they never stop.
type BackOff interface {
	// NextBackOff returns the next delay. Zero means no delay. A negative one stops the schedule.
	NextBackOff() time.Duration
}

// The delays between attempts. They are random, as the specification of Redlock requires, so that clients
// that have split a vote do not split the next one, too. The first delays are short because most locks are
// held briefly.
const (
	firstDelay   = 5 * time.Millisecond
	delayFactor  = 1.5
	delayJitter  = 0.5
	longestDelay = 250 * time.Millisecond
	longestDial  = time.Second // between dials of a master that is down
)

// newBackOff returns the default schedule between attempts.
func newBackOff() BackOff { return schedule(longestDelay) }

// schedule returns a random schedule that grows up to longest and never stops.
func schedule(longest time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstDelay),
		backoff.WithMultiplier(delayFactor),
		backoff.WithRandomizationFactor(delayJitter),
		backoff.WithMaxInterval(longest),
		backoff.WithMaxElapsedTime(0),
	)
}

// A retrier returns the delays of one wait.
type retrier struct {
	start   func() BackOff // immutable; makes a schedule
	forever bool           // immutable; continue after the schedule has stopped
	first   BackOff        // says when the wait stops; nil: not started
	anew    bool           // the delays have begun anew
	later   BackOff        // then says the delays; nil: not started since
	longest time.Duration  // the longest delay so far
}

// reset makes the delays begin anew. The wait stops when it would have stopped without reset.
func (r *retrier) reset() { r.anew, r.later = r.first != nil, nil }

// next returns the next delay. It reports false if the first schedule has stopped. If forever is set, it never
// reports false: it returns the longest delay so far, or that of the default schedule if there was none.
func (r *retrier) next() (time.Duration, bool) {
	if r.first == nil {
		r.first = r.begin()
	}
	d := r.first.NextBackOff()
	if d >= 0 && r.anew {
		if r.later == nil {
			r.later = r.begin()
		}
		d = r.later.NextBackOff()
	}
	if d >= 0 {
		r.longest = max(r.longest, d)
		return d, true
	}
	if !r.forever {
		return 0, false
	}
	if r.longest == 0 {
		return longestDelay, true
	}
	return r.longest, true
}

func (r *retrier) begin() BackOff {
	s := r.start()
	if s == nil {
		panic("redlock: Options.NewBackOff returned nil")
	}
	return s
}
