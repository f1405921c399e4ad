package redlock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/fence"
	"github.com/redlock-go/redlock/internal/wire"
)

// readers are the goroutines of a Client that hold or want a read lock of one name. They share one lease.
//
//   - The lease holds the gate of the name, from its acquisition until its release is queued. So a writer of this
//     process waits at the gate, and readers of this process that are kept out wait behind that writer.
//   - The lease is open first: a goroutine enters by an atomic addition. It is closed when a writer waits, here or
//     elsewhere, when it is lost or old, or when nothing is to be kept. When the last reader has left, a closed
//     lease is released.
//   - While there is no open lease, one of the goroutines that wait leads: it goes through the gate and acquires a
//     lease for all of them.
type readers struct {
	mutex     // for what does not differ
	oneHolder // the same

	client *Client // immutable
	key    string  // immutable
	traced bool    // immutable; each call is reported to Trace

	// inside is the number of readers that hold the lease, plus shut unless the lease is open. A goroutine that
	// finds it closed is counted for a moment.
	inside atomic.Int64
	lease  atomic.Pointer[Lease] // changes while inside is below 0

	mu      sync.Mutex // guards what follows, and the opening and closing of the lease
	open    bool
	leading bool  // a goroutine leads
	last    error // of the last leader's attempt, since there was a lease
	early   bool  // close was called while a goroutine leads: a message may overtake the votes
	waiting []*readerWait
}

// shut is below 0 whatever number of goroutines is added.
const shut = -1 << 40

// A readerWait is a goroutine that waits for the leader.
type readerWait struct {
	ready chan struct{} // closed when one of the others is set
	lease *Lease        // the goroutine is inside
	lead  bool          // the goroutine leads
}

// A window is what readers see of the validity of their lease without its mutex.
type window struct {
	start    clock.Reading
	validity time.Duration
	enters   clock.Limit // until it has passed, a reader may enter
}

// extendedLocked shows the readers the validity of their tenure.
func (r *readers) extendedLocked(t *tenure) {
	now := &window{start: t.start, validity: t.validity}
	now.enters.Init(t.start, t.validity/2)
	t.window.Store(now)
}

// renewable returns for how long a tenure may be renewed: after MaxHold no reader enters, see skipRenewal.
func (r *readers) renewable(most time.Duration) time.Duration { return 2 * most }

// handsOver says that readers do not hand their lease over.
func (r *readers) handsOver(*tenure) time.Duration { return 0 }

// dueBy says that readers need no call between two renewals but those of skipRenewal.
func (r *readers) dueBy(*tenure) time.Time { return time.Time{} }

// handovers says the most that a fence can count, since those of the last writer's lease are not known.
func (r *readers) handovers() int { return fence.HandoversMost }

// releasing: readers queue for turns of their own, so no release of theirs passes the lock on.
func (r *readers) releasing(*tenure) wire.Request { return wire.Release }

// recalled keeps further goroutines out, since a writer waits.
func (r *readers) recalled(*tenure) { r.close() }

// enter enters an open lease, and returns it. It returns nil if there is none, or if less than half of its
// validity is left: see skipRenewal. The clocks are read after the addition. Otherwise the goroutine could be
// stopped between the two and enter a lease that has ended.
func (r *readers) enter() *Lease {
	if r.inside.Add(1) > 0 {
		s := r.lease.Load()
		if s.tenure.window.Load().enters.Ahead(r.client.clock) {
			return s
		}
		r.exit()
		s.Err() // ends the lease, if its validity is over
		r.close()
		return nil
	}
	if r.inside.Add(-1) == shut {
		r.drained()
	}
	return nil
}

// exit leaves the lease. It reports false if no reader was inside.
func (r *readers) exit() bool {
	switch n := r.inside.Add(-1); {
	case n == shut:
		r.drained()
	case n == 0:
		if s := r.lease.Load(); s == nil || !s.tenure.opts.keepsReaders() || r.client.opts.DisableWakeups {
			r.close()
		}
	case n == -1 || n == shut-1:
		r.inside.Add(1)
		return false
	}
	return true
}

// keepsReaders reports whether an open lease with these options is kept without readers.
func (o *LockOptions) keepsReaders() bool { return o.Handover >= 0 && o.RenewEvery > 0 }

// held returns the lease if a reader is inside.
func (r *readers) held(*Locker) *Lease {
	if n := r.inside.Load(); n > 0 || n < 0 && n > shut {
		return r.lease.Load()
	}
	return nil
}

// openLease opens a new lease, with the leader and all goroutines that wait inside. It reports whether the lease
// is to be closed already.
func (r *readers) openLease(s *Lease) (early bool) {
	s.tenure.mu.Lock()
	r.extendedLocked(s.tenure)
	s.tenure.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lease.Store(s)
	n := int64(1 + len(r.waiting))
	for _, x := range r.waiting {
		x.lease = s
		close(x.ready)
	}
	r.waiting, r.leading, r.open, r.last = nil, false, true, nil
	r.inside.Add(n - shut)
	early, r.early = r.early, false
	return early
}

