package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/fence"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/renew"
	"github.com/redlock-go/redlock/internal/wire"
)

// A tenure is one acquisition of a lock, as the masters know it: the claim with its token, the validity, the renewals and
// the end. A Lease is what one holder sees of it. The goroutines of a Client may hold the lock by one tenure one after the
// other (handover: each has a Lease of its own), or at the same time (readers: they share a Lease).
//
// Nothing that follows the end of a tenure runs under its mutex: neither the end of contexts, nor a release, nor a function
// of the user.
type tenure struct {
	client    *Client       // immutable
	name      string        // immutable
	opts      LockOptions   // immutable
	claim     *master.Claim // immutable
	holders   holders       // immutable
	asked     clock.Reading // immutable; the time before the first byte of the round that was won
	contended bool          // immutable; not acquired by the first attempt: others want the lock
	next      string        // immutable; the token of the claim to which the release passes the lock on; "": to the head of each queue
	differ    bool          // immutable; the heads of the queues differ
	crowded   bool          // immutable; several clients were ahead of its claim in the queues
	fence     int64         // immutable; 0: none
	rounds    int           // immutable; how many rounds the acquisition took
	slots     []int         // immutable; of a permit; nil for a lock
	silent    bool          // immutable; neither its loss nor its release is reported: see Locker.silent

	// Set once, before the release is queued:
	recalled bool          // another client has asked for it
	kept     bool          // nobody held it any more: see LockOptions.Keep
	unlocked clock.Reading // when its last holder unlocked it

	window atomic.Pointer[window] // start and validity, for those who enter
	entry  renew.Entry            // in the scheduler: the time to renew, to ask again, or to end

	mu       sync.Mutex    // guards what follows, and the Leases; the tenure's commands are queued under it
	holder   *Lease        // of the present holder, or of the last one; never nil
	validity time.Duration // from start on
	short    bool          // a release granted it, and it was not renewed since: validity is not that of the TTL
	start    clock.Reading // the start of the acquisition, or of the last renewal that succeeded
	err      error         // why it ended; nil while it lasts
	queued   chan struct{} // closed when the release of a lost tenure is queued; nil: it was not lost
	renews   wire.Request  // a Renew that asks who waits; nil: nobody has called Wanted. Of a permit: one that names its slots
	publish  *publishing   // how a value is sent to those who wait; nil: it is not
	void     uint64        // the masters, as bits, that do not count in the current renewal: see doubt
	renewal  *renewal      // the current renewal, or the last one; nil before the first
}

// holders say how a tenure is shared: by one holder after the other (keeper), or at the same time (readers). A tenure that is
// only handed over has oneHolder.
type holders interface {
	// extendedLocked is called under the tenure's mutex when its validity has changed.
	extendedLocked(t *tenure)
	// renewable returns for how long after the acquisition a tenure may be renewed, given MaxHold.
	renewable(maxHold time.Duration) time.Duration
	// skipRenewal decides about a renewal that is due, and reports whether it is left out.
	skipRenewal(t *tenure, now clock.Reading) bool
	// handsOver returns for how long after the grant a tenure may be handed over.
	handsOver(t *tenure) time.Duration
	// dueBy returns the latest time of the next call of skipRenewal; zero: there is no limit.
	dueBy(t *tenure) time.Time
	// recalled is called when a master says, in the answer to a renewal, that another client waits.
	recalled(t *tenure)
	// watch calls tellWanted for each goroutine of the Client that waits now or later. already reports that watch was called before.
	watch(t *tenure, already bool)
	// shutOut is called when the tenure has ended: nobody else enters it. held reports whether a goroutine may hold the lock.
	// If took is true, the caller must call releaseTaken once the release of the lost tenure is queued.
	shutOut(t *tenure) (held, took bool)
	// decide decides what becomes of a tenure that the caller has taken, since nobody holds it.
	decide(t *tenure)
	// releaseTaken releases a tenure that the caller has taken, unless it has ended, and leaves the gate.
	releaseTaken(t *tenure)
	// handovers returns how many handovers the fence of the first Lease counts.
	handovers() int
	// renewing returns the command of a renewal; nil: wire.Renew.
	renewing(t *tenure) wire.Request
	// healing returns the command that sets the key again at a master that has lost it.
	healing(t *tenure) wire.Request
	// releasing returns the command of the release.
	releasing(t *tenure) wire.Request
}

