package quorum

import (
	"errors"
	"testing"

	"github.com/redlock-go/redlock/internal/wire"
)

// A master that was given up may still answer. That answer must change neither its vote nor the count.
func TestOnlyTheFirstVoteOfAMasterCounts(t *testing.T) {
	late := errors.New("late")
	b := NewBallot(3)
	if !b.Cast(1, wire.Answer{Err: late}) {
		t.Error("Cast reports that the first vote is not the first")
	}
	if b.Cast(1, wire.Answer{Outcome: wire.Granted}) {
		t.Error("Cast reports that the second vote is the first")
	}
	if got, want := b.Tally(), (Tally{N: 3, Need: 2, Failed: 1}); got != want {
		t.Errorf("after two votes of one master Tally() = %+v, want %+v", got, want)
	}
	if v := b.Vote(1); v.Err != late {
		t.Errorf("after two votes of one master Vote(1) = %+v, want the first", v)
	}
}

func TestAWithdrawnVoteCanBeCastAgain(t *testing.T) {
	b := NewBallot(3)
	b.Cast(0, wire.Answer{Outcome: wire.Taken})
	b.Cast(1, wire.Answer{Err: errors.New("down")})
	b.Withdraw(1)
	if got, want := b.Tally(), (Tally{N: 3, Need: 2, Refused: 1}); got != want {
		t.Errorf("after Withdraw Tally() = %+v, want %+v", got, want)
	}
	if !b.Cast(1, wire.Answer{Outcome: wire.Granted}) {
		t.Error("Cast after Withdraw reports false")
	}
	if got, want := b.Tally(), Count(b.Votes()); got != want || got.Granted != 1 {
		t.Errorf("Tally() = %+v, Count(Votes()) = %+v, want the same with one grant", got, want)
	}
	b.Clear()
	if got, want := b.Tally(), (Tally{N: 3, Need: 2}); got != want {
		t.Errorf("after Clear Tally() = %+v, want %+v", got, want)
	}
}

func TestAVoteIsGrantedIfItWasCastAndTheCommandCarriedOut(t *testing.T) {
	for _, row := range []struct {
		vote Vote
		want bool
	}{
		{Vote{Answer: wire.Answer{Outcome: wire.Granted}, In: true}, true},
		{Vote{Answer: wire.Answer{Outcome: wire.Granted}}, false},
		{Vote{Answer: wire.Answer{Outcome: wire.Taken}, In: true}, false},
		{Vote{}, false},
	} {
		if got := row.vote.Granted(); got != row.want {
			t.Errorf("%+v is granted: %v, want %v", row.vote, got, row.want)
		}
	}
}
