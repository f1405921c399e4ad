package waits

import (
	"slices"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
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

// aimedLocked returns those of the slots of a vote that may count.
func (c *Claim) aimedLocked(slots []int) []int {
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
		if v.slots = c.aimedLocked(v.slots); len(v.slots) == 0 {
			v.end()
		}
	}
}

// Stands returns at how many masters a claim stands in each of its slots, as far as it has votes that last.
func (c *Claim) Stands(now clock.Reading) map[int]int {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	return c.standsLocked(now)
}

func (c *Claim) standsLocked(now clock.Reading) map[int]int {
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
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	most, pending := 0, 0
	for _, n := range c.standsLocked(now) {
		most = max(most, n)
	}
	for i := range c.at {
		if c.at[i].vote.life == 0 {
			pending++
		}
	}
	return c.aim == nil && most > 0 && most+pending < c.inbox.waits.Need
}

// pastMost is how many claims on slots a Client remembers. releasedLocked looks at each.
const pastMost = 1024

// noteSlotsLocked remembers a claim on slots.
func (s *Waits) noteSlotsLocked(c *master.SentClaim) {
	if len(s.past) < pastMost {
		s.past = append(s.past, c)
		return
	}
	s.past[s.oldest] = c
	s.oldest = (s.oldest + 1) % pastMost
}

// releasedLocked returns the claim on slots with a token if it was released, or nil; also nil if it is one of long ago, or a claim on a lock. A
// master that tells a claim that it is near has it in its queue still, or again: a master that was restarted may have lost the release.
func (s *Waits) releasedLocked(token string) *master.SentClaim {
	for _, c := range s.past {
		if c.Token() == token && c.Released() {
			return c
		}
	}
	return nil
}

// Released are the slots of a semaphore that a Client has released and that none of its claims prefers yet, the last one last.
type Released []int

// Note notes slots that were released. The oldest are forgotten.
func (r *Released) Note(slots []int) {
	*r = append(*r, slots...)
	*r = slices.Delete(*r, 0, max(len(*r)-wire.NearMost, 0))
}

// Take returns the slot below a limit that was released last, and forgets it. Slots from the limit on are forgotten, too.
func (r *Released) Take(limit int) (slot int, ok bool) {
	for n := len(*r); n > 0 && !ok; n-- {
		slot = (*r)[n-1]
		*r, ok = (*r)[:n-1], slot < limit
	}
	return slot, ok
}
