package engine

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/fence"
	"github.com/redlock-go/redlock/internal/gate"
	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/renew"
	"github.com/redlock-go/redlock/internal/waits"
	"github.com/redlock-go/redlock/internal/wire"
)

// A wait that may be granted the lock registers a claim at all masters, and sends it again from time to time, since messages get lost, and no
// script runs when a key expires. If the votes are split, one claim stays: see docs/protocol.md#a-claim-that-waits.
//
// No claim keeps a key for longer than it can win with it: a key that was granted expires, and is never extended
// before the claim has a quorum. If the votes of the quorum end soon, the keys are extended first, as by a renewal, and
// the lease has its TTL from then on.

// A contender is a wait that registers claims, one after the other: what it knows of them, and what it decides. While there is no claim, the
// next one is registered at resume: see step. Otherwise await does what the first of these lines says that holds:
//
//	a quorum of votes, and a value of SingleFlight end the wait of SingleFlight
//	a quorum of votes that last                    win; if the claim cannot become a lease after all: back off
//	a quorum of votes that soon end                see subject.expire; it may leave the decision to the lines below
//	grants of a quorum had expired on receipt      drop the claim; another one is registered
//	a round is under way                           wait for its answers
//	the round that has ended was to extend         back off
//	a round has ended                              see subject.judge
//	a message asks for it, or a poll is due        poll
//	none of these                                  wait for the poll, or for news
type contender struct {
	wait        *wait
	on          subject      // what its claims are on
	place       *gate.Place  // among the goroutines that want permits; nil: it wants a lock
	inbox       *waits.Inbox // what the masters' messages say
	pace        *waits.Pace  // when the claim is sent again
	delays      waits.Delays
	timer       *time.Timer // of sleep; nil before the first
	askSchedule time.Time   // when to ask the user's schedule whether the wait goes on; zero: at once

	next   registration
	resume time.Time // while there is no claim: when the next one is registered; zero: now

	claim   *waits.Claim // nil: the next one is registered at resume
	votes   waits.Count  // for the claim, as counted last
	sharing sharing      // of the tenure of the claim
	pending bool         // the current round of the claim is not over
	extends bool         // the current round is to extend the keys, since the votes of a quorum soon end: set by onLock.expire
	asked   bool         // a message has asked for a poll, and none has followed
	polled  int          // the master that was polled last by itself
}

// A registration is how the next claim is registered.
type registration struct {
	life      time.Duration // for how long it sets a free key; 0: for g
	spared    uint64        // the masters, as bits, at which it leaves a free key alone
	contended bool          // it is likely to be refused, since others wait
}

// A subject is what the claims of a wait are on: a lock (onLock), or slots of a semaphore (permits). It keeps what only such claims need.
type subject interface {
	// registered forgets what was known of the claim before this one.
	registered()
	// expire says what to do about a quorum of votes that soon end: see contender.await. If it reports true, it has done it. If more is false,
	// the wait ends.
	expire(q *contender, now clock.Reading) (done, more bool)
	// poll returns the next poll of the claim. The masters in free, as bits, were found free by a poll of one.
	poll(q *contender, now clock.Reading, free uint64) wire.Request
	// judge decides what becomes of the claim after a round that did not win, and does it: see contender.roundOver.
	judge(q *contender, now clock.Reading) (more bool)
}

// newContender returns the contender of a wait for a lock. Most locks need none.
func newContender(w *wait) *contender { return &contender{wait: w, on: new(onLock)} }

// contend waits until the wait has the lock, and reports whether it has.
func (q *contender) contend() bool {
	w, l, c := q.wait, q.wait.locker, q.wait.locker.core
	q.delays = c.delays(w.forever)
	q.inbox = c.waits.Begin(l.key)
	defer q.inbox.End()
	q.pace = waits.NewPace(c.group, c.cfg.ClaimPolls)
	if w.flight != nil {
		q.inbox.WantsValue()
	}
	defer func() { // also if a function of the user has panicked. The release of a claim passes on what was granted
		if w.lease == nil && q.claim != nil {
			q.dropClaim(wire.Release)
		}
	}()
	for !q.takeHandedOver() && !w.over() {
		if q.takeValue() {
			return false
		}
		now := c.clock()
		next, more := q.step(now)
		if w.lease != nil || !more {
			return w.lease != nil
		}
		q.sleep(next.Sub(now.Time()))
	}
	if w.last == nil {
		q.noteRound()
	}
	return w.lease != nil
}

