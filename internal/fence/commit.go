package fence

import (
	"context"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/bounds"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Committer agrees with the masters of a Client on the numbers of its acquisitions: it sends the rounds that this takes after the one that has
// won. Its methods take the TTL of the lock, and are safe for concurrent use.
type Committer struct {
	// Immutable.
	group   *quorum.Group
	clock   clock.Clock
	bounds  bounds.Bounds
	closing <-chan struct{} // ends all agreements
	numbers *Numbers
}

// NewCommitter returns the Committer of a Client. Agreements end when closing is closed.
func NewCommitter(group *quorum.Group, now clock.Clock, b bounds.Bounds, closing <-chan struct{}) *Committer {
	return &Committer{group: group, clock: now, bounds: b, closing: closing, numbers: NewNumbers()}
}

// Propose returns what an acquisition asks for that begins now. Claims on slots ask for a number when they have won: see CommitSlots.
func (c *Committer) Propose(terms *wire.Terms, now time.Time, ttl time.Duration) wire.Proposal {
	limit := c.bounds.FencedWithin(ttl)
	switch {
	case terms.OfSlots():
		return wire.Proposal{}
	case terms.Reads():
		return OfReader(now, limit)
	}
	return c.numbers.Propose(terms.Key(), now, limit)
}

// Most returns the highest number that an acquisition can use now.
func (c *Committer) Most(now clock.Reading, ttl time.Duration) int64 {
	return Most(now.Wall(), c.bounds.FencedWithin(ttl))
}

// Heard notes the numbers in the votes of a round that was not won. Those of other rounds are noted by Commit.
func (c *Committer) Heard(key string, votes []quorum.Vote) { c.numbers.Heard(key, votes) }

// A Committed number is that of an acquisition, which a quorum of masters has acknowledged.
type Committed struct {
	Number int64         // 0 after an error of CommitSlots
	Rounds int           // of the acquisition, the one that has won it included
	Last   clock.Reading // when the last round began, if there was more than one
}

// A LostError says that a further round was lost.
type LostError struct {
	Votes []quorum.Vote // of the round, by master
}

func (*LostError) Error() string { return "the round that fixes the number was lost" }

// Commit agrees with a quorum of masters on the number of an acquisition that began at start, and that a round with these votes has won: see the
// comment of the package. A further round gives the keys their full TTL. After an error, which may be a *LostError, the caller must undo the
// acquisition.
func (c *Committer) Commit(ctx context.Context, claim *master.SentClaim, votes []quorum.Vote, start clock.Reading, ttl time.Duration) (fixed Committed, err error) {
	c.Heard(claim.Key(), votes)
	a := Agree(votes, start.Wall(), c.bounds.MaxTTL)
	for err = c.awaitClock(ctx, a.Number, start, ttl); err == nil && !a.Agreed; {
		fixed.Last = c.clock()
		round := c.group.Ask(claim.Committing(a.Number), claim, c.bounds.Limit(ttl))
		won := round.Wait(ctx, c.closing, quorum.Tally.Decided).Won()
		votes = round.Votes()
		round.End()
		c.Heard(claim.Key(), votes)
		switch more := a.Heard(votes, won); {
		case !more:
			err = &LostError{votes}
		case !a.Agreed:
			err = c.awaitClock(ctx, a.Number, start, ttl)
		}
	}
	fixed.Number, fixed.Rounds = a.Number, a.Rounds
	return fixed, err
}

// CommitSlots takes the fence of slots that a claim has won, in one further round or two. The slots live at a quorum for the TTL from the beginning
// of the last of them. After an error, which may be a *LostError, the caller must release the claim.
//
//   - In the first round, each master where the token stands in a slot raises its number above its last one. The fence is at least as high
//     as the numbers of a quorum for each slot. One of these masters has acknowledged the fence of the last holder of the slot, so it is higher.
//   - The slots are held only when a quorum for each slot has acknowledged the fence, while the token stood in the slot. If the numbers
//     of these quorums are as high in the first round already, there is no second one.
//   - The slots must not expire before that: another client could hold one, and commit a fence, between the rounds.
//
// It does no harm that holders of other slots raise the numbers meanwhile.
func (c *Committer) CommitSlots(ctx context.Context, claim *master.SentClaim, slots []int, ttl time.Duration) (fixed Committed, err error) {
	start := c.clock()
	p := c.numbers.Propose(claim.Key(), start.Wall(), c.bounds.FencedWithin(ttl))
	a := NewSlots(slots)
	fixed.Rounds = 1
	for request := wire.FenceSlots(slots, p.Number); ; request = wire.CommitSlots(slots, a.Number) {
		fixed.Last = c.clock()
		fixed.Rounds++
		round := c.group.Ask(request, claim, c.bounds.Limit(ttl))
		usable := func() []quorum.Vote { return Usable(round.Votes(), p.Most, c.clock().Wall()) }
		won := round.Wait(ctx, c.closing, quorum.Tally.Decided).Won()
		more := a.Heard(usable(), start.Wall(), c.bounds.MaxTTL)
		if !more && won { // not by a quorum for each slot, or with a number that is too far ahead
			round.Wait(ctx, c.closing, quorum.All)
			more = a.Heard(usable(), start.Wall(), c.bounds.MaxTTL)
		}
		votes := usable()
		round.End()
		if !more {
			return fixed, &LostError{votes}
		}
		if err := c.awaitClock(ctx, a.Number, start, ttl); err != nil {
			return fixed, err
		}
		if took := c.clock().Since(start); took >= c.bounds.Validity(ttl) {
			return fixed, fmt.Errorf("the votes of the first round have expired by now: it began %v ago", took)
		}
		if a.Agreed {
			fixed.Number = a.Number
			return fixed, nil
		}
	}
}

// awaitClock waits until a number is near the clock: see AheadMost. It returns an error if that takes longer than the acquisition may take, which
// began at start, or if ctx or the Client ends first.
func (c *Committer) awaitClock(ctx context.Context, number int64, start clock.Reading, ttl time.Duration) error {
	now := c.clock()
	ahead := Ahead(number, now.Wall())
	if ahead <= 0 {
		return nil
	}
	if now.Since(start)+ahead < c.bounds.FencedWithin(ttl) && c.sleep(ctx, ahead) {
		return nil
	}
	return fmt.Errorf("the masters' number is %v ahead of our clock", ahead+AheadMost)
}

// sleep waits for d, and reports whether neither ctx nor the Client has ended by then.
func (c *Committer) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-c.closing:
	}
	select {
	case <-c.closing:
		return false
	default:
		return ctx.Err() == nil
	}
}
