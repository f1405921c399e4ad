package redlock

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/gate"
	"github.com/redlock-go/redlock/internal/occupancy"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// An RWLocker is a reader/writer lock between processes. It is used like a sync.RWMutex: any number of readers
// or a single writer hold it. Any number of goroutines share an RWLocker. It must not be copied. Client.RWLocker
// returns RWLockers. The methods of a zero RWLocker panic.
//
// The readers of a Client share one lease. The lease is kept after the last of them has left, until a writer
// waits, or half of its validity has passed. It is renewed if a goroutine has entered since it was acquired or last
// renewed, for up to LockOptions.MaxHold. While it is kept, RLock needs no network, and takes less than a
// microsecond. LockOptions.Handover below 0 turns this off. So each name that was read lately has a key on the masters: for half of its
// validity after the last reader, or for the TTL if the process was killed.
//
// Neither side starves. While a writer waits, readers that came later wait behind it. After a writer, the readers
// that waited are let in before the next writer. This needs wake-ups: see Options.DisableWakeups. A Locker with the
// name is a writer, too, but its TryLock asks nobody to leave. A Redlock client of another library does not ask
// readers to leave at all, so it may wait for as long as there are readers, and its release lets no readers in
// before the next writer.
//
// A lease is not upgraded or downgraded: a goroutine that holds the one side waits for ever for the other. As with
// sync.RWMutex, a goroutine that holds a read lock must not take it again: if a writer waits, both wait for ever.
type RWLocker struct {
	writer, reader Locker
	readers        *readers // the kind of reader; nil: the RWLocker is a zero one
}

var _ sync.Locker = (*RWLocker)(nil)

// RWLocker returns an RWLocker for name with Options.LockOptions. It is cheap and sends nothing. The RWLockers
// and Lockers with the same name exclude each other. RWLocker panics where Locker does. NewRWLocker returns an error instead.
func (c *Client) RWLocker(name string) *RWLocker {
	l, err := c.NewRWLocker(name, nil)
	if err != nil {
		panic(err.Error())
	}
	return l
}

// NewRWLocker returns an RWLocker for name with opts, which replace Options.LockOptions; nil means Options.LockOptions. The lease
// that the readers of a Client share has the options of the RWLocker whose goroutine acquired it. NewRWLocker returns an error if
// the name or the options are invalid.
func (c *Client) NewRWLocker(name string, opts *LockOptions) (*RWLocker, error) {
	l, err := c.NewLocker(name, opts)
	if err != nil {
		return nil, err
	}
	rw := &RWLocker{}
	for _, side := range []*Locker{&rw.writer, &rw.reader} {
		side.client, side.name, side.key, side.opts, side.terms, side.on, side.first = c, l.name, l.key, l.opts, l.terms, l.on, wire.Register
	}
	rw.writer.kind, rw.writer.writes = l.kind, true
	rw.readers = &c.entrances.of(c, l.key).readers
	rw.reader.kind, rw.reader.terms, rw.reader.on = rw.readers, l.terms.ForReaders(), sharedLock{}
	return rw, nil
}

// Lock locks l for writing, as Locker.Lock does.
func (l *RWLocker) Lock() { l.writer.Lock() }

// TryLock tries to lock l for writing, as Locker.TryLock does. If it finds readers, it asks them to leave: if none
// of them is inside, a TryLock a moment later succeeds.
func (l *RWLocker) TryLock() bool { return l.writer.TryLock() }

// Unlock unlocks l for writing, as Locker.Unlock does.
func (l *RWLocker) Unlock() { l.writer.Unlock() }

// LockContext locks l for writing, as Locker.LockContext does. For the outcome of the release, use the UnlockContext of Locker.
func (l *RWLocker) LockContext(ctx context.Context) error { return l.writer.LockContext(ctx) }

// Do calls f while it holds l for writing, as Locker.Do does.
func (l *RWLocker) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return l.writer.Do(ctx, f)
}

// RLock locks l for reading. It waits while a writer holds l, or waits for l. Like Lock, it never returns without
// the lock, and panics if the Client is closed.
func (l *RWLocker) RLock() {
	if r := l.readers; r == nil || r.traced || r.enter() == nil {
		l.reader.Lock()
	}
}

// RLockContext locks l for reading like RLock, but stops waiting when ctx ends: see Locker.LockContext.
func (l *RWLocker) RLockContext(ctx context.Context) error { return l.reader.LockContext(ctx) }

// RDo calls f while it holds l for reading. The context of f ends with ctx or with the lease: see Locker.Do. f must not call
// RUnlock.
func (l *RWLocker) RDo(ctx context.Context, f func(ctx context.Context) error) error {
	return l.reader.Do(ctx, f)
}

// TryRLock tries to lock l for reading, and reports whether it succeeded. It makes one attempt at most, and none while another
// goroutine of the Client acquires the readers' lease.
func (l *RWLocker) TryRLock() bool { return l.reader.TryLock() }