// takeHandedOver takes permits that another goroutine of the Client has handed over, and reports whether there are any. The claim is not
// needed any more.
func (q *contender) takeHandedOver() bool {
	if q.wait.lease, _ = q.place.Take().(*Lease); q.wait.lease == nil {
		return false
	}
	if q.claim != nil {
		q.dropClaim(wire.Release)
	}
	return true
}

// takeValue reports whether another client's value has come, which ends a wait of SingleFlight.
func (q *contender) takeValue() bool {
	if q.wait.flight == nil {
		return false
	}
	value, received := q.inbox.ReceivedValue()
	if received {
		q.wait.flight.Receive(value)
	}
	return received
}

// sleep waits for d, the end of ctx or the Client, a message, or news of the claim.
func (q *contender) sleep(d time.Duration) {
	if d <= 0 {
		select {
		case <-q.inbox.Poll:
			q.asked = true
		default:
		}
		return
	}
	if q.timer == nil {
		q.timer = time.NewTimer(d)
	} else {
		q.timer.Reset(d)
	}
	select {
	case <-q.inbox.News:
	case <-q.inbox.Poll:
		q.asked = true
	case <-q.place.Passed():
	case <-q.timer.C:
	case <-q.wait.ctx.Done():
	case <-q.wait.locker.core.closing:
	}
}

// step does what is due, and returns when it is to be called again at the latest. If more is false, the schedule has
// stopped.
func (q *contender) step(now clock.Reading) (next time.Time, more bool) {
	if q.claim != nil {
		return q.await(now)
	}
	if q.resume.After(now.Time()) {
		return q.resume, true
	}
	q.register()
	return now.Time(), true
}

// register registers a new claim. g is computed for each, since the masters may have become slower.
func (q *contender) register() {
	w, l, c := q.wait, q.wait.locker, q.wait.locker.core
	g := c.cfg.Bounds.G(l.opts.TTL, c.group.RoundTrip(), l.opts.renewed())
	next, life := q.next, cmp.Or(q.next.life, g)
	q.next = registration{}
	q.on.registered()
	now := w.began
	if w.attempts > 0 || w.late {
		now = c.clock()
	}
	if w.flight != nil {
		w.flight.Seal()
	}
	waited := c.unused.Waited(now.Time(), now.Since(w.began))
	if w.once {
		waited = wire.NoQueue
	}
	of, by := l.kind.claimOf(w, waited)
	of.Fence, of.Grant, of.RegisterTTL = l.proposal(now.Wall()), g, life
	of.Spared, of.Contended, of.Made = next.spared, next.contended, time.Now()
	claim := q.inbox.NewClaim(master.NewSentClaim(&l.terms, of), now, g, l.permits, l.limit)
	q.claim, q.sharing, q.polled = claim, by, rand.N(len(c.masters))
	q.pace.Registered(c.releases.Turnaround(l.key))
	q.inbox.SetClaim(claim)
	w.try.noteMasters(c, w.flight != nil)
	q.ask(wire.Register, life)
}

// ask begins a round of the claim. A Register or an Again sets a free key for life.
func (q *contender) ask(request wire.Request, life time.Duration) {
	w, l, c, claim, command := q.wait, q.wait.locker, q.wait.locker.core, q.claim, request.Kind()
	w.refused = w.try.end() || w.refused
	w.attempts++
	mark := claim.Began
	if command != wire.Register {
		mark = c.clock()
	}
	w.try.sentAt, q.pending, q.extends = mark, true, false
	q.pace.Sent()
	if command.Acquires() {
		claim.Sent()
	}
	within := c.cfg.Bounds.Limit(l.opts.TTL)
	within.Hurry = command != wire.Renew
	w.try.round = c.group.AskEach(request, claim.SentClaim, within, &answers{l, claim, waits.Command{Kind: command, Mark: mark, Life: life}})
}

// answers takes the answers to a command of a claim.
type answers struct {
	locker  *Locker
	claim   *waits.Claim
	command waits.Command
}

var (
	_ quorum.Listener = (*answers)(nil)
	_ master.Asker    = (*answers)(nil)
)

// Heard implements quorum.Listener.
func (h *answers) Heard(i int, a wire.Answer) (news bool) {
	if a.OtherLimit > 0 {
		h.locker.core.cfg.Notices.OtherLimit(h.locker.name, h.locker.limit, a.OtherLimit)
	}
	m := h.locker.core.masters[i]
	near, news := h.claim.Answered(i, h.command, a, m.Listening())
	h.locker.core.pingOften(near)
	return news
}

