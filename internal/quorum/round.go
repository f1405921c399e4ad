// Package quorum asks all masters at once and counts their votes.
//
// It knows votes, not locks: what a round was about, and what follows from its
// outcome, is the caller's business.
package quorum

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/master"
)

// A Group is the masters among which rounds are held. It is safe for concurrent
// use.
type Group struct {
	masters []*master.Master // immutable
	timeout time.Duration    // immutable: one master's share of a round
	// Rounds to be used again, a dozen allocations each. They hold channels and
	// timers, which a synctest bubble must not leave to the next: hence a pool for
	// each Group, not one for all.
	idle sync.Pool
}

// NewGroup returns a Group of masters, each of which has timeout to answer.
func NewGroup(masters []*master.Master, timeout time.Duration) *Group {
	return &Group{masters: masters, timeout: timeout}
}

// A Round is one command sent to all masters, and the counting of their votes.
// One goroutine waits for it; votes may come for as long as masters like.
type Round struct {
	group   *Group // immutable
	expiry  *time.Timer
	reached chan struct{} // cap 1: goal is true of tally

	mu      sync.Mutex // guards what follows
	tally   Tally
	answers []Vote
	grace   uint64 // masters whose first connection was under way when last looked at
	goal    func(Tally) bool
	missing int  // answers that have not come, of those that will
	ended   bool // nobody waits any more
}

// A Vote is one master's answer, once In.
type Vote struct {
	master.Answer
	In bool // there is an answer
}

// Granted reports whether the master did what was asked.
func (v Vote) Granted() bool { return v.In && v.Err == nil && v.Value > 0 }

// Ask sends one command to all masters; End must be called on the round. A
// master that has not answered within the Group's time-out has failed. While its
// first connection is under way it is given until that stands, and its time
// then; not for a release, which nobody should wait for and which reaches it all
// the same.
func (g *Group) Ask(kind master.Kind, claim *master.Claim) *Round {
	r := g.round()
	r.mu.Lock()
	r.missing = len(g.masters) // so that none is the last before all are asked
	if kind != master.Release {
		for i, m := range g.masters {
			if m.Connecting() {
				r.grace |= 1 << i
			}
		}
	}
	r.mu.Unlock()
	for i, m := range g.masters {
		if err := m.Ask(kind, claim, r); err != nil {
			r.Answered(i, master.Answer{Err: err})
		}
	}
	return r
}

// round returns a round without votes, whose time has begun.
func (g *Group) round() *Round {
	n := len(g.masters)
	r, _ := g.idle.Get().(*Round)
	if r == nil {
		return &Round{
			group:   g,
			expiry:  time.NewTimer(g.timeout),
			reached: make(chan struct{}, 1),
			tally:   Tally{N: n, Need: Majority(n)},
			answers: make([]Vote, n),
		}
	}
	r.tally = Tally{N: n, Need: Majority(n)}
	clear(r.answers)
	r.grace, r.ended = 0, false
	r.expiry.Reset(g.timeout)
	return r
}

// Answered implements master.Asker. A vote that comes after its master was
// given up does not count.
func (r *Round) Answered(i int, a master.Answer) {
	r.mu.Lock()
	r.voteLocked(i, a)
	r.missing--
	done := r.ended && r.missing == 0
	r.mu.Unlock()
	if done {
		r.group.idle.Put(r)
	}
}

// End ends the round: the caller must not use it any more. Votes that are still
// to come change nothing; the last of them frees the round for another.
func (r *Round) End() {
	r.expiry.Stop()
	r.mu.Lock()
	r.ended = true
	done := r.missing == 0
	r.mu.Unlock()
	if done {
		r.group.idle.Put(r)
	}
}

func (r *Round) voteLocked(i int, a master.Answer) {
	if r.answers[i].In {
		return
	}
	r.answers[i] = Vote{Answer: a, In: true}
	r.tally.add(r.answers[i])
	if r.goal != nil && (r.goal(r.tally) || r.tally.open() == 0) {
		r.goal = nil
		r.reached <- struct{}{}
	}
}

// Wait waits until goal is true of the tally, and returns it. It returns
// earlier if all have voted or failed, or with the end of ctx or stop; then the
// goal may be unmet.
func (r *Round) Wait(ctx context.Context, stop <-chan struct{}, goal func(Tally) bool) Tally {
	r.mu.Lock()
	if goal(r.tally) || r.tally.open() == 0 {
		defer r.mu.Unlock()
		return r.tally
	}
	r.goal = goal
	r.mu.Unlock()
	for {
		select {
		case <-r.reached:
			return r.Tally()
		case <-r.expiry.C:
			if next := r.expire(); next {
				r.expiry.Reset(r.group.timeout)
			}
			continue // if none is left, expire's votes have ended the wait
		case <-ctx.Done():
		case <-stop:
		}
		return r.quit()
	}
}

// quit gives up waiting. A goal that was met just now leaves no signal behind
// for the next Wait.
func (r *Round) quit() Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.goal = nil
	select {
	case <-r.reached:
	default:
	}
	return r.tally
}

// expire fails the masters that have had their time, and reports whether some
// are left that have not.
func (r *Round) expire() (more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.answers {
		if r.answers[i].In {
			continue
		}
		if bit := uint64(1) << i; r.grace&bit != 0 {
			if !r.group.masters[i].Connecting() {
				r.grace &^= bit // connected since: its time begins now
			}
			more = true
			continue
		}
		r.voteLocked(i, master.Answer{Err: fmt.Errorf("no answer within %v", r.group.timeout)})
	}
	return more
}

// Tally returns the votes so far.
func (r *Round) Tally() Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tally
}

// Votes returns each master's vote so far, in the order of the masters.
func (r *Round) Votes() []Vote {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Vote(nil), r.answers...)
}

// Any reports whether is holds for any vote that is in.
func (r *Round) Any(is func(Vote) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.answers {
		if v.In && is(v) {
			return true
		}
	}
	return false
}
