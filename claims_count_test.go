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
		before uint64 // the masters that had the claim in their queues when the poll was sent
		from   int
		wins   bool
	}{
		{"a master of the quorum", 0b111, 0, false},
		{"one that had not had the claim in its queue", 0b110, 0, true},
		{"a master without a vote", 0b111, 2, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newSleepers(3)
			sl := s.add("a")
			c := &queuedClaim{Claim: new(master.Claim), votes: []claimVote{{now, time.Second, 0}, {now, time.Second, 0}, {}}}
			s.setClaim(sl, c)
			_, _, m := s.count(c, now, none, 0)
			s.answered(sl, c, row.from, gone, now, time.Second, row.before, true)
			if got := s.setLease(sl, c, m, new(Lease)); got != row.wins {
				t.Errorf("the claim wins: %v, want %v", got, row.wins)
			}
			if _, _, m := s.count(c, now, none, 0); (m != nil) != row.wins {
				t.Errorf("a quorum is left: %v, want %v", m != nil, row.wins)
			}
		})
	}
}

func TestAClaimIsInAQueueOnlyIfTheMasterCanTellItOfAGrant(t *testing.T) {
	now := clock.System()
	s := newSleepers(3)
	sl := s.add("a")
	c := &queuedClaim{Claim: new(master.Claim), votes: make([]claimVote, 3)}
	s.setClaim(sl, c)
	s.answered(sl, c, 0, master.Answer{Outcome: master.Taken}, now, time.Second, 0, true)
	s.answered(sl, c, 1, master.Answer{Outcome: master.Taken}, now, time.Second, 0, false)
	s.answered(sl, c, 2, master.Answer{Outcome: master.Taken, New: true}, now, time.Second, 0, false)
	if got := s.registeredAt(c); got != 0b101 {
		t.Errorf("in the queues of %b, want 101", got)
	}
}
