package waits

import (
	"errors"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/wire"
)

// flying returns a wait for the key "a", which takes values, and its claim.
func flying(s *Waits) (*Inbox, *Claim) {
	in := s.Begin("a")
	in.WantsValue()
	c := claimOf(in, "mine")
	in.SetClaim(c)
	return in, c
}

func TestAWaitTakesAValueOnlyIfItsFunctionBeganAfterTheCall(t *testing.T) {
	value := wire.Value{Key: "a", Token: "mine", Holder: "holder", Value: []byte("v"), Sure: true}
	unsure := value
	unsure.Sure = false
	register, poll := wire.Register, wire.Again
	for _, row := range []struct {
		name   string
		kind   wire.Kind
		answer wire.Answer
		value  wire.Value
		want   bool
	}{
		{"another token stood there", register, wire.Answer{Outcome: wire.Taken, Standing: "before"}, value, true},
		{"the key was free", register, wire.Answer{Outcome: wire.Granted}, value, true},
		{"the holder's token stood there", register, wire.Answer{Outcome: wire.Taken, Standing: "holder"}, value, false},
		{"the holder's token stood there, and is long", register, wire.Answer{Outcome: wire.Taken, Standing: strings.Repeat("h", 60)},
			wire.Value{Key: "a", Token: "mine", Holder: strings.Repeat("h", 32), Sure: true}, false},
		{"the holder is not sure", register, wire.Answer{Outcome: wire.Taken, Standing: "before"}, unsure, false},
		{"the registration failed", register, wire.Answer{Err: errors.New("lost")}, value, false},
		{"only a poll was answered", poll, wire.Answer{Outcome: wire.Taken, Standing: "before"}, value, false},
		{"it is for another claim", register, wire.Answer{Outcome: wire.Granted}, wire.Value{Key: "a", Token: "former", Holder: "holder", Sure: true}, false},
		{"it is for another key", register, wire.Answer{Outcome: wire.Granted}, wire.Value{Key: "b", Token: "mine", Holder: "holder", Sure: true}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := New(3, noDrift)
			in, c := flying(s)
			c.Answered(1, Command{Kind: row.kind, Mark: c.Began, Life: wire.GrantLeast}, row.answer, true)
			if expected := s.Value(1, row.value); expected != (row.value.Key == "a") {
				t.Errorf("the message was expected: %v", expected)
			}
			if _, ok := in.ReceivedValue(); ok {
				t.Error("a value was taken that one master of three has sent")
			}
			s.Value(2, row.value) // which has not answered the registration
			if _, ok := in.ReceivedValue(); ok != row.want {
				t.Errorf("taken: %v, want %v", ok, row.want)
			}
		})
	}
}

// A master that lies cannot forge a value.
func TestAQuorumOfMastersMustSendTheSameValue(t *testing.T) {
	s := New(5, noDrift)
	in, c := flying(s)
	forged := wire.Value{Key: "a", Token: "mine", Holder: "holder", Value: []byte("forged"), Sure: true}
	value, other := forged, forged
	value.Value, other.Holder = []byte("v"), "another"
	for i := range 5 {
		c.Answered(i, Command{Kind: wire.Register, Mark: c.Began, Life: wire.GrantLeast}, wire.Answer{Outcome: wire.Taken, Standing: "before"}, true)
	}
	for _, said := range []struct {
		master int
		value  wire.Value
		want   bool
	}{{0, forged, false}, {0, forged, false}, {0, forged, false}, {1, value, false}, {2, value, false}, {3, other, false}, {1, forged, false}, {4, value, false}, {3, value, true}} {
		s.Value(said.master, said.value)
		if got, ok := in.ReceivedValue(); ok != said.want || ok && string(got) != "v" {
			t.Fatalf("master %d has sent %q: the wait has %q, %v", said.master, said.value.Value, got, ok)
		}
	}
}

func TestAWaitForALockTakesNoValue(t *testing.T) {
	s := New(3, noDrift)
	in := s.Begin("a")
	c := claimOf(in, "mine")
	in.SetClaim(c)
	c.Answered(1, Command{Kind: wire.Register, Mark: c.Began, Life: wire.GrantLeast}, wire.Answer{Outcome: wire.Granted}, true)
	for i := range 3 {
		s.Value(i, wire.Value{Key: "a", Token: "mine", Holder: "holder", Sure: true})
	}
	if _, ok := in.ReceivedValue(); ok {
		t.Error("a value was taken")
	}
}

// An answer to the registration of an earlier claim says nothing of the present one.
func TestTheRegistrationOfAnEarlierClaimDoesNotCount(t *testing.T) {
	s := New(3, noDrift)
	in, c := flying(s)
	c.Answered(1, Command{Kind: wire.Register, Mark: c.Began, Life: wire.GrantLeast}, wire.Answer{Outcome: wire.Granted}, true)
	next := claimOf(in, "next")
	in.SetClaim(next)
	c.Answered(2, Command{Kind: wire.Register, Mark: c.Began, Life: wire.GrantLeast}, wire.Answer{Outcome: wire.Granted}, true)
	for i := range 3 {
		s.Value(i, wire.Value{Key: "a", Token: "next", Holder: "holder", Sure: true})
	}
	if _, ok := in.ReceivedValue(); ok {
		t.Error("a value was taken")
	}
	in.SetClaim(nil)
	if !s.Value(1, wire.Value{Key: "a", Token: "next", Holder: "holder"}) {
		t.Error("a message to a claim that was given up is not expected")
	}
	if _, ok := in.ReceivedValue(); ok {
		t.Error("a value was taken without a claim")
	}
}

func TestAWaitThatHasAValueKeepsIt(t *testing.T) {
	s := New(3, noDrift)
	in, c := flying(s)
	c.Answered(1, Command{Kind: wire.Register, Mark: c.Began, Life: wire.GrantLeast}, wire.Answer{Outcome: wire.Granted}, true)
	for _, text := range []string{"first", "second"} {
		for i := range 3 {
			s.Value(i, wire.Value{Key: "a", Token: "mine", Holder: "holder", Value: []byte(text), Sure: true})
		}
		select {
		case <-in.News:
			if text == "second" {
				t.Error("the wait is told of a second value")
			}
		default:
			if text == "first" {
				t.Error("the wait is not told of its value")
			}
		}
		if got, ok := in.ReceivedValue(); !ok || string(got) != "first" {
			t.Errorf("after the %s value the wait has %q, %v, want the first", text, got, ok)
		}
	}
	in.End()
	if !s.Value(0, wire.Value{Key: "a", Token: "mine", Holder: "holder"}) {
		t.Error("a value for a wait that has ended lately was not expected")
	}
}

func TestValuesForAClaimThatWasGivenUpDoNotCount(t *testing.T) {
	s := New(3, noDrift)
	in, c := flying(s)
	value := wire.Value{Key: "a", Token: "mine", Holder: "holder", Value: []byte("v"), Sure: true}
	s.Value(0, value)
	next := claimOf(in, "next")
	in.SetClaim(next)
	next.Answered(1, Command{Kind: wire.Register, Mark: c.Began, Life: wire.GrantLeast}, wire.Answer{Outcome: wire.Granted}, true)
	value.Token = "next"
	s.Value(1, value)
	if _, ok := in.ReceivedValue(); ok {
		t.Error("a value was taken that one master of three has sent for this claim")
	}
}
