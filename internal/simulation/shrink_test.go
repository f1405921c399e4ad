package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// A part is something that can be left out of a plan.
type part struct {
	kind  string // "fault", "process" (all its goroutines), "goroutine" or "call"
	index [3]int // of the fault, or of the process, goroutine and call
}

func (p part) String() string {
	s := fmt.Sprintf("%s:%d", p.kind, p.index[0])
	for i := 1; i < map[string]int{"goroutine": 2, "call": 3}[p.kind]; i++ {
		s += fmt.Sprintf(".%d", p.index[i])
	}
	return s
}

// parts returns what can be left out of the plan, larger parts first.
func (p *plan) parts() (parts []part) {
	for _, f := range p.faults {
		parts = append(parts, part{kind: "fault", index: [3]int{f.id}})
	}
	var goroutines, calls []part
	for i, proc := range p.processes {
		parts = append(parts, part{kind: "process", index: [3]int{i}})
		for j, w := range proc.workers {
			goroutines = append(goroutines, part{kind: "goroutine", index: [3]int{i, j}})
			for k := range w {
				calls = append(calls, part{kind: "call", index: [3]int{i, j, k}})
			}
		}
	}
	return slices.Concat(parts, goroutines, calls)
}

// without returns the plan without some of its parts. What is left keeps its numbers and routes.
func (p *plan) without(gone map[string]bool) *plan {
	q := *p
	q.faults, q.processes = nil, nil
	for _, f := range p.faults {
		if !gone[part{kind: "fault", index: [3]int{f.id}}.String()] {
			q.faults = append(q.faults, f)
		}
	}
	for i, proc := range p.processes {
		kept := processPlan{routes: proc.routes, ttl: proc.ttl, settings: proc.settings, absent: gone[part{kind: "process", index: [3]int{i}}.String()]}
		for j, w := range proc.workers {
			var calls []call
			if !kept.absent && !gone[part{kind: "goroutine", index: [3]int{i, j}}.String()] {
				calls = keptCalls(w, i, j, gone)
			}
			kept.workers = append(kept.workers, calls)
		}
		q.processes = append(q.processes, kept)
	}
	return &q
}

// keptCalls returns the calls that are not gone. Each takes over the time of those left out before
// it, so that it comes when it came.
func keptCalls(w []call, i, j int, gone map[string]bool) (calls []call) {
	var before time.Duration
	for k, c := range w {
		if gone[part{kind: "call", index: [3]int{i, j, k}}.String()] {
			before += c.think + c.hold
			continue
		}
		c.think += before
		before = 0
		calls = append(calls, c)
	}
	return calls
}

// drop leaves parts out of the plan that are listed as shrink's report lists them.
func (p *plan) drop(list string) error {
	gone := map[string]bool{}
	known := p.parts()
	for _, s := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		if !slices.ContainsFunc(known, func(p part) bool { return p.String() == s }) {
			return fmt.Errorf("the plan has no %s", s)
		}
		gone[s] = true
	}
	*p = *p.without(gone)
	return nil
}

// tries is how often a smaller plan is carried out to see it fail: runs do not repeat exactly.
const tries = 3

// shrink looks for a smaller plan whose run breaks the same property, and returns its outcome and
// what was left out. It tries every part, from the largest to the smallest, and begins anew as long
// as that helps, for two passes.
func shrink(t *testing.T, failed *outcome) (*outcome, []string) {
	whole, gone, smallest := failed.plan, map[string]bool{}, failed
	for range 2 {
		before := len(gone)
		for _, part := range whole.parts() {
			if name := part.String(); !gone[name] {
				gone[name] = true
				if o := failsAgain(t, whole.without(gone), failed.violations[0].kind); o != nil {
					smallest = o
				} else {
					delete(gone, name)
				}
			}
		}
		if len(gone) == before {
			break
		}
	}
	return smallest, slices.Sorted(maps.Keys(gone))
}

// failsAgain carries out a plan a few times, and returns the outcome that breaks the property, or nil.
func failsAgain(t *testing.T, p *plan, property string) *outcome {
	for range tries {
		if o := simulate(t, p); o.failed() && o.violations[0].kind == property {
			return o
		}
	}
	return nil
}

// reportsMost bounds how many failing runs a process shrinks and shows. The others are counted.
const reportsMost = 3

// report fails the test with the smallest plan that can be found, and the end of its history. What a
// reader needs first comes first: the violation, and the command that repeats it.
func report(t *testing.T, o *outcome, reported int) {
	t.Helper()
	if reported >= reportsMost {
		t.Errorf("%v\nseed %d, %s: not shown, since %d failed before", o.violations[0], o.plan.seed, o.plan.profile.name, reported)
		return
	}
	var list []string
	if !*noShrink {
		o, list = shrink(t, o)
	}
	t.Errorf("%v\n%s\n%v%s", o.violations[0], command(o.plan, list), o.plan, o.history.before(o.violations[0].at))
}

// command is what runs a seed again, without the parts in list.
func command(p *plan, list []string) string {
	arguments := fmt.Sprintf("-seed %d", p.seed)
	if *only != "" {
		arguments += " -profile " + *only
	}
	if *free > 0 {
		arguments += fmt.Sprint(" -free ", *free)
	}
	if len(list) > 0 {
		arguments += " -drop " + strings.Join(list, ",")
	}
	return "go test ./internal/simulation -run 'TestSeed$' -v -args -repeat 20 " + arguments
}
