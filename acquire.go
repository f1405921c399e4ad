package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/waits"
	"github.com/redlock-go/redlock/internal/wire"
)

// A wait is one call that acquires a lock.
type wait struct {
	locker   *Locker
	ctx      context.Context // of the call
	forever  bool            // nothing but Close ends it
	once     bool            // it makes one attempt, which joins no queue
	light    bool            // the attempt joins no queue, since a claim is registered after it
	began    clock.Reading
	attempts int
	late     bool   // time has passed since began, before the first attempt
	inside   bool   // the gate is taken
	lease    *Lease // acquired, and not yet the Locker's
	shared   *Lease // the lease of the readers, if the goroutine has entered it
	leads    bool   // the goroutine leads the readers: see readers
	last     error  // of the last attempt that was not cut short
	unwatch  func() // ends what has the Logger warn if the wait lasts; nil: it does not
	traced   bool   // Trace.LockDone was called

	// The last attempt. Its round is kept until the next attempt, for late votes.
	round  *quorum.Round
	asked  clock.Reading // when it began
	splits int           // how many attempts in a row have split the votes

	inbox  *waits.Wait // what the masters' messages say
	delays retrier

	// Of a Locker of several names:
	nameGates int           // how many gates of names are taken
	merged    *master.Claim // takes over the names that were acquired one by one; nil: each attempt has a new claim
	whole     *wait         // of the Locker of several names, if this wait is for one of them
}

// over reports whether the wait is to end without the lock.
func (w *wait) over() bool { return w.ctx.Err() != nil || w.locker.client.isClosing() }

// enterGate waits for the gate, and reports whether it has entered. With the gate it may receive a lease, if heir is not
// nil: the Locker that the lease is for.
func (w *wait) enterGate(heir any) bool {
	l, c := w.locker, w.locker.client
	if ok, _, _ := c.gates.TryEnter(l.key); ok {
		w.inside = true
		return true
	}
	w.late = true
	w.warn()
	baton, err := c.gates.Enter(w.ctx, l.key, heir)
	if err != nil {
		w.taken(c.gates.Last(l.key))
		return false
	}
	w.inside = true
	w.lease, _ = baton.(*Lease)
	return true
}

// tryGate enters the gate if it is free, and reports whether it is.
func (w *wait) tryGate() bool {
	ok, note, _ := w.locker.client.tryGate(w.locker.key)
	if !ok {
		w.taken(note)
	}
	w.inside = ok
	return ok
}

// taken notes that a gate was found taken. note is that of the goroutine inside.
func (w *wait) taken(note error) { w.last = w.locker.taken(note) }

// taken returns the error for a gate that another goroutine has taken. note is the last note of that
// goroutine.
func (l *Locker) taken(note error) error {
	if note == nil {
		return l.client.unasked(opAcquire, l.name)
	}
	return note
}

// tryAcquire makes one attempt to acquire the lock. It needs the gate.
func (w *wait) tryAcquire() bool {
	w.letOthers()
	return w.attempt(max(w.locker.firstKind(), w.locker.first))
}

// acquire acquires the lock, and waits until it can. It needs the gate.
//
//   - The first attempt is a plain SET. Soon after a release by this Client it is a Register, which leaves the lock
//     to the clients in the queue: see lastReleases.
//   - If a release may grant the lock to this wait, the first attempt is light: it joins no queue. If it is refused,
//     a claim is registered: see acquireGranted. If other clients are likely to want the lock, there is no such
//     attempt, and the claim is registered at once. That recalls a lock that another Client keeps. So a Locker with Keep
//     does the same.
//   - Otherwise further attempts follow: see acquireByPolling.
//   - Whether a release may grant the lock can change during the wait: masters go down and come up again, and become
//     slower. So a wait goes from one of the two to the other.
func (w *wait) acquire() bool {
	l, c := w.locker, w.locker.client
	w.letOthers()
	if w.over() {
		return false
	}
	kind, contended := c.lastReleases.next(l.key)
	kind = max(kind, l.first)
	w.delays = retrier{start: c.opts.NewBackOff, forever: w.forever}
	w.light = l.grantable
	claims, life, now := w.light && (contended || l.keeps()) && w.grantFor() > 0, l.opts.TTL, true
	if !claims && (w.light || kind == wire.Set) {
		if w.attempt(kind) {
			return true
		}
		w.warn()
		claims, life = w.light && w.grantFor() > 0, 0
		kind, now = wire.Again, w.refused()
	}
	for w.light = false; ; claims, life = true, 0 {
		if claims {
			if w.acquireGranted(life) {
				return w.lease != nil
			}
			kind, now = wire.Again, w.round == nil
		}
		if w.acquireByPolling(kind, now) {
			return w.lease != nil
		}
	}
}

