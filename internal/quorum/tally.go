package quorum

import "github.com/redlock-go/redlock/internal/wire"

// Majority returns how many votes are a quorum of n masters. n counts the configured masters. If it counted
// the reachable ones, both halves of a partition would have a majority.
func Majority(n int) int { return n/2 + 1 }

// A Tally counts the votes of one round.
type Tally struct {
	N       int // all masters
	Need    int // votes of a quorum
	Granted int // masters that carried the command out
	Refused int // masters where the key is missing or holds another token
	Failed  int // masters that answered by an error, or not in time
}

// Count tallies the votes of all masters, of which some may still be missing.
func Count(votes []Vote) Tally {
	t := Tally{N: len(votes), Need: Majority(len(votes))}
	for _, v := range votes {
		t.add(v)
	}
	return t
}

func (t *Tally) add(v Vote) {
	switch {
	case !v.In:
	case v.Outcome == wire.Failed:
		t.Failed++
	case v.Done():
		t.Granted++
	default:
		t.Refused++
	}
}

// pending returns how many masters have not voted yet.
func (t Tally) pending() int { return t.N - t.Granted - t.Refused - t.Failed }

// Won reports whether a quorum has granted.
func (t Tally) Won() bool { return t.Granted >= t.Need }

// Lost reports whether no quorum can grant any more, whatever the rest say.
func (t Tally) Lost() bool { return t.N-t.Refused-t.Failed < t.Need }

// Decided reports whether further votes cannot change the outcome.
func (t Tally) Decided() bool { return t.Won() || t.Lost() }

// RuledOut reports whether refusals alone make a quorum impossible; failures prove nothing. After an
// acquisition it means that somebody holds the lock; after a renewal or a release, that our keys are gone.
func (t Tally) RuledOut() bool { return t.N-t.Refused < t.Need }

// Explained reports whether the result of RuledOut is final.
func (t Tally) Explained() bool {
	return t.RuledOut() || t.N-t.Refused-t.pending() >= t.Need
}

// Settled reports whether further votes can change neither the outcome nor, if the round is lost, RuledOut.
func (t Tally) Settled() bool { return t.Won() || t.Lost() && t.Explained() }

// Answered reports whether a quorum has answered, either way.
func (t Tally) Answered() bool { return t.Granted+t.Refused >= t.Need }