// oneHolder is for a tenure that nobody enters: it has one holder at a time.
type oneHolder struct{}

var alone holders = oneHolder{}

func (oneHolder) extendedLocked(*tenure)                        {}
func (oneHolder) renewable(maxHold time.Duration) time.Duration { return maxHold }
func (oneHolder) skipRenewal(*tenure, clock.Reading) bool       { return false }
func (oneHolder) handsOver(t *tenure) time.Duration             { return t.opts.Handover }
func (oneHolder) dueBy(*tenure) time.Time                       { return time.Time{} }
func (oneHolder) recalled(*tenure)                              {}
func (oneHolder) shutOut(*tenure) (held, took bool)             { return true, false }
func (oneHolder) decide(*tenure)                                {}
func (oneHolder) releaseTaken(*tenure)                          {}
func (oneHolder) handovers() int                                { return 0 }
func (oneHolder) renewing(*tenure) wire.Request                 { return nil }
func (oneHolder) healing(t *tenure) wire.Request                { return t.claim.Healing(t.fence) }
func (oneHolder) releasing(t *tenure) wire.Request              { return (*releasing)(t).passesOn() }

// heldBy makes s the Lease of the first holder.
func (t *tenure) heldBy(s *Lease) {
	*s = Lease{tenure: t, acquired: t.asked, handovers: t.holders.handovers()}
	t.holder = s
}

// begin schedules the tenure's first renewal, or its end. If the Client is closed, it ends the tenure and reports false.
func (t *tenure) begin() (open bool) {
	t.mu.Lock()
	open = t.err != nil || t.scheduleLocked() // a late poll may have ended it: see doubt
	t.mu.Unlock()
	if !open {
		t.end(ErrClosed)
	}
	return open
}

// isOver reports whether the tenure has ended.
func (t *tenure) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err != nil
}

// handOver ends the Lease of the holder, and returns one for the next holder. The caller then ends the contexts of the
// former one. handOver returns nil if the tenure
//
//   - has ended;
//   - was granted by the masters longer ago than Handover, or than Keep if it may be kept and nobody else wants it;
//   - was handed over as often as its fence can count;
//   - has little validity left;
//   - is in doubt: see doubt.
func (t *tenure) handOver(now clock.Reading) (next *Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.validity - now.Since(t.start)
	if left < t.validity/2 || now.Since(t.asked) >= t.holders.handsOver(t) || t.void != 0 {
		return nil
	}
	former := t.holder
	if next = t.succeedLocked(now); next != nil {
		former.endLocked(ErrReleased)
		t.scheduleLocked() // MaxHold counts for each holder
	}
	return next
}

// succeedLocked returns the Lease of the next holder, or nil if the tenure has ended, or can have no more holders.
func (t *tenure) succeedLocked(now clock.Reading) *Lease {
	if t.err != nil || t.countedOutLocked() {
		return nil
	}
	t.holder = &Lease{tenure: t, acquired: now, handovers: t.holder.handovers + 1}
	return t.holder
}

// countedOutLocked reports whether the fence of the tenure has no number for another holder.
func (t *tenure) countedOutLocked() bool {
	return t.fence != 0 && t.holder.handovers == fence.HandoversMost
}

// end ends the tenure for the reason err, unless it has ended, and reports whether it did. It sends nothing
// to the masters.
func (t *tenure) end(err error) bool {
	t.mu.Lock()
	ended := t.endLocked(err)
	t.mu.Unlock()
	if ended {
		if _, took := t.tellHolders(err); took {
			t.holders.releaseTaken(t)
		}
	}
	return ended
}

// endLocked ends the tenure for the reason err, unless it has ended, and reports whether it did. If it did,
// the caller gives up the mutex, calls tellHolders, and then queues the releases, if any. So the holder
// knows of the end before another client can acquire the lock.
//
// No command of the tenure can follow its release, since all its commands are queued under the mutex while
// err is nil. A key that is set after the release would lock the name for nobody.
func (t *tenure) endLocked(err error) bool {
	if t.err != nil {
		return false
	}
	t.err = err
	t.holder.endLocked(err)
	t.client.renewals.Remove(&t.entry)
	return true
}

