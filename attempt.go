package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// attempt makes one attempt: a round of SETs and, unless the round is won, the releases that undo it. The
// releases go to all masters, whatever they have answered: a master that refused, or whose answer was
// lost, may have set the key. The caller ends the round, since later votes say whether other clients
// contend for the lock.
//
// within says how long the masters may take to answer. As a rule claim is nil, and the attempt has a new one. A claim
// that the caller gives is not undone.
func (c *Client) attempt(ctx context.Context, l *Locker, claim *master.Claim, kind master.Kind, start clock.Reading, waited time.Duration, contended bool, within quorum.Limit) (*Lease, *quorum.Round, error) {
	validity := l.opts.TTL - c.opts.drift(l.opts.TTL)
	both := &struct { // in one allocation
		lease Lease
		claim master.Claim
	}{lease: Lease{client: c, name: l.name, opts: l.opts, shared: l.shared, ofSet: l.ofSet, contended: contended, rounds: 1,
		granted: start, acquired: start, start: start, validity: validity}}
	s := &both.lease
	limit := validity
	if l.opts.Fencing {
		limit = c.opts.fencedWithin(l.opts.TTL)
	}
	if s.claim = claim; claim == nil {
		s.claim = &both.claim
		s.claim.Init(&l.terms, newToken(c.opts.Owner), waited)
		switch {
		case l.opts.Fencing && l.shared != nil:
			proposeRead(s.claim, start.Wall(), limit)
		case l.opts.Fencing:
			c.fences.propose(s.claim, start.Wall(), limit)
		}
		if l.shared != nil {
			s.claim.Turn(c.turn())
		}
		if !c.opts.DisableWakeups {
			s.claim.Prepare(kind)
		}
	}
	round := c.group.Ask(kind, s.claim, within)
	t := round.Wait(ctx, c.closing, quorum.Tally.Decided)
	var err error
	if l.opts.Fencing {
		votes := round.Votes()
		c.fences.heard(l.key, votes)
		if t.Won() {
			s.fence, s.rounds, _, err = c.commitFence(ctx, l, s.claim, votes, start)
		}
	}
	took := c.clock().Since(start)
	if t.Won() && err == nil && took < limit && s.begin() {
		return s, round, nil
	}
	if claim == nil {
		c.tellAll(master.Undo, s.claim)
	}
	if t.Won() {
		return nil, round, c.wasted(l.name, round, err, took, limit, validity)
	}
	// The undoing is on its way. What follows only completes the error: because of one dead master, a lock
	// that is held must not look like an outage.
	round.Wait(ctx, c.closing, quorum.Tally.Explained)
	return nil, round, c.quorumError(opAcquire, l.name, round.Votes())
}

// freeAfter returns the time after which the keys of a quorum of masters will have expired, if nobody renews
// them. It uses the answers of the masters that refused, and reports false if those do not suffice.
func freeAfter(votes []quorum.Vote) (time.Duration, bool) {
	var lefts []time.Duration
	for _, v := range votes {
		if v.Granted() {
			lefts = append(lefts, 0)
		} else if v.Outcome == master.Taken && v.Left != master.Unknown {
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
