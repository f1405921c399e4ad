package master

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/incarnation"
)

// A master's clock that jumps forward forgets locks before their time. Whoever
// sees it jump tells everybody, by writing the master's record anew. But when a
// client was stopped, as a virtual machine that is moved, all masters' clocks seem
// to it to have jumped by as much: that is to cost nobody but itself. So before a
// client writes, it looks at another master.

// A jump of a master's clock, as a client sees it.
type jump struct {
	by time.Duration
	at time.Time
}

func jumpOf(by time.Duration) jump { return jump{by, time.Now()} }

const (
	// alike is by how little two jumps may differ that are one of our own clock.
	alike = 100 * time.Millisecond
	// together is within what time they are seen then: every master is looked at
	// once a second, unless it is slow, or has to be dialled first.
	together = 30 * time.Second
)

// join has a master take part in what Servers does.
func (s *Servers) join(m *Master) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.masters = append(s.masters, m)
}

// note notes a jump of a master's clock.
func (s *Servers) note(index int, by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jumps[index] = jump{by, time.Now()}
}

// weigh decides whether m's clock has jumped, for all that a look at others says,
// and has its record written anew then. The jump has been noted, and m's votes do
// not count, in any case.
func (s *Servers) weigh(m *Master, j jump) {
	m.mu.Lock()
	known := m.guard.known
	m.mu.Unlock()
	s.mu.Lock()
	masters := append([]*Master(nil), s.masters...)
	s.mu.Unlock()
	t := &trial{servers: s, of: m, known: known, alone: len(masters) == 1, jump: j, missing: len(masters)}
	for _, other := range masters {
		if other == m {
			t.Answered(m.cfg.Index, Answer{Err: errForgot})
		} else if err := other.Ask(Glance, nil, t); err != nil {
			t.Answered(other.cfg.Index, Answer{Err: err})
		}
	}
}

// shared reports whether another master's clock seems to have jumped alike.
func (s *Servers) shared(index int, j jump) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.jumps {
		if i != index && other.like(j) {
			return true
		}
	}
	return false
}

// jumped reports whether a master's clock seems to have jumped alike.
func (s *Servers) jumped(index int, j jump) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	other, ok := s.jumps[index]
	return ok && other.like(j)
}

// like reports whether two jumps may be one of our own clock.
func (j jump) like(other jump) bool {
	return (other.by-j.by).Abs() <= alike && j.at.Sub(other.at).Abs() <= together
}

// A trial waits for a look at other masters. The first whose clock goes as it went
// decides: it is not ours that has stopped. If there is none, and another seems to
// have jumped alike, it is ours. Else nobody can tell, and it is asked again.
type trial struct {
	servers *Servers           // immutable
	of      *Master            // immutable
	known   *incarnation.Known // immutable; the record of the memory whose clock it was
	jump    jump               // immutable

	alone bool // immutable; there is no other master

	mu      sync.Mutex // guards what follows
	missing int
	decided bool
}

// Answered implements Asker. Who has seen the same jump before, and goes on from there,
// is no witness.
func (t *trial) Answered(index int, a Answer) {
	witness := a.Err == nil && !t.servers.jumped(index, t.jump)
	t.mu.Lock()
	t.missing--
	decides := !t.decided && (witness || t.missing == 0)
	t.decided = t.decided || decides
	t.mu.Unlock()
	switch {
	case !decides:
	case witness || t.alone:
		t.of.rewrite(t.known)
	case !t.servers.shared(t.of.cfg.Index, t.jump):
		t.of.weighLater(t.known, t.jump)
	}
}

// weighLater has a jump weighed again at the next heartbeat, if the record that was
// known then still is.
func (m *Master) weighLater(known *incarnation.Known, j jump) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.guard.latest() == known {
		m.guard.unweighed = j
	}
}

// weighNow weighs a jump of which nobody could tell before.
func (m *Master) weighNow() {
	m.mu.Lock()
	j := m.guard.unweighed
	m.guard.unweighed = jump{}
	m.mu.Unlock()
	if j.by != 0 {
		m.cfg.Servers.weigh(m, j)
	}
}

// rewrite has a record written anew, on this connection or the next, if it is still
// the one that is known.
func (m *Master) rewrite(known *incarnation.Known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.guard.latest() != known {
		return
	}
	m.guard.stale = true
	if m.status.State == Quarantined && !m.closed {
		m.lookLocked()
	}
}
