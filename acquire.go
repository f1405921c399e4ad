package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/gate"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// A wait is one call that acquires a lock.
type wait struct {
	locker   *Locker
	forever  bool // nothing but Close ends it
	once     bool // it makes one attempt, which joins no queue
	light    bool // the attempt joins no queue, since a claim is registered after it
	began    clock.Reading
	attempts int
	late     bool   // time has passed since began, before the first attempt
	inside   bool   // the gate is taken
	lease    *Lease // acquired, and not yet the Locker's
	shared   *Lease // the lease of the readers, if the goroutine has entered it
	last     error  // of the last attempt that was not cut short
	unwatch  func() // ends what has the Logger warn if the wait lasts; nil: it does not
	traced   bool   // Trace.LockDone was called

	// The last attempt. Its round is kept until the next attempt, for late votes.
	round  *quorum.Round
	asked  clock.Reading // when it began
	splits int           // how many attempts in a row have split the votes

	sleeper *sleeper
	delays  retrier

	// Of a Locker of several names:
	nameGates int           // how many gates of names are taken
	merged    *master.Claim // takes over the names that were acquired one by one; nil: each attempt has a new claim
	whole     *wait         // of the Locker of several names, if this wait is for one of them
}

// enter waits for the gate.
func (w *wait) enter(ctx context.Context) error {
	l, c := w.locker, w.locker.client
	if ok, _, _ := c.gates.TryEnter(l.key); ok {
		w.inside = true
		return nil
	}
	w.late = true
	w.warn()
	switch baton, err := c.gates.Enter(ctx, l.key, l); {
	case err == nil:
		w.inside = true
		if w.lease, _ = baton.(*Lease); w.lease != nil {
			w.nameGates = l.nameGates() // they are handed over with the lease
		}
		return nil
	case errors.Is(err, gate.ErrClosed):
		return ErrClosed
	}
	return &endedError{op: opAcquire, name: l.name, ctx: ctx, last: l.taken(c.gates.Last(l.key))}
}

// acquire acquires the lock, and waits until it can. It needs the gate.
//
//   - The first attempt is a plain SET. Soon after a release by this Client it is a Register, which leaves the lock
//     to the clients in the queue: see lastReleases.
//   - If a release may grant the lock to this wait, the first attempt is light: it joins no queue. If it is refused,
//     a claim is registered: see acquireGranted. If other clients are likely to want the lock, there is no such
//     attempt, and the claim is registered at once.
//   - Otherwise further attempts follow: see acquireByPolling.
//   - Whether a release may grant the lock can change during the wait: masters go down and come up again, and become
//     slower. So a wait goes from one of the two to the other.
func (w *wait) acquire(ctx context.Context) error {
	l, c := w.locker, w.locker.client
	if l.set != nil {
		return w.acquireSet(ctx)
	}
	w.letOthers(ctx)
	if ctx.Err() != nil || c.isClosing() {
		return w.outcome(ctx)
	}
	kind, contended := c.lastReleases.begin(l.key)
	kind = l.adaptFirst(kind)
	w.delays = retrier{start: c.opts.NewBackOff, forever: w.forever}
	w.light = w.grantable()
	claims, life, now := w.light && contended && w.grantFor() > 0, l.opts.TTL, true
	if !claims && (w.light || kind == master.Set) {
		if w.attempt(ctx, kind) == nil {
			return nil
		}
		w.warn()
		claims, life = w.light && w.grantFor() > 0, 0
		kind, now = master.Again, w.refused()
	}
	for w.light = false; ; claims, life = true, 0 {
		if claims {
			if done, err := w.acquireGranted(ctx, life); done {
				return err
			}
			kind, now = master.Again, w.round == nil
		}
		if done, err := w.acquireByPolling(ctx, kind, now); done {
			return err
		}
	}
}

