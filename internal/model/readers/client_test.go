package readers

// This file defines what a client may do next, as package model does: it may give up or let its lease end at
// any time, and decide long after the votes came.

func (w *world) clientSteps(s *state, c int, next func(action, state)) {
	phase := s.clients[c].phase
	switch phase {
	case idle:
		n := *s
		n.clients[c].phase = acquiring
		for i := range n.masters {
			w.send(&n.masters[i].lanes[c], set)
		}
		next(w.action(begins, c, 0), n)
		return
	case acquiring:
		w.commit(s, c, next)
	case holding:
		if w.renewals {
			w.renew(s, c, next)
		}
	case renewing:
		w.askAgain(s, c, next)
		w.prolong(s, c, next)
		w.giveUp(s, c, next)
	}
	w.end(s, c, next)
	if w.sleeps {
		w.sleep(s, c, next)
	}
	if w.crashes {
		w.crash(s, c, next)
	}
}

func (s *state) votes(c int) (n int) {
	for i := range s.masters {
		if s.masters[i].lanes[c].vote {
			n++
		}
	}
	return n
}

// commit makes a lease from a quorum of votes.
func (w *world) commit(s *state, c int, next func(action, state)) {
	if s.votes(c) < majority {
		return
	}
	n := *s
	n.clients[c].phase = holding
	for o := range w.roles {
		excludes := !w.reads(c) || !w.reads(o)
		if o != c && excludes && n.clients[o].phase.holds() && w.sleeps {
			n.clients[o].overtaken = true
		}
	}
	n.restOn(c, w)
	next(w.action(commits, c, 0), n)
}

// restOn makes the lease rest on the open round. The validity of the round before may end at any moment.
func (s *state) restOn(c int, w *world) {
	for i := range s.masters {
		m := &s.masters[i]
		switch own := m.own(c, w); *own {
		case byLease:
			*own = loose
		case byRound:
			*own = byLease
		}
		open := m.earlier&roundOf(c) != 0
		m.earlier &^= leaseOf(c) | roundOf(c)
		if open {
			m.earlier |= leaseOf(c)
		}
		m.forgetRound(c)
	}
}

// forgetRound drops the vote of the open round, and the renewals under way, which would only make a key or a
// member stay longer.
func (m *master) forgetRound(c int) {
	l := &m.lanes[c]
	l.vote = false
	for i := 0; i < maxRoom; {
		if l.queue[i] == extend {
			l.drop(i)
		} else {
			i++
		}
	}
}

func (w *world) renew(s *state, c int, next func(action, state)) {
	n := *s
	cl := &n.clients[c]
	cl.phase, cl.doomed, cl.openOver = renewing, cl.overtaken, false
	for i := range n.masters {
		w.send(&n.masters[i].lanes[c], extend)
	}
	next(w.action(renews, c, 0), n)
}

// askAgain repeats the renewal to a master whose vote failed.
func (w *world) askAgain(s *state, c int, next func(action, state)) {
	for i := range s.masters {
		if l := &s.masters[i].lanes[c]; !l.vote && !l.has(extend) {
			n := *s
			w.send(&n.masters[i].lanes[c], extend)
			if n != *s {
				next(w.action(asksAgain, c, i), n)
			}
		}
	}
}

// prolong extends the lease, and only then heals.
func (w *world) prolong(s *state, c int, next func(action, state)) {
	if s.votes(c) < majority {
		return
	}
	n := *s
	cl := &n.clients[c]
	w.sendHeals(&n, c)
	if cl.doomed {
		n.broken = honestLoss
	}
	cl.phase, cl.over = holding, cl.openOver
	cl.openOver, cl.doomed = false, false
	n.restOn(c, w)
	next(w.action(prolongs, c, 0), n)
}

// sendHeals sends a heal to each master that has not granted the renewal, in place of the renewal whose
// answer caused it.
func (w *world) sendHeals(s *state, c int) {
next:
	for i := range s.masters {
		l := &s.masters[i].lanes[c]
		if l.vote || l.has(heal) {
			continue
		}
		for at, k := range l.queue {
			if k == extend {
				l.queue[at] = heal
				continue next
			}
		}
		w.send(l, heal)
	}
}

// giveUp abandons a renewal.
func (w *world) giveUp(s *state, c int, next func(action, state)) {
	n := *s
	cl := &n.clients[c]
	if w.healForRetry {
		w.sendHeals(&n, c)
	}
	for i := range n.masters {
		m := &n.masters[i]
		if own := m.own(c, w); own.stands() {
			if *own == byRound {
				*own = byLease
			}
			if cl.over {
				*own = loose
			}
		}
		m.earlier &^= roundOf(c)
		m.forgetRound(c)
	}
	cl.phase, cl.openOver, cl.doomed = holding, false, false
	next(w.action(givesUp, c, 0), n)
}

// end ends an attempt or a lease, for whatever reason, and queues the releases.
func (w *world) end(s *state, c int, next func(action, state)) {
	n := *s
	n.close(c, w)
	for i := range n.masters {
		n.masters[i].lanes[c].sendRelease()
	}
	next(w.action(ends, c, 0), n)
}

// close ends all rounds of the client.
func (s *state) close(c int, w *world) {
	s.clients[c] = client{}
	for i := range s.masters {
		m := &s.masters[i]
		if own := m.own(c, w); own.stands() {
			*own = loose
		}
		m.earlier &^= leaseOf(c) | roundOf(c)
		m.forgetRound(c)
	}
}

// sleep stops a holder for longer than its lease lasts, and none of its clocks shows it.
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
		if own := m.own(c, w); own.stands() {
			switch {
			case w.oneByOne:
				*own = loose
			case w.reads(c):
				*own = passed
			default:
				m.key, m.cover = free, absent
			}
		}
		m.earlier &^= leaseOf(c) | roundOf(c)
	}
	next(w.action(sleeps, c, 0), n)
}

// crash ends a client before it sends its releases. What it has then belongs to no client.
func (w *world) crash(s *state, c int, next func(action, state)) {
	n := *s
	n.close(c, w)
	for i := range n.masters {
		m := &n.masters[i]
		m.lanes[c] = lane{}
		if m.key == ownerOf(c) {
			m.key = orphan
		}
		if m.members[c].stands() {
			m.orphan = loose
		}
		m.members[c] = absent
	}
	next(w.action(dies, c, 0), n)
}
