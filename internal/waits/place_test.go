package waits

import (
	"fmt"
	"math/rand/v2"
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
	p.c.Answered(i, Command{Kind: wire.Again, Mark: sent, Life: time.Second}, wire.Answer{Outcome: wire.Taken, Ahead: ahead}, true)
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

var errTest = redisError("down")

type redisError string

func (e redisError) Error() string { return string(e) }

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

func TestAMasterSoonHearsAgainOfTheClaimThatPollsMostOften(t *testing.T) {
	p := newPlaced(t)
	want := func(when string, want int) {
		t.Helper()
		if got := p.s.soonestLocked(); got != want {
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
	c := other.NewClaim(new(master.SentClaim), clock.System(), time.Second, 0, 0)
	other.SetClaim(c)
	want("another claim is new", 10)
	for i := range 5 {
		c.Answered(i, Command{Kind: wire.Register, Mark: clock.System(), Life: time.Second}, wire.Answer{Outcome: wire.Taken, Ahead: 2}, true)
	}
	want("another claim is near", 2)
	other.End()
	p.in.End()
	want("no claim waits", 0)
}

// manyWaits returns the Waits of a Client with n waits whose claims are in the queues of five masters, with so many ahead, and a function that has a
// master answer the claim of a wait again.
func manyWaits(n, ahead int) (s *Waits, answer func(wait, master int)) {
	const masters = 5
	s = New(masters, noDrift)
	ins, claims := make([]*Inbox, n), make([]*Claim, n)
	answer = func(j, i int) {
		claims[j].Answered(i, Command{Kind: wire.Again, Mark: clock.System(), Life: time.Second}, wire.Answer{Outcome: wire.Taken, Ahead: ahead}, true)
	}
	for j := range n {
		ins[j] = s.Begin(fmt.Sprint("k", j))
		claims[j] = claimOf(ins[j], "token")
		ins[j].SetClaim(claims[j])
		for i := range masters {
			answer(j, i)
		}
	}
	return s, answer
}

// Each answer and each message asks this. If it looked at each wait, n waits would cost n² steps.
func TestWhatIsAskedOfAllClaimsLooksAtNoWait(t *testing.T) {
	for _, ahead := range []int{0, 300} {
		s, _ := manyWaits(10, ahead)
		for key := range s.byKey {
			s.byKey[key] = nil // so that it panics
		}
		far := ahead > 0
		_, _, near := s.Waiting(3)
		if soonest := s.soonestLocked(); near == far || s.Calm() != far || (soonest == 0) == far {
			t.Errorf("with %d ahead of each claim: one is near: %t, all are far: %t, the soonest poll is after %d pauses", ahead, near, s.Calm(), soonest)
		}
	}
}

// BenchmarkAnAnswerBesideManyWaits measures what a Client with so many waits does for each answer to a poll: it notes the answer, and asks what
// its pings, heartbeats and patience depend on.
func BenchmarkAnAnswerBesideManyWaits(b *testing.B) {
	for _, ahead := range []int{0, 300} {
		for _, n := range []int{10, 400, 10_000} {
			b.Run(fmt.Sprintf("%d ahead/%d waits", ahead, n), func(b *testing.B) {
				s, answer := manyWaits(n, ahead)
				for k := 0; b.Loop(); k++ {
					answer(k%n, k%5)
					s.Waiting(k % 5)
					s.soonestLocked()
					s.Calm()
				}
			})
		}
	}
}

// The pings depend on the shortest g of the claims that are near.
func TestThePingsFollowTheShortestGrant(t *testing.T) {
	s, terms := New(3, noDrift), wire.NewTerms("a", time.Second)
	near := func(key string, g time.Duration) *Inbox {
		in := s.Begin(key)
		c := in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: key}), clock.System(), g, 0, 0)
		in.SetClaim(c)
		c.Answered(1, Command{Kind: wire.Register, Mark: clock.System(), Life: time.Second}, wire.Answer{Outcome: wire.Taken, Ahead: 2}, true)
		return in
	}
	want := func(when string, want time.Duration) {
		t.Helper()
		if _, g, is := s.Waiting(1); g != want || is != (want > 0) {
			t.Errorf("%s: a claim is near: %t, and is granted the lock for %v, want %v", when, is, g, want)
		}
	}
	want("at first", 0)
	long := near("long", time.Second)
	want("with one", time.Second)
	short := near("short", 400*time.Millisecond)
	want("with a shorter one", 400*time.Millisecond)
	longer := near("longer", 2*time.Second)
	want("with a longer one", 400*time.Millisecond)
	short.End()
	long.End()
	longer.End()
	want("without any", 0)
	near("again", time.Second)
	want("with the long one again", time.Second)
}

