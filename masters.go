package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/master"
)

// A MasterState is what a master is good for.
type MasterState int

const (
	// MasterConnecting is the state until the first connection stands or fails.
	MasterConnecting MasterState = iota
	// MasterUp is the state of a master whose votes count.
	MasterUp
	// MasterDown is the state of a master that cannot be reached. It is dialled
	// again until it can.
	MasterDown
	// MasterRefused is the state of a master that answers, and must not vote: a
	// replica, a member of a cluster, one whose maxmemory-policy may evict locks,
	// or the same server as another of the list. It is looked at again every
	// second.
	MasterRefused
	// MasterQuarantined is the state of a master that answers, and may have
	// forgotten locks: it has restarted, or lost its memory, or is new to redlock.
	// Its votes do not count before Until: see Options.DisableRestartGuard.
	MasterQuarantined
)

func (s MasterState) String() string {
	switch s {
	case MasterConnecting:
		return "connecting"
	case MasterUp:
		return "up"
	case MasterDown:
		return "down"
	case MasterRefused:
		return "refused"
	case MasterQuarantined:
		return "quarantined"
	}
	return fmt.Sprintf("MasterState(%d)", int(s))
}

// A MasterStatus tells of one master.
type MasterStatus struct {
	Name  string        // see Options.Names
	State MasterState   // what it is good for
	Since time.Time     // since when
	Until time.Time     // when its quarantine ends, if nothing happens; zero otherwise
	Err   error         // why it is down, refused or quarantined; nil otherwise
	RTT   time.Duration // the time from handing over a command to its reply, last seen; 0 before the first

	// WakeErr says why this master wakes nobody of this Client, which then finds
	// out that a lock is free by trying again. It is nil if it does, and with
	// Options.DisableWakeups.
	WakeErr error

	// GuardErr says why this master may restart without our noticing: it does not
	// tell the run_id of its process. Its votes count when its memory is old enough
	// by its own word. It is nil if restarts are noticed, and with
	// Options.DisableRestartGuard.
	GuardErr error
}

// Masters returns the status of each master, in their order.
func (c *Client) Masters() []MasterStatus {
	all := make([]MasterStatus, len(c.masters))
	for i, m := range c.masters {
		all[i] = c.status(i, m.Status())
	}
	return all
}

// masterStates are the public names of the master package's states.
var masterStates = [...]MasterState{
	master.Connecting: MasterConnecting,
	master.Up:         MasterUp,
	master.Down:       MasterDown,
	master.Refused:    MasterRefused,

	master.Quarantined: MasterQuarantined,
}

func (c *Client) status(i int, s master.Status) MasterStatus {
	return MasterStatus{
		Name: c.opts.Names[i], State: masterStates[s.State], Since: s.Since, Until: s.Until, Err: s.Err, RTT: s.RTT,
		WakeErr: s.WakeErr, GuardErr: s.GuardErr,
	}
}

// masterChanged is called by a master's own goroutine.
func (c *Client) masterChanged(i int, before master.State, now master.Status) {
	status := c.status(i, now)
	c.notices.masterChanged(masterStates[before], status)
	if f := c.opts.Trace.MasterChanged; f != nil {
		f(context.Background(), status)
	}
}
