package fence

import (
	"fmt"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// standing returns the vote of a master where the token stands in these slots, and whose number is relative to that of noon.
func standing(slots string, number int64) quorum.Vote {
	if slots == "" {
		return quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Missing}}
	}
	return quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Granted, Slots: wire.Slots(slots), Fence: At(noon) + number}}
}

func TestANumberOfSlotsIsAgreedWhenAQuorumForEachSlotIsAsHigh(t *testing.T) {
	const maxTTL = 10 * time.Second
	old := At(noon.Add(-maxTTL-time.Second)) - At(noon)
	none, down := standing("", 0), quorum.Vote{In: true, Answer: wire.Answer{Err: fmt.Errorf("down")}}
	out := standing("0", 75)
	out.In = false
	for _, row := range []struct {
		name   string
		slots  []int
		rounds [][]quorum.Vote
		want   string
	}{
		{"a quorum is as high as the second of three", []int{0}, [][]quorum.Vote{{standing("0", 70), standing("0", 71), standing("0", 75)}}, "71 agreed"},
		{"the same in another order", []int{0}, [][]quorum.Vote{{standing("0", 75), standing("0", 70), standing("0", 71)}}, "71 agreed"},
		{"all have given one", []int{0}, [][]quorum.Vote{{standing("0", 70), standing("0", 70), standing("0", 70)}}, "70 agreed"},
		{"two have answered", []int{0}, [][]quorum.Vote{{standing("0", 70), standing("0", 71), down}}, "71 not agreed"},
		{"the second round has raised one", []int{0}, [][]quorum.Vote{{standing("0", 70), standing("0", 71), down},
			{standing("0", 71), standing("0", 73), down}}, "71 agreed"},
		{"another master has answered the second round", []int{0}, [][]quorum.Vote{{standing("0", 70), standing("0", 71), down},
			{down, standing("0", 71), standing("0", 71)}}, "71 agreed"},
		{"the slot has expired before the second round", []int{0}, [][]quorum.Vote{{standing("0", 70), standing("0", 71), down},
			{none, standing("0", 71), down}}, "no quorum"},
		{"one has answered", []int{0}, [][]quorum.Vote{{standing("0", 70), down, down}}, "no quorum"},
		{"a quorum stands in another slot", []int{0}, [][]quorum.Vote{{standing("0", 70), standing("1", 71), standing("1", 72)}}, "no quorum"},
		{"a master that may have lost its data has answered", []int{0}, [][]quorum.Vote{{standing("0", 70), out, down}}, "no quorum"},
		{"more have answered since", []int{0}, [][]quorum.Vote{{standing("0", 70), down, down}, {standing("0", 70), down, standing("0", 70)}}, "70 agreed"},
		{"one slot has no quorum", []int{0, 1}, [][]quorum.Vote{{standing("0,1", 70), standing("0", 71), standing("0", 72)}}, "no quorum"},
		{"the quorums differ", []int{0, 1}, [][]quorum.Vote{{standing("0,1", 70), standing("0", 75), standing("1", 73)}}, "75 not agreed"},
		{"the second round has raised those of both", []int{0, 1}, [][]quorum.Vote{{standing("0,1", 70), standing("0", 75), standing("1", 73)},
			{standing("0,1", 75), standing("0", 75), standing("1", 75)}}, "75 agreed"},
		{"one of both is lower", []int{0, 1}, [][]quorum.Vote{{standing("0,1", 75), standing("0", 75), standing("1", 74)}}, "75 not agreed"},
		{"older than MaxTTL", []int{0}, [][]quorum.Vote{{standing("0", old), standing("0", old), standing("0", old)}}, "0 not agreed"},
		{"a number may be as old as MaxTTL", []int{0}, [][]quorum.Vote{{standing("0", old+4000), standing("0", old+4000), down}}, fmt.Sprint(old+4000, " agreed")},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, got := NewSlots(row.slots), ""
			for _, round := range row.rounds {
				switch more := a.Heard(round, noon, maxTTL); {
				case !more:
					got = "no quorum"
				case a.Agreed:
					got = fmt.Sprint(a.Number-At(noon), " agreed")
				default:
					got = fmt.Sprint(a.Number-At(noon), " not agreed")
				}
			}
			if got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}
