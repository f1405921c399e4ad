package redlock

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// The lives may differ by more than an int of 32 bits can say in nanoseconds.
func TestAMajorityEndsWithItsEarliestVote(t *testing.T) {
	now := clock.System()
	s := newSleepers(3)
	none := func(time.Duration) time.Duration { return 0 }
	for _, long := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 7 * 24 * time.Hour} {
		c := &claimed{votes: []claimVote{{now, long, 0}, {now, 400 * time.Millisecond, 0}, {}}}
		_, _, m := s.count(c, now, none, 0)
		if m == nil || m.left != 400*time.Millisecond {
			t.Errorf("votes for 400ms and %v: a majority for %v, want 400ms", long, m.left)
		}
	}
}
