package redlock

import (
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// SetClocks changes the clocks of a Client with these Options: the wall clock is off by wall, and the machine
// has slept for asleep.
func (o *Options) SetClocks(offsets func() (wall, asleep time.Duration)) {
	o.clock = func() clock.Reading {
		now := time.Now()
		wall, asleep := offsets()
		return clock.At(now, now.Add(wall), asleep)
	}
}

// Contexts returns how many contexts are registered with the lease.
func (s *Lease) Contexts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.cancels)
}

// Scheduled returns how many leases the Client has scheduled. It also stops all renewals.
func (c *Client) Scheduled() int { return len(c.renewals.Stop()) }

// Begin schedules the lease, as an acquisition or a handover does.
func (s *Lease) Begin() { s.begin() }

// HoldReleases keeps lost leases from queueing their releases until the returned function is called.
func (c *Client) HoldReleases() (resume func()) {
	c.lastReleases.mu.Lock()
	return c.lastReleases.mu.Unlock
}
