// Package explore visits every state of a model. The tests of the models use it.
//
// A model is a type of states, and a function that calls back for each step from a state. The search is
// breadth-first, so the first broken state that it finds is one with the fewest steps, and Search.Trace
// returns these steps.
//
// The tests of a model are tables of cases, which Check runs: worlds in which all properties hold, and worlds without a rule, in which
// one breaks.
//
// States that differ only by a permutation of masters or clients have the same futures. Model.Canonical
// selects one of them, and the search visits only that one. Sort and Compare help to select it.
//
// The rest is what models write again and again: queues and lines of clients in a state, steps, and the words for them.
package explore

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/stall"
)

// A Model is a state machine. S is its states: equal states have equal futures. A is its steps, which
// fmt.Sprint describes.
type Model[S comparable, A any] struct {
	Initial    S                           // the state before the first step
	Successors func(s *S, next func(A, S)) // calls next for each step from s, in the same order each time
	Canonical  func(S) S                   // the representative of the permutations of a state; nil: each state is its own
	Check      func(*S) string             // returns the property that a state breaks, or ""; the search ends at the first such state
	Goals      []Goal[S]                   // what must stay possible, checked after a search in which no state breaks a property
	Must       map[string]func(*S) bool    // what must be true in some state: the result misses what is not. A search that reaches little shows little
	Observe    func(A)                     // is called once for each step of the search; may be nil
}

// A Goal is what those who wait must be able to reach.
type Goal[S any] struct {
	Property string        // breaks if they cannot
	Waits    func(*S) bool // reports whether somebody waits
	Done     func(*S) bool // reports whether the goal is reached
}

// A Search has the states that Model.Explore has visited.
type Search[S comparable, A any] struct {
	States   []S    // representatives, nearest to the initial state first
	Steps    int    // from all states
	Broken   int    // the index of the state that breaks a property; -1: there is none
	Property string // that property

	model  Model[S, A]
	parent []int32 // by state: the state from which it was found; -1 for the initial state
	into   []int32 // by state: the last of the edges that lead to it; -1: none. Only with goals
	edges  []edge
}

// An edge leads from one state to another.
type edge struct {
	from int32
	next int32 // the previous edge that leads to the same state; -1: none
}

// most is how much processor time an exploration may use: many times as much as any needs. The worlds behind the flag
// -large of the tests take longer.
func most() time.Duration {
	if *Large {
		return 2 * time.Hour
	}
	return 5 * time.Minute
}

// Explore visits all states that can be reached, until one breaks a property. If it does not end, it ends the process: see
// package stall.
func (m Model[S, A]) Explore() *Search[S, A] {
	defer stall.Watch(fmt.Sprintf("the exploration of %T", m.Initial), most())()
	if m.Canonical == nil {
		m.Canonical = func(s S) S { return s }
	}
	r := &Search[S, A]{Broken: -1, model: m}
	seen := newIndex[S]()
	visit := func(s S, from int32) {
		s = m.Canonical(s)
		to, ok := seen.find(s, r.States)
		if !ok {
			r.States, r.parent = append(r.States, s), append(r.parent, from)
			if len(m.Goals) > 0 {
				r.into = append(r.into, -1)
			}
		}
		if len(m.Goals) > 0 && from >= 0 {
			r.edges = append(r.edges, edge{from, r.into[to]})
			r.into[to] = int32(len(r.edges) - 1)
		}
	}
	visit(m.Initial, -1)
	for at := 0; at < len(r.States); at++ {
		here := r.States[at]
		if r.Property = m.Check(&here); r.Property != "" {
			r.Broken = at
			return r
		}
		m.Successors(&here, func(a A, s S) {
			r.Steps++
			if m.Observe != nil {
				m.Observe(a)
			}
			visit(s, int32(at))
		})
	}
	for _, g := range m.Goals {
		if at := r.trapped(g.Waits, g.Done); at >= 0 {
			r.Broken, r.Property = at, g.Property
			break
		}
	}
	return r
}

// Result returns what the search has found.
func (r *Search[S, A]) Result() Result {
	all := Result{States: len(r.States), Steps: r.Steps, Depth: len(r.path(len(r.States) - 1)), Broken: r.Property}
	if r.Broken >= 0 {
		all.Trace = r.Trace(r.Broken)
	}
	for what, is := range r.model.Must {
		if !slices.ContainsFunc(r.States, func(s S) bool { return is(&s) }) {
			all.Missed += what + "; "
		}
	}
	return all
}

// path returns the indexes of the states after the initial one on the shortest way to States[at].
func (r *Search[S, A]) path(at int) (path []int32) {
	if r.parent[at] >= 0 {
		path = append(r.path(int(r.parent[at])), int32(at))
	}
	return path
}

// Trace describes the steps from the initial state to States[at]. Representatives exchange the names of
// masters and clients. So Trace repeats the steps without exchanging names.
func (r *Search[S, A]) Trace(at int) (steps []string) {
	here := r.model.Initial
	for _, to := range r.path(at) {
		found := false
		var then S
		r.model.Successors(&here, func(a A, s S) {
			if !found && r.model.Canonical(s) == r.States[to] {
				found, then = true, s
				steps = append(steps, fmt.Sprint(a))
			}
		})
		if !found {
			panic("explore: bug: a step of the trace cannot be repeated")
		}
		here = then
	}
	return steps
}

// trapped returns the index of the first state for which waits is true, and from which no path through such
// states leads to a state for which done is true. It returns -1 if there is none. The model needs goals.
func (r *Search[S, A]) trapped(waits, done func(*S) bool) int {
	canEnd := make([]bool, len(r.States))
	var todo []int32
	for i := range r.States {
		if done(&r.States[i]) {
			canEnd[i] = true
			todo = append(todo, int32(i))
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for e := r.into[at]; e >= 0; e = r.edges[e].next {
			if from := r.edges[e].from; !canEnd[from] && waits(&r.States[from]) {
				canEnd[from] = true
				todo = append(todo, from)
			}
		}
	}
	for i := range r.States {
		if waits(&r.States[i]) && !canEnd[i] {
			return i
		}
	}
	return -1
}

// Once returns a function that calls f once for each world and rules, and remembers its result. Tests that explore
// the same world share the result, also if they run in parallel.
func Once[W, R comparable](f func(W, R) Result) func(W, R) Result {
	type key struct {
		world W
		off   R
	}
	var mu sync.Mutex // guards done
	done := make(map[key]func() Result)
	return func(w W, off R) Result {
		mu.Lock()
		once, ok := done[key{w, off}]
		if !ok {
			once = sync.OnceValue(func() Result { return f(w, off) })
			done[key{w, off}] = once
		}
		mu.Unlock()
		return once()
	}
}
