package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/gate"
	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/waits"
	"github.com/redlock-go/redlock/internal/wire"
)

// A contender is a wait that stands in the queues of the masters. It waits in one of two ways:
//
//   - A wait to which a release may grant the lock registers a claim, and waits for messages: see claiming.
//   - Any other wait makes attempts. A refused attempt joins the name's queue, unless it is a plain SET. There is a pause
//     before each further attempt. A wake-up ends the pause, and says that it is our turn, so the next attempt is a plain
//     SET. If that is refused, another attempt follows at once, to join the queue again.
//
// Masters go down and come up again, and become slower. So a wait may go from one way to the other.
type contender struct {
	*wait
	inbox  *waits.Inbox // what the masters' messages say
	place  *gate.Place  // among the goroutines that want permits; nil: it wants a lock
	pauses waits.Pauses
	resume time.Time // while there is no claim: when the next one is registered, or the next attempt made; zero: now
	woken  bool      // a wake-up has come, and neither an attempt nor a poll has followed it

	// Of a wait that makes attempts:
	kind   wire.Kind // of the next one, unless it follows a wake-up
	queued bool      // there was an attempt, which may have joined the queue

	claims claiming // of a wait that registers claims
}

// newContender returns a contender for a wait, which has neither a claim nor made an attempt.
func newContender(w *wait) *contender {
	q := &contender{wait: w, pauses: waits.Pauses{Delays: w.delays()}}
	q.claims.contender = q
	return q
}

// contend waits until the wait has the lock, and reports whether it has.
func (q *contender) contend() bool {
	c := q.locker.client
	q.inbox = c.waits.Begin(q.locker.key)
	defer q.inbox.End()
	q.claims.pace = q.inbox.NewPace(c.group, c.opts.claimPolls, c.opts.bounds.Drift)
	if q.flight != nil {
		q.inbox.WantsValue()
	}
	defer q.leave()
	for !q.handedOver() && !q.over() {
		if q.gaveValue() {
			return false
		}
		now := c.clock()
		next, more := q.step(now)
		if q.lease != nil || !more {
			return q.lease != nil
		}
		q.sleep(next.Sub(now.Time()))
	}
	if q.last == nil {
		q.claims.noteRound()
	}
	return q.lease != nil
}

// handedOver takes permits that another goroutine of the Client has handed over, and reports whether there are any. The claim is not
// needed any more.
func (q *contender) handedOver() bool {
	if q.lease, _ = q.place.Take().(*Lease); q.lease == nil {
		return false
	}
	if q.claims.claim != nil {
		q.claims.dropClaim(wire.Release)
	}
	return true
}

// gaveValue reports whether another client's value has come, which ends a wait of SingleFlight.
func (q *contender) gaveValue() bool {
	if q.flight == nil {
		return false
	}
	value, received := q.inbox.ReceivedValue()
	if received {
		q.flight.Receive(value)
	}
	return received
}

// sleep waits for d, the end of ctx or the Client, a wake-up, or news of the claim.
func (q *contender) sleep(d time.Duration) {
	if d <= 0 {
		select {
		case <-q.inbox.Wake:
			q.woken = true
		default:
		}
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-q.inbox.News:
	case <-q.inbox.Wake:
		q.woken = true
	case <-q.place.Passed():
	case <-t.C:
	case <-q.ctx.Done():
	case <-q.locker.client.closing:
	}
}

// step does what is due, and returns when it is to be called again at the latest. If more is false, the schedule has
// stopped.
func (q *contender) step(now clock.Reading) (next time.Time, more bool) {
	if q.claims.claim != nil {
		return q.claims.await(now)
	}
	if !q.woken || !q.queued {
		if next, more := q.pausing(now.Time()); !more || next.After(now.Time()) {
			return next, more
		}
		if g := q.grantFor(); g > 0 {
			q.claims.register(g)
			return now.Time(), true
		}
	}
	return now.Time(), q.try()
}

// try makes an attempt. If that fails, it sets when the wait goes on, and reports false if the schedule has stopped.
func (q *contender) try() (more bool) {
	kind := q.kind
	if q.woken {
		q.pauses.Woken()
		q.woken = false
		_, kind = q.locker.kind.begins()
	}
	q.kind, q.queued = wire.Again, true
	q.pauses.Attempt()
	if q.attempt(kind) {
		return true
	}
	q.warn()
	q.askOwner()
	return q.refusedAs(kind)
}

// refusedAs sets when the wait goes on after an attempt of this kind has failed. It reports false if the schedule has stopped.
func (q *contender) refusedAs(kind wire.Kind) (more bool) {
	c := q.locker.client
	q.resume = c.clock().Time()
	switch {
	case q.grantFor() > 0: // a claim is registered
		if q.split() {
			// Several clients contend for a free lock. If they registered at the same moment, they would split the votes again.
			q.resume = q.resume.Add(rand.N(c.group.Distance() + 1))
		}
		return true
	case q.refused() && (kind == wire.Set || q.light): // another attempt joins the queue
		return true
	}
	q.resume, more = q.pauses.Begin(c.waits, c.group, q.resume, q.split(), isTakenError(q.last), q.notPast)
	return more
}

