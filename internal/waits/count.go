package waits

import (
	"cmp"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Quorum is a quorum of votes for a claim.
type Quorum struct {
	Votes   []quorum.Vote // of all masters
	Left    time.Duration // how long the votes of the quorum last
	Slots   []int         // for which it is, in ascending order; nil for a lock
	masters uint64        // those of the quorum, as bits
}

// A Count is what the votes for a claim say.
type Count struct {
	Mine  uint64    // the masters, as bits, whose votes last
	First time.Time // when the first vote came; zero: none lasts
	Won   *Quorum   // the quorum; nil: there is none
}

// Count counts the votes for a claim. Votes with a fence above most cannot be part of the quorum; 0: any can. Won
// finds votes that become void from here on.
func (c *Claim) Count(now clock.Reading, most int64) (n Count) {
	s := c.inbox.waits
	s.mu.Lock()
	defer s.mu.Unlock()
	var votes []lasting
	for i := range c.at {
		v := &c.at[i].vote
		c.at[i].void = false
		left := s.lasts(v, now)
		if left <= 0 {
			continue
		}
		n.Mine |= 1 << i
		if most > 0 && v.fence > most {
			continue
		}
		votes = append(votes, lasting{v, i, left})
	}
	if n.Mine == 0 {
		c.firstVote = time.Time{} // its grants have expired
	}
	if n.First = c.firstVote; len(votes) >= s.Need {
		slices.SortFunc(votes, func(a, b lasting) int { return cmp.Compare(b.left, a.left) })
		if n.Won = quorumOf(votes, c.slots, s.Need); n.Won != nil {
			n.Won.Votes = make([]quorum.Vote, s.masters)
			for _, v := range votes {
				n.Won.Votes[v.master] = quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Granted, Fence: v.fence}}
			}
		}
	}
	return n
}

// A lasting is a vote that lasts.
type lasting struct {
	*vote
	master int
	left   time.Duration // for how long it lasts
}

// quorumOf returns a quorum of need votes for each of as many slots as a claim needs, or nil; 0: the claim is on a lock, which has one slot. votes are
// those that last, the longest first. If more slots have a quorum, it takes those with the most votes, and of these the lowest.
func quorumOf(votes []lasting, claimed, need int) *Quorum {
	type slot struct {
		number int
		quorum []lasting // the first need votes
		all    int
	}
	var slots []slot
	for _, v := range votes {
		for _, number := range v.slots {
			at := slices.IndexFunc(slots, func(s slot) bool { return s.number == number })
			if at < 0 {
				at = len(slots)
				slots = append(slots, slot{number: number})
			}
			if s := &slots[at]; len(s.quorum) < need {
				s.quorum = append(s.quorum, v)
			}
			slots[at].all++
		}
	}
	slots = slices.DeleteFunc(slots, func(s slot) bool { return len(s.quorum) < need })
	n := max(claimed, 1)
	if len(slots) < n {
		return nil
	}
	slices.SortFunc(slots, func(a, b slot) int { return cmp.Or(b.all-a.all, a.number-b.number) })
	won := &Quorum{Left: votes[0].left}
	for _, s := range slots[:n] {
		if claimed > 0 {
			won.Slots = append(won.Slots, s.number)
		}
		won.Left = min(won.Left, s.quorum[need-1].left)
		for _, v := range s.quorum {
			won.masters |= 1 << v.master
		}
	}
	slices.Sort(won.Slots)
	return won
}

// Won says that the claim becomes a lease by a quorum, so it can no longer be granted the lock. Won does nothing and
// reports false if a vote of the quorum has become void since it was counted. Later, doubt is called if a late poll has
// found that a master had lost the key.
//
// Of a claim on slots, Won also returns the masters, as bits, that are known to have the token in other slots, and those that have it in
// the queue. Later, settle is called if the answer to an earlier command says so of a master. There, the holder is to stand in
// its slots, and to leave all others: else nobody could have those. A claim that has aimed does so everywhere.
func (c *Claim) Won(q *Quorum, doubt, settle func(i int)) (elsewhere, queued uint64, ok bool) {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	for i := range c.at {
		if c.at[i].void && q.masters>>i&1 == 1 {
			return 0, 0, false
		}
	}
	c.inbox.setClaimLocked(nil)
	c.doubt = doubt
	if c.slots == 0 || c.aim != nil {
		return 0, 0, true
	}
	c.held, c.settle = q.Slots, settle
	for i := range c.at {
		switch m := &c.at[i]; {
		case m.vote.life > 0 && !slices.Equal(m.vote.slots, q.Slots):
			elsewhere |= 1 << i
		case m.vote.life == 0 && m.queued:
			queued |= 1 << i
		}
	}
	return elsewhere, queued, true
}