// acquireByPolling makes attempts until one succeeds. The first is of the given kind, and is made at once if now is
// true. A refused attempt joins the name's queue, unless it is a plain SET. There is a pause before each further
// attempt. A wake-up ends the pause, and says that it is our turn, so the next attempt is a plain SET. If that is
// refused, the attempt behind it follows at once, to join the queue again. If the lock can be granted, acquireByPolling
// leaves the queue, and reports false.
func (w *wait) acquireByPolling(ctx context.Context, kind master.Kind, now bool) (done bool, err error) {
	l, c := w.locker, w.locker.client
	w.sleeper = c.sleepers.add(l.key)
	defer c.sleepers.remove(l.key)
	defer w.quit()
	for {
		if !now {
			woken, more := w.pause(ctx)
			if !more {
				return true, w.outcome(ctx)
			}
			if woken {
				w.delays.reset()
				w.splits = 0
				kind = l.adapt(master.Set)
			}
		}
		if ctx.Err() != nil || c.isClosing() {
			return true, w.outcome(ctx)
		}
		if w.attempt(ctx, kind) == nil {
			return true, nil
		}
		w.warn()
		if w.grantable() && w.grantFor() > 0 {
			return false, nil
		}
		w.askOwner()
		kind, now = master.Again, kind == master.Set && w.refused()
	}
}

// refused reports whether somebody else holds the lock, as far as the last attempt has found out. If a
// master has granted the attempt, several clients may contend for a free lock.
func (w *wait) refused() bool { return errors.Is(w.last, ErrHeld) && !w.split() }

// split reports whether a master has granted the last attempt, which failed all the same. The result may
// change, since votes may come late.
func (w *wait) split() bool { return w.round.Any(quorum.Vote.Granted) }

// quit leaves the queue, unless the lock was acquired, which also leaves the queue. Its token is a new one, which
// no key holds: only the queue is left.
func (w *wait) quit() {
	if c := w.locker.client; w.lease == nil {
		claim := new(master.Claim)
		claim.Init(&w.locker.terms, newToken(""), 0)
		c.tellAll(master.Quit, claim)
	}
}

// attempt makes one attempt. Its error is a *QuorumError even if ctx or the Client ended it: see outcome.
func (w *wait) attempt(ctx context.Context, kind master.Kind) error {
	l, c := w.locker, w.locker.client
	w.endRound()
	w.asked = w.began
	if w.attempts++; w.attempts > 1 || w.late {
		w.asked = c.clock() // time has passed since the call
	}
	waited := w.asked.Since(w.began)
	if w.once || w.light {
		waited = master.NoQueue
	}
	if l.shared != nil && w.attempts > 1 {
		waited = max(waited, time.Millisecond) // it may be in the queue: see readers.lua
	}
	within := c.opts.limit(l.opts.TTL)
	within.Hurry = !w.once // else the votes of all masters make the error more exact
	var err error
	w.lease, w.round, err = c.attempt(ctx, l, w.merged, kind, w.asked, waited, w.attempts > 1, within)
	if l.set != nil {
		err = l.nameHeld(err, w.round.Votes())
	}
	w.noted(ctx, err)
	return err
}

// noted notes the outcome of an attempt.
func (w *wait) noted(ctx context.Context, err error) {
	l, c := w.locker, w.locker.client
	err = c.owners.named(l.heldKey(err), err)
	if w.last == nil || ctx.Err() == nil {
		w.last = err
	}
	if err != nil {
		c.gates.Note(l.key, w.last)
		if w.whole != nil {
			w.whole.last = w.last
			c.gates.Note(w.whole.locker.key, w.last)
		}
		w.announce()
	}
	if f := c.opts.Trace.AttemptDone; f != nil {
		f(ctx, AttemptInfo{Name: l.name, Elapsed: c.clock().Since(w.asked), Err: err})
	}
	if f := c.opts.Trace.Acquired; f != nil && err == nil && w.whole == nil {
		s := w.lease
		f(ctx, AcquiredInfo{Name: l.name, Attempts: w.attempts, Waited: c.clock().Since(w.began), Until: s.Until(), Rounds: s.rounds, Fence: s.Fence()})
	}
}

func (w *wait) endRound() {
	if w.round != nil {
		w.round.End()
		w.round = nil
	}
}

// hold makes the acquired lease the Locker's.
func (w *wait) hold() *Lease {
	l, s := w.locker, w.lease
	// The note tells goroutines that find the gate taken who holds it, until the unlock, even if the lease
	// is lost before. It is made first, since another goroutine may unlock l, and so leave the gate, as soon
	// as l has the lease.
	l.noteHeld(true)
	l.lease.Store(s)
	w.inside, w.nameGates, w.lease = false, 0, nil
	return s
}

