package grant

import (
	"fmt"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// What must hold in every state breaks as follows.
const (
	apart         = "TWO HOLD THE LOCK THAT EXCLUDE EACH OTHER"                                // a writer has the lock alone: of clients of one queue, at most one
	honestLoss    = "A LEASE IS PROLONGED THOUGH ONE THAT IT EXCLUDES HELD THE LOCK MEANWHILE" // no renewal that began after such a one held the lock prolongs the lease
	fencesInOrder = "A FENCE IS OUT OF ORDER"                                                  // a reader's fence is not below that of an earlier writer; a writer's is above all earlier ones
	nothingLeft   = "A KEY, A MEMBER OR AN ENTRY IS LEFT BEHIND"                               // by a client at rest, at a master that has executed all it was sent
	notStuck      = "SOMEBODY WAITS, NOBODY WILL LEAVE, AND NOTHING IS UNDER WAY"              // if a client waits, and nobody who will leave has the lock, something is under way, or a short timer runs
	notLockedOut  = "SOMEBODY WAITS AND CANNOT GET IN ANY MORE"                                // a client that waits can still get the lock
)

// check returns the property that s breaks, if any.
func (w *world) check(s *state) string {
	switch {
	case s.prolonged:
		return honestLoss
	case s.unordered:
		return fencesInOrder
	}
	readers, writers := 0, 0
	for c := range w.clients() {
		cl := &s.clients[c]
		if cl.phase.holds() && !cl.over {
			if w.reads(c) {
				readers++
			} else {
				writers++
			}
		}
		if cl.phase != idle || cl.died {
			continue
		}
		for i := range w.masters {
			m := &s.masters[i]
			if has := w.mine(m, c) || m.passed.has(c) && m.owner == marker; (has || m.queued(ownerOf(c))) && m.links[c].commands[0] == nothing {
				return nothingLeft
			}
		}
	}
	if writers > 1 || writers == 1 && readers > 0 {
		return apart
	}
	if w.live && w.stuck(s) {
		return notStuck
	}
	return ""
}

// stuck reports whether a client waits, no client has the lock that will leave, or asks for it, and nothing is under way. A
// client with a grant has a short timer. What the dead have left expires, where it does, and announcements end.
func (w *world) stuck(s *state) bool {
	waiters := 0
	for c := range w.clients() {
		switch cl := &s.clients[c]; {
		case cl.phase == idle:
		case cl.phase == waiting && w.tries(c):
		case cl.phase == waiting:
			waiters++
		case w.keeps(c) && !cl.recalled: // it stays
		default:
			return false
		}
		for i := range w.masters {
			l := &s.masters[i].links[c]
			if l.commands[0] != nothing || l.said != 0 {
				return false
			}
		}
		if yes := s.granted(c); s.clients[c].phase == waiting && (yes >= w.majority() || yes > 0 && !w.noSplitTimer) {
			return false
		}
	}
	for i := range w.masters {
		m := &s.masters[i]
		if w.expires && (m.owner == orphan || m.set&dead != 0) || m.announced {
			return false
		}
	}
	return waiters > 0
}

// initial returns the state before the first step. If world.held is set, it returns a later state, which makes
// the search shorter: A has the lock, and all others wait for it.
func (w *world) initial() state {
	s := state{calls: w.calls, restarts: w.restarts, crashes: w.crashes, silences: w.silences, stales: w.stales}
	if w.fences {
		s.clock = 1
	}
	if !w.held {
		return s
	}
	for c := range w.clients() {
		s.clients[c].phase = waiting
	}
	s.clients[0].phase = holding
	s.clients[0].recalled = w.keeps(0)
	for i := range w.masters {
		m := &s.masters[i]
		w.give(m, 0)
		for c := 1; c < w.clients(); c++ {
			if w.reads(0) && w.reads(c) && !w.writerWaits(m, free) {
				panic("grant: bug: a reader waits behind readers alone")
			}
			m.join(ownerOf(c))
		}
		if i < w.majority() {
			m.links[0].vote = rests
		}
		if w.fences { // A has acquired the lock twice at the first ones
			m.fence = 1
			if i < w.majority() {
				m.fence = 2
			}
		}
	}
	if w.fences && w.reads(0) {
		s.read = 2
	} else if w.fences {
		s.written = 2
	}
	return s
}

// successors calls next for each state that may follow s.
func (w *world) successors(s *state, next func(step, state)) {
	emit := next
	if w.prompt {
		emit = func(a step, n state) { w.drain(a, n, next) }
	}
	settled := func(a step, n state) {
		n.settle(w)
		emit(a, n)
	}
	for c := range w.clients() {
		w.clientSteps(s, c, settled)
	}
	for i := range w.masters {
		w.masterSteps(s, i, settled)
	}
}

// drain executes all commands at once.
func (w *world) drain(a step, s state, next func(step, state)) {
	for i := range w.masters {
		for c := range w.clients() {
			if s.masters[i].links[c].commands[0] != nothing {
				w.execute(&s, i, c, func(b step, n state) {
					a := a
					a.grants, a.letsIn = max(a.grants, b.grants), a.letsIn|b.letsIn
					w.drain(a, n, next)
				})
				return
			}
		}
	}
	next(a, s)
}

// settle executes commands that have no effect now and cannot have one later: a release at the head of a queue
// of commands, if the client has neither a key nor a member, and nobody waits.
func (s *state) settle(w *world) {
	for i := range w.masters {
		m := &s.masters[i]
		for c := range w.clients() {
			has := m.owner == ownerOf(c) || (m.set | m.passed).has(c)
			for l := &m.links[c]; l.commands[0].releases() && l.commands[0] != undo && !has && m.queue[0] == free && !(w.overwrites && w.oneQueue()); {
				l.drop(0)
			}
		}
	}
}

// model returns the world for exploring. If progress is checked, each client that waits can get the lock without giving up before. A
// client that only tries may try again at any time.
func (w *world) model() explore.Model[state, step] {
	m := explore.Model[state, step]{
		Initial:    w.initial(),
		Successors: w.successors,
		Canonical:  w.canonical,
		Check:      w.check,
	}
	for c := range w.clients() {
		switch {
		case !w.live:
		case w.cut && c > 0: // the clients that reach one master never get the lock
		case w.tries(c) && w.calls > 0: // there may be no acquisition left for it
		default:
			m.Goals = append(m.Goals, explore.Goal[state]{
				Property: notLockedOut,
				Waits:    func(s *state) bool { return w.tries(c) || w.isBarger(c) || s.clients[c].phase == waiting },
				Done:     func(s *state) bool { return s.clients[c].phase.holds() },
			})
		}
	}
	return m
}

// exploration explores a world once for all tests.
var exploration = explore.Once(func(w world, off rules) explore.Result {
	w.rules = off
	writers, readers := 0, 0 // steps that grant them the lock
	m := w.model()
	m.Observe = func(a step) {
		if a.grants != free {
			writers++
		}
		if a.letsIn != 0 {
			readers++
		}
	}
	r := m.Reach(func(a step) explore.Verb { return a.verb }, w.verbs())
	r.Note = fmt.Sprintf("%d and %d of them grants to writers and to readers", writers, readers)
	if writers+readers == 0 && !w.prompt {
		r.Missed += "a grant; "
	}
	return r
})
