package holding

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

func TestAnOwnerIsKnownForAWhile(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		synctest.Wait()
		o := NewOwners(nil)
		known := func() bool {
			_, known := o.Of("a")
			return known
		}
		if !o.beginAsking("a") || o.beginAsking("a") {
			t.Error("want the first question only within AskEvery")
		}
		if known() {
			t.Error("an owner is known before an answer")
		}
		held := Of([]wire.Look{has("t", s), has("t", s), {}}, 3)
		o.Heard("a", held, time.Second)
		if h, known := o.Of("a"); !known || h.Token != "t" {
			t.Errorf("known: %v, token %q; want t", known, h.Token)
		}
		time.Sleep(AskEvery)
		if !o.beginAsking("a") || !known() {
			t.Error("after AskEvery, want another question, and the answer still used")
		}
		time.Sleep(answerFor + time.Millisecond)
		if known() {
			t.Error("the answer is used for longer than until the next is expected, and answerFor")
		}
		o.Heard("a", Of([]wire.Look{has("t", s), {}, {}}, 3), 0)
		if known() {
			t.Error("a token at one master of three makes an owner known")
		}
	})
}

func TestTheVotesOnAClaimTellWhoHoldsTheLock(t *testing.T) {
	votes := func(tokens ...string) (all []quorum.Vote) {
		for _, token := range tokens {
			all = append(all, quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Taken, Standing: token}})
		}
		return all
	}
	for _, row := range []struct {
		name    string
		votes   []quorum.Vote
		token   string // empty: nobody is known to hold it
		readers bool
	}{
		{"all", votes("a", "a", "a"), "a", false},
		{"a quorum", votes("b", "a", "a"), "a", false},
		{"nobody", votes("b", "a", ""), "", false},
		{"masters that say nothing are no holder", votes("", "", ""), "", false},
		{"readers", votes(wire.ReadersMarker, wire.ReadersMarker, ""), wire.ReadersMarker, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			h, readers := Standing(row.votes)
			if !h.Held() {
				h.Token = ""
			}
			if h.Token != row.token || readers != row.readers {
				t.Errorf("Standing = %q, %v; want %q, %v", h.Token, readers, row.token, row.readers)
			}
		})
	}
}
