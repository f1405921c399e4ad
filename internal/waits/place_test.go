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

// Where the orders of the queues differ, somebody must be near.
func TestAClaimIsNearIfOneMasterSaysSo(t *testing.T) {
	p, now := newPlaced(t), clock.System()
	p.want("no master has answered", 0)
	p.answer(0, 7, now)
	p.answer(1, 9, now)
	p.want("fewer than a quorum have", 0)
	p.answer(2, 8, now)
	p.want("a quorum have: it would poll once in 7, 9 and 8 steps", 8)
	p.answer(3, 1, now)
	p.want("it is near at one", 1)
	if since, _, near := p.s.Waiting(3); !near || !since.Equal(p.c.Began.Time()) {
		t.Errorf("near at that master is %t since %v, want since the registration", near, since)
	}
	if _, _, near := p.s.Waiting(0); near {
		t.Error("it is near at another master than that one")
	}
	p.answer(3, 3, now)
	p.want("and far again", 6)
	for i := range 3 {
		p.c.Answered(i, Command{Kind: wire.Again, Mark: now, Life: time.Second}, wire.Answer{Err: errTest}, true)
	}
	p.want("a quorum are down", 0)
	for i := range 5 {
		p.answer(i, 7, now)
	}
	p.want("they are up again", 7)
	for i := range 3 {
		p.c.Answered(i, Command{Kind: wire.Again, Mark: now}, wire.Answer{Outcome: wire.Taken, Ahead: 7}, false)
	}
	p.want("a quorum cannot tell this Client of grants", 0)
}

// Where the orders differ, more than three claims are near somewhere.
func TestAClaimIsNearAtAQuorumIfSoManySaySoOrTooFewHaveAnswered(t *testing.T) {
	for _, row := range []struct {
		name   string
		places []int // by master
		want   bool
	}{
		{"no master has answered", nil, true},
		{"fewer than a quorum have", []int{9, 9}, true},
		{"it is near at none", []int{3, 4, 5, 6, 7}, false},
		{"it is near at two", []int{0, 2, 5, 6, 7}, false},
		{"it is near at two of three that have answered", []int{0, 2, 5}, false},
		{"it is near at three", []int{0, 2, 2, 6, 7}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPlaced(t)
			for i, ahead := range row.places {
				p.answer(i, ahead, clock.System())
			}
			if _, got := p.c.place(); got != row.want {
				t.Errorf("it is near at a quorum: %t, want %t", got, row.want)
			}
		})
	}
}

// The message and the answer come on connections of their own.
func TestAnAnswerThatWasAskedForBeforeTheLastMessageDoesNotChangeThePlace(t *testing.T) {
	p, before := newPlaced(t), clock.System()
	for i := range 5 {
		p.answer(i, 7, before)
	}
	if _, known := p.s.Near(1, "a", "token"); !known {
		t.Error("the message was not expected")
	}
	p.want("a message has come", wire.Near-1)
	p.answer(1, 7, before)
	p.want("an older answer has come", wire.Near-1)
	time.Sleep(time.Millisecond) // until a clock that ticks seldom has gone on
	p.answer(1, 7, clock.System())
	p.want("a newer answer has come", 7)
	p.s.Near(1, "a", "token")
	p.s.Up(1)
	p.want("the master has come up anew", 7)
	if !take(p.s, &p.c.returned) || take(p.s, &p.c.returned) {
		t.Error("the master has not come up once")
	}
}

func TestAMessageThatAClaimIsNearIsExpectedOfAClaim(t *testing.T) {
	p := newPlaced(t)
	for i := range 5 {
		p.answer(i, 7, clock.System())
	}
	if _, known := p.s.Near(0, "b", "token"); known {
		t.Error("a message about another name was expected")
	}
	if _, known := p.s.Near(0, "a", "earlier"); !known {
		t.Error("a message for an earlier claim was not expected")
	}
	p.want("another claim is near", 7)
	p.in.End()
	if _, known := p.s.Near(0, "a", "token"); !known {
		t.Error("a message for a wait that has just ended was not expected")
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
		_, known := s.Near(1, key, token)
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
	for _, want := range []bool{false, true, true} {
		s.Near(1, c.Key(), "T")
		if got := take(s, &c.passed); got != want {
			t.Errorf("it was passed over: %t, want %t", got, want)
		}
		if take(s, &c.passed) {
			t.Error("it was passed over twice by one message")
		}
	}
}
