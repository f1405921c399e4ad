package redlock

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/wire"
)

// keeper is the kind of a Locker with LockOptions.Keep. The Lockers of a name share it. Between two holders it keeps the
// tenure: nobody holds the lock, and the next goroutine of this Client that locks needs no network. A kept tenure has the gate
// of the name, and is renewed while goroutines use it.
//
//   - The state says who may decide about the tenure. Whoever takes it from idle to held, in one step, either has the lock or
//     gives the tenure up: a goroutine that locks, one that comes to the gate, the scheduler, a recall, Close. So no tenure
//     is entered after its release was queued, and none is released while a goroutine enters.
//   - A goroutine reads the clocks after it has taken the state, and then the bits. Otherwise it could be stopped between the
//     two, and enter a tenure that has ended.
//   - While a goroutine holds the lock, all others leave a bit. Unlock keeps a tenure by a step from held, without a bit, to
//     idle. It clears the bit of the gate before it looks for goroutines that wait there.
//   - A loss takes the state from idle to ending, or leaves a bit, before its release is queued.
//   - A recall may come before the lock is held. So the last one is remembered.
//   - A lock that others want is not kept for a while: see contended.
//
// internal/model/kept explores these rules.
type keeper struct {
	mutex
	oneHolder         // for the commands of a tenure
	locker    *Locker // immutable; for releases: of the name, with the LockOptions of all Lockers that share the keeper
	traced    bool    // immutable; each call is reported to Trace
	timed     bool    // immutable; for how long each holder held the lock is reported to Trace: no Lease is used again

	state  atomic.Uint32          // see keptIdle
	tenure atomic.Pointer[tenure] // changes while the state is none or held

	// Guarded by the tenure's mutex:
	unheld  time.Duration // see renewable
	busy    bool          // a goroutine held the lock when a renewal was due last
	entered time.Time     // when a goroutine has entered the tenure last, before its last renewal; zero: none has

	// Guarded by keepers.listed:
	place  *list.Element // in keepers.order; nil while there is no tenure that may be kept
	placed time.Time     // when it got that place

	mu         sync.Mutex // guards what follows
	lastRecall string     // the token of the last recall
}

var (
	_ kind    = (*keeper)(nil)
	_ holders = (*keeper)(nil)
)

// The states of a keeper, and the bits beside keptHeld.
const (
	keptNone    = 0         // there is no tenure that may be kept
	keptIdle    = 1         // nobody holds the tenure
	keptEnding  = 1 << iota // a loss has taken it from idle, and its release is not queued yet
	keptHeld                // a goroutine holds the lock, or decides about the tenure
	keptLeaving             // a tenure that nobody held is about to be released, and the gate to be left
	keptWanted              // a bit: a goroutine of this Client has come to the gate
	keptAsked               // a bit: another client wants the lock, or the tenure has ended, or is to end
)

// kindOf returns the kind of a Locker of one name. Lockers of a name with different LockOptions do not share a keeper: only
// those with the options of the first one keep the lock.
func (l *Locker) kindOf() kind {
	c := l.client
	if l.opts.Keep == 0 || l.opts.RenewEvery < 0 || c.opts.DisableWakeups {
		return mutex{}
	}
	k := c.keepers.of(l.key, func() *keeper {
		own := &Locker{client: c, name: l.name, key: l.key, opts: l.opts, terms: l.terms}
		trace := c.opts.Trace
		return &keeper{
			locker: own, traced: trace.LockStart != nil || trace.LockDone != nil,
			timed: trace.HandedOver != nil || trace.Released != nil || trace.Lost != nil,
		}
	})
	if k.locker.opts != l.opts {
		return mutex{}
	}
	return k
}

// begins: a plain SET recalls no lock.
func (k *keeper) begins() (first, woken wire.Kind) { return wire.Register, wire.Set }

func (k *keeper) claimOf(w *wait, waited time.Duration) (wire.ClaimOf, holders) {
	if !k.keeps() {
		return k.mutex.claimOf(w, waited)
	}
	return wire.ClaimOf{Token: wire.KeptBy(wire.NewToken(""), w.locker.client.id), Waited: waited}, k
}

