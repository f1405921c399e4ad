package engine

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/gate"
	"github.com/redlock-go/redlock/internal/occupancy"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Sides makes writer and reader the two sides of a reader/writer lock, which is otherwise like l. It returns the readers.
func (l *Locker) Sides(writer, reader *Locker) *Readers {
	c := l.core
	for _, side := range []*Locker{writer, reader} {
		side.core, side.name, side.key, side.opts, side.terms, side.registers = c, l.name, l.key, l.opts, l.terms, true
	}
	r := &c.entrances.of(c, l.key).readers
	writer.kind, writer.writes = l.kind, true
	reader.kind, reader.terms = r, l.terms.ForReaders()
	reader.shares = sharing{entrance: r.entrance, holders: r}
	return r
}

// Readers is the kind of the reader's side of an RWLocker. The goroutines of a Client that hold or want a read lock of one name
// share a tenure and its Lease: see entrance.
//
//   - A goroutine enters as long as no writer waits, here or elsewhere, and half of the validity is left. While nobody holds
//     the tenure, it is kept. If a writer waits, the last reader that leaves releases it.
//   - Since the tenure has the gate of the name, a writer of this process waits there, and readers that are kept out wait behind
//     that writer.
//   - While there is no tenure to enter, one of the goroutines that wait leads: it goes through the gate and acquires one for
//     all of them.
type Readers struct {
	mutex              // for what does not differ
	entrance *entrance // immutable

	lead  gate.Lead[Lease] // a tenure begins in its Share
	early bool             // a writer's message came while a goroutine led, so the next tenure admits no further readers; cleared when nobody leads; guarded by lead: used in Look and Share
}

var (
	_ kind    = (*Readers)(nil)
	_ holders = (*Readers)(nil)
)

// A readerWait is what a wait of the readers' side has.
type readerWait struct {
	shared *Lease // that of the readers, if the goroutine has entered it
	leads  bool   // the goroutine leads the readers
}

// Enter enters the readers' tenure without the masters, and reports whether it did. It does not if calls are reported to a hook.
func (r *Readers) Enter() bool { return !r.entrance.traced && r.enter() != nil }

// Leave undoes one Enter, or one Lock of the reader's side. It reports false if no reader holds the lock. A writer that keeps its tenure is none.
func (r *Readers) Leave() bool { return r.entrance.leave(true) }

// enter enters the tenure if it can be entered, and returns its Lease.
func (r *Readers) enter() *Lease {
	e := r.entrance // loaded once
	if !e.state.Enter(true) {
		return nil
	}
	t := e.tenure.Load()
	if t.snapshot.Load().enters.Ahead(e.core.clock) && !e.state.Load().Has(occupancy.Draining) {
		return t.holder
	}
	e.drop(true)
	return nil
}

// close keeps further readers out, since a writer of another Client waits.
func (r *Readers) close() {
	e := r.entrance
	took := false
	r.lead.Look(func(leading bool) {
		if e.state.Load().Has(occupancy.Many) {
			_, took = e.state.Mark(occupancy.Draining)
		} else {
			r.early = leading
		}
	})
	if took {
		e.dispose()
	}
}

// decide releases a tenure that the last reader has left, or that a writer wants.
func (r *Readers) decide(t *tenure) { r.entrance.releaseTaken(t) }

func (r *Readers) join(*Locker) *Lease {
	if r.entrance.traced {
		return nil
	}
	return r.enter()
}

func (r *Readers) lock(w *wait) bool {
	e := r.entrance
	if w.reader.shared = r.enter(); w.reader.shared != nil {
		return true
	}
	if w.once {
		if w.reader.leads = r.lead.Try(); !w.reader.leads {
			w.last = w.locker.blockedBy(e.core.gates.Inside(e.key))
		}
	} else {
		r.follow(w)
	}
	if w.reader.shared != nil || !w.reader.leads {
		return w.reader.shared != nil
	}
	return w.enterGate(nil) && w.acquire()
}

// follow waits until another goroutine has acquired a tenure for the wait, or until the wait leads.
func (r *Readers) follow(w *wait) {
	e := r.entrance
	s, leads, err := r.lead.Join(w.ctx, e.core.closing, func() {
		w.late = true
		w.warn()
	})
	w.reader.shared, w.reader.leads = s, leads
	if leads {
		w.last, _ = r.lead.Reason().(*Failure)
	}
	if err != nil {
		inside := e.core.gates.Inside(e.key)
		if inside == (gate.Inside{}) {
			inside.Why = r.lead.Reason()
		}
		w.last = w.locker.blockedBy(inside)
	}
}