// end ends the wait. Unless the caller has the lock now, end leaves the gate, and releases what may have
// been acquired: a function of the user, in the Trace or the schedule, may have panicked.
func (w *wait) end() {
	if w.unwatch != nil {
		w.unwatch()
	}
	w.endRound()
	if s := w.lease; s != nil && s.finish() == nil {
		w.locker.client.group.Tell(master.Release, s.claim, (*releasing)(s))
	}
	w.lease = nil
	w.leaveNames()
	if w.inside {
		w.locker.client.gates.Leave(w.locker.key)
	}
}

// outcome returns the error for the caller after the last attempt.
func (w *wait) outcome(ctx context.Context) error {
	c := w.locker.client
	last := c.owners.named(w.locker.heldKey(w.last), w.last)
	switch {
	case c.isClosing():
		return ErrClosed
	case ctx.Err() != nil:
		return &endedError{op: opAcquire, name: w.locker.name, ctx: ctx, last: last}
	}
	return last
}

// warn has the Logger report a long wait of a method that returns no error.
func (w *wait) warn() {
	if w.forever && w.unwatch == nil && w.whole == nil {
		w.unwatch = w.locker.client.notices.Watch(w.locker.name, w.locker.whyTaken)
	}
}

const (
	// queueStep is the average sleep of a client that is in the queue of a quorum of masters. It will be
	// woken, and tries again only because the message may be lost. Many clients that try every few
	// milliseconds would slow down the holder that they wait for.
	queueStep = 100 * time.Millisecond
	// freeJitter is the least time over which the attempts at the expiry of a key are spread.
	freeJitter = 5 * time.Millisecond
	// splitsMost limits how often the time over which attempts are spread is doubled, after several splits in a row.
	splitsMost = 3
)

// pause sleeps until the next attempt is due. It reports whether a wake-up has ended the sleep. If more is
// false, the schedule has stopped, and there was no sleep.
//
// After a split vote nobody has the lock. Then the schedule begins anew, and a random part of one round trip
// is added to its delay, or of 2, 4 or 8 after further splits: clients that sleep for the same time split the
// votes again. If no master has granted the attempt, somebody holds the lock, and the sleep is longer if we
// expect to be woken. A grant that comes after the refusals which decided the attempt makes it a split vote,
// too.
func (w *wait) pause(ctx context.Context) (woken, more bool) {
	c := w.locker.client
	d, more := w.delays.next()
	if !more {
		return false, false
	}
	c.notePause(d)
	extra := rand.N(c.group.Distance()<<min(w.splits, splitsMost) + 1)
	if !w.split() {
		step := d
		if errors.Is(w.last, ErrHeld) && c.listening() {
			step = max(step, queueStep/2+rand.N(queueStep))
		}
		step = w.notPast(step)
		extra = min(extra, step)
		if w.sleep(ctx, extra) {
			return true, true
		}
		if !w.split() {
			w.splits = 0
			return w.sleep(ctx, step-extra), true
		}
		extra = 0 // it is over
	}
	if w.splits++; w.splits == 1 {
		w.delays.reset()
		if d, more = w.delays.next(); !more {
			return false, false
		}
	}
	return w.sleep(ctx, w.notPast(d+extra)), true
}

// notPast shortens a sleep to end when an attempt will find the keys of a quorum of masters expired, if
// nobody renews them. It adds up to half a round trip, so that not all clients try at the same moment. It does not
// shorten a sleep beside readers whose key may stand for a turn of readers: see turnMost.
func (w *wait) notPast(d time.Duration) time.Duration {
	left, known := freeAfter(w.round.Votes())
	if !known || left < turnMost && (w.locker.writes || w.byReaders()) {
		return d
	}
	// Each master has told how long its key lived when the last attempt arrived. The next attempt takes
	// as long to arrive. So it finds the key expired if it is made that much later.
	c := w.locker.client
	left = max(left-c.clock().Since(w.asked), 0)
	if left >= d {
		return d
	}
	return left + time.Millisecond + rand.N(max(freeJitter, c.group.Distance()/2))
}

