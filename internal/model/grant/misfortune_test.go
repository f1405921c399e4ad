package grant

// This file defines the effects of time and of restarts.

// time ends the oldest mark of a client at a master: a validity that was counted from it is over. A claim is
// registered at all masters at the same moment.
func (w *world) time(s *state, i, c int, next func(step, state)) {
	a := &s.masters[i].lanes[c].age
	switch {
	case s.clients[c].phase == idle, a.ended == receipt, a.ended == 1 && a.ping == unsent, a.ended == 0 && i > 0:
		return
	}
	n := *s
	for j := range w.masters {
		if a.ended == 0 || j == i {
			l := &n.masters[j].lanes[c]
			if l.vote&rests != 0 && l.age.bound <= a.ended && !(w.fromLatest && w.lasts(s, a.ended, c)) {
				return // the lease must end before
			}
			l.age.ended++
			if l.vote&granted != 0 && l.age.bound < l.age.ended {
				l.clearVote()
			}
		}
	}
	next(step{verb: ages, client: c, master: i, open: a.ended == 0}, n)
}

// lasts reports whether the lease also rests on a later mark that has not ended.
func (w *world) lasts(s *state, mark uint8, c int) bool {
	for j := range w.masters {
		if l := &s.masters[j].lanes[c]; l.vote&rests != 0 && l.age.bound > mark && l.age.bound >= l.age.ended {
			return true
		}
	}
	return false
}

// expire removes a key whose time is over. A key on which a lease or its renewal rests does not expire. A vote
// that was counted from before the key was set or extended is void then.
func (w *world) expire(s *state, i int, next func(step, state)) {
	n := *s
	m := &n.masters[i]
	if o := m.owner; o != orphan {
		c := int(o) - 1
		l := &m.lanes[c]
		switch p := s.clients[c].phase; {
		case !l.current():
		case w.ages:
			if l.age.mark >= l.age.ended && p != idle {
				return
			}
		case p.holds() && (l.vote&rests != 0 && !s.clients[c].over || p == renewing && l.vote&granted != 0):
			return
		case p == waiting || p == trying:
			l.clearVote()
			l.clearMessage()
		}
	}
	m.owner = free
	next(step{verb: expires, client: int(s.masters[i].owner) - 1, master: i}, n)
}

// sleep stops a holder until its lease is over and its keys are gone. Its clocks do not show the pause.
func (w *world) sleep(s *state, c int, next func(step, state)) {
	if s.clients[c].over {
		return
	}
	n := *s
	n.clients[c].over = true
	for i := range w.masters {
		m := &n.masters[i]
		if m.owner == ownerOf(c) {
			m.owner = free
		}
		m.lanes[c].vote &^= restsPast
	}
	next(step{verb: sleeps, client: c}, n)
}

// restart removes the memory of a master. Commands and messages that are under way still arrive.
func (w *world) restart(s *state, i int, next func(step, state)) {
	if s.restarts == 0 {
		return
	}
	n := *s
	n.restarts--
	m := &n.masters[i]
	for c := range m.lanes {
		l := &m.lanes[c]
		if l.vote&granted != 0 {
			l.vote |= past
		}
		if l.vote&rests != 0 {
			l.vote |= restsPast
		}
		if l.said&tells != 0 {
			l.said |= lost
		}
	}
	if !w.noQuarantine {
		m.quarantined, m.past = true, s.highest
	}
	queue := m.queue
	for _, back := range w.memories(s, i) {
		m.owner, m.fence, m.queue = back, 0, [mostClients]owner{}
		if back == free {
			next(step{verb: forgets, client: -1, master: i}, n)
		} else {
			next(step{verb: restores, client: int(back) - 1, master: i}, n)
		}
		if w.snapshots {
			m.queue = [mostClients]owner{orphan}
			next(step{verb: restores, client: int(back) - 1, master: i, queue: 1}, n)
			if queue[0] != free {
				m.queue = queue
				m.part(back)
				next(step{verb: restores, client: int(back) - 1, master: i, queue: 2}, n)
			}
		}
	}
}

// memories returns the owners of the key with which a master may restart.
func (w *world) memories(s *state, i int) []owner {
	all := []owner{free}
	if !w.snapshots {
		return all
	}
	for c := range w.clients {
		if s.clients[c].phase != idle && s.masters[i].lanes[c].current() {
			all = append(all, ownerOf(c))
		}
	}
	return append(all, orphan)
}

// endQuarantine makes the votes of a master count again: every validity that was counted from before the
// restart is over. Clocks that are read from now on are past every fence that was committed with its votes.
func (w *world) endQuarantine(s *state, i int, next func(step, state)) {
	if !s.masters[i].quarantined {
		return
	}
	n := *s
	m := &n.masters[i]
	for c := range w.clients {
		l := &m.lanes[c]
		if l.said&tells != 0 && w.checkedOnReceipt {
			l.said |= checked
		}
		if p := s.clients[c].phase; p.holds() && (l.vote&restsPast != 0 || l.vote&(granted|past) == granted|past) {
			return
		}
		if l.vote&past != 0 {
			l.clearVote()
		}
		if l.said&lost != 0 {
			l.clearMessage()
		}
	}
	if w.fences {
		n.clock = max(n.clock, m.past+1)
	}
	m.quarantined, m.past = false, 0
	next(step{verb: votesAgain, master: i}, n)
}
