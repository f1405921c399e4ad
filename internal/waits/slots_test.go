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
			in := New(5, noDrift).Begin("a")
			c := in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "T"}), now, time.Minute, row.n, 10)
			in.SetClaim(c)
			for i, slots := range row.votes {
				if slots != nil {
					c.voteLocked(i, vote{mark: now, life: time.Minute, slots: slots})
				}
			}
			if row.aim != nil {
				c.Aim(row.aim)
				c.voteLocked(0, vote{mark: now, life: time.Hour, slots: []int{4}})
			}
			n := c.Count(now, 0)
			mine, won := n.Mine, n.Won
			if (won != nil) != (row.won != nil) || won != nil && !slices.Equal(won.Slots, row.won) {
				t.Errorf("won = %+v, want %v", won, row.won)
			}
			for i, slots := range row.votes {
				counts := slots != nil && (row.aim == nil || slices.Contains(slots, row.aim[0]))
				if mine>>i&1 == 1 != counts {
					t.Errorf("the vote of master %d counts: %t, want %t", i, !counts, counts)
				}
			}
			for range 2 {
				if got := c.Split(now); got != row.split {
					t.Errorf("Split = %t, want %t", got, row.split)
				}
			}
		})
	}
}

// A message that a claim on slots is near names the semaphore, for which a Client may have several claims.
func TestAClaimOnSlotsIsNearIfItsTokenIsTold(t *testing.T) {
	s := New(3, noDrift)
	terms := wire.NewSlotTerms("a", 8, 1, time.Minute)
	claim := func(token string, ahead int) (*Inbox, *Claim) {
		in := s.Begin("permit of " + token)
		c := in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: token}), clock.System(), time.Minute, 1, 8)
		in.SetClaim(c)
		for i := range 3 {
			c.Answered(i, Command{Kind: wire.Again, Mark: clock.System(), Life: time.Minute}, wire.Answer{Outcome: wire.Taken, Ahead: ahead}, true)
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
	if !near(terms.Key(), "T") || !near(terms.Key(), "another") || near("b", "T") {
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
	terms := wire.NewSlotTerms("a", 8, 1, time.Minute)
	in := s.Begin("permit of T")
	c := in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "T"}), clock.System(), time.Minute, 1, 8)
	in.SetClaim(c)
	for i := range 3 {
		c.Answered(i, Command{Kind: wire.Again, Mark: clock.System(), Life: time.Minute}, wire.Answer{Outcome: wire.Taken, Ahead: 20}, true)
	}
	for _, want := range []bool{false, true, true} {
		s.Near(1, terms.Key(), "T")
		if got := take(s, &c.passed); got != want {
			t.Errorf("it was passed over: %t, want %t", got, want)
		}
		if take(s, &c.passed) {
			t.Error("it was passed over twice by one message")
		}
	}
}

// A claim needs a quorum for each of its slots. It lasts for as long as the earliest vote that it needs, and rests on the votes that last the longest.
func TestAClaimOnSlotsWinsByAQuorumForEach(t *testing.T) {
	const ms = time.Millisecond
	type v struct {
		slots     []int
		life, age time.Duration
	}
	for _, row := range []struct {
		name    string
		n       int
		votes   [3]v
		won     []int
		left    time.Duration
		masters uint64
	}{
		{"the longest votes", 1, [3]v{{[]int{4}, 300 * ms, 0}, {[]int{4}, 100 * ms, 0}, {[]int{4}, 200 * ms, 0}}, []int{4}, 190 * ms, 0b101},
		{"the slot with the most votes", 1, [3]v{{[]int{4, 5}, 300 * ms, 0}, {[]int{4, 5}, 200 * ms, 0}, {[]int{5}, 100 * ms, 0}}, []int{5}, 190 * ms, 0b011},
		{"the lower slot of two with as many", 1, [3]v{{[]int{5, 4}, 300 * ms, 0}, {[]int{5, 4}, 200 * ms, 0}, {}}, []int{4}, 190 * ms, 0b011},
		{"several", 2, [3]v{{[]int{7}, 300 * ms, 0}, {[]int{2, 7}, 200 * ms, 0}, {[]int{2, 7}, 100 * ms, 0}}, []int{2, 7}, 90 * ms, 0b111},
		{"several, the first of which ends earlier", 2, [3]v{{[]int{2, 7}, 100 * ms, 0}, {[]int{2, 7}, 200 * ms, 0}, {[]int{7}, 300 * ms, 0}}, []int{2, 7}, 90 * ms, 0b111},
		{"a vote that is over", 1, [3]v{{[]int{4}, 300 * ms, 0}, {[]int{4}, 300 * ms, 300 * ms}, {}}, nil, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			at := time.Now()
			now := clock.At(at, at, 0)
			terms := wire.NewSlotTerms("a", 10, row.n, time.Minute)
			in := New(3, tenMillis).Begin("a")
			c := in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "T"}), now, time.Minute, row.n, 10)
			in.SetClaim(c)
			for i, v := range row.votes {
				if v.life > 0 {
					c.voteLocked(i, vote{mark: clock.At(at.Add(-v.age), at.Add(-v.age), 0), life: v.life, slots: v.slots})
				}
			}
			won := c.Count(now, 0).Won
			if (won != nil) != (row.won != nil) || won != nil && (!slices.Equal(won.Slots, row.won) || won.Left != row.left || won.masters != row.masters) {
				t.Errorf("the quorum is %+v, want slots %v for %v by %b", won, row.won, row.left, row.masters)
			}
		})
	}
}

