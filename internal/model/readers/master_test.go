package readers

// This file defines what may happen at a master next.

func (w *world) masterSteps(s *state, i int, next func(action, state)) {
	m := &s.masters[i]
	for c := range w.roles {
		l := &m.lanes[c]
		if l.queue[0] != nothing {
			n := *s
			n.masters[i].lanes[c].drop(0)
			a := w.action(executes, c, i)
			a.command = l.queue[0]
			if w.reads(c) {
				w.executeReader(&n, i, c, a.command)
				next(a, n)
			} else {
				w.executeWriter(&n, i, c, a, next)
			}
			if l.queue[0] != release { // a release is owed until it is executed
				n := *s
				n.masters[i].lanes[c].drop(0)
				a.verb = loses
				next(a, n)
			}
		}
		if m.members[c] == loose {
			n := *s
			n.masters[i].members[c] = passed
			next(w.action(passes, c, i), n)
		}
	}
	w.expire(s, i, next)
	w.restart(s, i, next)
	if m.quarantined && m.earlier == 0 {
		n := *s
		n.masters[i].quarantined = false
		next(w.action(votesAgain, 0, i), n)
	}
}

// expire ends a key, and the members of readers that have died.
func (w *world) expire(s *state, i int, next func(action, state)) {
	m := &s.masters[i]
	if m.orphan == loose {
		n := *s
		n.masters[i].orphan = absent
		next(w.action(passes, mClients, i), n)
	}
	goes := m.key != free && m.key != marker && m.cover == loose
	if m.key == marker {
		goes = !m.anyStands() || w.lastMarks && !m.members[m.last].stands()
	}
	if goes {
		n := *s
		n.masters[i].key, n.masters[i].cover = free, absent
		next(w.action(expires, 0, i), n)
	}
}

func (w *world) executeWriter(s *state, i, c int, a action, next func(action, state)) {
	n := *s
	m := &n.masters[i]
	mine := m.key == ownerOf(c)
	switch a.command {
	case set:
		if m.key == free {
			m.key, m.cover = ownerOf(c), loose
			if n.clients[c].phase == acquiring && m.lanes[c].current() {
				m.cover = byRound
				w.vote(&n, i, c)
			}
		}
	case extend:
		if mine {
			m.cover = byRound
			if n.clients[c].openOver {
				m.cover = loose
			}
			w.vote(&n, i, c)
		}
	case heal:
		if m.key == free {
			m.key, m.cover = ownerOf(c), loose
		}
	case release:
		if mine {
			m.key, m.cover = free, absent
			if w.turns {
				turn := n
				turn.masters[i].empty()
				turn.masters[i].key = marker
				next(a, turn)
			}
		}
	}
	next(a, n)
}

// empty empties the set of readers.
func (m *master) empty() { m.members, m.orphan = [mClients]cover{}, absent }

// join adds a reader to the set where no writer's key stands, and reports whether it did.
func (w *world) join(m *master, c int, as cover) bool {
	switch m.key {
	case free:
		if !w.keepsSet {
			m.empty()
		}
	case marker:
		for r := range m.members {
			if m.members[r] == passed && !w.passedCounts {
				m.members[r] = absent
			}
		}
	default:
		return false
	}
	w.mark(m, c)
	m.members[c] = as
	return true
}

// mark sets the marker. It lives as long as the longest member, except in worlds with lastMarks.
func (w *world) mark(m *master, c int) {
	m.key, m.cover = marker, absent
	if w.lastMarks {
		m.last = uint8(c)
	}
}

func (w *world) executeReader(s *state, i, c int, k command) {
	m := &s.masters[i]
	switch k {
	case set:
		current := s.clients[c].phase == acquiring && m.lanes[c].current()
		as := loose
		if current {
			as = byRound
		}
		if w.join(m, c, as) && current {
			w.vote(s, i, c)
		}
	case extend:
		w.extendReader(s, i, c)
	case heal:
		if !m.members[c].stands() || m.key != marker {
			w.join(m, c, loose)
		}
	case release:
		had := m.members[c] != absent
		m.members[c] = absent
		if had && m.key == marker && (!m.anyStands() || w.releaseFrees) {
			m.key = free
		}
	}
}

func (w *world) extendReader(s *state, i, c int) {
	m := &s.masters[i]
	as := byRound
	if s.clients[c].openOver {
		as = loose
	}
	stands := m.members[c].stands() || w.passedCounts && m.members[c] == passed
	switch {
	case m.key == marker && stands:
	case m.key == free && w.renewalMarks && (stands || w.renewalJoins):
	case m.key != marker && stands && w.anyKey:
		m.members[c] = as
		w.vote(s, i, c)
		return
	case m.key == marker && w.renewalJoins:
	default:
		return
	}
	w.mark(m, c)
	m.members[c] = as
	w.vote(s, i, c)
}

// vote delivers a grant to the client. It counts unless the master is in quarantine.
func (w *world) vote(s *state, i, c int) {
	if m := &s.masters[i]; !m.quarantined || w.countQuarantined && s.clients[c].phase == renewing {
		m.lanes[c].vote = true
	}
}

// restart deletes a master's memory. With snapshots, the master may instead return to an earlier state: a
// writer's key, or the marker with some members, which may have any time left.
func (w *world) restart(s *state, i int, next func(action, state)) {
	if s.restarts == 0 {
		return
	}
	n := *s
	n.restarts--
	m := &n.masters[i]
	m.key, m.cover, m.last = free, absent, 0
	m.empty()
	if !w.noQuarantine {
		m.quarantined, m.earlier = true, n.open(w)
	}
	next(w.action(forgets, 0, i), n)
	if !w.snapshots {
		return
	}
	readers := []int{mClients}
	for c := range w.roles {
		switch {
		case n.clients[c].phase == idle || !m.lanes[c].current():
		case w.reads(c):
			readers = append(readers, c)
		default:
			back := n
			back.masters[i].key, back.masters[i].cover = ownerOf(c), loose
			next(w.action(restores, c, i), back)
		}
	}
	for some := 1; some < 1<<len(readers); some++ {
		back := n
		m := &back.masters[i]
		m.key = marker
		for j, c := range readers {
			switch {
			case some>>j&1 == 0:
			case c == mClients:
				m.orphan = loose
			default:
				m.members[c], m.last = loose, uint8(c)
			}
		}
		next(w.action(restores, 0, i), back)
	}
}

// open returns the rounds that a quarantine which begins now must outlast.
func (s *state) open(w *world) rounds {
	var r rounds
	for c := range w.roles {
		cl := &s.clients[c]
		if cl.phase.holds() && !cl.over {
			r |= leaseOf(c)
		}
		if (cl.phase == acquiring || cl.phase == renewing && !cl.openOver) && !w.heldOnly {
			r |= roundOf(c)
		}
	}
	return r
}
