package quorum

import "github.com/redlock-go/redlock/internal/wire"

// A Vote is one master's answer.
type Vote struct {
	wire.Answer
	In bool // the master has voted; otherwise Answer is zero
}

// Granted reports whether the master has voted, and carried the command out.
func (v Vote) Granted() bool { return v.In && v.Done() }

// A Ballot holds one vote of each master and their count. It is not safe for concurrent use.
type Ballot struct {
	votes []Vote
	tally Tally
}

// NewBallot returns a Ballot of n masters without votes.
func NewBallot(n int) Ballot {
	return Ballot{votes: make([]Vote, n), tally: Tally{N: n, Need: Majority(n)}}
}

// Cast counts a master's first vote. It ignores later votes, and reports false for them: a master that
// did not answer in time may answer later.
func (b *Ballot) Cast(i int, a wire.Answer) bool {
	if b.votes[i].In {
		return false
	}
	b.votes[i] = Vote{Answer: a, In: true}
	b.tally.add(b.votes[i])
	return true
}

// Withdraw removes a master's vote, so that it can vote again.
func (b *Ballot) Withdraw(i int) {
	b.votes[i] = Vote{}
	b.tally = Count(b.votes)
}

// Clear removes all votes.
func (b *Ballot) Clear() {
	clear(b.votes)
	b.tally = Count(b.votes)
}

// Vote returns a master's vote.
func (b *Ballot) Vote(i int) Vote { return b.votes[i] }

// Votes returns each master's vote so far, in the order of the masters.
func (b *Ballot) Votes() []Vote { return append([]Vote(nil), b.votes...) }

// Tally returns the count of the votes so far.
func (b *Ballot) Tally() Tally { return b.tally }
