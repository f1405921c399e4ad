package waits

import (
	"cmp"
	"slices"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// A claim may be on n slots of a semaphore. Then a vote says in which slots the token stands, and the claim needs a quorum of
// votes for each of n slots. Votes for several slots are never added up.
//
//   - Each answer and each message names all slots of the token, which live for the same time. So of two votes of one
//     master, the one that ends later counts as a whole. Votes are never united: a slot of the earlier one may have expired.
//   - A claim aims once: see Aim. Votes for other slots that came before are dropped, and later ones do not count.

// theLock is what a vote for a lock stands for.
var theLock = []int{0}

// pastMost is how many claims on slots a Client remembers.
const pastMost = 1024

func (s *Waits) noteSlotsLocked(c *master.SentClaim) {
	if len(s.past) < pastMost {
		s.past = append(s.past, c)
		return
	}
	s.past[s.oldest] = c
	s.oldest = (s.oldest + 1) % pastMost
}

// releasedLocked returns the claim on slots with a token if it was released, or nil; also nil if the claim is one of long ago. A
// master that tells a claim that it is near has it in its queue still, or again: a master that was restarted may have lost the release.
func (s *Waits) releasedLocked(token string) *master.SentClaim {
	for _, c := range s.past {
		if c.Token() == token && c.Released() {
			return c
		}
	}
	return nil
}

// aimed returns those of the slots of a vote that may count.
func (c *Claim) aimed(slots []int) []int {
	switch {
	case c.slots == 0:
		return theLock
	case c.aim == nil:
		return slots
	}
	return slices.DeleteFunc(slices.Clone(slots), func(slot int) bool { return !slices.Contains(c.aim, slot) })
}

// Aim drops the votes of a claim for all slots but these, and has later votes for others not count. It must be called before the
// command to aim is sent.
func (c *Claim) Aim(slots []int) {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	c.aim = slots
	for i := range c.at {
		v := &c.at[i].vote
		if v.slots = c.aimed(v.slots); len(v.slots) == 0 {
			v.end()
		}
	}
}

// Stands returns at how many masters a claim stands in each of its slots, as far as it has votes that last.
func (c *Claim) Stands(now clock.Reading) map[int]int {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	keys := make(map[int]int)
	for i := range c.at {
		if v := &c.at[i].vote; c.inbox.waits.lasts(v, now) > 0 {
			for _, slot := range v.slots {
				keys[slot]++
			}
		}
	}
	return keys
}

// Split reports whether a claim that has not aimed has votes that last, and cannot have a quorum for any slot by the first votes of the
// masters that have not voted.
func (c *Claim) Split(now clock.Reading) bool {
	keys := c.Stands(now)
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	most, pending := 0, 0
	for _, n := range keys {
		most = max(most, n)
	}
	for i := range c.at {
		if c.at[i].vote.life == 0 {
			pending++
		}
	}
	return c.aim == nil && most > 0 && most+pending < c.inbox.waits.Need
}

// quorumLocked returns the quorum for as many slots as a claim needs, or nil; a lock has one slot. lefts are the votes that last, the longest first.
func (c *Claim) quorumLocked(votes []quorum.Vote, lefts []left, need int) *Quorum {
	type slot struct {
		number int
		rests  []left // the first need votes
		all    int
	}
	var slots []slot
	for _, l := range lefts {
		for _, number := range l.slots {
			at := slices.IndexFunc(slots, func(s slot) bool { return s.number == number })
			if at < 0 {
				at = len(slots)
				slots = append(slots, slot{number: number})
			}
			if s := &slots[at]; len(s.rests) < need {
				s.rests = append(s.rests, l)
			}
			slots[at].all++
		}
	}
	slots = slices.DeleteFunc(slots, func(s slot) bool { return len(s.rests) < need })
	n := max(c.slots, 1)
	if len(slots) < n {
		return nil
	}
	slices.SortFunc(slots, func(a, b slot) int { return cmp.Or(b.all-a.all, a.number-b.number) })
	won := &Quorum{Votes: votes, Left: lefts[0].d}
	for _, s := range slots[:n] {
		if c.slots > 0 {
			won.Slots = append(won.Slots, s.number)
		}
		won.Left = min(won.Left, s.rests[need-1].d)
		for _, l := range s.rests {
			won.rests |= 1 << l.i
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
	if c.gone&q.rests != 0 {
		return 0, 0, false
	}
	c.inbox.setClaimLocked(nil)
	c.doubt = doubt
	if c.slots == 0 || c.aim != nil {
		return 0, 0, true
	}
	c.held, c.settle = q.Slots, settle
	for i := range c.at {
		switch v := &c.at[i].vote; {
		case v.life > 0 && !slices.Equal(v.slots, q.Slots):
			elsewhere |= 1 << i
		case v.life == 0 && c.queued>>i&1 == 1:
			queued |= 1 << i
		}
	}
	return elsewhere, queued, true
}

// elsewhereLocked reports whether an answer says that the token of a lease stands in other slots, or in the queue.
func (c *Claim) elsewhereLocked(a wire.Answer) bool {
	return a.Outcome == wire.Taken || a.Done() && !slices.Equal(a.Slots.All(), c.held)
}
