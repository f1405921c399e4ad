package waits

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Schedule is a redlock.BackOff.
type Schedule interface{ NextBackOff() time.Duration }

// Delays returns the delays of one wait, by schedules of the user.
type Delays struct {
	Start   func() Schedule // immutable; makes a schedule
	Forever bool            // immutable; continue after the schedule has stopped
	Default time.Duration   // immutable; the delay after the end of a schedule that never had one

	first   Schedule      // nil: not started
	longest time.Duration // the longest delay so far
}

// Next returns the next delay. It reports false if the first schedule has stopped. If Forever is set, it never
// reports false: it returns the longest delay so far, or Default if there was none.
func (d *Delays) Next() (time.Duration, bool) {
	if d.first == nil {
		d.first = d.Start()
	}
	next := d.first.NextBackOff()
	if next >= 0 {
		d.longest = max(d.longest, next)
		return next, true
	}
	if !d.Forever {
		return 0, false
	}
	if d.longest == 0 {
		return d.Default, true
	}
	return d.longest, true
}

// freeJitter is the least time over which the polls at the expiry of a key are spread.
const freeJitter = 5 * time.Millisecond

// NotPast returns the pause d, or a shorter one that ends when the next attempt will find the keys of a quorum of masters
// expired, if nobody renews them. left is what FreeAfter has returned for the answers to the last attempt, which began elapsed ago. It
// adds up to half a round trip, so that not all clients try at the same moment.
//
// Example: three masters say that the key lives for 80, 90 and 300 ms more. After 90 ms, two of three keys are free. So a
// pause of 250 ms becomes one of 91 ms and a random part.
func NotPast(d, left, elapsed time.Duration, group *quorum.Group) time.Duration {
	// Each master has told how long its key lived when the last attempt arrived. The next attempt takes
	// as long to arrive. So it finds the key expired if it is made that much later.
	if left = max(left-elapsed, 0); left >= d {
		return d
	}
	return left + time.Millisecond + rand.N(max(freeJitter, group.Distance()/2))
}

// FreeAfter returns the time after which the keys of a quorum of masters will have expired, if nobody renews
// them. It uses the answers of the masters that refused, and reports false if those do not suffice.
func FreeAfter(votes []quorum.Vote) (time.Duration, bool) {
	var lefts []time.Duration
	for _, v := range votes {
		if v.Granted() {
			lefts = append(lefts, 0)
		} else if v.Outcome == wire.Taken && v.Left != wire.Unknown {
			lefts = append(lefts, v.Left)
		}
	}
	need := quorum.Majority(len(votes))
	if len(lefts) < need {
		return 0, false
	}
	slices.Sort(lefts)
	return lefts[need-1], true
}