// tellHolders tells the holders of a tenure that has just ended. It returns what holders.shutOut returns.
func (t *tenure) tellHolders(err error) (held, took bool) {
	t.holder.contexts.End(err) // it does not change any more
	return t.holders.shutOut(t)
}

// A renewal extends a lease on all masters. It succeeds if a quorum has extended the key before the old
// validity ends. Until then, masters that fail are asked again, NodeTimeout apart. The answer that the key
// is missing, or holds another token, is final: somebody may have held the lock meanwhile.
//
// The tenure's mutex guards all of it.
type renewal struct {
	tenure *tenure       // immutable
	start  clock.Reading // immutable; the time before the first byte was sent
	won    chan struct{} // closed when the renewal has succeeded
	ballot quorum.Ballot
	retry  time.Time // when the masters that failed are asked again; zero: none has failed
}

// slackMost is how much earlier than due a lease may be renewed, so that thousands of leases share
// commands. It is less for a short TTL.
const slackMost = 100 * time.Millisecond

// untilLocked returns the end of validity.
func (t *tenure) untilLocked() time.Time { return t.start.Time().Add(t.validity) }

// renewsLocked returns when the next renewal is due, and reports whether there will be one. MaxHold ends the
// renewals: a lock that is renewed for ever would break the promise that it becomes free by itself. A lease
// that was granted has its TTL only from its first renewal on.
func (t *tenure) renewsLocked() (time.Time, bool) {
	every := t.opts.RenewEvery
	if t.short {
		every = min(every, t.validity/shortParts)
	}
	at := t.start.Time().Add(every)
	if by := t.holders.dueBy(t); by.After(t.start.Time()) && by.Before(at) {
		at = by
	}
	within := t.short || t.opts.MaxHold < 0 || at.Sub(t.holder.acquired.Time()) < t.holders.renewable(t.opts.MaxHold)
	return at, t.opts.RenewEvery > 0 && within
}

// shortParts: a short lease is first renewed when one shortParts-th of its validity has passed.
const shortParts = 4

// pendingLocked returns the renewal under way, or nil.
func (t *tenure) pendingLocked() *renewal {
	if r := t.renewal; r != nil && !isClosed(r.won) {
		return r
	}
	return nil
}

// scheduleLocked schedules what is to be done next, and reports whether the
// Client is still open.
func (t *tenure) scheduleLocked() bool {
	at, slack := t.untilLocked(), time.Duration(0) // a lease never ends early
	if r := t.pendingLocked(); r != nil {
		if !r.retry.IsZero() && r.retry.Before(at) {
			at = r.retry
		}
	} else if next, ok := t.renewsLocked(); ok && next.Before(at) {
		at, slack = next, min(slackMost, t.opts.RenewEvery/8)
		if t.short {
			slack = min(slack, t.validity/(8*shortParts))
		}
	}
	return t.client.renewals.Set(&t.entry, (*task)(t), at, slack)
}

// A task is the scheduler's view of a tenure.
type task tenure

var _ renew.Task = (*task)(nil)

func (k *task) Check(now clock.Reading) { (*tenure)(k).check(now) }

func (k *task) Due(now clock.Reading) {
	t := (*tenure)(k)
	if t.check(now) != nil || t.holders.skipRenewal(t, now) {
		return
	}
	t.mu.Lock()
	if t.err != nil {
		t.mu.Unlock()
		return
	}
	if r := t.pendingLocked(); r != nil {
		r.retryLocked(now)
	} else if _, ok := t.renewsLocked(); ok {
		t.renewLocked(now)
	}
	d := t.settleLocked()
	t.mu.Unlock()
	t.conclude(d)
}

// A settlement is what is left to do, without the mutex, after a renewal may have changed.
type settlement struct {
	won    *renewal   // the renewal, if it has just succeeded
	until  time.Time  // the end of validity
	lost   *lostError // why the lease is lost
	closed bool       // the Client is closed
}

// settleLocked counts the votes that have come, and schedules what is next. Whatever may change a
// renewal ends with it. The caller gives up the mutex and calls conclude.
func (t *tenure) settleLocked() (d settlement) {
	if r := t.pendingLocked(); r != nil {
		d.won, d.lost = r.countLocked()
	}
	d.closed = d.lost == nil && !t.scheduleLocked()
	d.until = t.untilLocked()
	return d
}

