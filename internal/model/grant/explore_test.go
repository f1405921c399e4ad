package grant

import (
	"fmt"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// A property must hold in every state.
type property uint8

const (
	intact       property = iota
	oneHolder             // at most one client has the lock
	honestLoss            // no renewal that began after another client held the lock prolongs the lease
	risingFences          // each committed fence is above all that were committed before
	nothingLeft           // a client at rest has no key and no entry at a master that has executed all it was sent
	notStuck              // if a client waits and none holds the lock, something is under way, or a short timer runs
	notLockedOut          // a client that waits can still get the lock
)

func (p property) String() string {
	return [...]string{
		"all properties hold",
		"TWO HOLD THE LOCK",
		"A LEASE IS PROLONGED THOUGH ANOTHER HELD THE LOCK MEANWHILE",
		"A FENCE DOES NOT RISE",
		"A KEY OR AN ENTRY IS LEFT BEHIND",
		"SOMEBODY WAITS, NOBODY HOLDS THE LOCK, AND NOTHING IS UNDER WAY",
		"SOMEBODY WAITS AND CANNOT GET IN ANY MORE",
	}[p]
}

// check returns the property that s breaks.
func (w *world) check(s *state) property {
	if s.broken != intact {
		return s.broken
	}
	holders := 0
	for c := range w.clients {
		cl := &s.clients[c]
		if cl.phase.holds() && !cl.over {
			holders++
		}
		if cl.phase != idle || cl.died {
			continue
		}
		for i := range w.masters {
			if m := &s.masters[i]; (m.owner == ownerOf(c) || m.queued(ownerOf(c))) && m.lanes[c].commands[0] == nothing {
				return nothingLeft
			}
		}
	}
	if holders > 1 {
		return oneHolder
	}
	if w.live && w.stuck(s) {
		return notStuck
	}
	return intact
}

// stuck reports whether a client waits, no client has the lock or asks for it, and nothing is under way. A
// client with a grant has a short timer.
func (w *world) stuck(s *state) bool {
	waiters := 0
	for c := range w.clients {
		yes := 0
		switch s.clients[c].phase {
		case idle:
		case waiting:
			waiters++
		default:
			return false
		}
		for i := range w.masters {
			l := &s.masters[i].lanes[c]
			if l.commands[0] != nothing || l.said != 0 {
				return false
			}
			if l.vote&granted != 0 {
				yes++
			}
		}
		if yes >= w.majority() || yes > 0 && !w.noSplitTimer {
			return false
		}
	}
	return waiters > 0
}

// A result is the outcome of an exploration.
type result struct {
	states int
	steps  int
	did    [verbs]int
	grants int      // steps that grant the head of a queue
	broken property // the first found, in the fewest steps; intact if none
	trace  []string // those steps
}

// initial returns the state before the first step. If world.held is set, it returns a later state, which makes
// the search shorter: A has the lock, and all others wait for it.
func (w *world) initial() state {
	s := state{calls: w.calls, restarts: w.restarts, crashes: w.crashes, silences: w.silences}
	if w.fences {
		s.clock = 1
	}
	if !w.held {
		return s
	}
	for c := range w.clients {
		s.clients[c].phase = waiting
	}
	s.clients[0].phase = holding
	for i := range w.masters {
		m := &s.masters[i]
		m.owner = ownerOf(0)
		for c := 1; c < w.clients; c++ {
			m.join(ownerOf(c))
		}
		if i < w.majority() {
			m.lanes[0].vote = rests
		}
		if w.fences { // A has acquired the lock twice at the first ones
			m.fence, s.highest = 1, 2
			if i < w.majority() {
				m.fence = 2
			}
		}
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
	for c := range w.clients {
		w.clientSteps(s, c, settled)
	}
	for i := range w.masters {
		w.masterSteps(s, i, settled)
	}
}

// drain executes all commands at once.
func (w *world) drain(a step, s state, next func(step, state)) {
	for i := range w.masters {
		for c := range w.clients {
			if s.masters[i].lanes[c].commands[0] != nothing {
				w.execute(&s, i, c, func(_ step, n state) { w.drain(a, n, next) })
				return
			}
		}
	}
	next(a, s)
}

// settle executes commands that have no effect now and cannot have one later: a release at the head of a queue
// of commands, if the client has neither a key nor an entry and no client waits.
func (s *state) settle(w *world) {
	for i := range w.masters {
		m := &s.masters[i]
		for c := range w.clients {
			for l := &m.lanes[c]; l.commands[0] == release && m.owner != ownerOf(c) && m.queue[0] == free && !w.overwrites; {
				l.drop(0)
			}
		}
	}
}

// model returns the world for exploring.
func (w *world) model() explore.Model[state, step] {
	return explore.Model[state, step]{
		Initial:    w.initial(),
		Successors: w.successors,
		Canonical:  w.canonical,
		Broken:     func(s *state) bool { return w.check(s) != intact },
		Progress:   w.live,
	}
}

// exploration explores a world once for all tests.
var exploration = explore.Once(func(w world) (r result) {
	m := w.model()
	m.Observe = func(a step) {
		r.steps++
		r.did[a.verb]++
		if a.grants != free {
			r.grants++
		}
	}
	found := m.Explore()
	r.states = len(found.States)
	at := found.Broken
	if at >= 0 {
		r.broken = w.check(&found.States[at])
	}
	for c := 0; w.live && c < w.clients && at < 0; c++ {
		if w.cut && c > 0 {
			break // the clients that reach one master never get the lock
		}
		if at = w.lockedOut(found, c); at >= 0 {
			r.broken = notLockedOut
		}
	}
	if at >= 0 {
		r.trace = found.Trace(at)
	}
	return r
})

// lockedOut returns the first state in which client c waits, and from which it cannot get the lock without
// giving up before. It returns -1 if there is none. A client that only tries may try again at any time.
func (w *world) lockedOut(found *explore.Search[state, step], c int) int {
	barges := w.busy && c == w.clients-1
	return found.Trapped(
		func(s *state) bool { return barges || s.clients[c].phase == waiting },
		func(s *state) bool { return s.clients[c].phase.holds() },
	)
}

func (r result) String() string {
	return explore.Text(fmt.Sprintf("%d states, %d steps: %s", r.states, r.steps, r.broken), r.trace)
}
