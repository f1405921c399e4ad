package explore

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

// Large is the flag of the tests of a model that has them explore the larger worlds, too.
var Large = flag.Bool("large", false, "explore the larger worlds, too: minutes, and some gigabytes")

// A Case is a row of a table of worlds: a world, maybe without a rule, and what its exploration finds.
type Case[W any] struct {
	Name  string // of the subtest
	World W      // with the rules that are struck out, if any
	Want  string // the property that breaks; "": none
	Steps int    // in which it breaks; 0: in any number
	Floor int    // the least number of states. 0: any number, and the exploration need not reach all of the model
	Large bool   // explored with the flag only
}

// A Result is what an exploration has found.
type Result struct {
	States int      // how many there are, up to permutation
	Steps  int      // from all states
	Broken string   // the property that breaks after the fewest steps; "": none
	Trace  []string // these steps
	Note   string   // about the exploration; may be empty
	Missed string   // a part of the model that no state has reached; "": none
}

func (r Result) String() string {
	text := fmt.Sprintf("%d states, %d steps: ", r.States, r.Steps)
	if r.Note != "" {
		text = fmt.Sprintf("%d states, %d steps, %s: ", r.States, r.Steps, r.Note)
	}
	if r.Broken == "" {
		return text + "all properties hold"
	}
	return fmt.Sprintf("%s%s in %d steps\n\t%s", text, r.Broken, len(r.Trace), strings.Join(r.Trace, "\n\t"))
}

// Check explores the world of each case in a subtest, and checks what it finds. A model that does nothing breaks no property either:
// so cases have floors.
func Check[W any](t *testing.T, cases []Case[W], explore func(W) Result) {
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
			r := explore(c.World)
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
