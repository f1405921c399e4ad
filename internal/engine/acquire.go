package engine

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/fence"
	"github.com/redlock-go/redlock/internal/flight"
	"github.com/redlock-go/redlock/internal/gate"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/notices"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/renew"
	"github.com/redlock-go/redlock/internal/wire"
)

// A wait is one call of Lock, LockContext, TryLock or another method that locks: its arguments, and what it has acquired so far.
type wait struct {
	locker  *Locker
	ctx     context.Context
	forever bool           // nothing but Close ends it
	once    bool           // it makes one attempt, which joins no queue
	flight  *flight.Flight // of SingleFlight; nil: the call is another one
	began   clock.Reading
	late    bool // the call waited before its first attempt, so the clocks are read again

	// What it has:
	inside bool       // the gate is taken
	lease  *Lease     // acquired, and not yet the Locker's
	reader readerWait // of the readers' side of an RWLocker
	set    setWait    // of a Locker of several names

	// What it asks:
	try      attempt  // the last one
	attempts int      // how many it has made
	refused  bool     // a master has refused one before the last one: others want the lock
	last     *Failure // why there is no lock yet: of the last attempt that was not cut short, or of the gate; nil: nothing is known

	// What users are told:
	watched bool         // the Logger tells of the wait if it lasts for long
	notice  notices.Wait // what the Logger is told of it
	traced  bool         // Hooks.LockDone was called
}

// The calls that lock. Those that unlock are in locker.go.

// Forever waits for the lock until the Client is closed, whatever the schedule says. Then it reports false.
func (l *Locker) Forever() bool {
	if l.kind.join(l) != nil {
		return true
	}
	_, err := (&wait{locker: l, ctx: context.Background(), forever: true}).run()
	return err == nil
}

// Lock waits for the lock until ctx ends, or the schedule stops.
func (l *Locker) Lock(ctx context.Context) (*Lease, error) {
	if ctx.Err() == nil {
		if s := l.kind.join(l); s != nil {
			return s, nil
		}
	}
	s, err := (&wait{locker: l, ctx: ctx}).run()
	return s, l.core.public(err)
}

// LockFor is Lock for a flight, which the caller leads. It ends with ErrReceived if the value of another Client has come.
func (l *Locker) LockFor(ctx context.Context, f *flight.Flight) (*Lease, error) {
	s, err := (&wait{locker: l, ctx: ctx, flight: f}).run()
	return s, l.core.public(err)
}

// TryLock makes one attempt to lock l. If explain is true, its error says who holds the lock, or why its key is not a lock: it asks the masters
// if nothing is known, and nobody has asked them in the last second.
func (l *Locker) TryLock(ctx context.Context, explain bool) error {
	_, err := (&wait{locker: l, ctx: ctx, once: true}).run()
	if f, ok := err.(*Failure); ok && explain && f.unnamed(l) {
		l.core.owners.Ask(ctx, f.heldKey(l.core), quorum.Tally.Won) // far masters delay nobody
		err = f.withOwner(l)
	}
	return l.core.public(err)
}

// run waits for the lock. If the wait has won, its lease becomes that of the Locker. Otherwise run returns why it has not.
func (w *wait) run() (_ *Lease, err error) {
	l, c := w.locker, w.locker.core
	if !c.calls.Begin() {
		return nil, ErrClosed
	}
	defer c.calls.Done()
	w.began = c.clock()
	w.traceStart()
	defer func() { w.traceDone(cmp.Or(err, ErrPanicked)) }() // err is nil after success, when traceDone was called, or in a panic
	if w.ctx.Err() != nil {
		return nil, w.outcome()
	}
	defer w.end()
	if !l.kind.lock(w) {
		return nil, w.outcome()
	}
	w.traceDone(nil) // if this panics, w.end still releases the lock
	return l.kind.hold(w), nil
}

// end ends the wait. Unless the caller has the lock now, end leaves the gate, and releases what may have
// been acquired: a function of the user, in a hook or the schedule, may have panicked.
func (w *wait) end() {
	if w.watched {
		w.locker.core.cfg.Notices.Unwatch(&w.notice)
		w.watched = false
	}
	w.try.end()
	if w.lease != nil {
		(*releasing)(w.lease.tenure).queue()
		w.lease = nil
	}
	w.locker.kind.ended(w)
	if w.inside {
		w.locker.core.gates.Leave(w.locker.key)
	}
}