// acquireByPolling makes attempts until one succeeds. The first is of the given kind, and is made at once if now is
// true. A refused attempt joins the name's queue, unless it is a plain SET. There is a pause before each further
// attempt. A wake-up ends the pause, and says that it is our turn, so the next attempt is a plain SET. If that is
// refused, the attempt behind it follows at once, to join the queue again.
//
// acquireByPolling reports whether the wait is done, with or without the lock. If the lock can be granted now, it leaves
// the queue, and reports false.
func (w *wait) acquireByPolling(kind wire.Kind, now bool) (done bool) {
	l, c := w.locker, w.locker.client
	w.inbox = c.waits.Begin(l.key)
	defer w.inbox.End()
	defer w.quit()
	for {
		if !now {
			woken, more := w.pause()
			if !more {
				return true
			}
			if woken {
				w.delays.reset()
				w.splits = 0
				kind = l.woken
			}
		}
		if w.over() || w.attempt(kind) {
			return true
		}
		w.warn()
		if l.grantable && w.grantFor() > 0 {
			return false
		}
		w.askOwner()
		kind, now = wire.Again, kind == wire.Set && w.refused()
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
		c.tellAll(wire.Quit, master.NewClaim(&w.locker.terms, wire.ClaimOf{Token: newToken("")}))
	}
}

// attempt makes one attempt, and reports whether it has acquired the lock. Otherwise last is a *QuorumError, even if ctx or
// the Client ended the attempt: see outcome.
func (w *wait) attempt(kind wire.Kind) bool {
	l, c := w.locker, w.locker.client
	w.endRound()
	w.asked = w.began
	if w.attempts++; w.attempts > 1 || w.late {
		w.asked = c.clock() // time has passed since the call
	}
	within := c.opts.limit(l.opts.TTL)
	within.Hurry = !w.once // else the votes of all masters make the error more exact
	err := w.set(kind, within)
	if err != nil && len(l.names) > 0 {
		l.nameHeld(err, w.round.Votes())
	}
	w.noted(err)
	return err == nil
}

// waited returns for how long the wait has lasted when an attempt begins, for the queue of the name.
func (w *wait) waited() time.Duration {
	switch waited := w.asked.Since(w.began); {
	case w.once || w.light:
		return wire.NoQueue
	case w.locker.reads() && w.attempts > 1:
		return max(waited, time.Millisecond) // it may be in the queue: see readers.lua
	default:
		return waited
	}
}

// noted notes the outcome of an attempt.
func (w *wait) noted(err error) {
	l, c := w.locker, w.locker.client
	if err != nil {
		err = c.owners.named(l.heldKey(err), err)
	}
	if w.last == nil || w.ctx.Err() == nil {
		w.last = err
	}
	if err != nil {
		for v := w; v != nil; v = v.whole {
			v.last = w.last
			c.gates.Note(v.locker.key, w.last)
		}
		w.announce()
	}
	if f := c.opts.Trace.AttemptDone; f != nil {
		f(w.ctx, AttemptInfo{Name: l.name, Elapsed: c.clock().Since(w.asked), Err: err})
	}
	if f := c.opts.Trace.Acquired; f != nil && err == nil && !l.silent {
		s := w.lease
		f(w.ctx, AcquiredInfo{Name: l.name, Attempts: w.attempts, Waited: c.clock().Since(w.began), Until: s.Until(), Rounds: s.tenure.rounds, Fence: s.Fence()})
	}
}

func (w *wait) endRound() {
	if w.round != nil {
		w.round.End()
		w.round = nil
	}
}

// end ends the wait. Unless the caller has the lock now, end leaves the gate, and releases what may have
// been acquired: a function of the user, in the Trace or the schedule, may have panicked.
func (w *wait) end() {
	if w.unwatch != nil {
		w.unwatch()
	}
	w.endRound()
	if w.lease != nil {
		if t := w.lease.tenure; t.finish() == nil {
			w.locker.client.group.Tell(t.release(), t.claim, (*releasing)(t))
		}
		w.lease = nil
	}
	w.locker.kind.giveUp(w)
	w.leaveNames()
	if w.inside {
		w.locker.client.gates.Leave(w.locker.key)
	}
}

// outcome returns the error for the caller of a wait without the lock: the one place that tells the end of the Client, the
// end of ctx, and the end of the schedule apart.
func (w *wait) outcome() error {
	c := w.locker.client
	last := c.owners.named(w.locker.heldKey(w.last), w.last)
	switch {
	case c.isClosing():
		return ErrClosed
	case w.ctx.Err() != nil:
		return &endedError{op: opAcquire, name: w.locker.name, ctx: w.ctx, last: last}
	}
	return last
}