// sleep waits for d, the end of ctx or the Client, or for wake. It reports whether wake ended it.
func (c *Client) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) (woken bool) {
	if d <= 0 {
		select {
		case <-wake:
			return true
		default:
			return false
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-wake:
		return true
	case <-t.C:
	case <-ctx.Done():
	case <-c.closing:
	}
	return false
}

// sleep is Client.sleep, which a wake-up ends. With the default schedule, the attempts ask for the owner often
// enough. During a longer sleep, sleep asks, too.
func (w *wait) sleep(ctx context.Context, d time.Duration) (woken bool) {
	c := w.locker.client
	for step := ownerAfter; d > 2*ownerAfter; step = ownerEvery {
		step = min(step, d)
		if c.sleep(ctx, step, w.sleeper.wake) {
			return true
		} else if ctx.Err() != nil || c.isClosing() {
			return false
		}
		w.askOwner()
		d -= step
	}
	return c.sleep(ctx, d, w.sleeper.wake)
}

// attempt makes one attempt: a round of SETs and, unless the round is won, the releases that undo it. The
// releases go to all masters, whatever they have answered: a master that refused, or whose answer was
// lost, may have set the key. The caller ends the round, since later votes say whether other clients
// contend for the lock.
//
// within says how long the masters may take to answer. As a rule claim is nil, and the attempt has a new one. A claim
// that the caller gives is not undone.
func (c *Client) attempt(ctx context.Context, l *Locker, claim *master.Claim, kind master.Kind, start clock.Reading, waited time.Duration, contended bool, within quorum.Limit) (*Lease, *quorum.Round, error) {
	validity := l.opts.TTL - c.opts.drift(l.opts.TTL)
	both := &struct { // in one allocation
		lease Lease
		claim master.Claim
	}{lease: Lease{client: c, name: l.name, opts: l.opts, shared: l.shared, ofSet: l.ofSet, contended: contended, rounds: 1,
		granted: start, acquired: start, start: start, validity: validity}}
	s := &both.lease
	limit := validity
	if l.opts.Fencing {
		limit = c.opts.fencedWithin(l.opts.TTL)
	}
	if s.claim = claim; claim == nil {
		s.claim = &both.claim
		s.claim.Init(&l.terms, newToken(c.opts.Owner), waited)
		switch {
		case l.opts.Fencing && l.shared != nil:
			proposeRead(s.claim, start.Wall(), limit)
		case l.opts.Fencing:
			c.fences.propose(s.claim, start.Wall(), limit)
		}
		if l.shared != nil {
			s.claim.Turn(c.turn())
		}
		if !c.opts.DisableWakeups {
			s.claim.Prepare(kind)
		}
	}
	round := c.group.Ask(kind, s.claim, within)
	t := round.Wait(ctx, c.closing, quorum.Tally.Decided)
	var err error
	if l.opts.Fencing {
		votes := round.Votes()
		c.fences.heard(l.key, votes)
		if t.Won() {
			s.fence, s.rounds, _, err = c.commitFence(ctx, l, s.claim, votes, start)
		}
	}
	took := c.clock().Since(start)
	if t.Won() && err == nil && took < limit && s.begin() {
		return s, round, nil
	}
	if claim == nil {
		c.tellAll(master.Undo, s.claim)
	}
	if t.Won() {
		return nil, round, c.wasted(l.name, round, err, took, limit, validity)
	}
	// The undoing is on its way. What follows only completes the error: because of one dead master, a lock
	// that is held must not look like an outage.
	round.Wait(ctx, c.closing, quorum.Tally.Explained)
	return nil, round, c.quorumError(opAcquire, l.name, round.Votes())
}

// freeAfter returns the time after which the keys of a quorum of masters will have expired, if nobody renews
// them. It uses the answers of the masters that refused, and reports false if those do not suffice.
func freeAfter(votes []quorum.Vote) (time.Duration, bool) {
	var lefts []time.Duration
	for _, v := range votes {
		if v.Granted() {
			lefts = append(lefts, 0)
		} else if v.Outcome == master.Taken && v.Left != master.Unknown {
			lefts = append(lefts, v.Left)
		}
	}
	need := quorum.Majority(len(votes))
	if len(lefts) < need {
		return 0, false
	}
	slices.Sort(lefts)
	return lefts[need-1], true
}
