package redlock

import (
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// SetClocks makes a Client with these Options see clocks that are off: the wall clock by wall, and
// a machine that has slept for asleep.
func (o *Options) SetClocks(offsets func() (wall, asleep time.Duration)) {
	o.clock = func() clock.Reading {
		now := time.Now()
		wall, asleep := offsets()
		return clock.At(now, now.Add(wall), asleep)
	}
}

// Contexts returns how many contexts a lease keeps track of.
func (s *Lease) Contexts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.cancels)
}