// Counted implements quorum.Listener.
func (h *answers) Counted() { h.claim.Counted() }

// await does what is due while a claim waits, and returns when it is to be called again at the latest. If more is false, the
// schedule has stopped.
func (q *contender) await(now clock.Reading) (next time.Time, more bool) {
	w, c := q.wait, q.wait.locker.core
	left := time.Duration(0)
	if q.pending {
		left = w.try.round.Expire(now.Elapsed(w.try.sentAt)) // before the votes are counted, so that no vote of a round that is over is missed
	}
	q.votes = q.claim.Count(now, q.highest(now))
	mine, won := q.votes.Mine, q.votes.Won
	if mine != 0 { // it is about to win: permits of this Client go to those behind it
		q.place.Suspend()
	} else {
		q.place.Resume()
	}
	switch {
	case won != nil && q.takeValue(): // it has come since contend looked for it, as a rule just before the last grant
		return now.Time(), false
	case won != nil && (won.Left >= c.cfg.Bounds.WinsAt(q.claim.G, w.locker.opts.renewed()) || q.extends && quorum.Count(w.try.round.Votes()).Won()):
		return now.Time(), q.win(now, won)
	case won != nil:
		if done, more := q.on.expire(q, now); done {
			return now.Time(), more
		}
	}
	if q.claim.Unused() >= c.group.Need() {
		c.unused.Note(now.Time(), q.claim.Began.Time())
		q.dropClaim(wire.Release)
		return now.Time(), true // another claim is registered
	}
	if q.pending {
		if left > 0 {
			return now.Time().Add(left), true
		}
		if more := q.roundOver(now); !more || q.claim == nil || q.pending {
			return now.Time(), more
		}
	}
	due, free := q.pace.Next(q.claim, now, mine != 0, w.notPast), q.claim.FoundFree()
	switch {
	case q.asked, free != 0 && mine == 0:
	case due.After(now.Time()):
		return due, true
	case mine == 0 && q.pace.One && c.group.Up(): // otherwise a round says which masters are missing
		return now.Time(), q.pollOne(now)
	}
	q.ask(q.on.poll(q, now, free), q.claim.G)
	q.asked = false
	return now.Time(), true
}

// highest returns the highest number that the claim can use now: see Options.Fencing; 0: any.
func (q *contender) highest(now clock.Reading) int64 {
	if o := &q.wait.locker.opts; o.Fencing {
		return q.wait.locker.core.fences.Most(now, o.TTL)
	}
	return 0
}

// win makes a quorum of votes a lease. If that fails, it backs off. It reports false if the schedule has stopped.
func (q *contender) win(now clock.Reading, won *waits.Quorum) (more bool) {
	w, l, c := q.wait, q.wait.locker, q.wait.locker.core
	if !q.place.Suspend() {
		return true // permits were handed over
	}
	t := newTenure(l, q.sharing, renew.Validity{Start: now, Length: won.Left, Short: won.Left < q.claim.G})
	t.claim, t.contended, t.slots, t.successor = q.claim.SentClaim, w.refused || w.try.refused(), won.Slots, q.claim.Successor()
	if t.slots != nil {
		t.renews = wire.RenewSlots(t.slots)
	}
	if w.flight != nil {
		t.publish = w.try.publishing(won.Votes, q.claim.Settled)
	}
	var err error
	if l.opts.Fencing {
		var last clock.Reading
		if last, err = w.commit(t, won.Votes); err == nil && t.rounds > 1 { // which has given the keys their TTL
			t.validity = renew.Validity{Start: last, Length: c.cfg.Bounds.Validity(l.opts.TTL)}
		}
	}
	var f *Failure
	if err = cmp.Or(err, w.try.revokes(c)); err != nil {
		f = wasted(l.name, w.try.round, err)
	} else if t.validity.Over(c.clock()) || !q.accept(won, t) {
		f = failed(OpAcquire, l.name, w.try.round.Votes())
	} else if !t.begin() {
		f = wasted(l.name, w.try.round, ErrClosed)
	}
	if f != nil {
		q.place.Resume()
		w.noteFailure(f)
		return !w.once && q.backOff(now)
	}
	w.lease = t.holder
	w.noteWon()
	return true
}

