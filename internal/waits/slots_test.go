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
			in := New(5).Begin("a")
			c := NewSlotClaim(master.NewClaim(&terms, wire.ClaimOf{Token: "T"}), now, time.Minute, 5, row.n, 10)
			in.SetClaim(c)
			for i, slots := range row.votes {
				if slots != nil {
					in.voteLocked(i, vote{mark: now, life: time.Minute, slots: slots})
				}
			}
			if row.aim != nil {
				in.Aim(c, row.aim)
				in.voteLocked(0, vote{mark: now, life: time.Hour, slots: []int{4}})
			}
			_, _, won := in.Count(c, now, none, 0)
			if (won != nil) != (row.won != nil) || won != nil && !slices.Equal(won.Slots, row.won) {
				t.Errorf("won = %+v, want %v", won, row.won)
			}
			if got := in.Split(c, now, none); got != row.split {
				t.Errorf("Split = %t, want %t", got, row.split)
			}
		})
	}
}

// A message that a claim on slots is near names the semaphore, for which a Client may have several claims.
func TestAClaimOnSlotsIsNearIfItsTokenIsTold(t *testing.T) {
	s := New(3)
	terms := wire.NewSlotTerms("a", 8, 1, time.Minute)
	claim := func(token string, ahead int) (*Inbox, *Claim) {
		in, c := s.Begin("permit of "+token), NewSlotClaim(master.NewClaim(&terms, wire.ClaimOf{Token: token}), clock.System(), time.Minute, 3, 1, 8)
		in.SetClaim(c)
		for i := range 3 {
			in.Answered(c, wire.Again, i, wire.Answer{Outcome: wire.Taken, Ahead: ahead}, clock.System(), time.Minute, true)
		}
		return in, c
	}
	first, one := claim("T", 20)
	second, other := claim("U", 30)
	if _, near := s.NearAt(1); near || !s.Calm() {
		t.Errorf("a claim with 20 ahead is near: %t, the Client is calm: %t", near, s.Calm())
	}
	near := func(key, token string) bool {
		known, _ := s.Near(1, key, token)
		return known
	}
	if !near(terms.Key(), "T") || !near(terms.Key(), "another") || near("b", "T") {
		t.Error("the message is expected of the semaphore, whichever claim has won or was given up, and of no other key")
	}
	if got, want := first.Ahead(one), 7; got != want {
		t.Errorf("%d are ahead of the claim that was told, want %d: the limit is 8", got, want)
	}
	if got := second.Ahead(other); got != 30 {
		t.Errorf("%d are ahead of the other, want 30", got)
	}
	if _, near := s.NearAt(1); !near || s.Calm() {
		t.Errorf("a claim that was told is near: %t, the Client is calm: %t", near, s.Calm())
	}
	if got := s.Soonest(10, 5); got != 5 {
		t.Errorf("a master hears of a claim after %d pauses, want 5, since the first one is near and polls seldom", got)
	}
	first.End()
	if got := s.Soonest(10, 5); got != 30 {
		t.Errorf("a master hears of a claim after %d pauses, want 30: so many are ahead of the other one", got)
	}
}

// A claim that is near already, and is told so, was passed over. It polls soon.
func TestAClaimOnSlotsLearnsThatItWasPassedOver(t *testing.T) {
	s := New(3)
	terms := wire.NewSlotTerms("a", 8, 1, time.Minute)
	in, c := s.Begin("permit of T"), NewSlotClaim(master.NewClaim(&terms, wire.ClaimOf{Token: "T"}), clock.System(), time.Minute, 3, 1, 8)
	in.SetClaim(c)
	for i := range 3 {
		in.Answered(c, wire.Again, i, wire.Answer{Outcome: wire.Taken, Ahead: 20}, clock.System(), time.Minute, true)
	}
	for _, want := range []bool{false, true, true} {
		s.Near(1, terms.Key(), "T")
		if got := in.PassedOver(c); got != want {
			t.Errorf("it was passed over: %t, want %t", got, want)
		}
		if in.PassedOver(c) {
			t.Error("it was passed over twice by one message")
		}
	}
}
