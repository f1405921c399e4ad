package waits

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

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
	p.s.Near(3, "a", "token")
	want("two masters say that it is near", true)
	p.s.Near(0, "a", "token")
	want("three do", false)
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
	want("the claim is far", 100)
	other := p.s.Begin("b")
	want("another wait has no claim", 100)
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

// A Client whose claims are all far is expected to say less often that it runs.
func TestAClientThatIsFarIsUnheardForLonger(t *testing.T) {
	for _, row := range []struct{ ahead, want int }{{2, 0}, {3, 15}, {50, 100}, {400, 200}} {
		s := New(5, noDrift)
		in := s.Begin("a")
		c := claimOf(in, "mine")
		in.SetClaim(c)
		for i := range 5 {
			refuse(c, i, row.ahead, clock.System())
		}
		if _, far := s.Patience(quorum.NewGroup(nil), Step); far != time.Duration(row.want)*Step*5/4 {
			t.Errorf("with %d ahead, it is unheard for %v, want %d pauses and a quarter", row.ahead, far, row.want)
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

// manyWaits returns the Waits of a Client with n waits whose claims are in the queues of five masters, with so many ahead, and a function that has a
// master answer the claim of a wait again.
func manyWaits(n, ahead int) (s *Waits, answer func(wait, master int)) {
	const masters = 5
	s = New(masters, noDrift)
	ins, claims := make([]*Inbox, n), make([]*Claim, n)
	answer = func(j, i int) {
		refuse(claims[j], i, ahead, clock.System())
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
				n, far := s.stepsLocked(c)
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
					if c := in.claim; c != nil && c.places.ahead() < c.places.front && c.places.first(i) {
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