// enter enters the tenure if it is kept, and returns the Lease of its new holder. A Lease that nobody has seen is used
// again: see Lease.seen.
func (k *keeper) enter() *Lease {
	if !k.state.CompareAndSwap(keptIdle, keptHeld) {
		return nil
	}
	t := k.tenure.Load()
	s, enters := t.holder, &t.window.Load().enters
	if !k.timed && !s.seen.Load() {
		if enters.Ahead(t.client.clock) && k.state.Load()&keptAsked == 0 {
			return s
		}
	} else if now, ahead := enters.Read(t.client.clock); ahead && k.state.Load()&keptAsked == 0 {
		if s := k.succeed(t, now); s != nil {
			return s
		}
	}
	k.release()
	return nil
}

// succeed returns a new Lease for a goroutine that enters, or nil if the tenure has ended.
func (k *keeper) succeed(t *tenure, now clock.Reading) *Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.unheld = 0
	return t.succeedLocked(now)
}

func (k *keeper) join(l *Locker) *Lease {
	if k.traced {
		return nil
	}
	s := k.enter()
	if s != nil {
		l.lease.Store(s)
	}
	return s
}

func (k *keeper) lock(w *wait) bool { return k.enterFor(w) || k.mutex.lock(w) }

// enterFor enters the tenure if it is kept, and reports whether it did.
func (k *keeper) enterFor(w *wait) bool {
	w.lease = k.enter()
	w.inside = w.lease != nil // with the tenure, it has the gate
	return w.inside
}

// try makes a second attempt a round trip after one that has found the lock held: that one has recalled it.
func (k *keeper) try(w *wait) bool {
	c := w.locker.client
	switch {
	case k.enterFor(w):
		return true
	case !w.tryGate():
		return false
	case w.tryAcquire():
		return true
	case !errors.Is(w.last, ErrHeld) && !w.split():
		return false
	}
	c.sleep(w.ctx, c.group.Distance()+time.Millisecond, nil)
	return !w.over() && w.attempt(wire.Register)
}

func (k *keeper) hold(w *wait) *Lease {
	c, t := w.locker.client, w.lease.tenure
	if t == k.tenure.Load() {
		t.mu.Lock()
		k.unheld = 0
		t.mu.Unlock()
	} else {
		k.begin(t)
	}
	if c.gates.Waiting(k.locker.key) {
		k.mark(keptWanted)
	}
	return k.mutex.hold(w)
}

// begin notes that a goroutine holds a new tenure.
func (k *keeper) begin(t *tenure) {
	if t.contended {
		k.contended(false)
	}
	if t.contended || t.holders != k || !t.client.listening() || !t.client.keepers.begun(k) {
		k.state.Store(keptNone)
		return
	}
	t.mu.Lock()
	k.extendedLocked(t)
	k.unheld, k.busy, k.entered = 0, false, time.Time{}
	ended := t.err != nil
	t.mu.Unlock()
	k.tenure.Store(t)
	k.state.Store(keptHeld)
	k.mu.Lock()
	recalled := k.lastRecall == t.claim.Token()
	k.mu.Unlock()
	if ended || recalled || t.client.isClosing() {
		k.mark(keptAsked)
	}
}

// held returns the Lease of the holder, which is not used again from now on. If l is unlocked meanwhile, it looks again, since
// Unlock may not have noticed.
func (k *keeper) held(l *Locker) *Lease {
	for {
		s := l.lease.Load()
		if s == nil || s.seen.Load() {
			return s
		}
		s.seen.Store(true)
		if l.lease.Load() == s {
			return s
		}
	}
}

func (k *keeper) unlock(ctx context.Context, l *Locker, wait bool) error {
	if s := l.lease.Swap(nil); s != nil {
		return k.leave(ctx, l, s, wait)
	}
	return ErrNotHeld
}

func (k *keeper) unlockLease(ctx context.Context, l *Locker, s *Lease) error {
	if !l.lease.CompareAndSwap(s, nil) {
		return s.Err()
	}
	return k.leave(ctx, l, s, true)
}

