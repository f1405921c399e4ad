package master

import "time"

// A State says what a master can be used for. Package redlock exports the same numbers.
type State uint8

const (
	// Connecting: the first connection is under way. Next: any other state.
	Connecting State = iota
	// Up: commands are sent. Next: Down or Refused, when the connection ends.
	Up
	// Down: commands fail at once, and releases are owed. Next: Up, Quarantined or Refused.
	Down
	// Refused is like Down, but the server answers and may not vote.
	Refused
	// Quarantined: the server may have lost locks, so its votes do not count. Acquisitions are not sent:
	// their keys would only prevent the heals of a holder. All other commands are sent. Next: Up, when
	// the time is over, or as after Up.
	Quarantined
)

func (s State) String() string {
	return [...]string{"connecting", "up", "down", "refused", "quarantined"}[s]
}

// A Status is a master's state and the reason for it.
type Status struct {
	State State         // what the master can be used for
	Since time.Time     // when the state began
	Until time.Time     // when a quarantine ends
	Err   error         // why it is down, quarantined or refused
	RTT   time.Duration // of the last reply; 0 before the first
	// WakeErr says why this master cannot tell this client of grants; nil if it can, or need not.
	WakeErr error
	// WriteErr says why the server refuses writes, and so grants no locks; nil if it does not, or if that is not known.
	WriteErr error
	// WriteSince is when WriteErr became nil or not nil.
	WriteSince time.Time
	// WakesDropped counts the messages that were ignored: malformed, or not expected.
	WakesDropped uint64
	// MaxTTL is the MaxTTL in the master's record; 0 if it is not known.
	MaxTTL time.Duration
	// GuardErr says why a restart of this master may remain unnoticed; nil if it cannot, or the guard is
	// off.
	GuardErr error
	// ListErr says that other clients of this master have another number of masters; nil if none was found. It is as old as
	// the last answer, also while the master is down.
	ListErr error
}

// Status returns the master's status.
func (m *Master) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

// Connecting reports whether the first connection is still under way.
func (m *Master) Connecting() bool { return m.Status().State == Connecting }

// Up reports whether the votes of the master count.
func (m *Master) Up() bool { return m.roundTrip.up.Load() }

// guarded reports whether the restart guard is on.
func (m *Master) guarded() bool { return !m.cfg.Servers.Client.Off }

// quarantineLocked sets the state of a connected master by what the guard says.
func (m *Master) quarantineLocked() {
	if err := m.guard.Quarantine(); err != nil {
		m.setLocked(Quarantined, err, err.Until)
	} else {
		m.setLocked(Up, nil, time.Time{})
	}
}

// Prolong implements guard.Voter.
func (m *Master) Prolong() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.status.State == Up || m.status.State == Quarantined {
		m.quarantineLocked()
		m.tellLocked()
	}
}

// endQuarantineLocked ends the quarantine if its time is over.
func (m *Master) endQuarantineLocked() {
	if m.status.State == Quarantined && !m.closed {
		m.quarantineLocked()
	}
}

// update calls f, which needs the mutex, and then reports the changes of the status.
func (m *Master) update(f func()) {
	m.mu.Lock()
	f()
	m.tellLocked()
	m.mu.Unlock()
	m.Report()
}

// setLocked sets the state.
func (m *Master) setLocked(s State, err error, until time.Time) {
	if m.status.State != s {
		m.status.State, m.status.Since = s, time.Now()
		m.roundTrip.up.Store(s == Up)
	}
	m.status.Err, m.status.Until = err, until
	if s == Quarantined {
		m.ripe.Reset(time.Until(until))
	} else {
		m.ripe.Stop()
	}
}

// tellLocked notes that the status has changed, if that is worth a call of Changed. The caller then calls Report without the mutex.
func (m *Master) tellLocked() {
	was, now := &m.told, &m.status
	if was.State != now.State || (was.WakeErr == nil) != (now.WakeErr == nil) ||
		(was.WriteErr == nil) != (now.WriteErr == nil) || (was.ListErr == nil) != (now.ListErr == nil) {
		m.told = m.status
		m.news = append(m.news, m.status)
	}
}

// Report reports changes of the status in order, each to one call of Changed at a time. If another
// goroutine is reporting, that one goes on with the new changes, so that Report never waits.
func (m *Master) Report() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reporting {
		return
	}
	m.reporting = true
	for len(m.news) > 0 {
		now := m.news[0]
		m.news = m.news[1:]
		up := now.State == Up && m.reported != Up
		m.reported = now.State
		m.mu.Unlock()
		if up {
			m.cfg.Listener.Up(m.cfg.Index)
		}
		m.cfg.Listener.Changed(m.cfg.Index, now)
		m.mu.Lock()
	}
	m.reporting = false
}
