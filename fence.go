package redlock

import (
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/recent"
	"github.com/redlock-go/redlock/internal/wire"
)

// With LockOptions.Fencing each acquisition agrees with a quorum of masters on a number.
//
//   - A master that sets the key gives it a number. This is the number that the client proposes, which is
//     near its clock, if it is above every number that the master has given to the name or was raised to.
//     Otherwise it is a higher one.
//   - The highest number in a quorum's votes counts. If a quorum has given exactly that number, it is
//     committed.
//   - Otherwise a second round raises all masters to that number. A master counts in this round if its number is
//     then exactly that one. A master with a higher number does not count: another acquisition has got there first.
//
// Example: the votes of three masters give 70, 73 and 73. A quorum has given 73, so 73 is committed in one round. If the votes
// are 70, 71 and 73, a second round asks all masters to raise their number to 73. If two masters then have 73, it is
// committed. If two have 75 by then, this acquisition has lost its keys to the one that got 75, and must not commit 73, since
// the other holder may have shown 75 to the resource already.

const (
	// fenceTick is the unit in which numbers count time. In the long run, a name cannot be acquired more often
	// than once in a tick, since numbers may not run ahead of the clock. A loop of locks on one machine may
	// be faster. Then each acquisition waits for the clock, once the numbers are aheadMost ahead of it.
	fenceTick = wire.FenceTick
	// fenceBits is how many low bits of a fence count handovers. Until 2039 fences stay below 2⁵³, so that JSON
	// can represent them.
	fenceBits = wire.FenceBits
	// handoversMost is how many handovers those bits can count.
	handoversMost = 1<<fenceBits - 1
	// aheadMost is how far a number may be ahead of the clock when it is committed. There are two reasons: a
	// clock that is far ahead must not raise all later numbers; and when the quarantine of a master that has
	// lost its numbers ends, the clock must have passed those numbers.
	aheadMost = time.Second
	// readStep is how far a reader's number may be below its clock. Readers that come at nearly the same time, and
	// soon after a writer, have the same number, so they need no second round.
	readStep = 250 * time.Millisecond
	// fenceRounds is how many rounds an agreement may take. A round fails if another acquisition, which has
	// lost its keys without noticing, has raised the number meanwhile.
	fenceRounds = 5
)

// Fence returns the lease's number, which is greater than that of each earlier lease of the name. A resource
// can store the highest number and refuse requests with a lower one. Then a holder that was stopped for
// longer than its lease cannot overwrite later writes. Without LockOptions.Fencing, and for a nil Lease,
// Fence returns 0, which the resource must refuse. It is below 2⁵³ until 2039, so it fits an SQL BIGINT and a
// JSON number.
func (s *Lease) Fence() uint64 {
	if s == nil || s.tenure.fence == 0 {
		return 0
	}
	handovers := s.handovers
	if _, shared := s.tenure.holders.(*readers); shared {
		handovers = handoversMost // those of the last writer's lease are not known
	}
	return uint64(s.tenure.fence)<<fenceBits | uint64(handovers)
}

// fences stores the highest number of each name that was proposed or received, so that the next proposal is
// above it. A number that is no longer stored costs a round.
type fences struct {
	mu      sync.Mutex // guards what follows
	highest recent.Map[int64]
}

// fencesFor is how long a number is stored at least. The clock passes most numbers within a second.
const fencesFor = 10 * time.Second

// numberAt returns the number of a time, and timeOf the time of a number.
func numberAt(t time.Time) int64 { return t.UnixMicro() / fenceTick.Microseconds() }
func timeOf(number int64) time.Time {
	return time.UnixMicro(number * fenceTick.Microseconds())
}

// propose returns the number that an acquisition of the name asks for. It begins now and must end within limit. A number
// too far ahead of the clock cannot be used.
func (f *fences) propose(key string, now time.Time, limit time.Duration) wire.Proposal {
	p := wire.Proposal{Number: numberAt(now), Now: numberAt(now), Most: numberAt(now.Add(limit + aheadMost))}
	f.mu.Lock()
	defer f.mu.Unlock()
	if high, _ := f.highest.Get(key); high < p.Most { // otherwise it was stored when our clock was wrong
		p.Number = max(p.Number, high+1)
	}
	// Even if the attempt fails, some masters may give the number, perhaps after the attempt has ended.
	f.highest.Put(key, p.Number)
	return p
}

// propose returns the number that an acquisition of l asks for, which begins now: see fences.propose. Without fencing
// there is none.
func (l *Locker) propose(now time.Time) wire.Proposal {
	limit := l.client.opts.fencedWithin(l.opts.TTL)
	switch {
	case !l.opts.Fencing:
		return wire.Proposal{}
	case l.reads():
		return wire.Proposal{Number: readNumber(now), Now: numberAt(now), Most: numberAt(now.Add(limit + aheadMost))}
	}
	return l.client.fences.propose(l.terms.Key(), now, limit)
}

