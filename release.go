package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/internal/fence"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// finish ends the tenure because it is unlocked. If it returns nil, the caller must queue the release. If the
// tenure has ended before, finish returns the reason. If it was lost, its release has been queued by then.
func (t *tenure) finish() error {
	now := t.client.clock()
	t.check(now) // ends it if its validity is over
	t.mu.Lock()
	ended := t.endLocked(ErrReleased)
	err, queued := t.err, t.queued
	t.mu.Unlock()
	if !ended {
		if queued != nil {
			<-queued // another goroutine may be about to queue the release; it waits for nothing
		}
		return err
	}
	t.tellHolders(ErrReleased)
	t.unlocked = now
	t.client.releases.Released(t.claim, t.contended)
	return nil
}

// held returns for how long the last holder of a tenure that was unlocked has held it.
func (t *tenure) held() time.Duration { return t.unlocked.Since(t.holder.acquired) }

// Some releases leave the lock open: otherwise, clients that do not queue would never find it free while others
// queue. An open release costs the next holder a round trip. It is one release in openOneIn. Where both that
// round trip and the hold are short, it is one in openOneInShort, since the lock is then free for a short time
// only. In a crowd it is not: a client's fair share is smaller there, and the round trips of all would cost more than they give.
const (
	openOneIn      = 8
	openOneInShort = 2                     // divides openOneIn
	openTrip       = time.Millisecond      // the longest short round trip
	openHold       = 10 * time.Millisecond // the longest short hold
)

// drawOpen draws at random whether a release leaves the lock open. It asks for the distance last, and only if that
// decides, because the distance has to be computed.
func (t *tenure) drawOpen() bool {
	switch n := rand.N(openOneIn); {
	case n == 0:
		return true
	case n >= openOneIn/openOneInShort:
		return false
	}
	return !t.crowded && t.held() <= openHold && t.client.group.Distance() <= openTrip
}

// release returns the command of the release.
func (t *tenure) release() wire.Request { return t.holders.releasing(t) }

// passesOn returns a release that says how it passes the lock on, and which fence it proposes.
func (t *tenure) passesOn() wire.Request {
	how, number := wire.ToHead, int64(0)
	switch {
	case !t.differ && !t.recalled && t.drawOpen():
		how = wire.Open
	case t.next != "": // if each master had its own head, and these differed, nobody would have the votes of a quorum
		how = wire.ToNext(t.next)
	}
	if t.fence != 0 {
		// It is not stored: as a rule nobody waits, and numbers may not run ahead of the clock.
		number = max(fence.At(t.unlocked.Wall()), t.fence+1)
	}
	return t.claim.Releasing(how, number)
}

// An unreported is a tenure whose release is on its way, and whose outcome matters to the next acquisition only: the tenure was lost, or
// UnlockContext has returned before the masters had answered.
type unreported tenure

var _ quorum.Observer = (*unreported)(nil)

// Settled implements quorum.Observer.
func (o *unreported) Settled(round *quorum.Round, _ quorum.Tally) {
	t := (*tenure)(o)
	t.client.releases.Answered(t.claim, round.Any(passedOn))
}

// A releasing is a tenure whose release is on its way, and for which nobody waits.
type releasing tenure

var _ quorum.Observer = (*releasing)(nil)

// Settled implements quorum.Observer.
func (o *releasing) Settled(round *quorum.Round, tally quorum.Tally) {
	t := (*tenure)(o)
	err := t.releaseOutcome(context.Background(), tally, round)
	if t.silent {
		return
	}
	switch err := err.(type) {
	case *lostError:
		if t.kept {
			break
		}
		t.client.notices.Lost(t.name, err.cause())
	case *QuorumError:
		t.client.notices.Unreleased(t.name, causeOf(err))
	}
	if f := t.client.opts.Trace.Released; f != nil {
		info := t.releasedInfo(err)
		t.client.events.Post(func() { f(context.Background(), info) })
	}
}

// await waits until the votes on the release of the lease are settled, or until ctx ends, and returns the
// outcome. The release goes on without it.
func (t *tenure) await(ctx context.Context, round *quorum.Round) error {
	tally := round.Wait(ctx, nil, quorum.Tally.Settled)
	err := t.releaseOutcome(ctx, tally, round)
	if tally.Answered() {
		round.End()
	} else {
		round.Leave((*unreported)(t))
	}
	if f := t.client.opts.Trace.Released; f != nil {
		f(ctx, t.releasedInfo(err))
	}
	return err
}

func (t *tenure) releasedInfo(err error) ReleasedInfo {
	return ReleasedInfo{Name: t.name, Held: t.held(), Kept: t.kept, Err: err, Permits: len(t.slots)}
}

// releaseOutcome returns the error of the release of the lease, given the votes on it, or nil. If a quorum has
// answered, it also notes that for the next acquisition: see package turns.
func (t *tenure) releaseOutcome(ctx context.Context, tally quorum.Tally, round *quorum.Round) error {
	if tally.Answered() { // otherwise later votes may still say that a client was woken
		t.client.releases.Answered(t.claim, round.Any(passedOn))
	}
	if !tally.RuledOut() && tally.Answered() {
		return nil
	}
	err := t.client.quorumError(opRelease, t.name, round.Votes())
	switch {
	case tally.RuledOut():
		// The key was gone at so many masters that others could get in.
		return &lostError{name: t.name, reason: errGoneAtUnlock, votes: err}
	case ctx.Err() != nil:
		return &endedError{op: opRelease, name: t.name, ctx: ctx, last: err}
	}
	return err
}

// passedOn reports whether a vote on a release says that the master has passed the lock on.
func passedOn(v quorum.Vote) bool { return v.Outcome == wire.Woke }

// letOthers waits for the answer to this Client's last release of the name, if a rule above requires it. So
// other clients find the lock free.
func (w *call) letOthers() {
	l, c := w.locker, w.locker.client
	for key := range l.terms.Keys {
		if answered := c.releases.Awaited(key); answered != nil {
			w.late = true
			// The limit is also for a release that was forgotten: then the channel is never closed.
			c.sleep(w.ctx, c.group.Timeout(c.opts.limit(l.opts.TTL)), answered)
		}
	}
}
