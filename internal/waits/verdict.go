package waits

import (
	"cmp"
	"maps"
	"slices"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Finding is what is known of a claim after a round that did not win. A lock is a semaphore with one slot, and a claim on it has aimed.
type Finding struct {
	Answered bool                   // a quorum of masters has answered
	Granted  int                    // how many have granted the claim what it wants in this round
	Keys     map[int]int            // at how many it stands in each of its slots, by votes that last
	Asked    bool                   // the round has asked who stands in these slots, and the answers are not older than the votes
	Rivals   map[int]map[string]int // at how many others stand there, by token
	Aimed    bool                   // it has aimed
	Overdue  bool                   // it has had votes for longer than g
	Sure     bool                   // if it is beaten now, it need not ask again
	Once     bool                   // it does not wait
}

// OnLock sets the Keys and Rivals of a claim on a lock, for which masters have voted. Such a claim has aimed, and is Sure. rival and theirs
// are those of Rival.
func (f *Finding) OnLock(mine int, rival string, theirs int) {
	f.Aimed, f.Sure = true, true
	if mine > 0 {
		f.Keys, f.Rivals = map[int]int{0: mine}, map[int]map[string]int{0: {rival: theirs}}
	}
}

// A Verdict is what becomes of the claim. If it is released, another one is registered.
type Verdict int

const (
	Stays    Verdict = iota // it asks again a moment later
	Polls                   // it is sent again when a poll is due
	BacksOff                // it is released; the next one is registered after a random delay
	Yields                  // it is released in favour of the rivals; the next one is registered at once
	Excluded                // it is released, since rivals have leases
	Aims                    // it aims at some of its slots
	Beaten                  // others are better in its slots; it asks once more
	GivesUp                 // it is released, and the wait ends
)

// Split reports whether the votes are split: the claim has some, and the answers say who has the others.
func (f Finding) Split() bool { return f.Answered && len(f.Keys) > 0 && f.Asked }

// Verdict returns what becomes of a claim on n slots with the token own, of need masters for a quorum. It also returns the best n slots of a
// claim that Aims. The claim is beaten if it is the best in fewer than n slots: see BestSlots.
//
//	the round, the slots of the claim       the others                         verdict
//	too few answers                                                            BacksOff
//	no slots, a grant in this round                                            BacksOff: its votes do not last until they are counted
//	no slots, or not asked                                                     Polls
//	the best, has not aimed                                                    Aims
//	the best, for longer than g                                                BacksOff
//	the best                                                                   Stays
//	beaten, not sure                                                           Beaten
//	beaten, sure                            have a quorum in too many          Excluded
//	beaten, sure                            do not                             Yields
//
// A claim that does not wait GivesUp where another one is Beaten or BacksOff, and if it has no slots. Of claims on one slot that know of
// each other, one stays.
func (f Finding) Verdict(own string, n, need int) (v Verdict, aim []int) {
	switch {
	case f.Once && (len(f.Keys) == 0 || !f.Answered):
		return GivesUp, nil
	case !f.Answered || len(f.Keys) == 0 && f.Granted > 0:
		return BacksOff, nil
	case !f.Split():
		return Polls, nil
	}
	best := BestSlots(f.Keys, f.Rivals, own, need)
	switch beaten := len(best) < n; {
	case !beaten && !f.Aimed:
		return Aims, best[:n]
	case !beaten && !f.Overdue:
		return Stays, nil
	case f.Once:
		return GivesUp, nil
	case !beaten:
		return BacksOff, nil
	case !f.Sure:
		return Beaten, nil
	case f.unheld(need) < n:
		return Excluded, nil
	}
	return Yields, nil
}

// unheld returns in how many of the slots of the claim no other token has a quorum.
func (f Finding) unheld(need int) (n int) {
	for slot := range f.Keys {
		if !slices.ContainsFunc(slices.Collect(maps.Values(f.Rivals[slot])), func(keys int) bool { return keys >= need }) {
			n++
		}
	}
	return n
}

// BestSlots returns the slots in which a token is the best, those with the most keys first: in a slot, the token with the most keys is the
// best, and of several the least. keys are those of the token, rivals those of others.
func BestSlots(keys map[int]int, rivals map[int]map[string]int, own string, need int) (slots []int) {
	for slot, mine := range keys {
		beaten := false
		for token, n := range rivals[slot] {
			beaten = beaten || n >= need || n > mine || n == mine && token < own
		}
		if !beaten {
			slots = append(slots, slot)
		}
	}
	slices.SortFunc(slots, func(a, b int) int { return cmp.Or(keys[b]-keys[a], a-b) })
	return slots
}

// SlotRivals returns at how many masters tokens other than own stand in the slots that a round has asked for.
func SlotRivals(votes []quorum.Vote, own string) map[int]map[string]int {
	all := make(map[int]map[string]int)
	for i := range votes {
		votes[i].Rivals(own, func(slot int, token string) {
			if all[slot] == nil {
				all[slot] = make(map[string]int)
			}
			all[slot][token]++
		})
	}
	return all
}

// Rival returns the token that the most masters have said to be in the way, and how many masters. On a tie, it returns the smallest
// token; "" if there is none. The masters in mine, as bits, do not count: they have voted for the claim. Other readers are no rivals of a
// claim that reads.
func Rival(votes []quorum.Vote, mine uint64, reads bool) (rival string, keys int) {
	rivals := make(map[string]int)
	for i, v := range votes {
		if v.Outcome == wire.Taken && v.Standing != "" && mine&(1<<i) == 0 && !(reads && v.Standing == wire.ReadersMarker) {
			rivals[v.Standing]++
		}
	}
	for token, n := range rivals {
		if n > keys || n == keys && token < rival {
			rival, keys = token, n
		}
	}
	return rival, keys
}

// Without returns the masters, as bits, that have answered that another token than this one is in the way, or none. The token has a quorum,
// so it is likely to be that of a lease, whose holder heals the key there when it renews the lease. If all who wait set that
// key again and again, and gave way again and again, the holder would seldom find it free.
func Without(votes []quorum.Vote, token string) (masters uint64) {
	for i, v := range votes {
		if v.In && v.Outcome == wire.Taken && v.Standing != token {
			masters |= 1 << i
		}
	}
	return masters
}