// leave keeps the tenure of s, hands it over, or releases it. If wait is true, it returns the outcome: a lease that has ended
// is not kept.
func (k *keeper) leave(ctx context.Context, l *Locker, s *Lease, wait bool) error {
	switch {
	case wait && s.Err() != nil:
		k.none()
	case k.state.Load() == keptHeld && k.vacate(s) && k.state.CompareAndSwap(keptHeld, keptIdle): // nobody wants the lock
		return nil
	}
	switch next, kept := k.pass(s); {
	case next != nil:
		l.handedOver(ctx, s, next)
		return nil
	case kept:
		return nil
	}
	return l.leave(ctx, s, wait)
}

// pass hands the tenure over to a goroutine that waits, and returns the lease of that goroutine, or keeps it. Otherwise it is to
// be released, and nobody else enters it. The caller has taken the state, or holds the lock with s.
func (k *keeper) pass(s *Lease) (next *Lease, kept bool) {
	t := s.tenure
	for {
		st := k.state.Load()
		if st&keptHeld == 0 {
			return nil, false
		}
		if !k.state.CompareAndSwap(st, st&^keptWanted) {
			continue
		}
		if next := k.locker.handOver(s, k.locker.passGate); next != nil {
			return next, false
		}
		st = k.state.Load()
		if st&keptWanted != 0 && st&keptAsked == 0 {
			continue // a goroutine has come meanwhile
		}
		// It is not kept beside a goroutine that it cannot be handed to.
		if st&keptAsked != 0 || t.client.gates.Waiting(k.locker.key) || !k.mayKeep(t) || !k.vacate(s) {
			t.recalled = st&keptAsked != 0
			k.none()
			return nil, false
		}
		if k.state.CompareAndSwap(keptHeld, keptIdle) {
			return nil, true
		}
	}
}

// mayKeep reports whether a tenure may be kept now.
func (k *keeper) mayKeep(t *tenure) bool {
	return !t.client.isClosing() && t.window.Load().enters.Ahead(t.client.clock) && t.client.listening()
}

// vacate ends s, if a caller may have a pointer to it. It reports whether another goroutine can enter the tenure.
func (k *keeper) vacate(s *Lease) bool {
	if !s.seen.Load() {
		return true
	}
	t := s.tenure
	t.mu.Lock()
	can := t.err == nil && !t.countedOutLocked()
	if can {
		s.endLocked(ErrReleased)
	}
	contexts := len(s.cancels) > 0
	t.mu.Unlock()
	if can && contexts {
		s.cancelContexts(ErrReleased)
	}
	return can
}

// mark leaves a bit for the goroutine that holds the lock.
func (k *keeper) mark(bit uint32) {
	for {
		if st := k.state.Load(); st&keptHeld == 0 || k.state.CompareAndSwap(st, st|bit) {
			return
		}
	}
}

// yield passes a tenure on that is kept, or releases it, and reports whether there was one. If a goroutine holds it, yield
// leaves a bit, and the Unlock of that goroutine does the same.
func (k *keeper) yield(bit uint32) bool {
	for {
		switch st := k.state.Load(); {
		case st == keptIdle:
			if k.state.CompareAndSwap(st, keptHeld|bit) {
				k.release()
				return true
			}
		case st&keptHeld == 0 || k.state.CompareAndSwap(st, st|bit):
			return false
		}
	}
}

// giveBack releases a tenure that is kept, and reports whether there was one.
func (k *keeper) giveBack() bool {
	taken := k.state.CompareAndSwap(keptIdle, keptHeld|keptAsked)
	if taken {
		k.release()
	}
	return taken
}

// release passes on, or releases, a tenure whose state the caller has taken from idle, and leaves the gate. The caller may be
// the goroutine of a connection or the scheduler, and nobody has unlocked. So release does not call Trace.HandedOver.
func (k *keeper) release() {
	t, l := k.tenure.Load(), k.locker
	c := l.client
	if next, kept := k.pass(t.holder); next != nil || kept {
		return
	}
	if k.isOver(t, c.clock()) {
		k.contended(true) // clients that cannot recall the lock find it free now and then
	}
	t.kept = true
	k.state.Store(keptLeaving)
	l.noteHeld(false)
	if t.finish() == nil {
		c.group.Tell(t.release(), t.claim, (*releasing)(t))
	}
	k.none()
	l.leaveGate()
}

// none says that there is no tenure any more that may be kept.
func (k *keeper) none() {
	k.locker.client.keepers.ended(k)
	k.state.Store(keptNone)
}

