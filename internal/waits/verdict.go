package waits

import (
	"cmp"
	"maps"
	"slices"

	"github.com/redlock-go/redlock/internal/quorum"
)

// A Finding is what is known of a claim for a lock after a round that did not win.
type Finding struct {
	Answered  bool   // a quorum of masters has answered
	Granted   int    // how many have granted the claim the lock in this round
	Keys      int    // how many have its key, so they have voted for it, and the votes last
	Stale     bool   // the answers may be older than the votes
	Overdue   bool   // it has had votes for longer than g
	Rival     string // see Rival
	RivalKeys int    // how many have the key of the rival
}

// A Verdict is what becomes of the claim.
type Verdict int

const (
	Stays      Verdict = iota // it asks again a moment later
	Polls                     // it is sent again when a poll is due
	BacksOff                  // it is released. Another one is registered after a random delay
	LeavesFree                // it is released, and its keys are left free, since the rival has a lease. Another one is registered at once
	Yields                    // it is released in favour of the rival. Another one is registered at once

	// Of claims on slots only:
	Aims    // it aims at some of its slots
	Beaten  // others are better in its slots. It asks once more
	GivesUp // it does not wait
)

// Split reports whether the votes are split: the claim has some, and the answers say who has the others.
func (f Finding) Split() bool { return f.Answered && f.Keys > 0 && !f.Stale }

// Verdict returns what becomes of a claim with the token own, of need masters for a quorum.
//
//	the round, the keys of the claim        the rival                          verdict
//	too few answers                                                            BacksOff
//	no keys, a grant in this round                                             BacksOff: its votes do not last until they are counted
//	no keys, or the answers may be older                                       Polls
//	keys                                    has a quorum                       LeavesFree
//	keys                                    has more, or as many and a         Yields
//	                                        smaller token
//	keys, for longer than g                 has fewer                          BacksOff
//	keys                                    has fewer                          Stays
//
// Of claims that know of each other, one stays.
func (f Finding) Verdict(own string, need int) Verdict {
	if !f.Answered {
		return BacksOff
	}
	switch {
	case f.Keys == 0 && f.Granted > 0:
		return BacksOff
	case !f.Split():
		return Polls
	case f.RivalKeys >= need:
		return LeavesFree
	case f.RivalKeys > f.Keys || f.RivalKeys == f.Keys && f.Rival < own:
		return Yields
	case f.Overdue:
		return BacksOff
	}
	return Stays
}

// A SlotFinding is what is known of a claim on slots after a round that did not win.
type SlotFinding struct {
	Answered bool                   // a quorum of masters has answered
	Granted  int                    // how many have granted the claim slots in this round
	Keys     map[int]int            // at how many it stands in each of its slots, by votes that last
	Asked    bool                   // the round has asked who stands in its slots, and the answers are not older than the votes
	Rivals   map[int]map[string]int // see SlotRivals
	Aimed    bool                   // it has aimed
	Overdue  bool                   // it has had votes for longer than g
	Beaten   bool                   // a round before has found it beaten
	Once     bool                   // it does not wait
}

// Verdict returns what becomes of a claim on n slots with the token own, of need masters for a quorum. It also returns the best n slots of a
// claim that Aims. The claim is beaten if it is the best in fewer than n slots.
//
//	the round, the slots of the claim       the others                         verdict
//	too few answers                                                            BacksOff
//	no slots, a grant in this round                                            BacksOff: its votes do not last until they are counted
//	no slots, or not asked                                                     Polls
//	beaten for the first time                                                  Beaten
//	beaten for the second time              have a quorum in too many          BacksOff: at once, the next claim would be given the same slots
//	beaten for the second time              do not                             Yields
//	the best, has not aimed                                                    Aims
//	the best, for longer than g                                                BacksOff
//	the best                                                                   Stays
//
// A claim that does not wait GivesUp where another one is Beaten or BacksOff, and if it has no slots.
func (f SlotFinding) Verdict(own string, n, need int) (v Verdict, aim []int) {
	switch {
	case f.Once && (len(f.Keys) == 0 || !f.Answered):
		return GivesUp, nil
	case !f.Answered || len(f.Keys) == 0 && f.Granted > 0:
		return BacksOff, nil
	case len(f.Keys) == 0 || !f.Asked:
		return Polls, nil
	}
	best := BestSlots(f.Keys, f.Rivals, own, need)
	if len(best) >= n {
		switch {
		case !f.Aimed:
			return Aims, best[:n]
		case f.Overdue && f.Once:
			return GivesUp, nil
		case f.Overdue:
			return BacksOff, nil
		}
		return Stays, nil
	}
	switch {
	case f.Once:
		return GivesUp, nil
	case !f.Beaten:
		return Beaten, nil
	case f.unheld(need) < n:
		return BacksOff, nil
	}
	return Yields, nil
}

// unheld returns in how many of the slots of the claim no other token has a quorum.
func (f SlotFinding) unheld(need int) (n int) {
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
