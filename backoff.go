package redlock

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// A BackOff is one wait's schedule of delays between attempts. It need not be
// safe for concurrent use. The values of cenkalti/backoff, v4 and v5, are
// BackOffs; their zero MaxElapsedTime means never to stop, their default means
// 15 minutes.
type BackOff interface {
	// NextBackOff returns the next delay; a negative one stops the schedule.
	NextBackOff() time.Duration
}

// The delays between attempts. The specification asks for a random delay, so
// that clients who split a vote do not split the next one too; the first ones
// are short because most locks are.
const (
	firstDelay   = 5 * time.Millisecond
	delayFactor  = 1.5
	delayJitter  = 0.5
	longestDelay = 250 * time.Millisecond
	longestDial  = time.Second // between dials of a master that is down
)

// newBackOff returns the default schedule between attempts.
func newBackOff() BackOff { return schedule(longestDelay) }

// schedule returns a randomised schedule that grows up to longest and never
// stops.
func schedule(longest time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstDelay),
		backoff.WithMultiplier(delayFactor),
		backoff.WithRandomizationFactor(delayJitter),
		backoff.WithMaxInterval(longest),
		backoff.WithMaxElapsedTime(0),
	)
}

// A retrier gives out the delays of one wait.
type retrier struct {
	schedule BackOff
	forever  bool          // ignore the schedule's stop
	longest  time.Duration // so far
}

// next returns the next delay, or false if the schedule has stopped. A wait
// that may not end stays at the longest step it has seen, or, where there was
// none, at the default's.
func (r *retrier) next() (time.Duration, bool) {
	if r.schedule == nil {
		panic("redlock: Options.NewBackOff returned nil")
	}
	d := r.schedule.NextBackOff()
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