// RUnlock undoes one RLock or TryRLock. It panics if no goroutine of the Client holds a read lock of the name. It
// never waits for the masters.
func (l *RWLocker) RUnlock() {
	if r := l.readers; r == nil || !r.leave() {
		l.reader.Unlock() // which panics
	}
}

// Locker returns the writer's side of l. Locking it is l.Lock. Each call returns the same Locker.
func (l *RWLocker) Locker() *Locker { return &l.writer }

// RLocker returns the reader's side of l: locking it is l.RLock. Each call returns the same Locker. It differs
// from other Lockers in this:
//
//   - Any number of goroutines hold it at the same time. Lease returns the lease that they share. It may last
//     after they have unlocked. When it is lost, it is lost for all of them.
//   - UnlockContext does not wait. It returns ErrLost if the lease was lost before.
//   - LockOptions.MaxHold bounds how long one goroutine can hold the lock. The lease is renewed for up to twice
//     as long, since goroutines may come while others stay.
//   - Lease.Fence is not smaller than that of each earlier writer, and smaller than that of each later writer.
//     Among readers there is no order.
//   - An error that matches ErrHeld does not always mean that a writer holds the lock. Readers of this Client that are inside keep others
//     out, too: while a writer waits for them, after MaxHold, and while less than half of the validity is left since a renewal is late. The
//     error then says "held by readers of this Client".
//   - Unlock cannot tell which goroutine calls it. So a function called by Do must not unlock.
func (l *RWLocker) RLocker() *Locker { return &l.reader }

// readers is the kind of the reader's side of an RWLocker. The goroutines of a Client that hold or want a read lock of one name
// share a tenure and its Lease: see entrance.
//
//   - A goroutine enters as long as no writer waits, here or elsewhere, and half of the validity is left. While nobody holds
//     the tenure, it is kept. If a writer waits, the last reader that leaves releases it.
//   - Since the tenure has the gate of the name, a writer of this process waits there, and readers that are kept out wait behind
//     that writer.
//   - While there is no tenure to enter, one of the goroutines that wait leads: it goes through the gate and acquires one for
//     all of them.
type readers struct {
	mutex // for what does not differ
	*entrance

	lead  gate.Lead[Lease] // a tenure begins in its Share
	early bool             // close was called while a goroutine led, and since then one has led without a break: a message may overtake the votes; used in Look and Share
}

var _ kind = (*readers)(nil)

// reading is how readers share a tenure.
type reading struct{ *entrance }

var _ holders = (*reading)(nil)

// A sharedLock is the subject of the readers' side of an RWLocker.
type sharedLock struct{ theLock }

var _ subject = sharedLock{}

// poll: a claim with votes joins the readers of other masters although a writer waits there. Else neither of the two might have a quorum.
func (sharedLock) poll(q *contender, now clock.Reading) wire.Request {
	return wire.Polling(q.apart, q.standing(now), q.voted)
}

func (r *readers) claimOf(_ *wait, waited time.Duration) (wire.ClaimOf, holders) {
	return wire.ClaimOf{Token: wire.NewToken(r.client.opts.Owner), Waited: waited}, &r.reading
}

// enter enters the tenure if it can be entered, and returns its Lease.
func (r *readers) enter() *Lease {
	e := r.entrance // loaded once
	if !e.state.Enter(true) {
		return nil
	}
	t := e.tenure.Load()
	if t.snapshot.Load().enters.Ahead(e.client.clock) && !e.state.Load().Has(occupancy.Draining) {
		return t.holder
	}
	e.drop(true)
	return nil
}

// leave has one reader leave, and reports false if there is none. A writer that keeps its tenure is none.
func (r *readers) leave() bool { return r.entrance.leave(true) }

// close keeps further readers out, since a writer of another Client waits.
func (r *readers) close() {
	took := false
	r.lead.Look(func(leading bool) {
		if r.state.Load().Has(occupancy.Many) {
			_, took = r.state.Mark(occupancy.Draining)
		} else {
			r.early = leading
		}
	})
	if took {
		r.dispose()
	}
}

// decide releases a tenure that the last reader has left, or that a writer wants.
func (r *reading) decide(t *tenure) { r.releaseTaken(t) }

func (r *readers) join(*Locker) *Lease {
	if r.traced {
		return nil
	}
	return r.enter()
}

func (r *readers) lock(w *wait) bool {
	if w.shared = r.enter(); w.shared != nil {
		return true
	}
	s, leads, err := r.lead.Join(w.ctx, r.client.closing, func() {
		w.late = true
		w.warn()
	})
	switch {
	case err != nil:
		w.blocked(cmp.Or(r.client.gates.Reason(r.key), r.lead.Reason()))
		return false
	case s != nil:
		w.shared = s
		return true
	}
	w.leadsReaders = leads
	if !leads || !w.enterGate(nil) {
		return false
	}
	w.last = r.lead.Reason()
	return w.acquire()
}