// over reports whether the wait is to end without the lock.
func (w *wait) over() bool { return w.ctx.Err() != nil || isClosed(w.locker.core.closing) }

func (mutex) join(*Locker) *Lease { return nil }

func (mutex) lock(w *wait) bool {
	return w.enterGate(w.locker) && (w.lease != nil || w.acquire())
}

func (mutex) claimOf(w *wait, waited time.Duration) (wire.ClaimOf, sharing) {
	return wire.ClaimOf{Token: wire.NewToken(w.locker.core.cfg.Owner), Waited: waited}, w.locker.shares
}

func (mutex) hold(w *wait) *Lease {
	l, s := w.locker, w.lease
	// It tells goroutines that find the gate taken who holds it, until the unlock, even if the lease
	// is lost before. It is made first, since another goroutine may unlock l, and so leave the gate, as soon
	// as l has the lease.
	l.noteHeld(true)
	l.lease.Store(s)
	w.inside, w.set.gates, w.lease = false, 0, nil
	return s
}

// noteHeld says to goroutines that find a gate of l taken that the lock is held, or, if is is false, that it is not.
func (l *Locker) noteHeld(is bool) {
	alone, inSet := gate.Inside{}, gate.Inside{}
	if is {
		alone.Holds, inSet.Holds = HeldAlone, heldInSet
	}
	l.core.gates.SetInside(l.key, alone)
	for _, key := range l.keys {
		l.core.gates.SetInside(key, inSet)
	}
}

func (mutex) ended(*wait) {}

// enterGate waits for the gate, and reports whether it has entered. heir is the Locker to which a lease may be handed over with
// the gate; nil: there is none.
func (w *wait) enterGate(heir any) bool {
	baton, ok := w.enter(w.locker.key, heir)
	w.inside = ok
	w.lease, _ = baton.(*Lease)
	return ok
}

// enter waits for the gate of a key, and reports whether it has entered. One attempt only enters a gate that is free, or that of a kept tenure,
// which it gives up.
func (w *wait) enter(key string, heir any) (baton any, ok bool) {
	c := w.locker.core
	ok, inside := c.gates.TryEnter(key)
	if !ok && w.once && c.entrances.giveBack(key) {
		ok, inside = c.gates.TryEnter(key)
	}
	if !ok && !w.once {
		w.late = true
		w.warn()
		var err error
		baton, err = c.gates.Enter(w.ctx, key, heir)
		if ok = err == nil; !ok {
			inside = c.gates.Inside(key)
		}
	}
	if !ok {
		w.last = w.locker.blockedBy(inside)
	}
	return baton, ok
}

// acquire acquires the lock, and waits until it can. It needs the gate.
//
// The first attempt joins no queue: it is a plain SET or, soon after a release, a Register. If it is refused, a claim is registered: see contender. If
// other clients are likely to want the lock, there is no such attempt, and the claim is registered at once. So do Lockers that register: see
// Locker.registers.
func (w *wait) acquire() bool {
	l, c := w.locker, w.locker.core
	w.letOthers()
	if !w.once && w.over() {
		return false
	}
	request, contended := l.firstRequest()
	switch {
	case w.once && l.registers:
		return w.attempt(wire.Register)
	case w.once:
		return w.attempt(request)
	case contended || l.registers:
		q := newContender(w)
		q.next = registration{life: l.opts.TTL, contended: contended}
		return q.contend()
	}
	if w.attempt(request) {
		return true
	}
	w.warn()
	q := newContender(w)
	q.resume = c.clock().Time()
	if w.try.split() {
		// Several clients contend for a free lock. If they registered at the same moment, they would split the votes again.
		q.resume = q.resume.Add(rand.N(c.group.Distance() + 1))
	}
	return q.contend()
}

