package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/master"
)

// A MasterState says whether a master's votes count, and if not, why.
type MasterState int

// The states are numbered from MasterConnecting to MasterQuarantined, as in package master.
const (
	// MasterConnecting is the state until the first connection has succeeded or failed.
	MasterConnecting MasterState = iota
	// MasterUp is the state of a master whose votes count.
	MasterUp
	// MasterDown is the state of a master that cannot be reached. The Client dials it again until it can.
	MasterDown
	// MasterRefused is the state of a master that answers but may not vote: a replica, a member of a cluster, a
	// server whose maxmemory-policy may evict locks, or the same server as another master. It is checked again
	// every second.
	MasterRefused
	// MasterQuarantined is the state of a master that answers but may have lost locks: it has restarted, or lost
	// its data, or is new to redlock. Its votes do not count before Until: see Options.DisableRestartGuard.
	MasterQuarantined
)

func (s MasterState) String() string {
	if s < MasterConnecting || s > MasterQuarantined {
		return fmt.Sprintf("MasterState(%d)", int(s))
	}
	return master.State(s).String()
}

// A MasterStatus is the status of one master.
type MasterStatus struct {
	Name  string        // see Options.Names
	State MasterState   // whether its votes count
	Since time.Time     // when the state began
	Until time.Time     // when its quarantine is expected to end; zero otherwise
	Err   error         // why it is down, refused or quarantined (matches ErrQuarantined); nil otherwise
	RTT   time.Duration // the last round trip: from writing a command to its reply; 0 before the first reply

	// WakeErr says why this master cannot wake this Client, which then polls. It is nil if the master can
	// wake it, and with Options.DisableWakeups.
	WakeErr error

	// MemoryErr says that this master grants no locks because its memory is full (maxmemory), whatever its State:
	// it renews and releases those that are held. It is nil if the memory is not full.
	MemoryErr error

	// WakesDropped counts the wake-ups from this master that were ignored: malformed ones, and those about
	// locks that this Client has not waited for lately. If there are more than a few, another program
	// publishes on this Client's channel.
	WakesDropped uint64

	// MaxTTL is the largest Options.MaxTTL that any client of this master has declared. Quarantines last for
	// MaxTTL + 2 s. It is 0 before the first connection, and with Options.DisableRestartGuard.
	MaxTTL time.Duration

	// GuardErr says why a restart of this master may remain unnoticed: the master does not report the run_id
	// of its process. Its votes count once its record is old enough. GuardErr is nil if restarts are noticed,
	// and with Options.DisableRestartGuard.
	GuardErr error
}

// Masters returns the status of each master, in the order of the masters.
func (c *Client) Masters() []MasterStatus {
	all := make([]MasterStatus, len(c.masters))
	for i, m := range c.masters {
		all[i] = c.status(i, m.Status())
	}
	return all
}

func (c *Client) status(i int, s master.Status) MasterStatus {
	return MasterStatus{
		Name: c.opts.Names[i], State: MasterState(s.State), Since: s.Since, Until: s.Until, Err: s.Err, RTT: s.RTT,
		WakeErr: s.WakeErr, MemoryErr: s.MemoryErr, WakesDropped: s.WakesDropped, MaxTTL: s.MaxTTL, GuardErr: s.GuardErr,
	}
}

// masterChanged is called by a goroutine of the master.
func (c *Client) masterChanged(i int, before master.State, now master.Status) {
	c.notices.MasterChanged(i, before, now)
	if f := c.opts.Trace.MasterChanged; f != nil {
		status := c.status(i, now)
		c.events.post(func() { f(context.Background(), status) })
	}
}
