package quorum

import (
	"fmt"
	"testing"
)

// TestATallyIsRightForEveryWayToVote compares Tally with brute force, for every way in which N = 1…6 masters can
// vote, also if some votes are missing. An outcome is certain if it holds for every way to cast the missing votes.
func TestATallyIsRightForEveryWayToVote(t *testing.T) {
	wantNeed := map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4}
	rows := 0
	for n := 1; n <= 6; n++ {
		need := Majority(n)
		if need != wantNeed[n] {
			t.Errorf("Majority(%d) = %d, want %d", n, need, wantNeed[n])
		}
		for granted := 0; granted <= n; granted++ {
			for refused := 0; granted+refused <= n; refused++ {
				for failed := 0; granted+refused+failed <= n; failed++ {
					rows++
					checkTally(t, Tally{N: n, Need: need, Granted: granted, Refused: refused, Failed: failed})
				}
			}
		}
	}
	t.Logf("%d tallies", rows)
}

func checkTally(t *testing.T, tally Tally) {
	t.Helper()
	ends := endings(tally)
	all := func(is func(Tally) bool) bool {
		for _, e := range ends {
			if !is(e) {
				return false
			}
		}
		return true
	}
	none := func(is func(Tally) bool) bool { return all(func(e Tally) bool { return !is(e) }) }
	won := func(e Tally) bool { return e.Granted >= e.Need }
	// Held by others: even if every failed master had granted, no quorum.
	held := func(e Tally) bool { return e.Granted+e.Failed < e.Need }

	for _, row := range []struct {
		name string
		got  bool
		want bool
	}{
		{"Won", tally.Won(), all(won)},
		{"Lost", tally.Lost(), none(won)},
		{"Decided", tally.Decided(), all(won) || none(won)},
		{"RuledOut", tally.RuledOut(), all(held)},
		{"Explained", tally.Explained(), all(held) || none(held)},
		{"Settled", tally.Settled(), all(won) || none(won) && (all(held) || none(held))},
		{"Answered", tally.Answered(), tally.N-tally.pending()-tally.Failed >= tally.Need},
	} {
		if row.got != row.want {
			t.Errorf("%+v: %s() = %v, want %v", tally, row.name, row.got, row.want)
		}
	}
}

// endings returns every way in which the missing votes can be cast.
func endings(t Tally) []Tally {
	if t.pending() == 0 {
		return []Tally{t}
	}
	var all []Tally
	for _, vote := range []func(*Tally){
		func(t *Tally) { t.Granted++ },
		func(t *Tally) { t.Refused++ },
		func(t *Tally) { t.Failed++ },
	} {
		next := t
		vote(&next)
		all = append(all, endings(next)...)
	}
	return all
}

func ExampleTally() {
	// Two of five refuse and one is dead: no quorum, but the lock may be free.
	split := Tally{N: 5, Need: 3, Granted: 2, Refused: 2, Failed: 1}
	fmt.Println(split.Lost(), split.RuledOut())
	// An even number needs more than half.
	half := Tally{N: 4, Need: Majority(4), Granted: 2, Refused: 2}
	fmt.Println(half.Lost(), half.RuledOut())
	// Output:
	// true false
	// true true
}
