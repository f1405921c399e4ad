package explore

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

// Large is the flag of the tests of a model that has them explore the larger worlds, too.
var Large = flag.Bool("large", false, "explore the larger worlds, too: minutes, and some gigabytes")

// A Case is a row of a table of worlds: a world, maybe without a rule, and what its exploration finds. R is the rules of its model: each field
// strikes out one.
type Case[W, R any] struct {
	Name  string // of the subtest
	World W      // what happens in it
	Off   R      // the rules that are struck out; the zero value: none
	Want  string // the property that breaks; "": none
	Steps int    // in which it breaks; 0: in any number
	Floor int    // the least number of states. 0: any number, and the exploration need not reach all of the model
	Large bool   // explored with the flag only
}

// A Result is what an exploration has found.
type Result struct {
	States int      // how many there are, up to permutation
	Steps  int      // from all states
	Depth  int      // the number of steps to the state that is farthest from the initial one
	Broken string   // the property that breaks after the fewest steps; "": none
	Trace  []string // these steps
	Note   string   // about the exploration; may be empty
	Missed string   // a part of the model that no state has reached; "": none
}

func (r Result) String() string {
	text := fmt.Sprintf("%d states, %d steps, %d deep", r.States, r.Steps, r.Depth)
	if r.Note != "" {
		text += ", " + r.Note
	}
	if r.Broken == "" {
		return text + ": all properties hold"
	}
	return fmt.Sprintf("%s: %s in %d steps\n\t%s", text, r.Broken, len(r.Trace), strings.Join(r.Trace, "\n\t"))
}

// Within explores a model in which a number, such as a time, is at most a bound. The result misses a bound that is not reached.
func (m Model[S, A]) Within(bound uint8, number func(*S) uint8, property string) Result {
	most := uint8(0)
	m.Check = func(s *S) string {
		if most = max(most, number(s)); most > bound {
			return property
		}
		return ""
	}
	r := m.Explore().Result()
	if r.Note = fmt.Sprintf("up to %d of %d", most, bound); most < bound {
		r.Missed = "the bound"
	}
	return r
}

// CheckPermutations explores a model with and without merging permutations, and checks that the states are the same up to permutation:
// merged, there are less by the factor at least.
func CheckPermutations[S comparable, A any](t *testing.T, m Model[S, A], factor int) {
	t.Helper()
	want, canonical := len(m.Explore().States), m.Canonical
	m.Canonical = nil
	all, merged := m.Explore().States, make(map[S]bool)
	for _, s := range all {
		c := canonical(s)
		if c != canonical(c) {
			t.Fatalf("the representative of %v is not its own", c)
		}
		merged[c] = true
	}
	t.Logf("%d states, %d up to permutation", len(all), len(merged))
	if len(merged) != want || len(all) < factor*want {
		t.Errorf("%d states up to permutation of %d, want %d", len(merged), len(all), want)
	}
}

// Check explores the world of each case in a subtest, and checks what it finds. A model that does nothing breaks no property either:
// so cases have floors.
func Check[W, R any](t *testing.T, cases []Case[W, R], explore func(W, R) Result) {
	for _, c := range cases {
		if c.Large && !*Large {
			continue // a test that skips is a failure in CI
		}
		t.Run(c.Name, func(t *testing.T) {
			if testing.Short() && c.Floor > 50_000 {
				t.Skip("not with -short")
			}
			if !*Large {
				t.Parallel() // the large worlds run in turn, since each needs much memory
			}
			r := explore(c.World, c.Off)
			t.Log(r)
			if r.Broken != c.Want || c.Steps > 0 && len(r.Trace) != c.Steps {
				t.Errorf("found: %q in %d steps, want: %q in %d", r.Broken, len(r.Trace), c.Want, c.Steps)
			}
			if c.Floor > 0 && (r.States < c.Floor || r.Missed != "") {
				t.Errorf("%d states, want at least %d; part of the model is not reached: %s", r.States, c.Floor, r.Missed)
			}
		})
	}
}
