package engine

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/fence"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/renew"
	"github.com/redlock-go/redlock/internal/wire"
)

// A fencing is a wait of a Locker with Options.Fencing, which agrees with the masters on the number of its lease.
type fencing wait

// propose returns the number that an acquisition asks for, which begins now. Without fencing there is none. Permits ask for one when they are
// won: see commitSlots.
func (f *fencing) propose(now time.Time) wire.Proposal {
	l := f.locker
	if !l.opts.Fencing || l.terms.OfSlots() {
		return wire.Proposal{}
	}
	limit := l.core.cfg.Bounds.FencedWithin(l.opts.TTL)
	if l.terms.Reads() {
		return fence.OfReader(now, limit)
	}
	return l.core.fences.Propose(l.terms.Key(), now, limit)
}

// highest returns the highest number that an acquisition can use now; 0: any.
func (f *fencing) highest(now clock.Reading) int64 {
	l := f.locker
	if !l.opts.Fencing {
		return 0
	}
	return fence.Most(now.Wall(), l.core.cfg.Bounds.FencedWithin(l.opts.TTL))
}

// commit agrees with a quorum of masters on the number of an acquisition: see package fence. votes are those of the round
// that won it. If that took further rounds, last is when the last of them began. After an error the caller must undo the acquisition.
func (f *fencing) commit(t *tenure, votes []quorum.Vote) (last clock.Reading, err error) {
	l, c := f.locker, f.locker.core
	a := fence.Agree(votes, t.sentAt.Wall(), c.cfg.MaxTTL)
	for err = f.awaitClock(a.Number, t.sentAt); err == nil && !a.Agreed; {
		last = c.clock()
		round := c.group.Ask(t.claim.Committing(a.Number), t.claim, c.cfg.Bounds.Limit(l.opts.TTL))
		won := round.Wait(f.ctx, c.closing, quorum.Tally.Decided).Won()
		votes = round.Votes()
		round.End()
		c.fences.Heard(l.key, votes)
		switch more := a.Heard(votes, won); {
		case !more:
			err = failed(OpFence, l.name, votes)
		case !a.Agreed:
			err = f.awaitClock(a.Number, t.sentAt)
		}
	}
	t.fence, t.rounds = a.Number, a.Rounds
	return last, err
}

// commitClaim is commit, or commitSlots, for a tenure whose claim has won by these votes. A round that fixes the number gives the keys their full TTL,
// and the validity counts from its beginning.
func (f *fencing) commitClaim(t *tenure, votes []quorum.Vote) (err error) {
	c, full := f.locker.core, f.locker.core.cfg.Bounds.Validity(f.locker.opts.TTL)
	if t.slots != nil {
		start, err := f.commitSlots(t)
		t.validity = renew.Validity{Start: start, Length: full}
		return err
	}
	c.fences.Heard(f.locker.key, votes)
	last, err := f.commit(t, votes)
	if t.rounds > 1 && err == nil {
		t.validity = renew.Validity{Start: last, Length: full}
	}
	return err
}

// awaitClock waits until a number is near the clock: see fence.AheadMost. It returns an error if that
// takes longer than the acquisition may take, or if ctx or the Client ends first.
func (f *fencing) awaitClock(number int64, start clock.Reading) error {
	l, c := f.locker, f.locker.core
	now := c.clock()
	ahead := fence.Ahead(number, now.Wall())
	if ahead <= 0 {
		return nil
	}
	if now.Since(start)+ahead < c.cfg.Bounds.FencedWithin(l.opts.TTL) {
		c.sleep(f.ctx, ahead, nil)
		if f.ctx.Err() == nil && !isClosed(c.closing) {
			return nil
		}
	}
	return fmt.Errorf("redlock: %s %q: the masters' number is %v ahead of our clock", OpFence, l.name, ahead+fence.AheadMost)
}

// commitSlots takes the fence of permits that a claim has won, in one further round or two. last is when the last of them began: the slots live at
// a quorum for the TTL from then on. After an error the caller must release the claim.
//
//   - In the first round, each master where the token stands in a slot raises its number above its last one. The fence is at least as high
//     as the numbers of a quorum for each slot. One of these masters has acknowledged the fence of the last holder of the slot, so it is higher.
//   - The permits are held only when a quorum for each slot has acknowledged the fence, while the token stood in the slot. If the numbers
//     of these quorums are as high in the first round already, there is no second one.
//   - The slots must not expire before that: another client could hold one, and commit a fence, between the rounds.
//
// It does no harm that holders of other slots raise the numbers meanwhile.
func (f *fencing) commitSlots(t *tenure) (last clock.Reading, err error) {
	l, c := f.locker, f.locker.core
	begun := c.clock()
	p := c.fences.Propose(l.terms.Key(), begun.Wall(), c.cfg.Bounds.FencedWithin(l.opts.TTL))
	a := fence.NewSlots(t.slots)
	for request := wire.FenceSlots(t.slots, p.Number); ; request = wire.CommitSlots(t.slots, a.Number) {
		last = c.clock()
		t.rounds++
		round := c.group.Ask(request, t.claim, c.cfg.Bounds.Limit(l.opts.TTL))
		usable := func() []quorum.Vote { return fence.Usable(round.Votes(), p.Most, c.clock().Wall()) }
		won := round.Wait(f.ctx, c.closing, quorum.Tally.Decided).Won()
		more := a.Heard(usable(), begun.Wall(), c.cfg.MaxTTL)
		if !more && won { // not by a quorum for each slot, or with a number that is too far ahead
			round.Wait(f.ctx, c.closing, func(quorum.Tally) bool { return false })
			more = a.Heard(usable(), begun.Wall(), c.cfg.MaxTTL)
		}
		votes := usable()
		round.End()
		if !more {
			return last, failed(OpFence, l.name, votes)
		}
		if err := f.awaitClock(a.Number, begun); err != nil {
			return last, err
		}
		if took := c.clock().Since(begun); took >= c.cfg.Bounds.Validity(l.opts.TTL) {
			return last, fmt.Errorf("redlock: %s %q: the votes of the first round have expired by now: it began %v ago", OpFence, l.name, took)
		}
		if a.Agreed {
			t.fence = a.Number
			return last, nil
		}
	}
}