// letOthers waits for the answer to this Client's last release of the name, if a rule of package turns requires it.
// So other clients find the lock free.
func (w *wait) letOthers() {
	l, c := w.locker, w.locker.core
	for key := range l.terms.Keys {
		if answered := c.releases.Awaited(key); answered != nil {
			w.late = true
			// If package turns has forgotten the release, the channel is never closed. Then the limit ends this wait.
			c.sleep(w.ctx, c.group.Timeout(c.cfg.Bounds.Limit(l.opts.TTL)), answered)
		}
	}
}

// firstRequest returns what an attempt asks for that joins no queue, and reports whether other clients are likely to want the lock. It counts
// the acquisition: see turns.Releases.
func (l *Locker) firstRequest() (request wire.Kind, contended bool) {
	for key := range l.terms.Keys {
		next, others := l.core.releases.Next(key)
		request, contended = max(request, next), contended || others
	}
	return request, contended
}

// An attempt is a round of a wait, with or without a claim: see contender. The round is kept until the next attempt, for late votes.
type attempt struct {
	round    *quorum.Round // nil: there was none
	sentAt   clock.Reading // when it began
	revoked  int64         // guard.Servers.Revoked before the first command of the attempt, or of the claim
	contacts []int         // of SingleFlight, by master: see master.Contact; from then, too
}

// attempt makes one attempt, and reports whether it has acquired the lock. Otherwise last says why, even if ctx or
// the Client ended the attempt: see outcome.
func (w *wait) attempt(request wire.Kind) bool {
	l, c := w.locker, w.locker.core
	w.refused = w.try.end() || w.refused
	w.attempts++
	w.try.sentAt = w.began
	if w.attempts > 1 || w.late {
		w.try.sentAt = c.clock() // time has passed since the call
	}
	within := c.cfg.Bounds.Limit(l.opts.TTL)
	within.Hurry = !w.once // TryLock waits for all votes, which make its error more exact
	f := w.attemptWithin(request, within)
	if f == nil {
		w.noteWon()
		return true
	}
	if l.names != nil {
		f.ofSet(l.names)
	}
	w.noteFailure(f)
	return false
}

// attemptWithin makes a round of SETs and, unless it makes a lease, sends the releases that undo it. The releases go to all masters,
// whatever they have answered: a master that refused, or whose answer was lost, may have set the key. The round is kept,
// since later votes say whether other clients contend for the lock.
//
// within says how long the masters may take to answer. An attempt to merge the names of a set has a claim already, and is
// not undone.
func (w *wait) attemptWithin(request wire.Kind, within quorum.Limit) (f *Failure) {
	l, c := w.locker, w.locker.core
	waited := wire.NoQueue
	if w.once && c.releases.PassedOn(l.key) {
		waited = wire.TakesFree
	}
	of, by := l.kind.claimOf(w, waited)
	t := newTenure(l, by, renew.Validity{Start: w.try.sentAt, Length: c.cfg.Bounds.Validity(l.opts.TTL)})
	if t.contended = w.refused; w.set.merged != nil {
		t.claim = w.set.merged
	} else {
		of.Fence, of.Kind = l.proposal(w.try.sentAt.Wall()), request
		t.claim.Claim = wire.NewClaim(&l.terms, of)
	}
	w.try.noteMasters(c, w.flight != nil)
	w.try.round = c.group.Ask(request, t.claim, within)
	won := w.try.round.Wait(w.ctx, c.closing, quorum.Tally.Decided).Won()
	if won {
		if f = w.win(t); f == nil {
			return nil
		}
	} else if l.opts.Fencing {
		c.fences.Heard(l.key, w.try.round.Votes())
	}
	if w.set.merged == nil {
		c.group.Send(wire.Undo, t.claim)
	}
	if won {
		return f
	}
	// The undoing is on its way. What follows only completes the error: because of one dead master, a lock
	// that is held must not look like an outage.
	w.try.round.Wait(w.ctx, c.closing, quorum.Tally.Explained)
	return failed(OpAcquire, l.name, w.try.round.Votes())
}

