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

// A Round is one command sent to all masters, and the counting of their votes.
// One goroutine waits for it; votes may come for as long as masters like.
type Round struct {
	masters []*master.Master // immutable
	timeout time.Duration    // immutable: one master's share
	expiry  *time.Timer

	mu      sync.Mutex // guards what follows
	tally   Tally
	answers []Vote
	grace   uint64 // masters whose first connection was under way when last looked at
	goal    func(Tally) bool
	reached chan struct{} // cap 1: goal is true of tally
}

// A Vote is one master's answer, once In.
type Vote struct {
	master.Answer
	In bool // there is an answer
}

// Granted reports whether the master did what was asked.
func (v Vote) Granted() bool { return v.In && v.Err == nil && v.Value > 0 }

// Ask sends one command to all masters. A master that has not answered within
// timeout has failed. While its first connection is under way it is given until
// that stands, and timeout more; not for a release, which nobody should wait for
// and which reaches it all the same.
func Ask(masters []*master.Master, kind master.Kind, claim *master.Claim, timeout time.Duration) *Round {
	n := len(masters)
	r := &Round{
		masters: masters,
		timeout: timeout,
		expiry:  time.NewTimer(timeout),
		tally:   Tally{N: n, Need: Majority(n)},
		answers: make([]Vote, n),
		reached: make(chan struct{}, 1),
	}
	for i, m := range masters {
		if kind != master.Release && m.Connecting() {
			r.grace |= 1 << i
		}
	}
	for i, m := range masters {
		if err := m.Ask(kind, claim, r); err != nil {
			r.Answered(i, master.Answer{Err: err})
		}
	}
	return r
}

// Answered implements master.Asker. A vote that comes after its master was
// given up does not count.
func (r *Round) Answered(i int, a master.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.voteLocked(i, a)
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
				r.expiry.Reset(r.timeout)
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
			if !r.masters[i].Connecting() {
				r.grace &^= bit // connected since: its time begins now
			}
			more = true
			continue
		}
		r.voteLocked(i, master.Answer{Err: fmt.Errorf("no answer within %v", r.timeout)})
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

// End stops the round's timer. Votes that are still to come are counted, for
// nobody.
func (r *Round) End() { r.expiry.Stop() }
