package engine

import (
	"errors"
	"iter"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/fence"
	"github.com/redlock-go/redlock/internal/flight"
	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/renew"
	"github.com/redlock-go/redlock/internal/waits"
	"github.com/redlock-go/redlock/internal/wire"
)

// A tenure is one acquisition of a lock, as the masters know it: the claim with its token, the validity, the renewals and
// the end. A Lease is what one holder sees of it. The goroutines of a Client may hold the lock by one tenure one after the
// other (handover: each has a Lease of its own), or at the same time (readers: they share a Lease).
//
// Nothing that follows the end of a tenure runs under its mutex: neither the end of contexts, nor a release, nor a function
// of the user.
type tenure struct {
	core      *Core             // immutable
	name      string            // immutable
	opts      Options           // immutable
	claim     *master.SentClaim // immutable after begin
	sharing   sharing           // immutable after begin
	sentAt    clock.Reading     // immutable after begin; when the round began that was won; of a granted claim, when its votes were counted
	contended bool              // immutable after begin; a master has refused an attempt: others want the lock
	successor waits.Successor   // immutable after begin; who is to have the lock next
	fence     int64             // immutable after begin; 0: none
	rounds    int               // immutable after begin; how many rounds the acquisition took
	slots     []int             // immutable after begin; of a permit; nil for a lock
	limit     int               // immutable; of its semaphore; 0 for a lock
	silent    bool              // immutable after begin; neither its loss nor its release is reported: see Locker.silent

	// Set once, before the release is queued:
	recalled bool          // another client has asked for it
	kept     bool          // nobody held it any more: see Options.Keep
	unlocked clock.Reading // when its last holder unlocked it
	reported bool          // set before Settled is called: users are told of the loss, or by the call that waits for the release

	snapshot atomic.Pointer[snapshot] // start and validity, for those who enter
	entry    renew.Entry              // in the scheduler: the time to renew, to ask again, or to end

	mu       sync.Mutex         // guards what follows, and the Leases; the tenure's commands are queued under it
	holder   *Lease             // of the present holder, or of the last one; never nil
	validity renew.Validity     // and the renewals that prolong it
	err      error              // why it ended; nil while it lasts
	queued   chan struct{}      // closed when the release of a lost tenure is queued; nil: it was not lost
	renews   wire.Request       // a Renew that asks who waits; nil: nobody has called Wanted. Of a permit: one that names its slots
	busy     bool               // of a lock that may be kept: a goroutine held it when a renewal was due last
	publish  *flight.Publishing // how a value is sent to those who wait; nil: it is not
}

// A sharing says how the goroutines of a Client share a tenure. By the zero sharing, there is one holder at a time, and the tenure is handed over at the gate.
type sharing struct {
	entrance *entrance     // where they enter and leave it without the masters; nil: they do not
	holders  holders       // with an entrance: what differs between readers and a lock that may be kept; else nil
	keep     time.Duration // of a lock that may be kept: for how long after the acquisition; else 0

	semaphore *Semaphore // of permits, in whose crowd goroutines wait; nil: they wait at the gate
}

// holders are what differs between tenures that goroutines enter: one at a time (keeper), or several (Readers).
type holders interface {
	// extendedLocked is called under the tenure's mutex when its validity has changed.
	extendedLocked(t *tenure)
	// skipRenewal decides about a renewal that is due, and reports whether it is left out.
	skipRenewal(t *tenure, now clock.Reading) bool
	// recalled is called when a master says, in the answer to a renewal, that another client waits.
	recalled(t *tenure)
	// decide decides what becomes of a tenure that the caller has taken, since nobody holds it.
	decide(t *tenure)
}

