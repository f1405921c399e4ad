package waits

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

// A placed is a claim that waits at five masters.
type placed struct {
	*testing.T
	s  *Waits
	in *Inbox
	c  *Claim
}

func newPlaced(t *testing.T) *placed {
	terms := wire.NewTerms("a", time.Second)
	p := &placed{T: t, s: New(5, noDrift)}
	p.in = p.s.Begin("a")
	p.c = p.in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "token"}), clock.System(), time.Second, 0, 0)
	p.in.SetClaim(p.c)
	return p
}

// answer has master i answer a command that was sent at sent.
func (p *placed) answer(i, ahead int, sent clock.Reading) {
	refuse(p.c, i, ahead, sent)
}

func (p *placed) want(when string, ahead int) {
	p.Helper()
	if got := p.c.Ahead(); got != ahead {
		p.Errorf("%s: %d are ahead, want %d", when, got, ahead)
	}
}

func TestAClaimIsNearIfMostMastersThatHaveAnsweredSaySo(t *testing.T) {
	for _, row := range []struct {
		name   string
		places []int // by master
		ahead  int
	}{
		{"no master has answered", nil, 0},
		{"fewer than a quorum have", []int{7, 9}, 0},
		{"it is near at none: it would poll once in 7, 9 and 8 steps", []int{7, 9, 8}, 8},
		{"it is near at all", []int{2, 1, 2, 2, 2}, 1},
		{"it is near at three", []int{9, 2, 2, 0, 9}, 0},
		{"it is near at two", []int{2, 2, 7, 8, 9}, 4},
		{"it is the head of two", []int{0, 0, 9, 9, 9}, wire.Near},
		{"it is near at two of three that have answered", []int{1, 2, 5}, 1},
		{"it is near at two of four", []int{1, 1, 5, 6}, wire.Near},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPlaced(t)
			for i, ahead := range row.places {
				p.answer(i, ahead, clock.System())
			}
			p.want("all have answered", row.ahead)
			for i, ahead := range row.places {
				since, _, near := p.s.Waiting(i)
				if want := row.ahead < wire.Near && ahead < wire.Near; near != want || near && !since.Equal(p.c.Began.Time()) {
					t.Errorf("near at master %d: %t since %v; want %t, since the registration", i, near, since, want)
				}
			}
		})
	}
}

func TestAPlaceIsNotKnownWhileAMasterCannotTellTheClientOfGrants(t *testing.T) {
	p := newPlaced(t)
	all := func(ahead int) {
		for i := range 5 {
			p.answer(i, ahead, clock.System())
		}
	}
	all(7)
	p.want("all are up", 7)
	for i := range 3 {
		p.c.Answered(i, Command{Kind: wire.Again, Mark: clock.System(), Life: time.Second}, wire.Answer{Err: errTest}, true)
	}
	p.want("a quorum are down", 0)
	all(7)
	p.want("they are up again", 7)
	for i := range 3 {
		p.c.Answered(i, Command{Kind: wire.Again, Mark: clock.System()}, wire.Answer{Outcome: wire.Taken, Ahead: 7}, false)
	}
	p.want("a quorum cannot tell this Client of grants", 0)
}

// The masters at which a claim has become near are pinged often from then on: those that had said so before, too.
func TestAClaimBecomesNearAtAllMastersThatHaveSaidSo(t *testing.T) {
	p, now := newPlaced(t), clock.System()
	for i := range 5 {
		p.answer(i, 7, now)
	}
	for n, want := range []uint64{0, 0, 0b10101, 0b01000, 0} {
		i := []int{0, 4, 2, 3, 3}[n]
		if _, near, _ := p.s.Near(i, "a", "token"); near != want {
			t.Errorf("by the message of master %d, it has become near at %b, want %b", i, near, want)
		}
	}
	p.c.Answered(0, Command{Kind: wire.Again, Mark: clock.System()}, wire.Answer{Outcome: wire.Taken, Ahead: 7}, true)
	p.c.Answered(4, Command{Kind: wire.Again, Mark: clock.System()}, wire.Answer{Outcome: wire.Taken, Ahead: 7}, true)
	if _, _, near := p.s.Waiting(2); near {
		t.Error("two of five masters say that it is near, and it is")
	}
	if near, _ := p.c.Answered(1, Command{Kind: wire.Again, Mark: clock.System()}, wire.Answer{Outcome: wire.Taken, Ahead: 1}, true); near != 0b01110 {
		t.Errorf("by an answer, it has become near at %b, want the three that say so", near)
	}
}