func (r *readers) try(w *wait) bool {
	if w.shared = r.enter(); w.shared != nil {
		return true
	}
	if w.leadsReaders = r.lead.Try(); !w.leadsReaders {
		w.blocked(r.client.gates.Reason(r.key))
		return false
	}
	return w.tryGate() && w.tryAcquire()
}

func (r *readers) giveUp(w *wait) {
	if w.shared != nil { // a function of the user has panicked
		r.leave()
		return
	}
	if !w.leadsReaders {
		return
	}
	if !w.inside {
		w.last = nil // it did not ask the masters
	}
	r.lead.Resign(w.last)
	r.lead.Look(func(leading bool) { r.early = r.early && leading })
}

// errOwnReaders is the reason that is stored for the gate of a name while goroutines of the Client share a read lease, or keep it.
var errOwnReaders = fmt.Errorf("%w by readers of this Client", ErrHeld)

// hold has the leader and all goroutines that wait share the tenure that the leader has acquired. If a writer waits already,
// no others enter it.
func (r *readers) hold(w *wait) *Lease {
	if s := w.shared; s != nil {
		w.shared = nil
		return s
	}
	s := w.lease
	r.client.gates.SetReason(r.key, errOwnReaders)
	w.inside, w.leadsReaders, w.lease = false, false, nil
	kind := occupancy.Many
	if o := &s.tenure.opts; o.Handover < 0 || o.RenewEvery < 0 || r.client.opts.DisableWakeups {
		kind |= occupancy.Brief
	}
	r.lead.Share(func(waiting int) *Lease {
		if r.early || w.try.round.Any(func(v quorum.Vote) bool { return v.Recalled }) { // a writer waits
			kind |= occupancy.Draining
		}
		r.early = false
		r.begin(s.tenure, 1+waiting, kind)
		return s
	})
	if r.client.gates.Waiting(r.key) { // a local writer that came before has found nothing to ask
		r.state.Mark(occupancy.Wanted)
	}
	return s
}

// held returns the Lease if a reader holds the lock.
func (r *readers) held(*Locker) *Lease {
	t := r.tenure.Load()
	if now := r.state.Load(); t != nil && now.Held() && now.Has(occupancy.Many) {
		return t.holder
	}
	return nil
}

func (r *readers) unlock(_ context.Context, _ *Locker, block bool) error {
	if !block {
		if !r.leave() {
			panic("redlock: RUnlock of unlocked RWLocker" + r.heldByWriter())
		}
		return nil
	}
	s := r.held(nil)
	err := s.Err()
	if s == nil || !r.leave() {
		return ErrNotHeld
	}
	return err
}

// heldByWriter says that a writer of this Client holds the lock, for the error of an RUnlock.
func (r *readers) heldByWriter() string {
	if now := r.state.Load(); r.client.gates.Reason(r.key) != ErrHeld || r.tenure.Load() != nil && !now.Held() {
		return ""
	}
	return ": a writer of this Client holds it, and calls Unlock"
}

func (r *readers) unlockLease(_ context.Context, _ *Locker, s *Lease) error {
	err := s.Err()
	r.leave()
	return err
}

// extendedLocked has readers enter for half of the validity.
func (r *reading) extendedLocked(t *tenure) {
	t.snapshot.Store(newSnapshot(&t.validity, t.validity.Length))
}

// longer has a tenure renewed for twice MaxHold: after MaxHold no reader enters, see skipRenewal.
func (r *reading) longer(t *tenure) time.Duration { return t.opts.MaxHold }

// handsOver says that readers do not hand their lease over.
func (r *reading) handsOver(*tenure) time.Duration { return 0 }

// dueBy says that readers need no call between two renewals but those of skipRenewal.
func (r *reading) dueBy(*tenure) time.Time { return time.Time{} }

// recalled keeps further readers out, since a writer waits.
func (r *reading) recalled(*tenure) { r.readers.close() }

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
func (r *reading) skipRenewal(t *tenure, now clock.Reading) bool {
	if r.tenure.Load() != t {
		return false
	}
	if t.opts.MaxHold >= 0 && now.Since(t.sentAt) >= t.opts.MaxHold && r.mark(occupancy.Draining) {
		return true
	}
	seen := t.snapshot.Load()
	age := now.Since(seen.start)
	if r.state.Load().Held() || seen.enters.Checked() && age < seen.validity/2 {
		return false
	}
	if age >= seen.validity/2 {
		return r.giveBack()
	}
	next := min(t.opts.RenewEvery/idleParts, seen.validity/2-age)
	r.client.renewals.Schedule(&t.entry, (*task)(t), now.Time().Add(max(next, time.Millisecond)), 0)
	return true
}