// newTenure returns a tenure of l, with the Lease of its first holder, and a claim that the caller may fill in: all are one allocation. v.Start is
// when the round began that was won.
func newTenure(l *Locker, by sharing, v renew.Validity) *tenure {
	all := &struct {
		lease  Lease
		tenure tenure
		claim  master.SentClaim
	}{tenure: tenure{core: l.core, name: l.name, opts: l.opts, limit: l.limit, sharing: by, sentAt: v.Start, rounds: 1, silent: l.silent, validity: v}}
	t := &all.tenure
	t.claim, t.holder = &all.claim, &all.lease
	s := t.holder
	s.tenure, s.acquired = t, v.Start
	if l.terms.Reads() {
		s.handovers = fence.HandoversMost // how often the last writer's lease was handed over is not known
		s.longer = l.opts.MaxHold         // after MaxHold no reader enters: see Readers.skipRenewal
	}
	return t
}

// begin schedules the tenure's first renewal, or its end. If the Client is closed, it ends the tenure and reports false. It reports true for a
// tenure that is lost already, which its holder finds out.
func (t *tenure) begin() (open bool) {
	t.mu.Lock()
	open = t.err != nil || t.scheduleLocked() // a late poll may have lost it: see doubt
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
//   - was granted by the masters longer ago than within;
//   - was handed over as often as its fence can count;
//   - has little validity left;
//   - is in doubt: see doubt.
func (t *tenure) handOver(now clock.Reading, within time.Duration) (next *Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.validity.Left(now) < t.validity.Length/2 || now.Since(t.sentAt) >= within || t.validity.Doubted() {
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
	if t.err != nil || fence.Full(t.fence, t.holder.handovers) {
		return nil
	}
	t.holder = &Lease{tenure: t, acquired: now, handovers: t.holder.handovers + 1}
	return t.holder
}

// end ends the tenure for the reason err, unless it has ended, and reports whether it did. It sends nothing
// to the masters.
func (t *tenure) end(err error) bool {
	t.mu.Lock()
	ended := t.endLocked(err)
	t.mu.Unlock()
	if ended {
		if _, took := t.tellHolders(err); took {
			t.sharing.entrance.releaseTaken(t)
		}
	}
	return ended
}

// endLocked ends the tenure for the reason err, unless it has ended, and reports whether it did. If it did,
// the caller gives up the mutex, calls tellHolders, and then queues the releases, if any. So the holder
// knows of the end before another client can acquire the lock.
//
// No command of the tenure can follow its release: renewals are queued under the mutex while err is nil, and no command that sets the
// key is sent for a SentClaim that was released. A key that is set after the release would lock the name for nobody.
func (t *tenure) endLocked(err error) bool {
	if t.err != nil {
		return false
	}
	t.err = err
	t.holder.endLocked(err)
	t.core.renewals.Remove(&t.entry)
	return true
}

// tellHolders tells the holders of a tenure that has just ended. It returns what entrance.shutOut returns.
func (t *tenure) tellHolders(err error) (held, took bool) {
	t.holder.contexts.End(err) // it does not change any more
	if e := t.sharing.entrance; e != nil {
		return e.shutOut(t)
	}
	return true, false
}

// planLocked returns when the tenure is to be renewed.
func (t *tenure) planLocked() renew.Plan {
	p := renew.Plan{Every: t.opts.RenewEvery, MaxHold: t.opts.MaxHold, Longer: t.holder.longer, Held: t.holder.acquired}
	if keep := t.sharing.keep; keep > 0 { // skipRenewal is to be called when Keep is over
		p.By = t.sentAt.Time().Add(keep)
	}
	return p
}

// scheduleLocked schedules what is to be done next, and reports whether the
// Client is still open.
func (t *tenure) scheduleLocked() bool {
	at, slack := t.validity.Next(t.planLocked())
	return t.core.renewals.Schedule(&t.entry, (*task)(t), at, slack)
}

// A task is what package renew sees of a tenure.
type task tenure

var (
	_ renew.Task  = (*task)(nil)
	_ renew.Owner = (*task)(nil)
)

// Check implements renew.Task.
func (k *task) Check(now clock.Reading) { (*tenure)(k).check(now) }

// Due implements renew.Task.
func (k *task) Due(now clock.Reading) {
	t := (*tenure)(k)
	if h := t.sharing.holders; t.check(now) != nil || h != nil && h.skipRenewal(t, now) {
		return
	}
	t.mu.Lock()
	if t.err != nil {
		t.mu.Unlock()
		return
	}
	if r := t.validity.Pending(); r != nil {
		for i := range bitsOf(r.Retry(now)) {
			if !k.askLocked(r, i, now) {
				t.core.masters[i].Hurry()
			}
		}
	} else if _, ok := t.validity.Renews(t.planLocked()); ok {
		t.renewLocked(now)
	}
	d := t.settleLocked()
	t.mu.Unlock()
	t.conclude(d)
}

// Answered implements renew.Owner.
func (k *task) Answered(r *renew.Renewal, i int, a wire.Answer) {
	t := (*tenure)(k)
	if a.Recalled {
		if h := t.sharing.holders; h != nil {
			h.recalled(t)
		}
		t.tellWanted()
	}
	t.mu.Lock()
	if t.err != nil || !t.validity.Current(r) {
		t.mu.Unlock() // too late to matter
		return
	}
	k.voteLocked(i, a, time.Now())
	if r.Succeeded() {
		t.heal(r.Missing() & (1 << i)) // the others have been
		t.mu.Unlock()
		return
	}
	d := t.settleLocked()
	t.mu.Unlock()
	t.conclude(d)
}

// askLocked asks a master to renew, and reports whether it can be asked.
func (k *task) askLocked(r *renew.Renewal, i int, now clock.Reading) bool {
	request := k.renews
	if request == nil {
		request = wire.Renew
	}
	err := k.core.masters[i].Ask(request, k.claim, r)
	if err != nil {
		k.voteLocked(i, wire.Answer{Err: err}, now.Time())
	}
	return err == nil
}

// voteLocked counts an answer to the current renewal. A master that failed is asked again NodeTimeout later.
func (k *task) voteLocked(i int, a wire.Answer, now time.Time) {
	var again time.Time
	if a.Err != nil {
		again = now.Add(k.core.group.Timeout(k.core.cfg.Bounds.Limit(k.opts.TTL)))
		if q := (*guard.QuarantineError)(nil); errors.As(a.Err, &q) && q.Until.After(again) {
			again = q.Until // not earlier, since ten thousand leases may be asking
		}
	}
	k.validity.Vote(i, a, again)
}

// A settlement is what is left to do, without the mutex, after a renewal may have changed.
type settlement struct {
	won    *renew.Renewal // the renewal, if it has just succeeded
	until  time.Time      // the end of validity
	lost   *Failure       // why the lease is lost
	closed bool           // the Client is closed
}

// settleLocked counts the votes that have come, and schedules what is next. Whatever may change a
// renewal ends with it. The caller gives up the mutex and calls conclude.
func (t *tenure) settleLocked() (d settlement) {
	if r := t.validity.Pending(); r != nil {
		c := t.core
		switch now := c.clock(); t.validity.Count(now, c.cfg.Bounds.Validity(t.opts.TTL)) {
		case renew.Gone:
			d.lost = &Failure{Name: t.name, Lost: errGone, Last: failed(OpRenew, t.name, r.Votes())}
		case renew.Late:
			d.lost = t.overLocked(now)
		case renew.Succeeded:
			d.won = r
			if h := t.sharing.holders; h != nil {
				h.extendedLocked(t)
			}
			t.heal(r.Missing())
		}
	}
	d.closed = d.lost == nil && !t.scheduleLocked()
	d.until = t.validity.Until()
	return d
}

// conclude does what settleLocked has left to do.
func (t *tenure) conclude(d settlement) {
	switch hook := t.core.hooks.Renewed; {
	case d.lost != nil:
		t.lose(d.lost)
	case d.closed:
		t.end(ErrClosed)
	case d.won != nil && hook != nil:
		hook(Event{Name: t.name, Elapsed: t.core.clock().Since(d.won.Start), Until: d.until})
	}
}

// renewLocked begins a renewal.
func (t *tenure) renewLocked(now clock.Reading) *renew.Renewal {
	r := t.validity.Begin(now, len(t.core.masters), (*task)(t))
	for i := range t.core.masters {
		(*task)(t).askLocked(r, i, now)
	}
	return r
}

// doubt is called when a late poll has found that master i had lost the key: see waits.Claim.Answered. The key may be there
// again by now. It counts again only after one renewal has succeeded without it, as a key that was healed does. So
// a renewal decides whether the lease is lost. If none is under way, doubt begins one.
//
// The poll was sent before the first renewal of the lease, so it is answered first. While the renewal
// is not decided, the lease is not handed over.
func (t *tenure) doubt(i int) {
	now := t.core.clock()
	t.mu.Lock()
	if t.err != nil {
		t.mu.Unlock()
		return
	}
	t.validity.Doubt(i)
	if t.validity.Pending() == nil {
		t.renewLocked(now)
	}
	d := t.settleLocked()
	t.mu.Unlock()
	t.conclude(d)
}

// heal sets the key again at masters, as bits, that have lost it: see renew.Renewal.Missing. It does nothing if the tenure was
// released. A tenure that publishes a value calls it under its mutex.
func (t *tenure) heal(masters uint64) {
	t.publish.Healed(masters)
	request := t.claim.Healing(t.fence)
	if t.slots != nil { // the permit is to stand in its slots, and in no others
		request = wire.HealSlots(t.slots)
	}
	for i := range bitsOf(masters) {
		t.core.masters[i].Ask(request, t.claim, nil)
	}
}

// bitsOf yields the numbers of the bits that are set.
func bitsOf(set uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; set != 0; set &= set - 1 {
			if !yield(bits.TrailingZeros64(set)) {
				return
			}
		}
	}
}

// check ends the tenure if its validity is over, and returns its error.
func (t *tenure) check(now clock.Reading) error {
	t.mu.Lock()
	if t.err != nil || !t.validity.Over(now) {
		defer t.mu.Unlock()
		return t.err
	}
	err := t.overLocked(now)
	t.mu.Unlock()
	return t.lose(err)
}

// overLocked returns why the lease was not renewed before its validity ended.
func (t *tenure) overLocked(now clock.Reading) *Failure {
	f := &Failure{Name: t.name, Lost: t.validity.WhyOver(now, t.planLocked())}
	if f.Lost == renew.ErrUnrenewed {
		f.Last = failed(OpRenew, t.name, t.validity.Pending().Votes())
	}
	return f
}

// lose ends the tenure for a reason, unless it has ended, and returns its error. A lost tenure is released on
// all masters, and the release passes the lock on. The order matters: the holder knows of the end, no further
// reader enters, the release is queued, and then the gate may be left. From endLocked until the release is queued,
// nothing may wait for another goroutine, since finish waits for this one.
func (t *tenure) lose(why *Failure) error {
	err := t.core.ErrorOf(why)
	t.mu.Lock()
	if !t.endLocked(err) {
		defer t.mu.Unlock()
		return t.err
	}
	queued := make(chan struct{})
	t.queued = queued
	t.mu.Unlock()
	held, took := t.tellHolders(err)
	t.core.releases.Released(t.claim, t.contended)
	t.reported = true
	t.core.group.Tell(wire.Release, t.claim, (*releasing)(t))
	close(queued) // only now may the readers' gate be left, or that of a holder that unlocks meanwhile
	if took {
		t.sharing.entrance.releaseTaken(t)
	}
	if hook := t.core.hooks.Lost; hook != nil && !t.silent {
		hook(Event{Name: t.name, Held: t.core.clock().Since(t.holder.acquired), Kept: !held, Err: err, Permits: len(t.slots)})
	}
	return err
}
