package engine

import (
	"github.com/redlock-go/redlock/internal/waits"
	"github.com/redlock-go/redlock/internal/wire"
)

// Core returns what l shares with the other locks of its Client.
func (l *Locker) Core() *Core { return l.core }

// Contexts returns how many contexts are registered with the lease.
func (s *Lease) Contexts() int { return s.contexts.Len() }

// Scheduled returns how many leases the Client has scheduled. It also stops all renewals.
func (c *Core) Scheduled() int { return len(c.renewals.Stop()) }

// Begin schedules the lease, as an acquisition or a handover does.
func (s *Lease) Begin() { s.tenure.begin() }

// HoldRelease keeps the release of a lease from being queued, when the lease is lost, until the returned function is called.
func (c *Core) HoldRelease() (resume func()) { return c.releases.Hold() }

// GrantInVain has the polls of a wait for key find that grants are over, as those of a process do that did not run meanwhile.
func (c *Core) GrantInVain(key string) {
	claim := c.waits.ClaimFor(key)
	for i := range c.masters {
		poll := waits.Command{Kind: wire.Again, Mark: c.clock(), Life: claim.G}
		claim.Answered(i, poll, wire.Answer{Outcome: wire.Taken, New: true}, true)
	}
	claim.Counted()
}

// IgnoreQueued has goroutines that come to a gate not say so, as if they were stopped just before.
func (c *Core) IgnoreQueued() { c.gates.Queued = nil }

// Recall handles a recall of a lock.
func (c *Core) Recall(key, token string) { c.entrances.recall(key, token) }

// KeepMost sets how many locks the Client keeps at most, and returns how many it was.
func (c *Core) KeepMost(n int) (was int) {
	was, c.kept.Most = c.kept.Most, n
	return was
}

// Entrances returns how many names have an entrance in memory.
func (c *Core) Entrances() int { return len(c.entrances.byKey.All()) }