// conclude does what settleLocked has left to do.
func (t *tenure) conclude(d settlement) {
	switch f := t.client.opts.Trace.Renewed; {
	case d.lost != nil:
		t.lose(d.lost)
	case d.closed:
		t.end(ErrClosed)
	case d.won != nil && f != nil:
		info := RenewedInfo{Name: t.name, Elapsed: t.client.clock().Since(d.won.start), Until: d.until}
		t.client.events.Post(func() { f(context.Background(), info) })
	}
}

// renewLocked begins a renewal.
func (t *tenure) renewLocked(now clock.Reading) *renewal {
	r := &renewal{
		tenure: t,
		start:  now,
		won:    make(chan struct{}),
		ballot: quorum.NewBallot(len(t.client.masters)),
	}
	t.renewal = r
	for i := range t.client.masters {
		r.askLocked(i, now)
	}
	return r
}

// retryLocked asks the masters that have failed again, if it is time to.
func (r *renewal) retryLocked(now clock.Reading) {
	if r.retry.IsZero() || r.retry.After(now.Time()) {
		return
	}
	r.retry = time.Time{}
	for i, v := range r.ballot.Votes() {
		if v.In && v.Err != nil {
			r.ballot.Withdraw(i)
			if !r.askLocked(i, now) {
				r.tenure.client.masters[i].Hurry()
			}
		}
	}
}

// askLocked asks a master, and reports whether it can be asked.
func (r *renewal) askLocked(i int, now clock.Reading) bool {
	t := r.tenure
	renew := t.renews
	if renew == nil {
		renew = wire.Renew
	}
	err := t.client.masters[i].Ask(renew, t.claim, r)
	if err != nil {
		r.voteLocked(i, wire.Answer{Err: err}, now.Time())
	}
	return err == nil
}

func (r *renewal) voteLocked(i int, a wire.Answer, now time.Time) {
	if r.tenure.void>>i&1 == 1 && a.Done() {
		a = wire.Answer{Outcome: wire.Missing} // as it was when a late poll came
	}
	r.ballot.Cast(i, a)
	if a.Err == nil {
		return
	}
	c := r.tenure.client
	retry := now.Add(c.group.Timeout(c.opts.bounds.Limit(r.tenure.opts.TTL)))
	if q := (*master.QuarantineError)(nil); errors.As(a.Err, &q) && q.Until.After(retry) {
		retry = q.Until // not earlier, since ten thousand leases may be asking
	}
	if r.retry.IsZero() || retry.Before(r.retry) {
		r.retry = retry
	}
}

// Answered implements master.Asker.
func (r *renewal) Answered(i int, a wire.Answer) {
	t := r.tenure
	if a.Recalled {
		t.holders.recalled(t)
		t.tellWanted()
	}
	t.mu.Lock()
	if t.err != nil || t.renewal != r {
		t.mu.Unlock() // too late to matter
		return
	}
	r.voteLocked(i, a, time.Now())
	if isClosed(r.won) {
		r.healLocked(i) // the others have been
		t.mu.Unlock()
		return
	}
	d := t.settleLocked()
	t.mu.Unlock()
	t.conclude(d)
}

// countLocked acts on the votes of a renewal that is under way. If it has succeeded, countLocked prolongs
// the lease and returns the renewal. If the lease is lost, it returns why.
func (r *renewal) countLocked() (won *renewal, lost *lostError) {
	t := r.tenure
	switch tally := r.ballot.Tally(); {
	case tally.RuledOut():
		return nil, &lostError{name: t.name, reason: errGone, votes: t.client.quorumError(opRenew, t.name, r.ballot.Votes())}
	case !tally.Won():
		return nil, nil
	}
	// The votes count only if the old validity has not ended.
	if now := t.client.clock(); now.Since(t.start) >= t.validity {
		return nil, t.overLocked(now)
	}
	t.start, t.short, t.void = r.start, false, 0
	t.validity = t.client.opts.bounds.Validity(t.opts.TTL)
	t.holders.extendedLocked(t)
	close(r.won)
	for i := range t.client.masters {
		r.healLocked(i)
	}
	return r, nil
}

