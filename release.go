package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// finish ends the lease because it is unlocked. If it returns nil, the caller must queue the release. If the
// lease has ended before, finish returns the reason. If it was lost, its release has been queued by then.
func (s *Lease) finish() error {
	s.Err() // ends a lease whose validity is over
	s.mu.Lock()
	ended := s.endLocked(ErrReleased)
	err, queued := s.err, s.queued
	s.mu.Unlock()
	if !ended {
		if queued != nil {
			<-queued // another goroutine may be about to queue the release; it waits for nothing
		}
		return err
	}
	s.cancelContexts(ErrReleased)
	s.ended = s.client.clock()
	s.client.lastReleases.released(s.claim, s.contended)
	s.passOn()
	return nil
}

// Some releases leave the lock open: otherwise, clients that do not queue would never find it free while others
// queue. An open release costs the next holder a round trip. It is one release in openOneIn. Where both that
// round trip and the hold are short, it is one in openOneInShort, since the lock is then free for a short time
// only.
const (
	openOneIn      = 8
	openOneInShort = 2                     // divides openOneIn
	openTrip       = time.Millisecond      // the longest short round trip
	openHold       = 10 * time.Millisecond // the longest short hold
)

// drawOpen draws at random whether a release leaves the lock open. It asks for the distance last, and only if that
// decides, because the distance has to be computed.
func (s *Lease) drawOpen() bool {
	switch n := rand.N(openOneIn); {
	case n == 0:
		return true
	case n >= openOneIn/openOneInShort:
		return false
	}
	return s.ended.Since(s.acquired) <= openHold && s.client.group.Distance() <= openTrip
}

// passOn sets how the release passes the lock on, and which fence it proposes.
func (s *Lease) passOn() {
	if s.shared != nil {
		return
	}
	how, fence := master.ToHead, int64(0)
	if s.drawOpen() {
		how = master.Open
	}
	if s.fence != 0 {
		// It is not stored: as a rule nobody waits, and numbers may not run ahead of the clock.
		fence = max(numberAt(s.ended.Wall()), s.fence+1)
	}
	s.claim.PassOn(how, fence)
}

// A losing is a lost Lease whose release is on its way.
type losing Lease

var _ quorum.Observer = (*losing)(nil)

// Settled implements quorum.Observer.
func (o *losing) Settled(round *quorum.Round, t quorum.Tally) {
	s := (*Lease)(o)
	s.client.lastReleases.answered(s.claim, round.Any(passedOn))
}

// A releasing is a Lease whose release is on its way, and for which nobody waits.
type releasing Lease

var _ quorum.Observer = (*releasing)(nil)

// Settled implements quorum.Observer.
func (o *releasing) Settled(round *quorum.Round, t quorum.Tally) {
	s := (*Lease)(o)
	err := s.releaseOutcome(context.Background(), t, round)
	if s.ofSet {
		return
	}
	if err != nil {
		s.client.notices.unreleased(s.name, err)
	}
	if f := s.client.opts.Trace.Released; f != nil {
		info := s.releasedInfo(err)
		s.client.events.post(func() { f(context.Background(), info) })
	}
}

// await waits until the votes on the release of the lease are settled, or until ctx ends, and returns the
// outcome. The release goes on without it.
func (s *Lease) await(ctx context.Context, round *quorum.Round) error {
	defer round.End()
	err := s.releaseOutcome(ctx, round.Wait(ctx, nil, quorum.Tally.Settled), round)
	if f := s.client.opts.Trace.Released; f != nil {
		f(ctx, s.releasedInfo(err))
	}
	return err
}

func (s *Lease) releasedInfo(err error) ReleasedInfo {
	return ReleasedInfo{Name: s.name, Held: s.ended.Since(s.acquired), Err: err}
}

// releaseOutcome returns the error of the release of the lease, given the votes on it, or nil. If a quorum has
// answered, it also notes that for the next acquisition: see last_releases.go.
func (s *Lease) releaseOutcome(ctx context.Context, t quorum.Tally, round *quorum.Round) error {
	if t.Answered() { // otherwise later votes may still say that a client was woken
		s.client.lastReleases.answered(s.claim, round.Any(passedOn))
	}
	if !t.RuledOut() && t.Answered() {
		return nil
	}
	err := s.client.quorumError(opRelease, s.name, round.Votes())
	switch {
	case t.RuledOut():
		// The key was gone at so many masters that others could get in.
		return &lostError{name: s.name, reason: errGoneAtUnlock, votes: err}
	case ctx.Err() != nil:
		return &endedError{op: opRelease, name: s.name, ctx: ctx, last: err}
	}
	return err
}

// passedOn reports whether a vote on a release says that the master has passed the lock on.
func passedOn(v quorum.Vote) bool { return v.Outcome == master.Woke }
