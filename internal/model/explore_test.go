package model

import (
	"fmt"
	"strings"
)

// A result is what an exploration has seen.
type result struct {
	states int
	steps  int
	depth  int // of the farthest state from the beginning
	did    [verbs]int
	broken property // the first found, in the fewest steps; intact if none
	trace  []string // those steps
}

// initial returns the state in which nothing has happened yet.
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

// settle executes what has no effect now and cannot have one later: a release
// at the head of a queue whose key is not there. Nothing of its client can set
// that key before it.
func (s *state) settle() {
	for i := range s.masters {
		m := &s.masters[i]
		for c := range m.lanes {
			for l := &m.lanes[c]; l.queue[0] == release && m.owner != ownerOf(c); {
				l.drop(0)
			}
		}
	}
}

// explore visits every state that can be reached, the nearest first, until one
// breaks a property.
func (w *world) explore() result {
	start := w.initial().canonical()
	seen := map[state]int32{start: 0}
	order := []state{start}
	from := []int32{0}
	var r result
	depth := []int32{0}
	for at := 0; at < len(order); at++ {
		here := order[at]
		if p := w.check(&here); p != intact {
			r.broken, r.trace = p, w.retrace(order, from, at)
			break
		}
		w.successors(&here, func(a action, n state) {
			r.steps++
			r.did[a.verb]++
			n = n.canonical()
			if _, ok := seen[n]; ok {
				return
			}
			seen[n] = int32(len(order))
			order = append(order, n)
			from = append(from, int32(at))
			depth = append(depth, depth[at]+1)
		})
	}
	r.states = len(order)
	r.depth = int(depth[len(depth)-1])
	return r
}

// retrace tells the way to a state. The representatives on it change the names
// of masters and clients from step to step, so it is walked again with names.
func (w *world) retrace(order []state, from []int32, to int) []string {
	var way []int
	for at := to; at != 0; at = int(from[at]) {
		way = append(way, at)
	}
	var lines []string
	here := w.initial()
	for i := len(way) - 1; i >= 0; i-- {
		found := false
		var then state
		w.successors(&here, func(a action, n state) {
			if !found && n.canonical() == order[way[i]] {
				found, then = true, n
				lines = append(lines, a.String())
			}
		})
		if !found {
			panic("model: bug: a step of the trace cannot be walked again")
		}
		here = then
	}
	return lines
}

func (r result) String() string {
	text := fmt.Sprintf("%d states, %d steps, %d deep: %s", r.states, r.steps, r.depth, r.broken)
	if r.trace != nil {
		text += "\n\t" + strings.Join(r.trace, "\n\t")
	}
	return text
}
