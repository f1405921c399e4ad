package names

import (
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/model/rounds"
)

// This file defines what may happen at a master next.

func (w *world) masterSteps(s *state, i int, next func(action, state)) {
	m := &s.masters[i]
	for c := range w.roles {
		k := m.lanes[c].queue[0]
		if k == nothing {
			continue
		}
		explore.Do(s, next, action{executes, c, i, k}, func(n *state) { w.execute(n, i, c) })
		if !k.ends() && !w.patient {
			explore.Do(s, next, action{loses, c, i, k}, func(n *state) { n.masters[i].lanes[c].drop() })
		}
	}
	for name := range m.keys {
		if m.keys[name] != free && !m.covered[name] && !w.patient {
			explore.Do(s, next, action{verb: expires, master: i}, func(n *state) { n.masters[i].keys[name] = free })
		}
	}
	w.restart(s, i, next)
	if m.quarantined && m.earlier == 0 {
		explore.Do(s, next, action{verb: votesAgain, master: i}, func(n *state) { n.masters[i].quarantined = false })
	}
}

// execute executes the oldest command of a client, and delivers the vote.
func (w *world) execute(s *state, i, c int) {
	m, cl, names := &s.masters[i], &s.clients[c], w.order(c)
	l := &m.lanes[c]
	k := l.queue[0]
	l.drop()
	counts := !slices.ContainsFunc(l.queue[:], command.ends) && !m.quarantined
	switch k {
	case setFirst:
		m.set(c, names[0], cl.phase == first && counts)
	case setSecond:
		m.set(c, names[1], cl.phase == second && counts)
	case merge:
		w.merge(m, c, cl.phase == merging && (counts || m.quarantined && w.countsQuarantined))
	default:
		w.delete(m, c, k)
	}
}

// set sets a free key. If the command is of the open round, this is a vote.
func (m *master) set(c, name int, open bool) {
	if m.keys[name] != free {
		return
	}
	m.keys[name], m.covered[name] = partOf(c), open
	if open {
		m.lanes[c].vote = true
	}
}

// merge sets all keys, if each is free or the client's own.
func (w *world) merge(m *master, c int, open bool) {
	all, some := true, false
	var may [nNames]bool
	for name := range m.keys {
		may[name] = m.owns(c, name) || m.keys[name] == free && !w.needsParts || w.takesForeign
		all, some = all && may[name], some || may[name]
	}
	if !all && !(some && w.partly) {
		return
	}
	for name := range m.keys {
		if may[name] {
			m.keys[name], m.covered[name] = wholeOf(c), open
		}
	}
	if open {
		m.lanes[c].vote = true
	}
}

// delete executes a command that only deletes.
func (w *world) delete(m *master, c int, k command) {
	names := w.order(c)
	part := names
	switch k {
	case undoFirst:
		part = names[:1]
	case undoSecond:
		part = names[1:]
	case releaseWhole:
		part = nil
	}
	for _, name := range part {
		m.deleteIf(name, partOf(c))
	}
	if k == releaseWhole || k == releaseAll && !w.keepsMerged {
		for _, name := range names {
			m.deleteIf(name, wholeOf(c))
		}
	}
}

func (m *master) deleteIf(name int, t token) {
	if m.keys[name] == t {
		m.keys[name], m.covered[name] = free, false
	}
}

// restart deletes a master's memory.
func (w *world) restart(s *state, i int, next func(action, state)) {
	if s.restarts == 0 {
		return
	}
	n := *s
	n.restarts--
	m := &n.masters[i]
	m.keys, m.covered = [nNames]token{}, [nNames]bool{}
	m.quarantined, m.earlier = true, 0
	for c := range w.roles {
		if w.holds(s, c) > 0 {
			m.earlier |= rounds.Lease(c)
		}
		if p := s.clients[c].phase; p == first || p == second || p == merging {
			m.earlier |= rounds.Undecided(c)
		}
	}
	next(action{verb: forgets, master: i}, n)
}

// settle executes commands that have no effect now and cannot have one later.
func (w *world) settle(s *state) {
	for i := range s.masters {
		m := &s.masters[i]
		for c := range w.roles {
			for l := &m.lanes[c]; l.queue[0].ends(); l.drop() {
				after := *m
				if w.delete(&after, c, l.queue[0]); after.keys != m.keys {
					break
				}
			}
		}
	}
}
