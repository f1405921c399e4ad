package quorum

// Majority returns the number of votes that is a quorum of n masters: the
// configured ones, never the reachable ones, or two halves of a partition
// would both have a majority.
func Majority(n int) int { return n/2 + 1 }

// A Tally counts the votes of one round.
type Tally struct {
	N       int // masters asked
	Need    int // votes that decide
	Granted int // did what was asked
	Refused int // answered that somebody else's token, or none, stands there
	Failed  int // answered by an error, or not in time
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
	case v.Err != nil:
		t.Failed++
	case v.Value > 0:
		t.Granted++
	default:
		t.Refused++
	}
}

// open returns how many masters have not voted yet.
func (t Tally) open() int { return t.N - t.Granted - t.Refused - t.Failed }

// Won reports whether a quorum has granted.
func (t Tally) Won() bool { return t.Granted >= t.Need }

// Lost reports whether no quorum can grant any more, whatever the rest say.
func (t Tally) Lost() bool { return t.N-t.Refused-t.Failed < t.Need }

// Decided reports whether further votes cannot change the outcome.
func (t Tally) Decided() bool { return t.Won() || t.Lost() }

// Held reports whether refusals alone rule a quorum out. Only then may a
// caller be told that somebody holds the lock: failures prove nothing.
func (t Tally) Held() bool { return t.N-t.Refused < t.Need }

// Explained reports whether it is certain what the caller of a lost round may
// be told: that refusals alone rule a quorum out, or that they will not.
func (t Tally) Explained() bool {
	return t.Held() || t.N-t.Refused-t.open() >= t.Need
}

// Settled reports whether it is certain both whether the round is won and, if
// it is not, what may be told of it.
func (t Tally) Settled() bool { return t.Won() || t.Lost() && t.Explained() }

// Answered reports whether a quorum has answered, either way.
func (t Tally) Answered() bool { return t.Granted+t.Refused >= t.Need }
