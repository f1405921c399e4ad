package waits

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

// A message about a slot names the token only. So the claims on slots are kept by their tokens, for as long as they can be granted some.
func TestClaimsOnSlotsAreKeptUntilTheyEnd(t *testing.T) {
	now := clock.System()
	for _, row := range []struct {
		name string
		end  func(in *Inbox, c *Claim)
	}{
		{"it is given up", func(in *Inbox, _ *Claim) { in.SetClaim(nil) }},
		{"another one follows", func(in *Inbox, _ *Claim) { in.SetClaim(claimOf(in, "next")) }},
		{"it has won", func(in *Inbox, c *Claim) {
			q := c.Count(now, 0).Won
			c.Won(q, func(int) {}, func(int) {})
		}},
	} {
		s := New(3, noDrift)
		in := s.Begin("a")
		c := permitsOf(in, "T", now, 1, 8)
		in.SetClaim(c)
		c.voteLocked(0, vote{mark: now, life: time.Minute, slots: []int{5}})
		c.voteLocked(1, vote{mark: now, life: time.Minute, slots: []int{5}})
		c.voteLocked(1, vote{mark: now, life: time.Hour}) // for no slot
		if got := c.at[1].vote; got.life != time.Minute || len(got.slots) != 1 {
			t.Errorf("a vote for no slot counts: %+v", got)
		}
		if s.bySlots["T"] != in {
			t.Errorf("%s: before that, it is not found", row.name)
		}
		if row.end(in, c); len(s.bySlots) != 0 {
			t.Errorf("%s, and %d claims are kept", row.name, len(s.bySlots))
		}
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
			in := New(3, tenMillis).Begin("a")
			c := permitsOf(in, "T", now, 1, 10)
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

// A master may tell a claim that it is near after the claim was released there in vain. Only a claim that was released is released again, and
// only the last ones are known.
func TestAClaimOnSlotsThatWasReleasedIsKnownForAWhile(t *testing.T) {
	s := New(3, noDrift)
	claim := func(token string) *master.SentClaim {
		in := s.Begin("permit of " + token)
		c := permitsOf(in, token, clock.System(), 1, 8)
		in.SetClaim(c)
		in.SetClaim(nil)
		in.End()
		return c.SentClaim
	}
	one, other := claim("T"), claim("U")
	near := func(token string, want *master.SentClaim) {
		t.Helper()
		if released, _, known := s.Near(1, one.Key(), token); !known || released != want {
			t.Errorf("the claim of %s is expected: %t, and released again: %v, want %v", token, known, released, want)
		}
	}
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
