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
	p := &placed{T: t, s: New(5), c: NewClaim(master.NewClaim(&terms, wire.ClaimOf{Token: "token"}), clock.System(), time.Second, 5)}
	p.in = p.s.Begin("a")
	p.in.SetClaim(p.c)
	return p
}

// answer has master i answer a command that was sent at sent.
func (p *placed) answer(i, ahead int, sent clock.Reading) {
	p.in.Answered(p.c, wire.Again, i, wire.Answer{Outcome: wire.Taken, Ahead: ahead}, sent, time.Second, true)
}

func (p *placed) want(when string, ahead int) {
	p.Helper()
	if got := p.in.Ahead(p.c); got != ahead {
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
	if since, near := p.s.NearAt(3); !near || !since.Equal(p.c.Began.Time()) {
		t.Errorf("near at that master is %t since %v, want since the registration", near, since)
	}
	if _, near := p.s.NearAt(0); near {
		t.Error("it is near at another master than that one")
	}
	p.answer(3, 3, now)
	p.want("and far again", 6)
	for i := range 3 {
		p.in.Answered(p.c, wire.Again, i, wire.Answer{Err: errTest}, now, time.Second, true)
	}
	p.want("a quorum are down", 0)
}

// Where the orders differ, more than three claims are near somewhere.
func TestAClaimLeadsIfAQuorumSaysThatItIsNear(t *testing.T) {
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
			if got := p.in.NearAtQuorum(p.c); got != row.want {
				t.Errorf("NearAtQuorum = %t, want %t", got, row.want)
			}
		})
	}
}

var errTest = redisError("down")

type redisError string

func (e redisError) Error() string { return string(e) }

// The message and the answer come on connections of their own.
func TestAnAnswerThatWasAskedForBeforeTheLastMessageDoesNotChangeThePlace(t *testing.T) {
	p, before := newPlaced(t), clock.System()
	for i := range 5 {
		p.answer(i, 7, before)
	}
	if known, _ := p.s.Near(1, "a", "token"); !known {
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
	if !p.in.Returned(p.c) || p.in.Returned(p.c) {
		t.Error("the master has not come up once")
	}
}

func TestAMessageThatAClaimIsNearIsExpectedOfAClaim(t *testing.T) {
	p := newPlaced(t)
	for i := range 5 {
		p.answer(i, 7, clock.System())
	}
	if known, _ := p.s.Near(0, "b", "token"); known {
		t.Error("a message about another name was expected")
	}
	if known, _ := p.s.Near(0, "a", "earlier"); !known {
		t.Error("a message for an earlier claim was not expected")
	}
	p.want("another claim is near", 7)
	p.in.End()
	if known, _ := p.s.Near(0, "a", "token"); !known {
		t.Error("a message for a wait that has just ended was not expected")
	}
}

func TestAClientIsCalmIfAllItsClaimsAreFar(t *testing.T) {
	p := newPlaced(t)
	want := func(when string, want bool) {
		t.Helper()
		if got := p.s.Calm(); got != want {
			t.Errorf("%s: calm is %t, want %t", when, got, want)
		}
	}
	want("no master has answered", false)
	for i := range 5 {
		p.answer(i, 7, clock.System())
	}
	want("the claim is far", true)
	other := p.s.Begin("b")
	want("another wait has no claim", false)
	other.End()
	p.s.Near(1, "a", "token")
	want("it is near at one master", false)
	p.in.End()
	want("nobody waits", false)
}

func TestHowSoonAMasterHearsOfAClaimAgain(t *testing.T) {
	p := newPlaced(t)
	want := func(when string, want int) {
		t.Helper()
		if got := p.s.Soonest(10, 5); got != want {
			t.Errorf("%s: after %d pauses, want %d", when, got, want)
		}
	}
	want("no master has answered", 10)
	for i := range 5 {
		p.answer(i, 70, clock.System())
	}
	want("the claim is far", 60)
	other := p.s.Begin("b")
	want("another wait has no claim", 60)
	c := NewClaim(new(master.Claim), clock.System(), time.Second, 5)
	other.SetClaim(c)
	want("another claim is new", 10)
	for i := range 5 {
		other.Answered(c, wire.Register, i, wire.Answer{Outcome: wire.Taken, Ahead: 2}, clock.System(), time.Second, true)
	}
	want("another claim is near", 2)
	other.End()
	p.in.End()
	want("no claim waits", 0)
}

// What polls of one master find is told once. A master that fails has found nothing.
func TestAPollOfOneMasterFindsTheKeyFree(t *testing.T) {
	p, now := newPlaced(t), clock.System()
	for i, a := range []wire.Answer{
		{Outcome: wire.Taken, Standing: "holder"},
		{Outcome: wire.Taken},
		{Err: errTest},
		{Outcome: wire.Granted, Holds: time.Second},
		{Outcome: wire.Taken, Standing: wire.ReadersMarker},
	} {
		p.in.Answered(p.c, wire.Again, i, a, now, time.Second, true)
		p.in.AnsweredOne(p.c, i, a)
	}
	if got := p.in.FoundFree(p.c); got != 1<<1 {
		t.Errorf("the key is free at the masters %b, want %b", got, 1<<1)
	}
	if got := p.in.FoundFree(p.c); got != 0 {
		t.Errorf("asked again, the key is free at the masters %b, want none", got)
	}
	for i, want := range []string{"holder", "", "", "", wire.ReadersMarker} {
		if v := p.in.Standing(p.c)[i]; v.Standing != want || v.Readers != (want == wire.ReadersMarker) {
			t.Errorf("master %d holds %q, readers %v; want %q", i, v.Standing, v.Readers, want)
		}
	}
}
