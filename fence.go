package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// With LockOptions.Fencing each acquisition agrees with a quorum of masters on a
// number. Each master gives a key that it sets a number above all that it has
// given or been told for the name, near its clock; the client proposes one, so that
// they usually give the same. The largest that a quorum has granted counts. If a
// quorum has given exactly that, it is committed; else a second round raises all
// masters to it, and again only those count that are then exactly there: of two
// acquisitions, one of which may have lost its keys without knowing, both could
// otherwise commit one number.

const (
	// fenceTick is what numbers count of the clock. A name cannot be acquired more
	// often than once in a tick for long, since its numbers may not run ahead of the
	// clock; a lock and unlock takes longer than that.
	fenceTick = 250 * time.Microsecond
	// fenceBits is how many low bits of a fence count handovers: no number of ours is
	// above 2⁵³, which JSON can carry, before 2039.
	fenceBits = 10
	// handoversMost is how many handovers those bits can count.
	handoversMost = 1<<fenceBits - 1
	// aheadMost is by how much a number may be ahead of the clock when it is
	// committed. A clock that runs far ahead must not force all numbers after it, and
	// a master that has forgotten its numbers, which counts again after a quarantine,
	// must find that the clock has passed them.
	aheadMost = time.Second
	// fenceRounds is in how many rounds an agreement is reached, or given up: each
	// but the last was overtaken by an acquisition that does not know it has lost.
	fenceRounds = 5
)

// Fence returns the lease's number: greater than that of each earlier lease of the
// name. A resource that remembers the highest it has seen, and refuses what comes
// with a lower one, is safe from a holder that was stopped for longer than its lease
// and writes late. It is 0, which a guarded resource must refuse, without
// LockOptions.Fencing and for a nil Lease.
func (s *Lease) Fence() uint64 {
	if s == nil || s.fence == 0 {
		return 0
	}
	return uint64(s.fence)<<fenceBits | uint64(s.handovers)
}

// fences remembers the highest number that was heard of for each name, so that the
// next proposal is above it.
type fences struct {
	mu      sync.Mutex // guards what follows
	highest map[string]int64
}

// fencesMost is how many numbers are kept before those are dropped that the clock
// has passed.
const fencesMost = 1024

// numberAt returns the number of a time, and timeOf the time of a number.
func numberAt(t time.Time) int64 { return t.UnixMicro() / fenceTick.Microseconds() }
func timeOf(number int64) time.Time {
	return time.UnixMicro(number * fenceTick.Microseconds())
}

// propose returns what to propose at a time.
func (f *fences) propose(key string, now time.Time) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(numberAt(now), f.highest[key]+1)
}

// heard takes in the numbers of a round's votes.
func (f *fences) heard(key string, votes []quorum.Vote, now time.Time) {
	top, _ := topFence(votes)
	f.mu.Lock()
	defer f.mu.Unlock()
	if top <= f.highest[key] {
		return
	}
	if f.highest == nil {
		f.highest = make(map[string]int64)
	}
	if len(f.highest) >= fencesMost {
		for k, n := range f.highest {
			if n < numberAt(now) {
				delete(f.highest, k)
			}
		}
	}
	f.highest[key] = top
}

// topFence returns the highest number of any vote, and the highest of those that
// were granted.
func topFence(votes []quorum.Vote) (top, granted int64) {
	for _, v := range votes {
		if v.In {
			top = max(top, v.Fence)
		}
		if v.Granted() {
			granted = max(granted, v.Fence)
		}
	}
	return top, granted
}

// fence agrees on a number for a claim that a quorum has granted. It returns how
// many rounds the acquisition has taken; an error means that it must be undone.
func (c *Client) fence(ctx context.Context, l *Locker, claim *master.Claim, votes []quorum.Vote, start clock.Reading) (number int64, rounds int, err error) {
	_, number = topFence(votes)
	claim.Fix(number)
	rounds = 1
	for won := exactly(votes, number); !won; {
		round := c.group.Ask(master.Commit, claim)
		won = round.Wait(ctx, c.closing, quorum.Tally.Decided).Won()
		votes = round.Votes()
		round.End()
		rounds++
		c.fences.heard(l.key, votes, c.clock().Wall())
		if won {
			break
		}
		top, _ := topFence(votes)
		if top <= number || rounds == fenceRounds {
			return 0, rounds, c.quorumErrorOf(opFence, l.name, votes)
		}
		number = top
		claim.Fix(number)
	}
	return number, rounds, c.awaitClock(ctx, l, number, start)
}

// exactly reports whether a quorum has granted exactly this number.
func exactly(votes []quorum.Vote, number int64) bool {
	n := 0
	for _, v := range votes {
		if v.Granted() && v.Fence == number {
			n++
		}
	}
	return n >= quorum.Majority(len(votes))
}

// awaitClock waits until a number is no more ahead of the clock than it may be.
func (c *Client) awaitClock(ctx context.Context, l *Locker, number int64, start clock.Reading) error {
	now := c.clock()
	ahead := timeOf(number).Sub(now.Wall()) - aheadMost
	if ahead <= 0 {
		return nil
	}
	if now.Since(start)+ahead < c.opts.fencedWithin(l.opts.TTL) {
		t := time.NewTimer(ahead)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
		case <-c.closing:
		}
	}
	return fmt.Errorf("redlock: %s %q: the number is %v ahead of our clock: clients' and masters' clocks must agree within half a second",
		opFence, l.name, ahead+aheadMost)
}

// fencedWithin returns in what time a fenced acquisition must be over. Half of MaxTTL is for
// masters that forget: what an acquisition before that has committed is at most
// aheadMost above the clock at its end, and the proposal of one whose votes they are
// asked for after their quarantine, of MaxTTL and 2 s, is as old as that one takes.
// So clocks may differ by half a second.
func (o *Options) fencedWithin(ttl time.Duration) time.Duration {
	return min(ttl-o.drift(ttl), o.MaxTTL/2)
}
