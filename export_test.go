package redlock

import (
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
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

// PollClaims sets how often the claims of a Client with these Options poll.
func (o *Options) PollClaims(every time.Duration) { o.claimPolls = every }

// NewBackOff returns the default schedule between attempts.
func NewBackOff() BackOff { return newBackOff() }

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

// Validity returns how long a lease is valid whose keys live for ttl.
func (o *Options) Validity(ttl time.Duration) time.Duration { return ttl - o.drift(ttl) }

// GrantFor returns for how long a lock may be granted, and how long the votes must last for a claim to win with it.
func (o *Options) GrantFor(ttl, trip time.Duration) (g, wins time.Duration) {
	g = o.grantFor(ttl, trip)
	return g, o.winsAt(g)
}

// GrantInVain has the claim of a wait for key receive grants that are over, as a process does that did not run meanwhile.
func (c *Client) GrantInVain(key string) {
	c.sleepers.mu.Lock()
	claim := c.sleepers.byKey[key].claim
	c.sleepers.mu.Unlock()
	for i := range c.masters {
		c.sleepers.granted(i, master.Grant{Key: key, Token: claim.Token(), Mark: claim.began, Sure: true})
	}
}