// recall handles a recall of the lock with this token.
func (k *keeper) recall(token string) {
	k.mu.Lock()
	again := k.lastRecall == token
	k.lastRecall = token
	k.mu.Unlock()
	t := k.tenure.Load()
	mine := t != nil && t.claim.Token() == token
	if !again {
		k.contended(mine && k.used(t))
	}
	if mine && !k.yield(keptAsked) {
		t.tellWanted()
	}
}

// used reports whether a goroutine has entered the tenure since the last renewal, or was handed it.
func (k *keeper) used(t *tenure) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holder.handovers > 0 || t.window.Load().enters.Checked()
}

// lastEntered returns when a goroutine has entered a tenure that is kept, to 10 ms, or zero if none has. It
// reports whether nobody holds the lock.
func (k *keeper) lastEntered() (at time.Time, idle bool) {
	if k.state.Load() != keptIdle {
		return time.Time{}, false
	}
	t := k.tenure.Load()
	t.mu.Lock()
	defer t.mu.Unlock()
	if at = t.window.Load().enters.Last(); at.IsZero() {
		at = k.entered
	}
	return at, true
}

// extendedLocked publishes until when a goroutine may enter: half of the validity is left, and Keep is not over.
func (k *keeper) extendedLocked(t *tenure) {
	if last := t.window.Load(); last != nil && last.enters.Checked() {
		k.entered = last.enters.Last()
	}
	now := &window{start: t.start, validity: t.validity}
	now.enters.Init(t.start, min(t.validity/2, t.opts.Keep-t.start.Since(t.asked)))
	t.window.Store(now)
}

// renewable prolongs MaxHold by the time from the acquisition of a Lease that is used again to the last renewal before which a
// goroutine had entered it.
func (k *keeper) renewable(maxHold time.Duration) time.Duration { return maxHold + k.unheld }

// handsOver says that goroutines hand the lock over for as long as it may be kept, unless another client wants it.
func (k *keeper) handsOver(t *tenure) time.Duration {
	if st := k.state.Load(); st&keptHeld != 0 && st&keptAsked == 0 {
		return max(t.opts.Handover, t.opts.Keep)
	}
	return t.opts.Handover
}

// dueBy has skipRenewal called when Keep is over.
func (k *keeper) dueBy(t *tenure) time.Time { return t.asked.Time().Add(t.opts.Keep) }

// isOver reports whether Keep is over, or will be before the scheduler calls again.
func (k *keeper) isOver(t *tenure, now clock.Reading) bool {
	return now.Since(t.asked) >= t.opts.Keep-min(slackMost, t.opts.RenewEvery/8)
}

// skipRenewal decides what becomes of the tenure when a renewal is due, and reports whether it was given up. A tenure that is
// kept is renewed if a goroutine has entered it since the last renewal, or held the lock then.
func (k *keeper) skipRenewal(t *tenure, now clock.Reading) bool {
	switch {
	case k.tenure.Load() != t:
		return false
	case k.isOver(t, now):
		return k.yield(keptAsked)
	}
	entered := t.window.Load().enters.Checked()
	t.mu.Lock()
	used := entered || k.busy
	k.busy = k.state.Load()&keptHeld != 0
	if entered {
		k.unheld = now.Since(t.holder.acquired)
	}
	t.mu.Unlock()
	return !used && k.giveBack()
}

func (k *keeper) recalled(t *tenure) { k.recall(t.claim.Token()) }

// shutOut takes a tenure that is kept, or leaves a bit. It reports whether a goroutine holds the lock.
func (k *keeper) shutOut(t *tenure) (held bool) {
	if k.tenure.Load() != t {
		return true
	}
	for {
		switch st := k.state.Load(); {
		case st == keptIdle:
			if k.state.CompareAndSwap(st, keptEnding) {
				return false
			}
		case st == keptLeaving:
			return false
		case st&keptHeld == 0 || k.state.CompareAndSwap(st, st|keptAsked):
			return true
		}
	}
}

// drained leaves the gate of a kept tenure that has ended.
func (k *keeper) drained() {
	if k.state.CompareAndSwap(keptEnding, keptNone) {
		k.locker.client.keepers.ended(k)
		k.locker.noteHeld(false)
		k.locker.leaveGate()
	}
}