// accept ends the claim, since a quorum of votes makes it a tenure. It reports false if one of the votes has become void. Permits then stand
// in their slots at the masters that gave them others, or may do so later.
func (q *contender) accept(won *waits.Quorum, t *tenure) bool {
	elsewhere, queued, ok := q.claim.Won(won, t.doubt, func(i int) { t.heal(1 << i) })
	t.heal(elsewhere)
	if queued != 0 {
		time.AfterFunc(lateTrips*q.wait.locker.core.group.Distance()+waits.SplitAfter, func() { t.heal(queued) })
	}
	return ok
}

// A winner waits for lateTrips round trips and waits.SplitAfter for the grants of the masters that have its claim in their queues. Most come
// with the next message. If permits are held for a shorter time, nothing need be healed.
const lateTrips = 2

// roundOver acts on the current round, which is over and did not win. It reports false if the schedule has stopped.
func (q *contender) roundOver(now clock.Reading) (more bool) {
	q.pending = false
	if q.extends {
		q.noteRound()
		return q.backOff(now) // some keys live for the TTL now
	}
	return q.on.judge(q, now)
}

// onLock is the subject of a wait for a lock.
type onLock struct {
	apart uint64 // the masters, as bits, at which polls leave a free key alone, as with registration.spared: others have the key of one client
}

var _ subject = (*onLock)(nil)

func (o *onLock) registered() { o.apart = 0 }

// expire extends the keys, once.
func (*onLock) expire(q *contender, _ clock.Reading) (done, more bool) {
	if q.extends {
		return false, true
	}
	q.ask(wire.Renew, q.wait.locker.opts.TTL)
	q.extends = true
	return true, true
}

// poll: a reader's claim with votes joins the readers of other masters although a writer waits there. Otherwise the reader and the writer could
// each have votes at some masters, and neither a quorum.
func (o *onLock) poll(q *contender, now clock.Reading, free uint64) wire.Request {
	voted := q.votes.Mine != 0
	happened := q.asked || voted
	switch {
	case happened:
		o.apart = 0
	case free != 0:
		o.apart = free // the holder may lack the key there
	}
	return wire.Polling(o.apart, !happened && q.standing(now), voted && q.claim.Reads())
}

// judge has the claim do what waits.Finding.Verdict decides, after a round that did not win. It reports false if the schedule has stopped.
func (o *onLock) judge(q *contender, now clock.Reading) (more bool) {
	mine, first := q.votes.Mine, q.votes.First
	w, l, c := q.wait, q.wait.locker, q.wait.locker.core
	votes := fence.Usable(w.try.round.Votes(), q.highest(now), now.Wall())
	q.noteOwner(votes)
	w.noteFailure(failed(OpAcquire, l.name, votes))
	w.warn()
	tally := quorum.Count(votes)
	found := waits.Finding{
		Answered: tally.Answered(), Granted: tally.Granted,
		Asked: first.Before(w.try.sentAt.Time()), Overdue: now.Time().Sub(first) > q.claim.G,
	}
	rival, theirs := waits.Rival(votes, mine, l.terms.Reads())
	found.OnLock(bits.OnesCount64(mine), rival, theirs)
	if o.apart = 0; mine == 0 && theirs >= c.group.Need() {
		o.apart = waits.Without(votes, rival)
	}
	if found.Split() {
		q.pace.FoundSplit(now.Time())
		if !c.group.Listening() { // a release in its favour, or in that of a rival, grants nothing to a claim that is in no queue
			return q.backOff(now)
		}
	}
	own := q.claim.Token()
	if q.claim.Reads() { // as the rival sees it
		own = wire.ReadersMarker
	}
	switch verdict, _ := found.Verdict(own, 1, c.group.Need()); verdict {
	case waits.Polls:
		return q.schedule(now)
	case waits.BacksOff:
		return q.backOff(now)
	case waits.Excluded:
		// The rival's holder may heal the key where it is ours. So our release leaves the key free there, and the next claim does not set
		// it. Elsewhere the release passes the lock on as usual: the lease may have ended, and its release may have granted the lock to
		// our claim.
		q.dropClaim(q.claim.ReleasingFree(mine))
		q.next.spared, q.resume = mine, now.Time()
	case waits.Yields:
		q.dropClaim(q.claim.Releasing(wire.ToToken(rival), 0))
		q.resume = now.Time()
	}
	return true
}

// noteRound notes the outcome of the current round, which did not win.
func (q *contender) noteRound() {
	if q.wait.try.round != nil {
		q.wait.noteFailure(failed(OpAcquire, q.wait.locker.name, q.wait.try.round.Votes()))
	}
}

// ownerAfter is how long a wait lasts before the owner is asked for: most waits are shorter.
const ownerAfter = 100 * time.Millisecond

