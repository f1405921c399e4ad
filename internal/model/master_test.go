package model

import (
	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/model/rounds"
)

// This file defines what may happen at a master next: the oldest command of a client is executed or lost, the
// TTL of its key ends, or the master loses its memory.

func (w *world) masterSteps(s *state, i int, next func(action, state)) {
	m := &s.masters[i]
	for c := range m.lanes {
		l := &m.lanes[c]
		if l.queue[0] != nothing {
			w.execute(s, i, c, next)
			if l.queue[0] != release { // a release is owed until it is executed
				explore.Do(s, next, action{verb: loses, client: c, master: i, command: l.queue[0]}, func(n *state) { n.masters[i].lanes[c].drop(0) })
			}
		}
		if l.vote == pending {
			w.probe(s, i, c, next)
		}
		if w.releaseOvertakes && l.queue[1] == release {
			n := *s
			q := &n.masters[i].lanes[c].queue
			q[0], q[1] = q[1], q[0]
			next(action{verb: overtakes, client: c, master: i, command: l.queue[0]}, n)
		}
	}
	if m.key.Owner != rounds.Free && (m.key.Cover == rounds.Loose || w.vanish) {
		explore.Do(s, next, action{verb: expires, client: int(m.key.Owner) - 1, master: i}, func(n *state) { n.masters[i].key = rounds.Key{} })
	}
	w.restart(s, i, next)
	w.endQuarantine(s, i, next)
}

// execute executes the command at the head of the queue.
func (w *world) execute(s *state, i, c int, next func(action, state)) {
	n := *s
	m := &n.masters[i]
	l := &m.lanes[c]
	k := l.queue[0]
	l.drop(0)
	a := action{verb: executes, client: c, master: i, command: k}
	mine := m.key.Is(c)
	switch k.kind() {
	case set:
		if m.key.Owner == rounds.Free {
			w.grantSet(n, i, c, a, next)
			return
		}
	case raise:
		if mine {
			n.raise(i, c, k.fence(), w)
			a.done, a.fence = true, m.fence
		}
	case extend:
		if m.key.Owner == rounds.Free && w.healAtOnce {
			mine, m.key.Owner = true, rounds.Client(c)
		}
		if mine {
			a.done = true
			m.key.Cover = rounds.ByRound
			if n.clients[c].openOver {
				m.key.Cover = rounds.Loose
			}
			w.vote(&n, i, c, 0)
		}
	case heal:
		if m.key.Owner == rounds.Free {
			a.done = true
			// The key does not count before a renewal has extended it. So the model may let it disappear
			// at any moment, since nothing relies on it.
			m.key = rounds.Key{Owner: rounds.Client(c)}
			if !w.healKeepsFence {
				m.fence = max(m.fence, k.fence())
			}
		}
	case release:
		if mine {
			a.done = true
			m.key = rounds.Key{}
		}
	}
	next(a, n)
}

// grantSet sets the key. It sets the fence to the larger of two numbers: the next fence, and the client's
// proposal. The clocks of clients and masters differ, so the proposal is any of spread numbers.
func (w *world) grantSet(s state, i, c int, a action, next func(action, state)) {
	m, cl := &s.masters[i], &s.clients[c]
	m.key = rounds.Key{Owner: rounds.Client(c)}
	current := cl.phase == acquiring && m.lanes[c].current()
	if current {
		m.key.Cover = rounds.ByRound
	}
	a.done = true
	clock := s.clock
	if w.slowAcquisition {
		clock = cl.drawn
	}
	before, last := m.fence, uint8(0)
	for d := range max(1, w.spread) {
		n := s
		if w.fences {
			a.fence = before + 1
			if !w.noClock {
				a.fence = max(before+1, clock+d)
			}
			if a.fence == last {
				continue // a clock that is ahead by this much makes no difference
			}
			if a.fence > maxFence {
				panic("model: bug: the fences outgrow a command")
			}
			last = a.fence
			n.masters[i].fence = a.fence
		}
		if current {
			w.vote(&n, i, c, a.fence)
		}
		next(a, n)
	}
}