// doubt is called when a late poll has found that master i had lost the key: see waits.Inbox.Answered. The key may be there
// again by now. It counts again only after one renewal has succeeded without it, as a key that was healed does. So
// a renewal decides whether the lease is lost. If none is under way, doubt begins one.
//
// The answer to the poll comes ahead of that to any renewal of the lease, by the order of the commands. While the renewal
// is not decided, the lease is not handed over.
func (t *tenure) doubt(i int) {
	now := t.client.clock()
	t.mu.Lock()
	if t.err != nil {
		t.mu.Unlock()
		return
	}
	t.void |= 1 << i
	if t.pendingLocked() == nil {
		t.renewLocked(now)
	}
	d := t.settleLocked()
	t.mu.Unlock()
	t.conclude(d)
}

// healLocked sets the key again at a master that has lost it. It is called only after the renewal has
// succeeded without that master. The key counts from the next renewal on, by the order of the commands on
// the connection. If the key counted at once, or a renewal that is retried could set it, that would hide
// that the keys had expired and somebody else had held the lock.
func (r *renewal) healLocked(i int) {
	if r.ballot.Vote(i).Outcome == wire.Missing {
		if p := r.tenure.publish; p != nil {
			p.voted &^= 1 << i // the token is set anew
		}
		r.tenure.heal(i)
	}
}

// heal sets the key again at a master.
func (t *tenure) heal(i int) {
	t.client.masters[i].Ask(t.holders.healing(t), t.claim, nil)
}

// check ends the tenure if its validity is over, and returns its error.
func (t *tenure) check(now clock.Reading) error {
	t.mu.Lock()
	if t.err != nil || now.Since(t.start) < t.validity {
		defer t.mu.Unlock()
		return t.err
	}
	err := t.overLocked(now)
	t.mu.Unlock()
	return t.lose(err)
}

// overLocked returns why the lease was not renewed before its validity ended.
func (t *tenure) overLocked(now clock.Reading) *lostError {
	err := &lostError{name: t.name}
	late := now.Time().Sub(t.untilLocked())
	_, renews := t.renewsLocked()
	switch r := t.pendingLocked(); {
	case late < 0:
		err.reason = fmt.Errorf("the machine slept, or its clock was set: by one clock %v have passed, by another %v",
			now.Time().Sub(t.start.Time()).Round(time.Millisecond), now.Since(t.start).Round(time.Millisecond))
	case t.opts.RenewEvery < 0:
		err.reason = fmt.Errorf("its validity of %v has ended, and renewal is off", t.validity)
	case !renews:
		err.reason = fmt.Errorf("it was held for longer than MaxHold, %v", t.opts.MaxHold)
	case r != nil:
		err.reason, err.votes = errUnrenewed, t.client.quorumError(opRenew, t.name, r.ballot.Votes())
	default:
		err.reason = fmt.Errorf("this process was stopped: validity ended %v ago", late.Round(time.Millisecond))
	}
	return err
}

// lose ends the tenure for a reason, unless it has ended, and returns its error. A lost tenure is released on
// all masters, and the release wakes a waiting client. The order matters: the holder knows of the end, no further
// reader enters, the release is queued, and then the gate may be left. From endLocked until the release is queued,
// nothing may wait for another goroutine, since finish waits for this one.
func (t *tenure) lose(err *lostError) error {
	t.mu.Lock()
	if !t.endLocked(err) {
		defer t.mu.Unlock()
		return t.err
	}
	queued := make(chan struct{})
	t.queued = queued
	t.mu.Unlock()
	held, took := t.tellHolders(err)
	t.client.releases.Released(t.claim, t.contended)
	t.client.group.Tell(wire.Release, t.claim, (*unreported)(t))
	close(queued) // only now may the readers' gate be left, or that of a holder that unlocks meanwhile
	if took {
		t.holders.releaseTaken(t)
	}
	if t.silent {
		return err
	}
	if held {
		t.client.notices.Lost(t.name, err.cause())
	}
	if f := t.client.opts.Trace.Lost; f != nil {
		info := LostInfo{Name: t.name, Held: t.client.clock().Since(t.holder.acquired), Kept: !held, Err: err, Permits: len(t.slots)}
		t.client.events.Post(func() { f(context.Background(), info) })
	}
	return err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
