package simulation

import "testing"

// TestRunsRepeat runs a few seeds, as many as -repeat says, twice. Their plans are the same. It reports how many histories
// are.
func TestRunsRepeat(t *testing.T) {
	n := max(*repeat, 2)
	same := 0
	for s := range uint64(n) {
		first, second := simulate(t, makePlan(s)), simulate(t, makePlan(s))
		if a, b := first.plan.String(), second.plan.String(); a != b {
			t.Errorf("seed %d: two plans:\n%s%s", s, a, b)
		}
		if first.history.digest() == second.history.digest() {
			same++
		}
	}
	t.Logf("%d of %d histories repeat", same, n)
}