// pausing returns when it is to be called again. A time that is not after now means that the pause is over. It reports false if
// the schedule has stopped. In a long pause, it asks who holds the lock. With the default schedule, the attempts ask often
// enough.
func (q *contender) pausing(now time.Time) (next time.Time, more bool) {
	if at := q.pauses.Recounts(); !at.IsZero() && !at.After(now) {
		if q.resume, more = q.pauses.Recount(now, q.split(), q.resume, q.notPast); !more {
			return now, false
		}
	}
	switch at := q.pauses.Recounts(); {
	case !at.IsZero():
		return at, true
	case !q.queued || q.resume.Sub(now) <= 2*ownerAfter:
		return q.resume, true
	}
	q.askOwner()
	if now.Sub(q.began.Time()) < ownerAfter {
		return now.Add(ownerAfter), true
	}
	return now.Add(min(ownerEvery, q.resume.Sub(now)-ownerAfter)), true
}

// hearOwner notes who holds the lock, as the votes of the current round of the claim say.
func (q *claiming) hearOwner(votes []quorum.Vote) {
	h, ask := holding.Standing(votes)
	if ask {
		q.askOwner()
		return
	}
	c, next := q.locker.client, time.Duration(0) // a near claim polls often
	if n := q.inbox.Ahead(q.claim); n >= wire.Near {
		next = waits.FarPolls(c.opts.claimPolls, n, len(c.masters)) * 5 / 4
	}
	c.owners.Heard(q.locker.key, h, next)
}

// askOwner asks who holds the lock, if the wait is long enough for that. It waits for nothing.
func (w *call) askOwner() {
	c := w.locker.client
	if !isTakenError(w.last) || c.clock().Since(w.began) < ownerAfter {
		return
	}
	key, is := w.locker.heldKey(w.last)
	if !is || !c.owners.BeginAsking(key) || !c.calls.Begin() {
		return
	}
	go func() {
		defer c.calls.Done()
		c.peek(context.Background(), key, quorum.All)
	}()
}

// explained returns err, the error of an attempt that has ended, with who holds the lock, or with why its key is not a lock. It asks the
// masters if nothing is known, and nobody has asked them in the last second.
func (l *Locker) explained(ctx context.Context, err error) error {
	if q, ok := err.(*QuorumError); !ok || !q.held || q.Owner != "" || q.Readers != nil {
		return err
	}
	key, is := l.heldKey(err)
	if c := l.client; is && c.owners.BeginAsking(key) && c.calls.Begin() {
		defer c.calls.Done()
		c.peek(ctx, key, quorum.Tally.Won) // far masters delay nobody
	}
	return l.named(err)
}

// peek asks the masters who holds the lock of a key, and notes their answers when these are enough.
func (c *Client) peek(ctx context.Context, key string, enough func(quorum.Tally) bool) {
	votes := c.group.Query(ctx, c.closing, wire.NewPeek(key), c.opts.bounds.Limit(c.opts.LockOptions.TTL), enough)
	c.owners.Heard(key, holding.Peeked(votes), 0)
}

// notPast returns the sleep d, or a shorter one that ends when the key is due to expire: see waits.NotPast.
func (w *wait) notPast(d time.Duration) time.Duration {
	left, known := waits.FreeAfter(w.round.Votes())
	if !known {
		return d
	}
	c := w.locker.client
	return waits.NotPast(d, left, c.clock().Since(w.sentAt), c.group)
}

// leave takes the wait out of the queues. A wait that has acquired the lock is in no queue any more. The release of a claim takes it out of
// the queues, and passes on what was granted.
func (q *contender) leave() {
	if q.lease != nil {
		return
	}
	quit := q.queued
	if q.claims.claim != nil {
		q.claims.dropClaim(wire.Release)
	}
	if q.locker.terms.OfSlots() {
		return // that was all
	}
	for _, m := range q.locker.client.masters {
		quit = quit || !m.Listening() // without a subscription, the member for clients that poll is in the queue
	}
	if quit {
		q.quit()
	}
}

// quit leaves the queues of attempts. Those of readers stand in none. The token is a new one, which no key holds: only the queue is left.
func (q *contender) quit() {
	if !q.locker.terms.Reads() {
		q.locker.client.group.Send(wire.Quit, master.NewSentClaim(&q.locker.terms, wire.ClaimOf{Token: wire.NewToken("")}))
	}
	q.queued = false
}

// delays returns the delays of a call, by schedules of the user.
func (w *call) delays() waits.Delays {
	return waits.Delays{Start: w.locker.client.opts.schedules, Forever: w.forever, Default: endlessDelay}
}

// heardWake handles a wake-up from a master. If no goroutine of this Client waits for the key, the wake-up is
// passed on to the next client in that master's queue. It is not passed on while a goroutine of this Client
// is in the gate. Either that goroutine gets the lock, and its release wakes the next client, or another client
// has the lock, and the release of that client does.
//
// heardWake does nothing and reports false if this Client has not queued for the key: every client that may
// publish on the channel can name any key.
func (c *Client) heardWake(i int, key, token string) bool {
	switch {
	case token == wire.ReadersMarker:
		return c.entrances.recallReaders(key)
	case c.waits.Heard(i, key, token):
		return true
	case !c.waits.TakeExpected(i, key):
		return false
	case !c.gates.Occupied(key):
		terms := wire.NewTerms(key, 0)
		c.masters[i].Ask(wire.Wake, master.NewSentClaim(&terms, wire.ClaimOf{Token: token}), nil)
	}
	return true
}