// win makes the tenure, which the current round has won, the lease of the wait. If that fails, it returns why.
func (w *wait) win(t *tenure) *Failure {
	l, c := w.locker, w.locker.core
	limit := t.validity.Length
	if w.flight != nil {
		t.publish = w.try.publishing(w.try.round.Votes(), nil)
	}
	var err error
	if l.opts.Fencing {
		limit = c.cfg.Bounds.FencedWithin(l.opts.TTL)
		_, err = w.commit(t, w.try.round.Votes())
	}
	if err == nil {
		err = w.try.revokes(c)
	}
	if took := c.clock().Since(w.try.sentAt); err == nil && took >= limit {
		err = tooLate(took, limit, t.validity.Length)
	}
	if err == nil && !t.begin() {
		err = ErrClosed
	}
	if err != nil {
		return wasted(l.name, w.try.round, err)
	}
	w.lease = t.holder
	return nil
}

// noteFailure notes why an attempt has failed. A failure for want of a right is kept until a master grants something, so that the user is told of it.
func (w *wait) noteFailure(f *Failure) {
	c := w.locker.core
	f = f.withOwner(w.locker)
	if w.last == nil || w.ctx.Err() == nil && !(w.last.denied() && f.grantedNothing()) {
		w.last = f
	}
	for v := w; v != nil; v = v.set.whole {
		v.last = w.last
		c.gates.SetInside(v.locker.key, gate.Inside{Why: w.last})
	}
	w.askReadersToLeave(f)
	w.try.trace(w, f)
}

// askReadersToLeave asks readers to leave after an attempt has failed with f because of them. Such an attempt need not find the lock held. Example: of five
// masters one grants the lock, two refuse because of readers, and two do not answer in time.
//
// A claim in the queue need not ask: the masters do. In no queue stand TryLock, a set that polls, and, at first, a claim without a subscription. The
// refusal of a plain SET does not say whether readers are the cause, so writers of an RWLocker ask anyway. TryLock of another Locker asks nobody,
// since it does not wait.
func (w *wait) askReadersToLeave(f *Failure) {
	l, c := w.locker, w.locker.core
	asks := false
	switch {
	case l.terms.Reads():
	case l.writes && (w.once || c.cfg.Deaf):
		asks = f.taken() || w.try.byReaders()
	case !w.once && (l.names != nil || c.cfg.Deaf):
		asks = w.try.byReaders()
	}
	if !asks {
		return
	}
	waited := wire.NoQueue
	if !w.once {
		waited = c.clock().Since(w.began)
	}
	l.announced.Store(true)
	c.group.Send(wire.Announce, master.NewSentClaim(&l.terms, wire.ClaimOf{Token: "-", Waited: waited}))
}

// noteWon notes that an attempt, or a claim, has won the lease of the wait. If an earlier attempt has asked readers to leave, that ends.
func (w *wait) noteWon() {
	l, c, s := w.locker, w.locker.core, w.lease
	if w.ctx.Err() == nil {
		w.last = nil
	}
	if l.announced.Load() && l.announced.Swap(false) {
		c.group.Send(wire.Retract, master.NewSentClaim(&l.terms, wire.ClaimOf{Token: "-"}))
	}
	w.try.trace(w, nil)
	if hook := c.hooks.Acquired; hook != nil && !l.silent {
		s.seen.Store(true) // the user is told its fence, which the next holder must not have
		hook(w.ctx, Event{Name: l.name, Attempts: w.attempts, Waited: c.clock().Since(w.began), Until: s.Until(), Rounds: s.tenure.rounds, Fence: s.Fence(), Permits: len(s.tenure.slots)})
	}
}

// noteMasters notes what is known of the masters before the first command. contacts says whether that includes how often each master was connected to.
func (a *attempt) noteMasters(c *Core, contacts bool) {
	a.revoked = c.servers.Revoked()
	if !contacts {
		return
	}
	a.contacts = make([]int, len(c.masters))
	for i, m := range c.masters {
		a.contacts[i] = m.Contact()
	}
}

// revokes returns an error if votes that have come since noteMasters must not be used.
func (a *attempt) revokes(c *Core) error {
	if c.servers.Revoked() != a.revoked {
		return fmt.Errorf("a MaxTTL of %v became known meanwhile: a master that has voted may have forgotten locks", c.servers.MaxTTL())
	}
	return nil
}

// publishing returns how the tenure that an attempt has won by these votes may send a value. settled is that of flight.NewPublishing.
func (a *attempt) publishing(votes []quorum.Vote, settled func() uint64) *flight.Publishing {
	voted := uint64(0)
	for i, v := range votes {
		if v.Granted() {
			voted |= 1 << i
		}
	}
	return flight.NewPublishing(a.contacts, voted, settled)
}

