// Package fence agrees with a quorum of masters on the number of an acquisition, its fence. A Committer sends the
// rounds that it takes.
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
package fence

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/recent"
	"github.com/redlock-go/redlock/internal/wire"
)

const (
	// tick is the unit in which numbers count time. In the long run, a name cannot be acquired more often
	// than once in a tick, since numbers may not run ahead of the clock. A loop of locks on one machine may
	// be faster. Then each acquisition waits for the clock, once the numbers are AheadMost ahead of it.
	tick = wire.FenceTick
	// HandoversMost is how many handovers the low bits of a fence can count. Until 2039 fences stay below 2⁵³, so that JSON
	// can represent them.
	HandoversMost = 1<<wire.FenceBits - 1
	// AheadMost is how far a number may be ahead of the clock when it is committed. There are two reasons: a
	// clock that is far ahead must not raise all later numbers; and when the quarantine of a master that has
	// lost its numbers ends, the clock must have passed those numbers.
	AheadMost = time.Second
	// readStep is how far a reader's number may be below its clock. Readers that come at nearly the same time, and
	// soon after a writer, have the same number, so they need no second round.
	readStep = 250 * time.Millisecond
	// roundsMost is how many rounds an agreement may take. A round fails if another acquisition, which has
	// lost its keys without noticing, has raised the number meanwhile.
	roundsMost = 5
	// keepFor is how long Numbers keep a number at least. The clock passes most numbers within a second.
	keepFor = 10 * time.Second
)

// Of returns the fence of a lease, whose acquisition has a number, after some handovers; 0 for the number 0, which is none.
func Of(number int64, handovers int) uint64 {
	if number == 0 {
		return 0
	}
	return uint64(number)<<wire.FenceBits | uint64(handovers)
}

// Full reports whether a fence cannot count another handover.
func Full(number int64, handovers int) bool { return number != 0 && handovers == HandoversMost }

// At returns the number of a time.
func At(t time.Time) int64 { return t.UnixMicro() / tick.Microseconds() }

// Most returns the highest number that an acquisition may use which begins now and must end within limit.
func Most(now time.Time, limit time.Duration) int64 { return At(now.Add(limit + AheadMost)) }

// OfReader returns what an acquisition by a reader asks for, which begins now and must end within limit. Readers may have equal numbers. The
// clock keeps a reader's number from being below that of an earlier writer, even if the masters that gave the writer its number have lost it. When
// their quarantine is over, the clock has passed the writer's number, since a fenced acquisition takes no longer than half of MaxTTL.
func OfReader(now time.Time, limit time.Duration) wire.Proposal {
	return wire.Proposal{Number: At(now.Truncate(readStep)), Now: At(now), Most: Most(now, limit)}
}

// Numbers say what the acquisitions of writers ask for. They store the highest number of each name that was proposed or received, so that the next proposal is
// above it. A number that is no longer stored costs a round. Numbers are safe for concurrent use.
type Numbers struct {
	mu      sync.Mutex // guards what follows
	highest recent.Map[int64]
}

// NewNumbers returns Numbers that store none yet.
func NewNumbers() *Numbers { return &Numbers{highest: recent.Map[int64]{Keep: keepFor}} }

// Propose returns what an acquisition of the key asks for, which begins now and must end within limit. A number too far ahead of the clock cannot be used.
func (n *Numbers) Propose(key string, now time.Time, limit time.Duration) wire.Proposal {
	p := wire.Proposal{Number: At(now), Now: At(now), Most: Most(now, limit)}
	n.mu.Lock()
	defer n.mu.Unlock()
	if high, _ := n.highest.Get(key); high < p.Most { // otherwise it was stored when our clock was wrong
		p.Number = max(p.Number, high+1)
	}
	// Even if the attempt fails, some masters may give the number, perhaps after the attempt has ended.
	n.highest.Put(key, p.Number)
	return p
}

// Heard stores the highest number in a round's votes.
func (n *Numbers) Heard(key string, votes []quorum.Vote) {
	top, _ := highest(votes)
	n.mu.Lock()
	defer n.mu.Unlock()
	if high, _ := n.highest.Get(key); top > high {
		n.highest.Put(key, top)
	}
}

// highest returns the highest number in all votes, and the highest in the granted votes.
func highest(votes []quorum.Vote) (top, granted int64) {
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

// Usable returns the votes, with a failure in place of each grant whose number is above most; 0: there is no limit.
func Usable(votes []quorum.Vote, most int64, now time.Time) []quorum.Vote {
	for i, v := range votes {
		if most > 0 && v.Granted() && v.Fence > most {
			votes[i].Answer = wire.Answer{Err: wire.Ahead(v.Fence, At(now))}
		}
	}
	return votes
}

// An Agreement is that of one acquisition with a quorum of masters on its number. It is not safe for concurrent use.
type Agreement struct {
	Number int64 // to be committed: a number is committed only when the clock is near it
	Rounds int   // of the acquisition, the one that won it included
	Agreed bool  // a quorum has exactly this number
}

// Agree begins an agreement by the votes of the round that won an acquisition, which began at start. A number that is older than maxTTL is replaced by that of the clock. A master that has lost its
// numbers may give such a number with a grant, and the grant may count once the quarantine is over.
func Agree(votes []quorum.Vote, start time.Time, maxTTL time.Duration) *Agreement {
	_, number := highest(votes)
	if number < At(start.Add(-maxTTL)) {
		return &Agreement{Number: At(start), Rounds: 1}
	}
	return &Agreement{Number: number, Rounds: 1, Agreed: exactly(votes, number)}
}

// Heard counts the votes of a further round, which asked all masters to raise their number to a.Number, and was won or not. It
// reports whether the acquisition may go on: it has agreed, or another round may help.
func (a *Agreement) Heard(votes []quorum.Vote, won bool) (more bool) {
	a.Rounds++
	if a.Agreed = won; won {
		return true
	}
	top, _ := highest(votes)
	if top <= a.Number || a.Rounds == roundsMost {
		return false
	}
	a.Number = top
	return true
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

// Ahead returns how long it takes until a number is ahead of the clock by AheadMost at most; 0 or less: it is not further
// ahead.
func Ahead(number int64, now time.Time) time.Duration {
	return time.UnixMicro(number*tick.Microseconds()).Sub(now) - AheadMost
}
