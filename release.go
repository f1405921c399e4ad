package redlock

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/fence"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/recent"
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
	t.client.lastReleases.released(t.claim, t.contended)
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
	if !t.recalled && t.drawOpen() {
		how = wire.Open
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
	t.client.lastReleases.answered(t.claim, round.Any(passedOn))
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
// answered, it also notes that for the next acquisition: see lastReleases.
func (t *tenure) releaseOutcome(ctx context.Context, tally quorum.Tally, round *quorum.Round) error {
	if tally.Answered() { // otherwise later votes may still say that a client was woken
		t.client.lastReleases.answered(t.claim, round.Any(passedOn))
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

// Unlock does not wait for the masters, so the next acquisition of the name by this Client may follow the
// release on the same ordered connections. A plain SET would then arrive directly behind the release, before the
// SET of a client that the release wakes, and would always get the lock. So this Client could keep the lock for
// ever. Three rules leave the lock to other clients:
//
//   - The acquisition is wire.Register, which leaves the lock to the clients in the queue.
//   - A release may have woken another client, whose SET is on its way for up to one of its own round trips.
//     So all acquisitions within the next second are wire.Register, too. Otherwise a Client near the masters,
//     even if it waits for the answer of each release, would always be faster than a client far from them.
//     A TryLock joins no queue, so after the answer it takes a lock that was left open, unless that is reserved
//     for a client that was woken: see wire.OutOfTurn.
//   - Clients without wake-ups, and those of other libraries, do not queue. They get the lock only if its
//     holder leaves a gap. So after followMost acquisitions the next one waits for the answer to the release.
//     With DisableWakeups, each acquisition waits for it.

const (
	// politeFor is how long after a release acquisitions yield to the clients in the queue.
	politeFor = time.Second
	// followMost is how many acquisitions in a row may follow a release without waiting for its
	// answer. A lock and unlock then takes 17/16 round trips on average.
	followMost = 16
	// unkeptLeast is for how long a lock is not kept after others have wanted it: see LockOptions.Keep.
	unkeptLeast = politeFor
	// unkeptMost is the longest such time. It is doubled each time that the lock had been kept in vain.
	unkeptMost = 64 * unkeptLeast
)

// lastReleases are a Client's last releases, by key, and what it knows of others that want the locks.
type lastReleases struct {
	alone bool // immutable; each acquisition waits for the answer to the last release

	mu     sync.Mutex // guards what follows
	last   recent.Map[lastRelease]
	unkept recent.Map[unkept]
}

// A lastRelease is the last release of a name.
type lastRelease struct {
	token     string        // of the lease
	until     time.Time     // when the release no longer matters
	answered  bool          // a quorum has answered
	passedOn  bool          // a master has passed the lock on
	contended bool          // the lease was not acquired by the first attempt: other clients want the lock
	followed  int           // how many acquisitions in a row, up to that of the lease, did not wait for an answer
	gap       chan struct{} // closed when the release is answered; nil: no goroutine waits for that
}

// An unkept says for how long a lock is not kept, since others want it.
type unkept struct {
	since time.Time
	pause time.Duration
}

// wanted notes that others want the lock of key. used reports whether it had been of use that it was kept.
func (p *lastReleases) wanted(key string, used bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	u, _ := p.unkept.Get(key)
	switch {
	case used:
		u.pause = unkeptLeast
	case now.Sub(u.since) >= u.pause:
		u.pause = min(max(2*u.pause, unkeptLeast), unkeptMost)
	}
	u.since = now
	p.unkept.Put(key, u)
}

// keeps reports whether a lock that is acquired now may be kept.
func (p *lastReleases) keeps(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	u, _ := p.unkept.Get(key)
	return time.Since(u.since) >= u.pause
}

// released notes that a lease of this Client is about to be released.
func (p *lastReleases) released(claim *master.Claim, contended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range claim.Keys {
		before, _ := p.last.Get(key)
		p.last.Put(key, lastRelease{token: claim.Token(), until: time.Now().Add(politeFor), followed: before.followed, contended: contended})
	}
}

// answered notes that the release of a lease has been answered, and whether a master has passed the lock on.
func (p *lastReleases) answered(claim *master.Claim, passedOn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range claim.Keys {
		p.answeredLocked(key, claim.Token(), passedOn)
	}
}

func (p *lastReleases) answeredLocked(key, token string, passedOn bool) {
	r, ok := p.last.Get(key)
	if !ok || r.token != token {
		return // a later release has replaced it
	}
	if r.gap != nil {
		close(r.gap)
		r.gap = nil
	}
	if !passedOn && r.followed == 0 {
		p.last.Drop(key)
		return
	}
	r.answered, r.passedOn = true, passedOn
	if passedOn {
		r.until = time.Now().Add(politeFor)
	}
	p.last.Put(key, r)
}

// next counts an acquisition that is about to begin. It returns the kind of its first command, and reports
// whether other clients are likely to want the lock.
func (p *lastReleases) next(key string) (kind wire.Kind, contended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.last.Get(key)
	if !ok {
		return wire.Set, false
	}
	if r.answered && !r.passedOn || !time.Now().Before(r.until) {
		p.last.Drop(key)
		return wire.Set, false
	}
	r.followed++
	if r.answered {
		r.followed = 0
	}
	p.last.Put(key, r)
	return wire.Register, r.contended || r.passedOn
}

// passedOn reports whether the last release of key has passed the lock on to another client.
func (p *lastReleases) passedOn(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.last.Get(key)
	return ok && r.passedOn && time.Now().Before(r.until)
}

// awaited returns a channel that is closed when a quorum has answered the last release of key, or nil if the next
// acquisition need not wait for that.
func (p *lastReleases) awaited(key string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.last.Get(key)
	if !ok || r.answered || r.followed < followMost && !p.alone {
		return nil
	}
	if r.gap == nil {
		r.gap = make(chan struct{})
		p.last.Put(key, r)
	}
	return r.gap
}

// letOthers waits for the answer to this Client's last release of the name, if a rule above requires it. So
// other clients find the lock free.
func (w *call) letOthers() {
	l, c := w.locker, w.locker.client
	for key := range l.terms.Keys {
		if answered := c.lastReleases.awaited(key); answered != nil {
			w.late = true
			// The limit is also for a release that was dropped from lastReleases.last: then gap is never closed.
			c.sleep(w.ctx, c.group.Timeout(c.opts.limit(l.opts.TTL)), answered)
		}
	}
}