// What is kept of all claims is compared with what the claims say, after each of many random steps.
func TestWhatIsKeptOfAllClaimsIsWhatTheySay(t *testing.T) {
	const masters, keys = 5, 6
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		s := New(masters, noDrift)
		waits, claims := make(map[string]*Inbox), make(map[*Inbox]*Claim)
		compare := func(step string) {
			t.Helper()
			least, calm := -1, len(s.byKey) > 0
			for _, in := range s.byKey {
				c := in.claim
				if c == nil {
					calm = false
					continue
				}
				n, far := s.stepsOf(c)
				calm = calm && far
				if least < 0 || n < least {
					least = n
				}
			}
			if got := s.soonestLocked(); got != max(least, 0) {
				t.Fatalf("seed %d: after %s, the soonest poll is after %d pauses, want %d", seed, step, got, max(least, 0))
			}
			if got := s.Calm(); got != calm {
				t.Fatalf("seed %d: after %s, calm is %t, want %t", seed, step, got, calm)
			}
			for i := range masters {
				var since time.Time
				near := 0
				for _, in := range s.byKey {
					if c := in.claim; c != nil && c.places.near(i) {
						if near++; near == 1 || c.Began.Time().Before(since) {
							since = c.Began.Time()
						}
					}
				}
				if got, _, is := s.Waiting(i); is != (near > 0) || !got.Equal(since) || len(s.near[i].began) != near {
					t.Fatalf("seed %d: after %s, at master %d one is near: %t, since %v, of %d; want since %v, of %d", seed, step, i, is, got, len(s.near[i].began), since, near)
				}
			}
		}
		began := clock.System().Time()
		for range 300 {
			key, i := fmt.Sprint("k", random.IntN(keys)), random.IntN(masters)
			in, step := waits[key], ""
			c := claims[in]
			switch n := random.IntN(12); {
			case in == nil:
				step = "a wait begins"
				waits[key] = s.Begin(key)
			case n == 0:
				step = "a wait ends"
				in.End()
				delete(waits, key)
			case n == 1 || c == nil:
				step = "a claim is registered"
				at := began.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
				terms := wire.NewTerms(key, time.Second)
				c = in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: key}), clock.At(at, at, 0), time.Second, 0, 0)
				if random.IntN(3) == 0 {
					c = in.NewClaim(c.SentClaim, c.Began, time.Second, 1, 8)
				}
				in.SetClaim(c)
				claims[in] = c
			case n == 2:
				step = "a claim is given up"
				in.SetClaim(nil)
			case n == 3:
				step = "a claim wins"
				c.Won(&Quorum{}, func(int) {}, nil)
			case n == 4:
				step = "a master comes up"
				s.Up(i)
			case n == 5:
				step = "a message that a claim is near"
				s.Near(i, key, key)
			default: // perhaps to a claim that has won, or was given up
				step = "an answer"
				a := wire.Answer{Outcome: wire.Taken, Ahead: random.IntN(4) * random.IntN(40)}
				if random.IntN(8) == 0 {
					a = wire.Answer{Err: errTest}
				}
				c.Answered(i, Command{Kind: wire.Again, Mark: clock.System(), Life: time.Second}, a, random.IntN(8) > 0)
			}
			compare(step)
		}
	}
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
		p.c.Answered(i, Command{Kind: wire.Again, Mark: now, Life: time.Second, One: true}, a, true)
	}
	if got := p.c.FoundFree(); got != 1<<1 {
		t.Errorf("the key is free at the masters %b, want %b", got, 1<<1)
	}
	if got := p.c.FoundFree(); got != 0 {
		t.Errorf("asked again, the key is free at the masters %b, want none", got)
	}
	for i, want := range []string{"holder", "", "", "", wire.ReadersMarker} {
		if v := p.c.Standing()[i]; v.Standing != want || v.Readers != (want == wire.ReadersMarker) {
			t.Errorf("master %d holds %q, readers %v; want %q", i, v.Standing, v.Readers, want)
		}
	}
}