// end ends the round, whose late votes do not count any more. It reports whether a master has refused the attempt.
func (a *attempt) end() (refused bool) {
	refused = a.refused()
	if a.round != nil {
		a.round.End()
		a.round = nil
	}
	return refused
}

// split reports whether a master has granted the last attempt, which failed all the same. The result may
// change, since votes may come late.
func (a *attempt) split() bool { return a.round.Any(quorum.Vote.Granted) }

// refused reports whether a master has refused the last attempt, since it has another token. A master that has not answered refuses nothing.
func (a *attempt) refused() bool {
	return a.round != nil && a.round.Any(func(v quorum.Vote) bool { return v.Outcome == wire.Taken })
}

// byReaders reports whether a master has refused the last attempt because of readers.
func (a *attempt) byReaders() bool {
	return a.round != nil && a.round.Any(func(v quorum.Vote) bool { return v.Readers })
}

// With Options.Fencing, an acquisition and the masters agree on a number: see package fence.

// proposal returns which number an acquisition asks for that begins now; none without Options.Fencing.
func (l *Locker) proposal(now time.Time) (p wire.Proposal) {
	if l.opts.Fencing {
		p = l.core.fences.Propose(&l.terms, now, l.opts.TTL)
	}
	return p
}

// commit fixes the number of a tenure that these votes have won, in further rounds if needed, and returns when the last of these began. After an
// error the caller must undo the acquisition.
func (w *wait) commit(t *tenure, votes []quorum.Vote) (last clock.Reading, err error) {
	l, c := w.locker, w.locker.core
	var fixed fence.Committed
	if t.slots != nil {
		fixed, err = c.fences.CommitSlots(w.ctx, t.claim, t.slots, l.opts.TTL)
	} else {
		fixed, err = c.fences.Commit(w.ctx, t.claim, votes, t.sentAt, l.opts.TTL)
	}
	t.fence, t.rounds = fixed.Number, fixed.Rounds
	if lost, ok := err.(*fence.LostError); ok {
		return fixed.Last, failed(OpFence, l.name, lost.Votes)
	} else if err != nil {
		err = fmt.Errorf("redlock: %s %q: %w", OpFence, l.name, err)
	}
	return fixed.Last, err
}

// traceStart calls Hooks.LockStart.
func (w *wait) traceStart() {
	if hook := w.locker.core.hooks.LockStart; hook != nil {
		hook(w.ctx, Event{Name: w.locker.name, Permits: w.locker.permits, Limit: w.locker.limit})
	}
}

// traceDone calls Hooks.LockDone, unless it was called before.
func (w *wait) traceDone(err error) {
	hook := w.locker.core.hooks.LockDone
	if hook == nil || w.traced {
		return
	}
	w.traced = true
	hook(w.ctx, Event{Name: w.locker.name, Waited: w.locker.core.clock().Since(w.began), Attempts: w.attempts, Permits: w.locker.permits, Err: w.locker.core.public(err)})
}

// trace calls Hooks.AttemptDone for the attempt, which is one of w. f says why it has failed; nil: it has not.
func (a *attempt) trace(w *wait, f *Failure) {
	c := w.locker.core
	if hook := c.hooks.AttemptDone; hook != nil {
		hook(w.ctx, Event{Name: w.locker.name, Elapsed: c.clock().Since(a.sentAt), Err: c.ErrorOf(f)})
	}
}

// warn has the Logger report the wait if it becomes long.
func (w *wait) warn() {
	if !w.watched && !w.locker.silent {
		w.watched = true
		_, ends := w.ctx.Deadline()
		w.notice = notices.Wait{Began: w.began.Time(), Name: w.locker.name, NoError: w.forever, Endless: !ends, On: w}
		w.locker.core.cfg.Notices.Watch(&w.notice)
	}
}

// WaitsFor implements notices.Waiter.
func (w *wait) WaitsFor() notices.Cause {
	l := w.locker
	return l.core.hooks.Cause(l.blockedBy(l.core.gates.Inside(l.key)).withOwner(l))
}
