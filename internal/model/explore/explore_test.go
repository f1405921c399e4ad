package explore

import (
	"fmt"
	"slices"
	"testing"
)

// pots are two pots that hold 0 to 3 coins each. It does not matter which pot is which.
type pots [2]int

// filled returns a model in which each step puts a coin into a pot.
func filled(check func(*pots) string) Model[pots, string] {
	return Model[pots, string]{
		Successors: func(s *pots, next func(string, pots)) {
			for i := range s {
				if n := *s; n[i] < 3 {
					n[i]++
					next(fmt.Sprintf("pot %d", i+1), n)
				}
			}
		},
		Canonical: func(s pots) pots { slices.Sort(s[:]); return s },
		Check:     check,
	}
}

func never(*pots) string { return "" }

func TestSearchVisitsEachRepresentativeOnce(t *testing.T) {
	m, steps := filled(never), 0
	m.Observe = func(string) { steps++ }
	r := m.Explore()
	if len(r.States) != 10 || steps != 15 || r.Result().Depth != 6 || r.Broken != -1 {
		t.Errorf("%d states, %d steps, %d deep, broken: %d; want 10, 15, 6, -1", len(r.States), steps, r.Result().Depth, r.Broken)
	}
	m.Canonical = nil
	if r := m.Explore(); len(r.States) != 16 {
		t.Errorf("%d states without representatives, want 16", len(r.States))
	}
}

func TestTraceIsTheShortestWayAndKeepsNames(t *testing.T) {
	r := filled(func(s *pots) string {
		if s[1] == 2 && s[0] == 1 {
			return "three coins"
		}
		return ""
	}).Explore()
	if r.Broken < 0 {
		t.Fatal("the broken state is not found")
	}
	got := r.Trace(r.Broken)
	pot := [2]int{}
	for _, step := range got {
		pot[step[len(step)-1]-'1']++
	}
	if len(got) != 3 || pot[0]+pot[1] != 3 || pot[0]*pot[1] != 2 {
		t.Errorf("trace %q, want two coins in one pot and one in the other", got)
	}
	if r.Trace(0) != nil {
		t.Errorf("trace of the initial state: %q", r.Trace(0))
	}
}

func TestAGoalBreaksAtAStateThatCannotReachTheEnd(t *testing.T) {
	m := filled(never)
	waits := func(s *pots) bool { return s[0]+s[1] < 6 }
	m.Goals = []Goal[pots]{{"one is filled", waits, func(s *pots) bool { return s[0] == 3 }}}
	if r := m.Explore(); r.Property != "" {
		t.Errorf("%v is trapped, but both pots can always be filled", r.States[r.Broken])
	}
	m.Goals = append(m.Goals, Goal[pots]{"one in each", waits, func(s *pots) bool { return s[0] == 1 && s[1] == 1 }})
	if r := m.Explore(); r.Property != "one in each" || r.States[r.Broken] != (pots{0, 2}) {
		t.Errorf("%q breaks at state %d, want the one with two coins in one pot", r.Property, r.Broken)
	}
}

func TestSortAndCompareUseTheFirstCodesThatDiffer(t *testing.T) {
	parts, codes := []int{3, 1, 2}, []Code{{0, 3}, {0, 1}, {0, 2}}
	Sort(parts, codes)
	want := []Code{{0, 1}, {0, 2}, {0, 3}}
	if !slices.Equal(parts, []int{1, 2, 3}) || !slices.Equal(codes, want) {
		t.Errorf("%v, %v", parts, codes)
	}
	if more := []Code{{0, 1}, {0, 2, 1}, {}}; Compare(want, more) != -1 || Compare(more, want) != 1 || Compare(want, want) != 0 {
		t.Error("Compare does not compare the codes in order")
	}
	code := func(p int) Code { return Code{0, uint64(p)} }
	if got := SortBy([]int{3, 1, 2}, code); !slices.Equal(got[:3], want) {
		t.Errorf("SortBy: %v", got)
	}
	if n := Count(parts, func(p int) bool { return p > 1 }); n != 2 {
		t.Errorf("Count: %d, want 2", n)
	}
}

func TestOnceCallsTheFunctionOnceForEachWorldAndRules(t *testing.T) {
	calls := 0
	f := Once(func(w, off int) Result { calls++; return Result{States: w * off} })
	if f(3, 3).States != 9 || f(4, 3).States != 12 || f(4, 5).States != 20 || f(3, 3).States != 9 || calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
}
