package names

import (
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/model/rounds"
)

// This file defines what a client may do next. It may give up or let its lease end at any time, and decide long
// after the votes came.

func (w *world) clientSteps(s *state, c int, next func(action, state)) {
	cl := &s.clients[c]
	if cl.phase == idle {
		w.begin(s, c, next)
		return
	}
	switch cl.phase {
	case first, second, merging:
		w.commit(s, c, next)
		w.repeat(s, c, next)
	}
	if cl.phase == second {
		w.lapse(s, c, next)
	}
	if w.healing && (cl.phase == second || w.partsLiveOn && w.roles[c] == 'S' && cl.phase > second) {
		w.heal(s, c, next)
	}
	if cl.phase == holding || !w.patient {
		w.end(s, c, next)
	}
	if s.deaths > 0 {
		w.die(s, c, next)
	}
}

func (w *world) begin(s *state, c int, next func(action, state)) {
	if w.turns > 0 && s.clients[c].turns == w.turns {
		return
	}
	n := *s
	n.clients[c].phase = first
	if w.turns > 0 {
		n.clients[c].turns++
	}
	if w.roles[c] == 'P' {
		n.clients[c].phase = merging
	}
	w.ask(&n, c)
	next(action{verb: begins, client: c}, n)
}

// ask sends the command of the phase to all masters.
func (w *world) ask(s *state, c int) {
	k := map[phase]command{first: setFirst, second: setSecond, merging: merge}[s.clients[c].phase]
	for i := range s.masters {
		if l := &s.masters[i].lanes[c]; k != merge || !l.has(merge) {
			w.send(l, k)
		}
	}
}

func (s *state) votes(c int) int {
	return explore.Count(s.masters[:], func(m master) bool { return m.lanes[c].vote })
}

// commit makes a lease from a quorum of votes.
func (w *world) commit(s *state, c int, next func(action, state)) {
	if s.votes(c) < majority {
		return
	}
	n := *s
	cl := &n.clients[c]
	a := action{verb: acquires, client: c}
	switch {
	case cl.phase == first && w.several(c):
		a.verb, cl.phase = advances, second
		n.promote(c)
		w.ask(&n, c)
	case cl.phase == second:
		a.verb, cl.phase, cl.over = mergesNames, merging, false
		if w.mergesAtOnce {
			cl.phase = holding
		}
		n.loosen(c, w.order(c))
		n.forget(c, rounds.Lease(c)|rounds.Undecided(c))
		w.ask(&n, c)
	default:
		merged := cl.phase == merging && w.roles[c] == 'S'
		cl.phase = holding
		for i := range n.masters {
			if m := &n.masters[i]; merged && !m.lanes[c].vote && !w.keepsParts {
				m.finish(c, undoParts)
			}
		}
		n.promote(c)
	}
	next(a, n)
}

// promote makes the open round the client's lease.
func (s *state) promote(c int) {
	for i := range s.masters {
		m := &s.masters[i]
		if m.earlier&rounds.Undecided(c) != 0 {
			m.earlier |= rounds.Lease(c)
		}
	}
	s.forget(c, rounds.Undecided(c))
}

// forget drops the votes of the open round. Quarantines no longer wait for the rounds.
func (s *state) forget(c int, which rounds.Set) {
	for i := range s.masters {
		s.masters[i].earlier &^= which
		s.masters[i].lanes[c].vote = false
	}
}

// loosen lets the client's keys of some names expire.
func (s *state) loosen(c int, names []int) {
	for i := range s.masters {
		m := &s.masters[i]
		for _, name := range names {
			if m.owns(c, name) {
				m.covered[name] = false
			}
		}
	}
}

// repeat ends an attempt, and makes another.
func (w *world) repeat(s *state, c int, next func(action, state)) {
	if (w.patient || s.clients[c].phase != merging) && s.busy(c) {
		return
	}
	n := *s
	undo := nothing
	switch names := w.order(c); n.clients[c].phase {
	case first:
		undo = undoFirst
		n.loosen(c, names[:1])
	case second:
		undo = undoSecond
		n.loosen(c, names[1:])
	case merging:
		if w.mergesOnce {
			return
		}
		n.loosen(c, names)
	}
	if undo != nothing || !w.sumsVotes {
		n.forget(c, rounds.Undecided(c))
	}
	for i := range n.masters {
		if undo != nothing {
			n.masters[i].finish(c, undo)
		}
	}
	w.settle(&n)
	w.ask(&n, c)
	if n != *s {
		next(action{verb: repeats, client: c}, n)
	}
}

// busy reports whether commands of the client are under way.
func (s *state) busy(c int) bool {
	return slices.ContainsFunc(s.masters[:], func(m master) bool { return m.lanes[c].queue[0] != nothing })
}

// finish queues a command that only deletes. There is room for it: see send. Two such commands in a row are one.
func (m *master) finish(c int, k command) {
	l := &m.lanes[c]
	n := explore.Len(l.queue[:])
	if !explore.Last(l.queue[:]).ends() {
		explore.MustPush(l.queue[:], k)
		return
	}
	switch last := &l.queue[n-1]; {
	case *last == k || *last == releaseAll:
	case k == releaseAll || k == releaseWhole || *last == releaseWhole:
		*last = releaseAll
	default:
		*last = undoParts
	}
}

// lapse lets the validity of the first name's lease end while the client does not notice it.
func (w *world) lapse(s *state, c int, next func(action, state)) {
	if s.clients[c].over || w.patient {
		return
	}
	n := *s
	n.clients[c].over = true
	n.loosen(c, w.order(c)[:1])
	for i := range n.masters {
		n.masters[i].earlier &^= rounds.Lease(c)
	}
	next(action{verb: lapses, client: c}, n)
}

// heal sends the first name's key again to a master that has lost it.
func (w *world) heal(s *state, c int, next func(action, state)) {
	name := w.order(c)[0]
	for i := range s.masters {
		m := &s.masters[i]
		if m.keys[name] != free || m.lanes[c].has(setFirst) {
			continue
		}
		explore.Try(s, next, action{verb: heals, client: c, master: i}, func(n *state) bool { return w.send(&n.masters[i].lanes[c], setFirst) })
	}
}

// end ends a wait or a lease, for whatever reason, and queues the releases.
func (w *world) end(s *state, c int, next func(action, state)) {
	n := *s
	k := releaseAll
	if n.clients[c].phase == holding && w.several(c) && !w.mergesAtOnce {
		k = releaseWhole // the single names have ended before
	}
	w.close(&n, c)
	for i := range n.masters {
		n.masters[i].finish(c, k)
	}
	next(action{verb: ends, client: c}, n)
}

// close ends all rounds of the client.
func (w *world) close(s *state, c int) {
	s.clients[c] = client{turns: s.clients[c].turns}
	s.loosen(c, w.order(c))
	s.forget(c, rounds.Lease(c)|rounds.Undecided(c))
}

// die ends a client before it sends its releases. What it has then belongs to no client.
func (w *world) die(s *state, c int, next func(action, state)) {
	n := *s
	n.deaths--
	w.close(&n, c)
	for i := range n.masters {
		m := &n.masters[i]
		m.lanes[c] = lane{}
		for name := range m.keys {
			if m.owns(c, name) {
				m.keys[name] = orphan
			}
		}
	}
	next(action{verb: dies, client: c}, n)
}

// owns reports whether a key holds a token of the client.
func (m *master) owns(c, name int) bool {
	return slices.Contains([]token{partOf(c), wholeOf(c)}, m.keys[name])
}
