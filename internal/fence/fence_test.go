package fence

import (
	"fmt"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// votes returns the votes of masters that have given these numbers, each relative to that of noon. A negative one stands for
// a master that has refused, and tells its number.
func votes(numbers ...int64) (all []quorum.Vote) {
	for _, n := range numbers {
		v := quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Granted, Fence: At(noon) + n}}
		if n < 0 {
			v.Answer = wire.Answer{Outcome: wire.Overtaken, Fence: At(noon) - n}
		}
		all = append(all, v)
	}
	return all
}

func TestANumberIsCommittedWhenAQuorumHasExactlyIt(t *testing.T) {
	const maxTTL = 10 * time.Second
	old := At(noon.Add(-maxTTL-time.Second)) - At(noon)
	for _, row := range []struct {
		name   string
		first  []int64
		rounds [][]int64 // further ones
		want   string
	}{
		{name: "all have given one", first: []int64{70, 70, 70}, want: "70 in 1"},
		{name: "a quorum has given the highest", first: []int64{70, 73, 73}, want: "73 in 1"},
		{name: "the second round raises all", first: []int64{70, 71, 73}, rounds: [][]int64{{73, 73, 73}}, want: "73 in 2"},
		{name: "it needs a quorum only", first: []int64{70, 71, 73}, rounds: [][]int64{{73, -75, 73}}, want: "73 in 2"},
		{name: "another acquisition has got there first", first: []int64{70, 71, 73}, rounds: [][]int64{{-75, -75, 73}, {75, 75, 75}}, want: "75 in 3"},
		{name: "the votes are lost", first: []int64{70, 71, 73}, rounds: [][]int64{{73}}, want: "none in 2"},
		{name: "always overtaken", first: []int64{70, 71, 73}, rounds: [][]int64{{-75, -75, 73}, {-77, -77, 75}, {-79, -79, 77}, {-81, -81, 79}}, want: "none in 5"},
		{name: "older than MaxTTL", first: []int64{old, old, old}, rounds: [][]int64{{0, 0, 0}}, want: "0 in 2"},
		{name: "a reader's may be as old as a quarter of a second", first: []int64{0, 0, 0}, want: "0 in 1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			first := votes(0, 0, 0)
			for i := range first {
				first[i].Fence += row.first[i]
			}
			a, more := Agree(first, noon, maxTTL), true
			for _, numbers := range row.rounds {
				if a.Agreed || !more {
					t.Fatalf("after %d rounds: agreed %v, more %v; want a further round", a.Rounds, a.Agreed, more)
				}
				round := votes(numbers...)
				for len(round) < len(first) {
					round = append(round, quorum.Vote{In: true, Answer: wire.Answer{Err: fmt.Errorf("down")}})
				}
				more = a.Heard(round, quorum.Count(round).Won())
			}
			got := fmt.Sprintf("%d in %d", a.Number-At(noon), a.Rounds)
			if !a.Agreed {
				got = fmt.Sprintf("none in %d", a.Rounds)
			}
			if got != row.want || a.Agreed != more {
				t.Errorf("got %s, more %v; want %s", got, more, row.want)
			}
		})
	}
}

func TestAMasterThatHasRefusedDoesNotAcknowledgeItsNumber(t *testing.T) {
	if a := Agree(votes(70, 71, 71, -71, -71), noon, 10*time.Second); a.Agreed || a.Number != At(noon)+71 {
		t.Errorf("agreed %v on %d, want that two of five have given 71, and no agreement yet", a.Agreed, a.Number-At(noon))
	}
}

func TestAProposalIsAboveWhatWasHeard(t *testing.T) {
	n, limit := NewNumbers(), 5*time.Second
	at := func(key string) int64 { return n.Propose(key, noon, limit).Number - At(noon) }
	if got := at("a"); got != 0 {
		t.Errorf("the first proposal is %d ticks from the clock, want 0", got)
	}
	if got := at("a"); got != 1 {
		t.Errorf("the next one is %d, want 1: the first may have been given", got)
	}
	n.Heard("a", votes(70, -75))
	if got := at("a"); got != 76 {
		t.Errorf("after 75 was heard, the proposal is %d, want 76", got)
	}
	if got := at("b"); got != 0 {
		t.Errorf("the proposal of another name is %d, want 0", got)
	}
	n.Heard("a", votes(Most(noon, limit)-At(noon)))
	if got := at("a"); got != 0 {
		t.Errorf("after a number too far ahead was heard, the proposal is %d, want 0", got)
	}
}

func TestAVoteWithANumberTooFarAheadDoesNotCount(t *testing.T) {
	most := At(noon) + 72
	got := Usable(votes(70, 72, 73), most, noon)
	if !got[0].Granted() || !got[1].Granted() || got[2].Granted() || got[2].Err == nil {
		t.Errorf("granted: %v, %v, %v; want all but the last", got[0].Granted(), got[1].Granted(), got[2].Granted())
	}
	if got := Usable(votes(70, 70, -99), most, noon); got[2].Err != nil {
		t.Errorf("a refusal with such a number is the error %v, want the refusal: it says who has the lock", got[2].Err)
	}
	if got := Usable(votes(70, 99), 0, noon); !got[1].Granted() {
		t.Error("without a limit, a vote does not count")
	}
}

func TestFencesAreInTheOrderOfNumbersAndHandovers(t *testing.T) {
	if Of(0, 3) != 0 {
		t.Error("the number 0 has a fence")
	}
	if a, b, c := Of(70, 0), Of(70, HandoversMost), Of(71, 0); a >= b || b >= c {
		t.Errorf("%d, %d, %d do not rise", a, b, c)
	}
	if last := Of(At(time.Date(2038, 12, 31, 0, 0, 0, 0, time.UTC)), HandoversMost); last >= 1<<53 {
		t.Errorf("in 2038, a fence is %d, not below 2⁵³", last)
	}
}
