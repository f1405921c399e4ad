package waits

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
