package redlock

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

// The lives may differ by more than an int of 32 bits can say in nanoseconds.
func TestAMajorityEndsWithItsEarliestVote(t *testing.T) {
	now := clock.System()
	s := newSleepers(3)
	none := func(time.Duration) time.Duration { return 0 }
	for _, long := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 7 * 24 * time.Hour} {
		c := &queuedClaim{votes: []claimVote{{now, long, 0}, {now, 400 * time.Millisecond, 0}, {}}}
		_, _, m := s.count(c, now, none, 0)
		if m == nil || m.left != 400*time.Millisecond {
			t.Errorf("votes for 400ms and %v: a quorum for %v, want 400ms", long, m.left)
		}
	}
}

// A poll that finds the claim gone from the queue, and its key too, is answered while the lease is made.
func TestAVoteWhoseKeyIsGoneDoesNotCount(t *testing.T) {
	now := clock.System()
	none := func(time.Duration) time.Duration { return 0 }
	gone := wire.Answer{Outcome: wire.Taken, New: true}
	for _, row := range []struct {
		name   string
		kind   wire.Kind
		answer wire.Answer
		from   int
		wins   bool
	}{
		{"a master of the quorum", wire.Again, gone, 0, false},
		{"the answer to the registration comes behind the message", wire.Register, gone, 0, true},
		{"the claim was still in the queue", wire.Again, wire.Answer{Outcome: wire.Taken}, 0, true},
		{"a master without a vote", wire.Again, gone, 2, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newSleepers(3)
			sl := s.add("a")
			c := &queuedClaim{Claim: new(master.Claim), votes: make([]claimVote, 3)}
			s.setClaim(sl, c)
			sl.voteLocked(0, claimVote{now, time.Second, 0})
			sl.voteLocked(1, claimVote{now, time.Second, 0})
			_, _, m := s.count(c, now, none, 0)
			s.answered(sl, c, row.kind, row.from, row.answer, now, time.Second, true)
			if got := s.setTenure(sl, c, m, new(tenure)); got != row.wins {
				t.Errorf("the claim wins: %v, want %v", got, row.wins)
			}
			if _, _, m := s.count(c, now, none, 0); (m != nil) != row.wins {
				t.Errorf("a quorum is left: %v, want %v", m != nil, row.wins)
			}
		})
	}
}

// Only what a master is known to have had can be gone from there.
func TestAClaimIsInAQueueOnlyIfTheMasterCanTellItOfAGrant(t *testing.T) {
	now := clock.System()
	s := newSleepers(3)
	sl := s.add("a")
	c := &queuedClaim{Claim: new(master.Claim), votes: make([]claimVote, 4)}
	s.setClaim(sl, c)
	s.answered(sl, c, wire.Register, 0, wire.Answer{Outcome: wire.Taken}, now, time.Second, true)
	s.answered(sl, c, wire.Register, 1, wire.Answer{Outcome: wire.Taken}, now, time.Second, false)
	s.answered(sl, c, wire.Register, 2, wire.Answer{Outcome: wire.Taken, New: true}, now, time.Second, false)
	s.answered(sl, c, wire.Register, 3, wire.Answer{Outcome: wire.Granted}, now, time.Second, false)
	if c.known != 0b1101 {
		t.Errorf("known at %b, want 1101", c.known)
	}
}

func TestUnusedGrantsPutAClientBehindOthers(t *testing.T) {
	var s stalls
	now, waited := time.Unix(1000, 0), 9*time.Second
	want := func(when string, want time.Duration) {
		t.Helper()
		if got := s.waited(now, waited); got != want {
			t.Errorf("%s: a claim counts as having waited for %v, want %v", when, got, want)
		}
	}
	want("no unused grant", waited)
	s.unused(now)
	want("one unused grant", -time.Second)
	s.used(now)
	want("a grant that was used too early to tell", -time.Second)
	now = now.Add(3 * time.Second)
	want("2s after the time behind others", 2*time.Second)
	s.unused(now)
	want("two unused grants", -2*time.Second)
	for range 10 {
		s.unused(now)
	}
	want("many unused grants", -32*time.Second)
	for range 6 {
		now = now.Add(time.Minute)
		s.used(now)
	}
	want("grants that were used", waited)
}

func TestAGrantThatIsOverWhenItsMessageComesIsUnused(t *testing.T) {
	s := newSleepers(3)
	sl := s.add("a")
	c := &queuedClaim{Claim: master.NewClaim("a", "token", time.Second, 0), g: 400 * time.Millisecond, votes: make([]claimVote, 3)}
	s.setClaim(sl, c)
	now := clock.System()
	time.Sleep(2 * time.Millisecond)
	for i, g := range []time.Duration{time.Millisecond, time.Hour, time.Millisecond} {
		c.g = g
		s.granted(i, master.Grant{Key: "a", Token: "token", Mark: now, Sure: true})
	}
	if got := s.unusedAt(c); got != 2 {
		t.Errorf("%d grants were over, want 2", got)
	}
}

// If a lock can be granted, the votes last for long enough in the worst case: the last ping before the grant was sent as early
// as can be, and the keys are extended before the claim wins. If it cannot, the TTL is short, or the clocks drift much.
func TestAClaimCanWinWithTheGrantThatItAsksFor(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	between := func(least, most time.Duration) time.Duration { // small values are as likely as large ones
		return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), random.Float64())).Truncate(time.Millisecond)
	}
	granted := 0
	for range 100_000 {
		o := &Options{DriftFactor: 1 - math.Pow(10, -3*random.Float64())}
		if random.IntN(2) == 0 {
			o.DriftFactor = math.Pow(10, -4*random.Float64()) / 2
		}
		ttl, trip := between(400*time.Millisecond, 168*time.Hour), between(time.Millisecond, 10*time.Second)
		g := o.grantFor(ttl, trip)
		wins := o.winsAt(g)
		if g == 0 {
			if o.DriftFactor <= 0.1 && ttl >= time.Second && trip <= ttl/8 {
				t.Fatalf("TTL %v, drift %v, round trip %v: the lock cannot be granted", ttl, o.DriftFactor, trip)
			}
			continue
		}
		granted++
		age := 100*time.Millisecond + trip // of the mark, when the message comes
		left := g - o.drift(g) - age
		extended := ttl - o.drift(ttl) - trip
		switch {
		case g > ttl || g < 400*time.Millisecond || g < min(8*trip, ttl):
			t.Fatalf("TTL %v, drift %v, round trip %v: g is %v", ttl, o.DriftFactor, trip, g)
		case left < wins && left < trip:
			t.Fatalf("TTL %v, drift %v, round trip %v: with a g of %v the votes last for %v, less than to extend them takes", ttl, o.DriftFactor, trip, g, left)
		case left < wins && extended < wins:
			t.Fatalf("TTL %v, drift %v, round trip %v: with a g of %v extended keys last for %v, want %v", ttl, o.DriftFactor, trip, g, extended, wins)
		case wins/4+trip >= wins:
			t.Fatalf("TTL %v, drift %v, round trip %v: a lease of %v ends before its first renewal", ttl, o.DriftFactor, trip, wins)
		}
	}
	if granted < 1000 {
		t.Errorf("of 100 000 settings %d allow a grant", granted)
	}
}