// readNumber returns the least number of a reader that begins now. It keeps a reader's number from being below that
// of an earlier writer, even if the masters that gave the writer its number have lost it. When their quarantine is
// over, the clock has passed the writer's number: see fencedWithin.
func readNumber(now time.Time) int64 { return numberAt(now.Truncate(readStep)) }

// highestFence returns the highest number that an acquisition of l can use now; 0: any.
func (l *Locker) highestFence(now clock.Reading) int64 {
	if !l.opts.Fencing {
		return 0
	}
	return numberAt(now.Wall().Add(l.client.opts.fencedWithin(l.opts.TTL) + aheadMost))
}

// usable returns the votes, with a failure in place of each grant whose number is above most; 0: there is no limit.
func usable(votes []quorum.Vote, most int64, now clock.Reading) []quorum.Vote {
	for i, v := range votes {
		if most > 0 && v.Granted() && v.Fence > most {
			votes[i].Answer = wire.Answer{Err: wire.Ahead(v.Fence, numberAt(now.Wall()))}
		}
	}
	return votes
}

// heard stores the highest number in a round's votes.
func (f *fences) heard(key string, votes []quorum.Vote) {
	top, _ := topFence(votes)
	f.mu.Lock()
	defer f.mu.Unlock()
	if high, _ := f.highest.Get(key); top > high {
		f.highest.Put(key, top)
	}
}

// topFence returns the highest number in all votes, and the highest in the granted votes.
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

// commitFence agrees with a quorum of masters on the number of an acquisition. votes are those of the round that
// won it, and start is when that began. commitFence returns the number, and how many rounds the acquisition has
// taken. If there were several, last is when the last of them began. After an error the caller must undo the
// acquisition.
//
//   - A number is committed only when the clock is near it, so no master is raised to a number far ahead of the
//     clock.
//   - A number that is older than MaxTTL is replaced by that of the clock. A master that has lost its numbers may give
//     such a number with a grant, and the grant may count once the quarantine is over.
func (w *wait) commitFence(claim *master.Claim, votes []quorum.Vote, start clock.Reading) (number int64, rounds int, last clock.Reading, err error) {
	l, c := w.locker, w.locker.client
	_, number = topFence(votes)
	if l.reads() {
		number = max(number, readNumber(start.Wall()))
	}
	rounds = 1
	won := exactly(votes, number)
	if least := numberAt(start.Wall().Add(-c.opts.MaxTTL)); number < least && !l.reads() {
		number, won = numberAt(start.Wall()), false
	}
	for {
		if err := w.awaitClock(number, start); err != nil {
			return 0, rounds, last, err
		}
		if won {
			return number, rounds, last, nil
		}
		last = c.clock()
		round := c.group.Ask(claim.Committing(number), claim, c.opts.limit(l.opts.TTL))
		won = round.Wait(w.ctx, c.closing, quorum.Tally.Decided).Won()
		votes = round.Votes()
		round.End()
		rounds++
		c.fences.heard(l.key, votes)
		if won {
			return number, rounds, last, nil
		}
		top, _ := topFence(votes)
		if top <= number || rounds == fenceRounds {
			return 0, rounds, last, c.quorumError(opFence, l.name, votes)
		}
		number = top
	}
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

// awaitClock waits until the number is ahead of the clock by aheadMost at most. It returns an error if that
// takes longer than the acquisition may take, or if ctx or the Client ends first.
func (w *wait) awaitClock(number int64, start clock.Reading) error {
	l, c := w.locker, w.locker.client
	now := c.clock()
	ahead := timeOf(number).Sub(now.Wall()) - aheadMost
	if ahead <= 0 {
		return nil
	}
	if now.Since(start)+ahead < c.opts.fencedWithin(l.opts.TTL) {
		c.sleep(w.ctx, ahead, nil)
		if !w.over() {
			return nil
		}
	}
	return fmt.Errorf("redlock: %s %q: the masters' number is %v ahead of our clock", opFence, l.name, ahead+aheadMost)
}

// fencedWithin returns how long a fenced acquisition may take. The limit keeps numbers rising when masters
// lose their numbers:
//
//   - A number that was committed before the loss is at most aheadMost above the clock at the end of its
//     acquisition.
//   - The quarantine of those masters lasts MaxTTL + 2 s. A later acquisition that uses their votes proposes
//     a number from the time when it began.
//   - No acquisition takes longer than half of MaxTTL, so the clocks may differ by a second, or by readStep less if
//     the later one is a reader's. They should differ by half a second at most.
func (o *Options) fencedWithin(ttl time.Duration) time.Duration {
	return min(o.validity(ttl), o.MaxTTL/2)
}