// close keeps further goroutines out. The last reader that leaves then releases the lease.
func (r *readers) close() {
	r.mu.Lock()
	if !r.open {
		r.early = r.leading
		r.mu.Unlock()
		return
	}
	idle := r.closeLocked()
	r.mu.Unlock()
	if idle {
		r.drained()
	}
}

// closeLocked closes the open lease, and reports whether it has no readers.
func (r *readers) closeLocked() (idle bool) {
	r.open = false
	return r.inside.Add(shut) == shut
}

// shutOut closes the lease of a tenure that has ended, if it is open. It does not release it: the caller then calls drained.
func (r *readers) shutOut(t *tenure) (held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open && r.lease.Load() == t.holder {
		r.closeLocked()
	}
	return true
}

// giveBack releases a lease that is kept without readers, and reports whether there was one.
func (r *readers) giveBack() bool {
	r.mu.Lock()
	idle := r.open && r.inside.CompareAndSwap(0, shut)
	if idle {
		r.open = false
	}
	r.mu.Unlock()
	if idle {
		r.drained()
	}
	return idle
}

// drained releases a closed lease without readers, and leaves the gate. It does nothing if there is none. The caller
// must hold no mutex, and must not be about to queue the release of a lost lease: finish waits for that.
func (r *readers) drained() {
	r.mu.Lock()
	s := r.lease.Load()
	if r.open || s == nil || r.inside.Load() != shut {
		r.mu.Unlock()
		return
	}
	r.lease.Store(nil)
	r.mu.Unlock()
	c := r.client
	c.gates.Note(r.key, nil)
	if t := s.tenure; t.finish() == nil {
		c.group.Tell(t.release(), t.claim, (*releasing)(t))
	}
	c.gates.Leave(r.key)
}

// lead makes the calling goroutine the leader, unless there is one, and reports whether it did.
func (r *readers) lead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leadLocked()
}

// leadLocked is lead. What an earlier leader has found out no longer counts, unless it passes its place on.
func (r *readers) leadLocked() bool {
	if r.leading {
		return false
	}
	r.leading, r.last = true, nil
	return true
}

// resign makes another goroutine the leader, if one waits. last is the error of the leader's last attempt.
func (r *readers) resign(last error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last != nil {
		r.last = last
	}
	if len(r.waiting) == 0 {
		r.leading = false
		return
	}
	x := r.waiting[0]
	r.waiting = r.waiting[1:]
	x.lead = true
	close(x.ready)
}

// reason returns why the last leader got no lease, or nil.
func (r *readers) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// wait waits until the goroutine is inside, and returns the lease, or until it leads. If ctx ends first, it returns
// the error of ctx. If the Client is closed, it may return neither. It calls waits before it waits for another goroutine.
func (r *readers) wait(ctx context.Context, waits func()) (s *Lease, lead bool, err error) {
	if s := r.enter(); s != nil {
		return s, false, nil
	}
	r.mu.Lock()
	if r.leadLocked() {
		r.mu.Unlock()
		return nil, true, nil
	}
	x := &readerWait{ready: make(chan struct{})}
	r.waiting = append(r.waiting, x)
	r.mu.Unlock()
	waits()
	select {
	case <-x.ready:
	case <-ctx.Done():
		err = ctx.Err()
	case <-r.client.closing:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.lease != nil || x.lead {
		return x.lease, x.lead, nil
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(o *readerWait) bool { return o == x })
	return nil, false, err
}

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
// After MaxHold the lease is closed: the last reader that leaves releases it.
func (r *readers) skipRenewal(t *tenure, now clock.Reading) bool {
	if s := r.lease.Load(); s == nil || s.tenure != t {
		return false
	}
	if t.opts.MaxHold >= 0 && now.Since(t.asked) >= t.opts.MaxHold {
		r.close()
	}
	window := t.window.Load()
	age := now.Since(window.start)
	if r.inside.Load() != 0 || window.enters.Checked() && age < window.validity/2 {
		return t.check(now) != nil
	}
	if age >= window.validity/2 {
		return r.giveBack()
	}
	next := min(t.opts.RenewEvery/idleParts, window.validity/2-age)
	r.client.renewals.Set(&t.entry, (*task)(t), now.Time().Add(max(next, time.Millisecond)), 0)
	return true
}

// shares are the readers of a Client, by key.
type shares struct{ inUse[readers] }

// ofKey returns the readers of a key.
func (h *shares) ofKey(c *Client, key string) *readers {
	return h.of(key, func() *readers {
		r := &readers{client: c, key: key, traced: c.opts.Trace.LockStart != nil || c.opts.Trace.LockDone != nil}
		r.inside.Store(shut)
		return r
	})
}

// recall asks the readers of a key to leave, because a writer waits. It reports whether there are such readers.
func (h *shares) recall(key string) bool {
	r := h.find(key)
	if r != nil {
		r.close()
	}
	return r != nil
}

// giveBack releases a lease on key that is kept without readers, and reports whether there was one.
func (h *shares) giveBack(key string) bool {
	r := h.find(key)
	return r != nil && r.giveBack()
}

// closeAll closes all leases.
func (h *shares) closeAll() {
	for _, r := range h.all() {
		r.close()
	}
}
