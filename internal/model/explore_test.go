package model

import "github.com/redlock-go/redlock/internal/model/explore"

// initial returns the state before the first step.
func (w *world) initial() state {
	s := state{attempts: w.attempts, restarts: w.restarts}
	if w.fences {
		s.clock = 1
	}
	return s
}

// successors calls next for each state that may follow s.
func (w *world) successors(s *state, next func(action, state)) {
	settled := func(a action, n state) {
		n.settle()
		next(a, n)
	}
	for c := range s.clients {
		w.clientSteps(s, c, settled)
	}
	for i := range s.masters {
		w.masterSteps(s, i, settled)
	}
}

// settle executes commands that have no effect now and cannot have one later: a release at the head of a
// queue whose key does not exist. No earlier command of its client can set that key.
func (s *state) settle() {
	for i := range s.masters {
		m := &s.masters[i]
		for c := range m.lanes {
			for l := &m.lanes[c]; l.queue[0] == release && !m.key.Is(c); {
				l.drop(0)
			}
		}
	}
}

// model returns the world for exploring.
func (w *world) model() explore.Model[state, action] {
	return explore.Model[state, action]{
		Initial:    w.initial(),
		Successors: w.successors,
		Canonical:  state.canonical,
		Check:      w.check,
	}
}

// exploration explores a world once for all tests.
var exploration = explore.Once(func(w world, off rules) explore.Result {
	w.rules = off
	return w.model().Reach(func(a action) explore.Verb { return a.verb }, w.verbs())
})