// noteOwner notes who holds the lock, as the votes of the current round say. If they do not say enough, and the wait is long, the masters are asked.
func (q *contender) noteOwner(votes []quorum.Vote) {
	w, c := q.wait, q.wait.locker.core
	h, ask := holding.Standing(votes)
	if ask {
		// With DisableWakeups, the schedule may have the next poll made long after.
		if c.cfg.Deaf || c.clock().Since(w.began) >= ownerAfter {
			c.owners.AskLater(w.locker.key)
		}
		return
	}
	next := time.Duration(0) // a near claim polls often
	if n := q.claim.Ahead(); n >= wire.Near {
		next = waits.FarPolls(c.cfg.ClaimPolls, n, len(c.masters)) * 5 / 4
	}
	c.owners.Heard(w.locker.key, h, next)
}

// schedule sets when the next poll is due, after a round. It reports false if the schedule of Options.NewBackOff has
// stopped. That schedule only says when the wait stops. A claim polls at its Pace, since messages can be lost. With DisableWakeups, it
// polls as the schedule says.
func (q *contender) schedule(now clock.Reading) (more bool) {
	deaf := q.wait.locker.core.cfg.Deaf
	if deaf || !q.askSchedule.After(now.Time()) {
		d, more := q.delays.Next()
		if !more {
			return false
		}
		if deaf {
			q.pace.PollAfter(now, q.wait.notPast(d))
			return true
		}
		if q.askSchedule = q.askSchedule.Add(d); !q.askSchedule.After(now.Time()) {
			q.askSchedule = now.Time().Add(d)
		}
	}
	q.pace.Pause(q.claim, now, q.wait.try.sentAt == q.claim.Began, q.wait.notPast)
	return true
}

// backOff releases the claim, and has another one registered after a random delay. If the schedule has stopped, it does
// nothing and reports false.
func (q *contender) backOff(now clock.Reading) (more bool) {
	d, more := q.delays.Next()
	if more {
		q.dropClaim(wire.Release)
		q.askSchedule = now.Time().Add(d)
		q.resume = now.Time().Add(min(d, longestDelay) + rand.N(q.wait.locker.core.group.Distance()+1))
	}
	return more
}

// longestDelay bounds the pause between two claims of a wait, during which no release can grant it the lock. It is also the pause of a wait that
// never ends if a schedule of the user stops at once.
const longestDelay = 250 * time.Millisecond

// dropClaim releases the claim, whose votes never count again.
func (q *contender) dropClaim(how wire.Request) {
	c := q.wait.locker.core
	q.inbox.SetClaim(nil)
	c.group.Send(how, q.claim.SentClaim)
	q.claim = nil
}

// standing reports whether the next poll is likely to be refused if nothing has happened since the last round: in that round, a quorum of
// masters have said that their keys live for longer. The polls of far claims that go to all masters are few, so they keep their probes.
func (q *contender) standing(now clock.Reading) bool {
	left, known := waits.FreeAfter(q.wait.try.round.Votes())
	return known && !q.pace.Far && left > now.Since(q.wait.try.sentAt)+2*q.wait.locker.core.group.Distance()
}

// pollOne polls one master that is up, the next in turn, which leaves a free key alone. It reports false if the schedule has stopped.
func (q *contender) pollOne(now clock.Reading) (more bool) {
	c, claim := q.wait.locker.core, q.claim
	for range c.masters {
		q.polled = (q.polled + 1) % len(c.masters)
		one := &answers{q.wait.locker, claim, waits.Command{Kind: wire.Again, Mark: now, Life: claim.G, One: true}}
		claim.SentOne(q.polled)
		err := c.masters[q.polled].Ask(wire.Polling(1<<q.polled, true, false), claim.SentClaim, one)
		if err == nil {
			break
		}
		one.Answered(q.polled, wire.Answer{Err: err})
	}
	q.noteOwner(claim.Standing())
	return q.schedule(now)
}

// Answered implements master.Asker, for a poll of one master.
func (h *answers) Answered(i int, a wire.Answer) {
	if h.Heard(i, a) {
		h.claim.Counted()
	}
}

// notPast returns the sleep d, or a shorter one that ends when the key is due to expire: see waits.NotPast.
func (w *wait) notPast(d time.Duration) time.Duration {
	c := w.locker.core
	left, known := waits.FreeAfter(w.try.round.Votes())
	if !known {
		return d
	}
	return waits.NotPast(d, left, c.clock().Since(w.try.sentAt), c.group)
}