// Votes that are over count neither for a slot nor as split, and a claim that has aimed does not aim again.
func TestVotesThatAreOverAreNotSplit(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		name  string
		lives [3]time.Duration // of votes for slot 1, 2 and 3
		aim   []int
		keys  int // slots with votes
		split bool
	}{
		{"all last", [3]time.Duration{300 * ms, 300 * ms, 300 * ms}, nil, 3, true},
		{"one is over by the drift of clocks", [3]time.Duration{105 * ms, 300 * ms, 300 * ms}, nil, 2, true},
		{"all are over", [3]time.Duration{50 * ms, 50 * ms, 50 * ms}, nil, 0, false},
		{"all last, and the claim has aimed", [3]time.Duration{300 * ms, 300 * ms, 300 * ms}, []int{1, 2, 3}, 3, false},
		{"two masters may still vote", [3]time.Duration{300 * ms}, nil, 1, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			at := time.Now()
			now := clock.At(at, at, 0)
			terms := wire.NewSlotTerms("a", 10, 1, time.Minute)
			in := New(3, tenMillis).Begin("a")
			c := in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "T"}), now, time.Minute, 1, 10)
			in.SetClaim(c)
			if row.aim != nil {
				c.Aim(row.aim)
			}
			for i, life := range row.lives {
				if life > 0 {
					c.voteLocked(i, vote{mark: clock.At(at.Add(-100*ms), at.Add(-100*ms), 0), life: life, slots: []int{i + 1}})
				}
			}
			if got := c.Stands(now); len(got) != row.keys {
				t.Errorf("Stands = %v, want %d slots", got, row.keys)
			}
			if got := c.Split(now); got != row.split {
				t.Errorf("Split = %t, want %t", got, row.split)
			}
		})
	}
}

// Where the token of a lease stands in other slots, or in the queue, its holder settles it: for what is known when the claim wins, and for what an answer says
// later.
func TestAClaimThatHasWonSlotsLeavesAllOthers(t *testing.T) {
	now := clock.System()
	taken := wire.Answer{Outcome: wire.Taken}
	for _, row := range []struct {
		name              string
		gone, aimed       bool
		elsewhere, queued uint64
		won               bool
		settles           []int // the masters that are settled by later answers
	}{
		{"a claim", false, false, 0b01000, 0b10000, true, []int{1, 2}},
		{"one that has aimed", false, true, 0, 0, true, nil},
		{"a vote has become void", true, false, 0, 0, false, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := New(6, noDrift)
			in := s.Begin("a")
			terms := wire.NewSlotTerms("a", 10, 1, time.Minute)
			c := in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: "T"}), now, time.Minute, 1, 10)
			in.SetClaim(c)
			c.Answered(0, Command{Kind: wire.Register, Mark: now, Life: time.Minute}, taken, true) // it grants the slot later; the last one does not answer
			c.Answered(4, Command{Kind: wire.Register, Mark: now, Life: time.Minute}, taken, true)
			for i, slots := range [][]int{{4}, {4}, {4}, {4, 5}} {
				c.voteLocked(i, vote{mark: now, life: time.Minute, slots: slots})
			}
			if row.aimed {
				c.Aim([]int{4})
			}
			q := c.Count(now, 0).Won
			if q == nil {
				t.Fatal("there is no quorum")
			}
			if row.gone {
				c.Answered(0, Command{Kind: wire.Again, Mark: now, Life: time.Minute}, wire.Answer{Outcome: wire.Taken, New: true}, true)
			}
			var settled []int
			elsewhere, queued, won := c.Won(q, func(int) {}, func(i int) { settled = append(settled, i) })
			if elsewhere != row.elsewhere || queued != row.queued || won != row.won {
				t.Errorf("Won = %b, %b, %t, want %b, %b, %t", elsewhere, queued, won, row.elsewhere, row.queued, row.won)
			}
			for i, a := range []wire.Answer{{Outcome: wire.Granted, Slots: "4"}, taken, {Outcome: wire.Granted, Slots: "4,6"}, {Outcome: wire.Missing}} {
				c.Answered(i, Command{Kind: wire.Again, Mark: now, Life: time.Minute}, a, true)
			}
			if !slices.Equal(settled, row.settles) {
				t.Errorf("masters %v are settled, want %v", settled, row.settles)
			}
		})
	}
}

// A master may tell a claim that it is near after the claim was released there in vain. Only a claim that was released is released again, and
// only the last ones are known.
func TestAClaimOnSlotsThatWasReleasedIsKnownForAWhile(t *testing.T) {
	s := New(3, noDrift)
	terms := wire.NewSlotTerms("a", 8, 1, time.Minute)
	claim := func(token string) *master.SentClaim {
		in := s.Begin("permit of " + token)
		c := in.NewClaim(master.NewSentClaim(&terms, wire.ClaimOf{Token: token}), clock.System(), time.Minute, 1, 8)
		in.SetClaim(c)
		in.SetClaim(nil)
		in.End()
		return c.SentClaim
	}
	near := func(token string, want *master.SentClaim) {
		t.Helper()
		if released, known := s.Near(1, terms.Key(), token); !known || released != want {
			t.Errorf("the claim of %s is expected: %t, and released again: %v, want %v", token, known, released, want)
		}
	}
	one, other := claim("T"), claim("U")
	near("T", nil)
	var m master.Master
	m.Ask(wire.Release, one, nil)
	if !one.Released() || other.Released() {
		t.Fatal("one of two claims is to be released")
	}
	near("T", one)
	near("U", nil)
	for range pastMost - 2 {
		claim("V")
	}
	near("T", one)
	claim("V")
	near("T", nil)
	m.Ask(wire.Release, other, nil)
	near("U", other)
	claim("V")
	near("U", nil)
}