// raise executes the second round at one master. The master reports its fence, which counts only if it is
// exactly the one requested.
func (s *state) raise(i, c int, fence uint8, w *world) {
	m, cl := &s.masters[i], &s.clients[c]
	m.fence = max(m.fence, fence)
	if cl.phase != acquiring || cl.want != fence || !m.lanes[c].current() {
		return // the client does not wait for this answer any more
	}
	if w.anyAck {
		w.vote(s, i, c, fence)
	} else {
		w.vote(s, i, c, m.fence)
	}
}

// vote delivers a grant to the client. The probe is executed after it on the same connection, at once or some
// time later.
func (w *world) vote(s *state, i, c int, fence uint8) {
	l := &s.masters[i].lanes[c]
	l.ack = fence
	l.vote = pending
	if !w.probes {
		s.decide(i, c, w)
	}
}

// decide handles the answer of the probe. The grant counts unless the master is in quarantine. The master's
// memory is the one that granted, since a restart drops the votes that are pending.
func (s *state) decide(i, c int, w *world) {
	l := &s.masters[i].lanes[c]
	l.vote = counted
	if s.masters[i].quarantined && !(w.countQuarantined && s.clients[c].phase == renewing) {
		l.vote, l.ack = none, 0
	}
}

func (w *world) probe(s *state, i, c int, next func(action, state)) {
	n := *s
	n.decide(i, c, w)
	next(action{verb: probes, client: c, master: i, done: n.masters[i].lanes[c].vote == counted}, n)
}

// restart deletes a master's memory. With snapshots, the master may instead return to what was last written.
// Then a key may be there again under an earlier round, or a key that was released is there again and belongs
// to no client.
func (w *world) restart(s *state, i int, next func(action, state)) {
	if s.restarts == 0 {
		return
	}
	n := *s
	w.beginLife(&n, i)
	back := n
	n.masters[i].key, n.masters[i].fence = rounds.Key{}, 0
	next(action{verb: forgets, master: i}, n)
	if !w.snapshots {
		return
	}
	for c := range back.clients {
		if back.clients[c].phase != idle && back.masters[i].lanes[c].current() {
			back.masters[i].key.Owner = rounds.Client(c)
			next(action{verb: restores, client: c, master: i}, back)
		}
	}
	back.masters[i].key.Owner = rounds.Orphan
	next(action{verb: restores, client: nClients, master: i}, back)
}

// beginLife does what every restart has in common. Commands under way still arrive, since a proxy may keep
// the connection, and a flush or a promotion does not end it. Votes that the client has counted stay counted.
// For other votes, the probe finds another memory.
func (w *world) beginLife(s *state, i int) {
	if s.restarts != always {
		s.restarts--
	}
	m := &s.masters[i]
	m.key.Cover = rounds.Loose
	for c := range m.lanes {
		l := &m.lanes[c]
		if l.vote == pending {
			l.vote, l.ack = none, 0
		}
		for w.dropOwed && explore.Remove(l.queue[:], release) {
		}
	}
	if !w.noQuarantine {
		m.quarantined, m.past = true, s.highest
		m.earlier = s.open(w)
	}
}

// open returns the rounds that a quarantine which begins now must outlast.
func (s *state) open(w *world) rounds.Set {
	var r rounds.Set
	for c := range s.clients {
		cl := &s.clients[c]
		if cl.phase.holds() && !cl.over {
			r |= rounds.Lease(c)
		}
		if (cl.phase == acquiring || cl.phase == renewing && !cl.openOver) && !w.heldOnly {
			r |= rounds.Undecided(c)
		}
	}
	if w.shortQuarantine {
		return 0
	}
	return r
}

// endQuarantine lets a master vote again when every round that began before its restart has ended. MaxTTL has
// passed since then. So a clock that is read from now on is past every fence that was committed with votes
// from the lost memory.
func (w *world) endQuarantine(s *state, i int, next func(action, state)) {
	if !s.masters[i].quarantined || s.masters[i].earlier != 0 {
		return
	}
	n := *s
	m := &n.masters[i]
	if w.fences && !w.noClock {
		n.clock = max(n.clock, m.past+1)
	}
	m.quarantined, m.past = false, 0
	next(action{verb: votesAgain, master: i}, n)
}