func (r *Readers) ended(w *wait) {
	if w.reader.shared != nil { // a function of the user has panicked
		r.Leave()
		return
	}
	if !w.reader.leads {
		return
	}
	var last error
	if w.inside && w.last != nil { // it has asked the masters
		last = w.last
	}
	r.lead.Resign(last)
	r.lead.Look(func(leading bool) { r.early = r.early && leading })
}

// hold has the leader and all goroutines that wait share the tenure that the leader has acquired. If a writer waits already,
// no others enter it.
func (r *Readers) hold(w *wait) *Lease {
	e := r.entrance
	if s := w.reader.shared; s != nil {
		w.reader.shared = nil
		return s
	}
	s := w.lease
	e.core.gates.SetInside(e.key, gate.Inside{Holds: HeldByReaders})
	w.inside, w.reader.leads, w.lease = false, false, nil
	flags := occupancy.Many
	if o := &s.tenure.opts; o.Handover < 0 || o.RenewEvery < 0 || e.core.cfg.Deaf {
		flags |= occupancy.Brief
	}
	r.lead.Share(func(waiting int) *Lease {
		if r.early || w.try.round.Any(func(v quorum.Vote) bool { return v.Recalled }) { // a writer waits
			flags |= occupancy.Draining
		}
		r.early = false
		e.begin(s.tenure, 1+waiting, flags)
		return s
	})
	if e.core.gates.Waiting(e.key) { // a local writer that came before has found nothing to ask
		e.state.Mark(occupancy.Wanted)
	}
	return s
}

// held returns the Lease if a reader holds the lock.
func (r *Readers) held(*Locker) *Lease {
	e := r.entrance
	t := e.tenure.Load()
	if now := e.state.Load(); t != nil && now.Held() && now.Has(occupancy.Many) {
		return t.holder
	}
	return nil
}

func (r *Readers) unlock(_ context.Context, _ *Locker, s *Lease, block bool) error {
	if s != nil {
		err := s.Err()
		r.Leave()
		return err
	}
	if !block {
		if !r.Leave() {
			panic("redlock: RUnlock of unlocked RWLocker" + r.heldByWriter())
		}
		return nil
	}
	if s = r.held(nil); s == nil {
		return ErrNotHeld
	}
	err := s.Err() // before Leave, which may release the lease
	if !r.Leave() {
		return ErrNotHeld
	}
	return err
}

// heldByWriter says that a writer of this Client holds the lock, for the error of an RUnlock.
func (r *Readers) heldByWriter() string {
	e := r.entrance
	if e.core.gates.Inside(e.key).Holds != HeldAlone || e.idle() {
		return ""
	}
	return ": a writer of this Client holds it, and calls Unlock"
}

// extendedLocked has readers enter for half of the validity.
func (r *Readers) extendedLocked(t *tenure) {
	newSnapshotLocked(t, t.validity.Length)
}

// recalled keeps further readers out, since a writer waits.
func (r *Readers) recalled(*tenure) { r.close() }

// idleParts is how often a lease without readers is checked in the time between two renewals.
const idleParts = 4

// skipRenewal decides what becomes of the lease of the readers when a renewal is due, and reports whether the
// renewal is left out. If it is, skipRenewal has released the lease or scheduled the next call.
//
//   - A lease with readers is renewed.
//   - A lease without readers is renewed once more if a goroutine has entered it since the last renewal. So a name
//     that is read often never waits for the masters.
//   - Any other lease without readers is kept, until half of its validity has passed, and is then released. So a
//     goroutine that enters has at least the other half in which the lease can be renewed.
//
// After MaxHold no reader enters, and the last one that leaves releases the lease.
func (r *Readers) skipRenewal(t *tenure, now clock.Reading) bool {
	e := r.entrance
	if e.tenure.Load() != t {
		return false
	}
	if t.opts.MaxHold >= 0 && now.Since(t.sentAt) >= t.opts.MaxHold && e.mark(occupancy.Draining) {
		return true
	}
	seen := t.snapshot.Load()
	age := now.Since(seen.start)
	if e.state.Load().Held() || seen.enters.Checked() && age < seen.validity/2 {
		return false
	}
	if age >= seen.validity/2 {
		return e.giveBack()
	}
	next := min(t.opts.RenewEvery/idleParts, seen.validity/2-age)
	e.core.renewals.Schedule(&t.entry, (*task)(t), now.Time().Add(max(next, time.Millisecond)), 0)
	return true
}