// The message and the answer come on connections of their own.
func TestAnAnswerThatWasAskedForBeforeTheLastMessageDoesNotChangeThePlace(t *testing.T) {
	p, before := newPlaced(t), clock.System()
	for i := range 5 {
		p.answer(i, 7, before)
	}
	for i := range 3 {
		if _, _, known := p.s.Near(i, "a", "token"); !known {
			t.Error("the message was not expected")
		}
	}
	p.want("messages have come", wire.Near-1)
	p.answer(1, 7, before)
	p.want("an older answer has come", wire.Near-1)
	time.Sleep(time.Millisecond) // until a clock that ticks seldom has gone on
	p.answer(1, 7, clock.System())
	p.want("a newer answer has come, and two masters say that it is near", 4)
	p.s.Near(1, "a", "token")
	p.want("another message has come", wire.Near-1)
	p.s.Up(1)
	p.want("the master has come up anew", wire.Near)
	if !take(p.s, &p.c.returned) || take(p.s, &p.c.returned) {
		t.Error("the master has not come up once")
	}
}

func TestAMessageThatAClaimIsNearIsExpectedOfAClaim(t *testing.T) {
	p := newPlaced(t)
	for i := range 5 {
		p.answer(i, 7, clock.System())
	}
	if _, _, known := p.s.Near(0, "b", "token"); known {
		t.Error("a message about another name was expected")
	}
	if _, _, known := p.s.Near(0, "a", "earlier"); !known {
		t.Error("a message for an earlier claim was not expected")
	}
	p.want("another claim is near", 7)
	p.in.End()
	if _, _, known := p.s.Near(0, "a", "token"); !known {
		t.Error("a message for a wait that has just ended was not expected")
	}
}

// When a master has come up anew, it does not say where the claim stands, so the others decide.
func TestAClaimMayBecomeNearWhenAMasterComesUp(t *testing.T) {
	p := newPlaced(t)
	for i := range 5 {
		p.answer(i, 7*(i/2), clock.System()) // near at two
	}
	for n, want := range []uint64{0, 0b00011} {
		if near := p.s.Up(4 - n); near != want {
			t.Errorf("when master %d comes up, the claim has become near at %b, want %b", 4-n, near, want)
		}
	}
}

// A message that a claim on slots is near names the semaphore, for which a Client may have several claims.
func TestAClaimOnSlotsIsNearIfItsTokenIsTold(t *testing.T) {
	s := New(3, noDrift)
	claim := func(token string, ahead int) (*Inbox, *Claim) {
		in := s.Begin("permit of " + token)
		c := permitsOf(in, token, clock.System(), 1, 8)
		in.SetClaim(c)
		for i := range 3 {
			refuse(c, i, ahead, clock.System())
		}
		return in, c
	}
	first, one := claim("T", 20)
	_, other := claim("U", 30)
	if _, _, near := s.Waiting(1); near || !s.Calm() {
		t.Errorf("a claim with 20 ahead is near: %t, the Client is calm: %t", near, s.Calm())
	}
	near := func(key, token string) bool {
		_, _, known := s.Near(1, key, token)
		s.Near(2, key, token)
		return known
	}
	if !near(one.Key(), "T") || !near(one.Key(), "another") || near("b", "T") {
		t.Error("the message is expected of the semaphore, whichever claim has won or was given up, and of no other key")
	}
	if got, want := one.Ahead(), 7; got != want {
		t.Errorf("%d are ahead of the claim that was told, want %d: the limit is 8", got, want)
	}
	if got := other.Ahead(); got != 30 {
		t.Errorf("%d are ahead of the other, want 30", got)
	}
	if _, _, near := s.Waiting(1); !near || s.Calm() {
		t.Errorf("a claim that was told is near: %t, the Client is calm: %t", near, s.Calm())
	}
	if got := s.soonestLocked(); got != 5 {
		t.Errorf("a master hears of a claim after %d pauses, want 5, since the first one is near and polls seldom", got)
	}
	first.End()
	if got := s.soonestLocked(); got != 30 {
		t.Errorf("a master hears of a claim after %d pauses, want 30: so many are ahead of the other one", got)
	}
}

// A claim that is near already, and is told so, was passed over. It polls soon.
func TestAClaimOnSlotsLearnsThatItWasPassedOver(t *testing.T) {
	s := New(3, noDrift)
	in := s.Begin("permit of T")
	c := permitsOf(in, "T", clock.System(), 1, 8)
	in.SetClaim(c)
	for i := range 3 {
		refuse(c, i, 20, clock.System())
	}
	for n, want := range []bool{false, false, false, true, true} { // the third message has it near
		i := []int{1, 1, 2, 2, 1}[n]
		s.Near(i, c.Key(), "T")
		if got := take(s, &c.passed); got != want {
			t.Errorf("by message %d, it was passed over: %t, want %t", n, got, want)
		}
		if take(s, &c.passed) {
			t.Error("it was passed over twice by one message")
		}
	}
}