// warn has the Logger report a long wait of a method that returns no error.
func (w *wait) warn() {
	if w.forever && w.unwatch == nil && !w.locker.silent {
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
func (w *wait) pause() (woken, more bool) {
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
		if w.sleep(extra) {
			return true, true
		}
		if !w.split() {
			w.splits = 0
			return w.sleep(step - extra), true
		}
		extra = 0 // it is over
	}
	if w.splits++; w.splits == 1 {
		w.delays.reset()
		if d, more = w.delays.next(); !more {
			return false, false
		}
	}
	return w.sleep(w.notPast(d + extra)), true
}

// notPast returns the sleep d, or a shorter one that ends when the next attempt will find the keys of a quorum of masters
// expired, if nobody renews them. It adds up to half a round trip, so that not all clients try at the same moment.
//
// Example: three masters say that the key lives for 80, 90 and 300 ms more. After 90 ms, two of three keys are free. So a
// sleep of 250 ms becomes one of 91 ms and a random part.
//
// Beside readers, a key with less than turnMost to live may stand for a turn of readers, so the sleep is not shortened.
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
func (w *wait) sleep(d time.Duration) (woken bool) {
	c := w.locker.client
	for step := ownerAfter; d > 2*ownerAfter; step = ownerEvery {
		step = min(step, d)
		if c.sleep(w.ctx, step, w.inbox.Wake) {
			return true
		} else if w.over() {
			return false
		}
		w.askOwner()
		d -= step
	}
	return c.sleep(w.ctx, d, w.inbox.Wake)
}

// set makes a round of SETs and, unless the round is won, sends the releases that undo it. The releases go to all masters,
// whatever they have answered: a master that refused, or whose answer was lost, may have set the key. The round is kept,
// since later votes say whether other clients contend for the lock.
//
// within says how long the masters may take to answer. An attempt to merge the names of a set has a claim already, and is
// not undone.
func (w *wait) set(kind wire.Kind, within quorum.Limit) error {
	l, c := w.locker, w.locker.client
	validity := l.opts.TTL - c.opts.drift(l.opts.TTL)
	all := &struct { // in one allocation
		lease  Lease
		tenure tenure
		claim  master.Claim
	}{tenure: tenure{client: c, name: l.name, opts: l.opts, holders: alone, silent: l.silent, contended: w.attempts > 1, rounds: 1,
		asked: w.asked, start: w.asked, validity: validity}}
	t := &all.tenure
	t.heldBy(&all.lease)
	limit := validity
	if l.opts.Fencing {
		limit = c.opts.fencedWithin(l.opts.TTL)
	}
	if t.claim = w.merged; t.claim == nil {
		t.claim = &all.claim
		of := wire.ClaimOf{Waited: w.waited(), Fence: l.propose(w.asked.Wall())}
		of.Token, t.holders = l.newToken()
		if !c.opts.DisableWakeups {
			of.Kind = kind
		}
		if l.reads() {
			of.Turn = c.turn()
		}
		t.claim.Claim = wire.NewClaim(&l.terms, of)
	}
	w.round = c.group.Ask(kind, t.claim, within)
	won := w.round.Wait(w.ctx, c.closing, quorum.Tally.Decided).Won()
	var err error
	if l.opts.Fencing {
		votes := w.round.Votes()
		c.fences.heard(l.key, votes)
		if won {
			t.fence, t.rounds, _, err = w.commitFence(t.claim, votes, w.asked)
		}
	}
	took := c.clock().Since(w.asked)
	if won && err == nil && took < limit && t.begin() {
		w.lease = t.holder
		return nil
	}
	if w.merged == nil {
		c.tellAll(wire.Undo, t.claim)
	}
	if won {
		return c.wasted(l.name, w.round, err, took, limit, validity)
	}
	// The undoing is on its way. What follows only completes the error: because of one dead master, a lock
	// that is held must not look like an outage.
	w.round.Wait(w.ctx, c.closing, quorum.Tally.Explained)
	return c.quorumError(opAcquire, l.name, w.round.Votes())
}

// freeAfter returns the time after which the keys of a quorum of masters will have expired, if nobody renews
// them. It uses the answers of the masters that refused, and reports false if those do not suffice.
func freeAfter(votes []quorum.Vote) (time.Duration, bool) {
	var lefts []time.Duration
	for _, v := range votes {
		if v.Granted() {
			lefts = append(lefts, 0)
		} else if v.Outcome == wire.Taken && v.Left != wire.Unknown {
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
