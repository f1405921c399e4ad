package grant

import "github.com/redlock-go/redlock/internal/model/explore"

// This file defines the effects of time and of restarts.

// time ends the oldest mark of a client at a master: a validity that was counted from it is over. A claim is
// registered at all masters at the same moment.
func (w *world) time(s *state, i, c int, next func(step, state)) {
	a := &s.masters[i].links[c].age
	switch {
	case s.clients[c].phase == idle, a.ended == receipt, a.ended == 1 && a.ping == unsent, a.ended == 0 && i > 0:
		return
	}
	n := *s
	for j := range w.masters {
		if a.ended == 0 || j == i {
			l := &n.masters[j].links[c]
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
		if l := &s.masters[j].links[c]; l.vote&rests != 0 && l.age.bound > mark && l.age.bound >= l.age.ended {
			return true
		}
	}
	return false
}

// expire removes a key or a member whose time is over, and the marker after the last member. What a lease or its renewal rests on does
// not expire. A vote that was counted from before the key or the member was set or extended is void then.
func (w *world) expire(s *state, i int, next func(step, state)) {
	m := &s.masters[i]
	switch {
	case m.owner == free:
		return
	case m.owner == orphan:
		explore.Do(s, next, step{verb: expires, client: orphanClient, master: i}, func(n *state) { n.masters[i].owner = free })
		return
	case m.owner != marker:
		if c := int(m.owner) - 1; w.mayExpire(s, i, c) {
			n := *s
			w.voidVote(&n, i, c)
			n.masters[i].owner = free
			next(step{verb: expires, client: c, master: i}, n)
		}
		return
	}
	for c := range w.clients() {
		if m.set.has(c) && w.mayExpire(s, i, c) {
			n := *s
			w.voidVote(&n, i, c)
			w.pastMember(&n.masters[i], memberOf(c))
			next(step{verb: expires, client: c, master: i}, n)
		}
	}
	if m.set&dead != 0 {
		explore.Do(s, next, step{verb: expires, client: orphanClient, master: i}, func(n *state) { w.pastMember(&n.masters[i], dead) })
	}
	if m.set == 0 || w.lastMarks && m.last != free && m.set&bitOf(m.last) == 0 {
		explore.Do(s, next, step{verb: expires, client: orphanClient, master: i}, func(n *state) { n.masters[i].owner, n.masters[i].last = free, free })
	}
}

// orphanClient stands for no client in a step.
const orphanClient = -1

// pastMember ends members. The marker goes with the last one that stands, or a moment later.
func (w *world) pastMember(m *master, which members) {
	m.set &^= which
	if w.lingers {
		m.passed |= which &^ dead
	} else if m.set == 0 && m.owner == marker {
		m.owner, m.last = free, free
	}
}

func (w *world) mayExpire(s *state, i, c int) bool {
	l := &s.masters[i].links[c]
	switch p := s.clients[c].phase; {
	case !l.current():
	case w.ages:
		return l.age.mark < l.age.ended || p == idle
	case p.holds() && (l.vote&rests != 0 && !s.clients[c].over || p == renewing && l.vote&granted != 0):
		return false
	}
	return true
}

func (w *world) voidVote(s *state, i, c int) {
	l, p := &s.masters[i].links[c], s.clients[c].phase
	if l.current() && !w.ages && (p == waiting || p == trying) {
		l.clearVote()
		l.clearGrant()
	}
}

// lapse ends an announcement. Whoever waits polls, and finds the key free if it was left free: this stands for the first that waits.
func (w *world) lapse(s *state, i int, next func(step, state)) {
	if !s.masters[i].announced || !w.lapses {
		return
	}
	n := *s
	m := &n.masters[i]
	m.announced = false
	w.tellFirst(m)
	next(step{verb: lapses, client: orphanClient, master: i}, n)
}

// sleep stops a holder until its lease is over and what it has is gone. Its clocks do not show the pause.
func (w *world) sleep(s *state, c int, next func(step, state)) {
	if s.clients[c].over {
		return
	}
	n := *s
	n.clients[c].over = true
	for i := range w.masters {
		m := &n.masters[i]
		switch {
		case w.reads(c) && m.set.has(c):
			w.pastMember(m, memberOf(c))
		case m.owner == ownerOf(c):
			m.owner = free
		}
		m.links[c].vote &^= restsPast
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
	for c := range m.links {
		l := &m.links[c]
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
		m.quarantined, m.past = true, max(s.written, s.read)
	}
	queues := w.wakesWith(m.queue)
	forget := func() {
		m.owner, m.set, m.passed, m.last, m.announced, m.fence = free, 0, 0, free, false, 0
		m.queue = [mostClients]owner{}
	}
	forget()
	next(step{verb: forgets, client: orphanClient, master: i}, n)
	if !w.snapshots {
		return
	}
	wake := func(c int, owner owner, set members, queues [][mostClients]owner) {
		for _, queue := range queues {
			forget()
			m.owner, m.set, m.queue = owner, set, queue
			for c := range w.clients() {
				if w.mine(m, c) {
					m.part(ownerOf(c))
				}
			}
			next(step{verb: restores, client: c, master: i}, n)
		}
	}
	if w.oneQueue() {
		wake(orphanClient, free, 0, queues[1:])
	}
	readers := dead
	for c := range w.clients() {
		switch {
		case s.clients[c].phase == idle || !s.masters[i].links[c].current():
		case w.reads(c):
			readers |= memberOf(c)
		default:
			wake(c, ownerOf(c), 0, queues)
		}
	}
	wake(orphanClient, orphan, 0, queues)
	if w.oneQueue() {
		return
	}
	for some := members(1); some < 2*dead; some++ {
		if some&^readers == 0 {
			wake(orphanClient, marker, some, queues)
		}
	}
}

// wakesWith returns the queues that a master may have that restarts with an earlier memory: nobody waits, or those who waited; in the
// world with one queue, also one whose client has died.
func (w *world) wakesWith(before [mostClients]owner) [][mostClients]owner {
	if !w.oneQueue() {
		return [][mostClients]owner{{}, before}
	}
	all := [][mostClients]owner{{}, {orphan}}
	if before[0] != free {
		all = append(all, before)
	}
	return all
}

// endQuarantine makes the votes of a master count again: every validity that was counted from before the
// restart is over. Clocks that are read from now on are past every fence that was committed with its votes.
func (w *world) endQuarantine(s *state, i int, next func(step, state)) {
	if !s.masters[i].quarantined {
		return
	}
	n := *s
	m := &n.masters[i]
	for c := range w.clients() {
		l := &m.links[c]
		if l.said&tells != 0 && w.checkedOnReceipt {
			l.said |= checked
		}
		if p := s.clients[c].phase; p.holds() && (l.vote&restsPast != 0 || l.vote&(granted|past) == granted|past && !w.heldOnly) {
			return
		}
		if l.vote&past != 0 && !w.heldOnly {
			l.clearVote()
		}
		if l.said&lost != 0 {
			l.clearGrant()
		}
	}
	if w.fences {
		n.clock = max(n.clock, m.past+1)
	}
	m.quarantined, m.past = false, 0
	next(step{verb: votesAgain, master: i}, n)
}
