package redlock

import (
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/redlock-go/redlock/internal/waits"
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

// schedules returns Options.NewBackOff as package waits needs it.
func schedules(newBackOff func() BackOff) func() waits.Schedule {
	return func() waits.Schedule {
		s := newBackOff()
		if s == nil {
			panic("redlock: Options.NewBackOff returned nil")
		}
		return s
	}
}
