package redlock

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
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
	gone := master.Answer{Outcome: master.Taken, New: true}
	for _, row := range []struct {
		name   string
		kind   master.Kind
		answer master.Answer
		from   int
		wins   bool
	}{
		{"a master of the quorum", master.Again, gone, 0, false},
		{"the answer to the registration comes behind the message", master.Register, gone, 0, true},
		{"the claim was still in the queue", master.Again, master.Answer{Outcome: master.Taken}, 0, true},
		{"a master without a vote", master.Again, gone, 2, true},
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
			if got := s.setLease(sl, c, m, new(Lease)); got != row.wins {
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
	s.answered(sl, c, master.Register, 0, master.Answer{Outcome: master.Taken}, now, time.Second, true)
	s.answered(sl, c, master.Register, 1, master.Answer{Outcome: master.Taken}, now, time.Second, false)
	s.answered(sl, c, master.Register, 2, master.Answer{Outcome: master.Taken, New: true}, now, time.Second, false)
	s.answered(sl, c, master.Register, 3, master.Answer{Outcome: master.Granted}, now, time.Second, false)
	if c.known != 0b1101 {
		t.Errorf("known at %b, want 1101", c.known)
	}
}
