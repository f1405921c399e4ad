package model

import "github.com/redlock-go/redlock/internal/model/rounds"

// This file defines the faults of a client.

// sleep stops a holder for longer than its leases last, and none of its clocks shows it. Its lease and its
// open round have ended, and it continues.
func (w *world) sleep(s *state, c int, next func(action, state)) {
	cl := s.clients[c]
	open := cl.phase == renewing
	if !cl.phase.holds() || cl.over && cl.openOver == open || open && !w.oneByOne {
		return
	}
	n := *s
	n.clients[c].over, n.clients[c].openOver = true, open
	for i := range n.masters {
		m := &n.masters[i]
		m.key.End(c, rounds.ByRound)
		if m.key.Is(c) && !w.oneByOne {
			m.key = rounds.Key{}
		}
		m.earlier &^= rounds.Lease(c) | rounds.Undecided(c)
	}
	next(action{verb: sleeps, client: c}, n)
}

// outlive ends the validity of a lease while its renewal is undecided. The client continues that renewal.
func (w *world) outlive(s *state, c int, next func(action, state)) {
	if s.clients[c].phase != renewing || s.clients[c].over {
		return
	}
	n := *s
	n.clients[c].over = true
	for i := range n.masters {
		m := &n.masters[i]
		m.key.End(c, rounds.ByLease)
		m.earlier &^= rounds.Lease(c)
	}
	next(action{verb: outlives, client: c}, n)
}

// crash ends a client before it sends its releases. Its keys then belong to no client.
func (w *world) crash(s *state, c int, next func(action, state)) {
	n := *s
	n.close(c)
	for i := range n.masters {
		m := &n.masters[i]
		m.lanes[c].queue = [maxRoom]command{}
		if m.key.Is(c) {
			m.key.Owner = rounds.Orphan
		}
	}
	next(action{verb: dies, client: c}, n)
}
