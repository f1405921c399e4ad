package waits

import (
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

func TestVotesForSlotsAreCountedBySlot(t *testing.T) {
	none := func(time.Duration) time.Duration { return 0 }
	for _, row := range []struct {
		name  string
		n     int
		votes [][]int // by master; nil: it has not voted
		aim   []int
		won   []int
		split bool
	}{
		{"a quorum for one slot", 1, [][]int{{4}, {4}, {2}, {4}, nil}, nil, []int{4}, false},
		{"votes for several slots are not added up", 1, [][]int{{4}, {2}, {3}, nil, nil}, nil, nil, false},
		{"no slot can have a quorum any more", 1, [][]int{{4}, {4}, {2}, {2}, {3}}, nil, nil, true},
		{"one can", 1, [][]int{{4}, {4}, {2}, {2}, nil}, nil, nil, false},
		{"two slots by different quorums", 2, [][]int{{1, 2}, {1, 2}, {1}, {2}, {3, 4}}, nil, []int{1, 2}, false},
		{"one of two slots", 2, [][]int{{1, 2}, {1, 2}, {1, 3}, {1, 4}, {1, 5}}, nil, nil, false},
		{"after an aim, only votes for its slots count", 1, [][]int{{4}, {4}, {4}, {2}, {2}}, []int{2}, nil, false},
		{"nobody has voted", 1, make([][]int, 5), nil, nil, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			terms := wire.NewSlotTerms("a", 10, row.n, time.Minute)
			now := clock.System()
			w := New(5).Begin("a")
			c := NewSlotClaim(master.NewClaim(&terms, wire.ClaimOf{Token: "T"}), now, time.Minute, 5, row.n)
			w.SetClaim(c)
			for i, slots := range row.votes {
				if slots != nil {
					w.voteLocked(i, vote{mark: now, life: time.Minute, slots: slots})
				}
			}
			if row.aim != nil {
				w.Aim(c, row.aim)
				w.voteLocked(0, vote{mark: now, life: time.Hour, slots: []int{4}})
			}
			_, _, won := w.Count(c, now, none, 0)
			if (won != nil) != (row.won != nil) || won != nil && !slices.Equal(won.Slots, row.won) {
				t.Errorf("won = %+v, want %v", won, row.won)
			}
			if got := w.Split(c, now, none); got != row.split {
				t.Errorf("Split = %t, want %t", got, row.split)
			}
		})
	}
}
