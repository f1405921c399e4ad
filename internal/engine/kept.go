package engine

import (
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/occupancy"
	"github.com/redlock-go/redlock/internal/renew"
	"github.com/redlock-go/redlock/internal/wire"
)

// keeper is the kind of a Locker with Options.Keep. The Lockers of a name share it. Between two holders it keeps the
// tenure: nobody holds the lock, and the next goroutine of this Client that locks enters it without the masters: see entrance. Other clients
// recall it. docs/design.md#a-kept-lock has the rules.
type keeper struct {
	mutex
	entrance *entrance // immutable

	mu         sync.Mutex // guards what follows
	opts       *Options   // of the first Locker that keeps the lock; set once; nil: there is none
	lastRecall string     // the token of the last recall, which may come before the lock is held
}

var (
	_ kind    = (*keeper)(nil)
	_ holders = (*keeper)(nil)
)

// keptMost is how many locks a Client keeps at most, with those that goroutines hold by a tenure that may be kept. Each takes
// about a kilobyte, and is renewed while it is used, and if the process is killed, others wait for it. For one more, a lock
// is released that has not been used for long.
const keptMost = 10_000

func (k *keeper) claimOf(w *wait, waited time.Duration) (wire.ClaimOf, sharing) {
	e := k.entrance
	if !e.core.unkept.Keeps(e.key) {
		return k.mutex.claimOf(w, waited)
	}
	return wire.ClaimOf{Token: wire.KeptBy(wire.NewToken(""), w.locker.core.id), Waited: waited}, sharing{entrance: e, holders: k, keep: w.locker.opts.Keep}
}

func (k *keeper) join(l *Locker) *Lease {
	if k.entrance.traced {
		return nil
	}
	s := k.enter()
	if s != nil {
		l.lease.Store(s)
	}
	return s
}

// lock enters the tenure if it is kept. One attempt that has found the lock held makes a second one a round trip later: the first has recalled it.
func (k *keeper) lock(w *wait) bool {
	if w.lease = k.enter(); w.lease != nil {
		w.inside = true // with the tenure, it has the gate
		return true
	}
	won := k.mutex.lock(w)
	if won || !w.once || !w.inside || !w.last.taken() && !w.try.split() {
		return won
	}
	c := w.locker.core
	c.sleep(w.ctx, c.group.Distance()+time.Millisecond, nil)
	return !w.over() && w.attempt(wire.Register)
}

// enter enters the tenure if it is kept, and returns the Lease of its new holder. A Lease that nobody has seen is used
// again: see Lease.seen.
func (k *keeper) enter() *Lease {
	e := k.entrance
	if !e.state.Enter(false) {
		return nil
	}
	t := e.tenure.Load()
	s, enters := t.holder, &t.snapshot.Load().enters
	if !e.timed && !s.seen.Load() {
		if enters.Ahead(t.core.clock) && !e.state.Load().Has(occupancy.Draining) {
			return s
		}
	} else if now, ahead := enters.Read(t.core.clock); ahead && !e.state.Load().Has(occupancy.Draining) {
		if s := k.succeed(t, now); s != nil {
			return s
		}
	}
	e.drop(false)
	return nil
}

// succeed returns the Lease of a goroutine that enters, or nil if the tenure has ended, or can have no more holders.
func (k *keeper) succeed(t *tenure, now clock.Reading) *Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.succeedLocked(now)
}

func (k *keeper) hold(w *wait) *Lease {
	e := k.entrance
	if t := w.lease.tenure; t != e.tenure.Load() {
		k.acquired(t)
	}
	if e.core.gates.Waiting(e.key) {
		e.state.Mark(occupancy.Wanted)
	}
	return k.mutex.hold(w)
}

// acquired notes that a goroutine holds a new tenure, and whether it may be kept.
func (k *keeper) acquired(t *tenure) {
	e := k.entrance
	c := e.core
	e.end() // of an earlier tenure, if a function of the user has panicked
	if t.contended {
		c.unkept.Note(e.key, false)
	}
	if t.sharing.keep == 0 || t.contended || !c.group.Listening() {
		return
	}
	spare, spared, ok := c.kept.Take(&e.place, e)
	if !ok || spared && !spare.giveBack() { // a goroutine has entered the other one just now
		e.end()
		return
	}
	e.begin(t, 1, 0)
	k.mu.Lock()
	recalled := k.lastRecall == t.claim.Token()
	k.mu.Unlock()
	if recalled {
		e.state.Mark(occupancy.Draining)
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

// unlocked keeps the tenure of s, hands it over, or releases it. If block is true, it returns the outcome: a lease that has ended
// is not kept.
func (k *keeper) unlocked(ctx context.Context, l *Locker, s *Lease, block bool) error {
	e := k.entrance
	lost := block && s.Err() != nil
	if !lost && k.vacate(s) && e.state.Keep() { // nobody wants the lock
		return nil
	}
	if e.tenure.Load() == s.tenure {
		if !lost {
			next, done := k.pass(s)
			if next != nil {
				s.traceHandover(ctx, next)
			}
			if done {
				return nil
			}
		}
		e.end()
	}
	return k.mutex.unlocked(ctx, l, s, block)
}

// pass hands the tenure, which the caller holds, over to a goroutine that waits, and returns the lease of that goroutine, or keeps it. Otherwise
// it reports that the tenure is to be released:
//
//	another client wants it  at the gate waits                       the tenure is
//	yes                      a goroutine, and Handover is not over   handed over
//	no                       a goroutine, and Keep is not over       handed over
//	yes                      anybody else, or nobody                 released
//	no                       anybody else                            released: it cannot have a kept lock
//	no                       nobody                                  kept, if a goroutine can enter it: see vacate
//
// The bit Wanted is cleared before pass looks at the gate. So a goroutine that comes meanwhile sets it again, and pass begins anew.
func (k *keeper) pass(s *Lease) (next *Lease, done bool) {
	e := k.entrance
	for {
		e.state.Clear(occupancy.Wanted)
		within := s.tenure.opts.Handover
		if !e.state.Load().Has(occupancy.Draining) {
			within = max(within, s.tenure.opts.Keep)
		}
		if next = s.handOver(within); next != nil {
			return next, true
		}
		now := e.state.Load()
		switch recalled := now.Has(occupancy.Draining); {
		case now.Has(occupancy.Wanted): // a goroutine has come meanwhile
		case recalled || e.core.gates.Waiting(e.key) || !k.vacate(s):
			s.tenure.recalled = recalled
			return nil, false
		case e.state.Keep():
			return nil, true
		}
	}
}

// vacate ends s, if a caller may have a pointer to it. It reports whether another goroutine can enter the tenure.
func (k *keeper) vacate(s *Lease) bool {
	if !s.seen.Load() {
		return true
	}
	t := s.tenure
	t.mu.Lock()
	_, renews := t.validity.Renews(t.planLocked()) // if not, because of MaxHold, which Extend ignores, the next holder would lose it early
	can := t.err == nil && renews
	if can {
		s.endLocked(ErrReleased)
	}
	t.mu.Unlock()
	if can {
		s.contexts.End(ErrReleased)
	}
	return can
}

// extendedLocked publishes until when a goroutine may enter: half of the validity is left, and Keep is not over.
func (k *keeper) extendedLocked(t *tenure) {
	newSnapshotLocked(t, t.opts.Keep-t.validity.Start.Since(t.sentAt))
}

// skipRenewal decides what becomes of the tenure when a renewal is due, and reports whether it was given up. A tenure that is
// kept is renewed if a goroutine has entered it since the last renewal, or held the lock then. If this renewal is the last one for its
// holder, because of MaxHold, the tenure is not kept any more: the next holder would lose it early.
func (k *keeper) skipRenewal(t *tenure, now clock.Reading) bool {
	e := k.entrance
	switch {
	case e.tenure.Load() != t:
		return false
	case k.isOver(t, now):
		return e.mark(occupancy.Draining)
	}
	held := e.state.Load().Held()
	entered := t.snapshot.Load().enters.Checked() // looked at second: so a goroutine that holds the lock, and has entered lately, is not missed
	t.mu.Lock()
	used := entered || t.busy
	t.busy = held
	age := now.Since(t.holder.acquired)
	if entered || !held {
		t.holder.longer = age
	}
	last := t.opts.MaxHold >= 0 && age+t.opts.RenewEvery >= t.opts.MaxHold+t.holder.longer
	t.mu.Unlock()
	if last {
		return e.mark(occupancy.Draining)
	}
	return !used && e.giveBack()
}

// isOver reports whether Keep is over, or will be before the scheduler calls again.
func (k *keeper) isOver(t *tenure, now clock.Reading) bool {
	return now.Since(t.sentAt) >= t.opts.Keep-renew.Slack(t.opts.RenewEvery)
}

func (k *keeper) recalled(t *tenure) { k.recall(t.claim.Token()) }

// recall handles a recall of the lock with this token. It reports false if no Locker keeps the lock.
func (k *keeper) recall(token string) bool {
	e := k.entrance
	k.mu.Lock()
	again, keeps := k.lastRecall == token, k.opts != nil
	k.lastRecall = token
	k.mu.Unlock()
	t := e.tenure.Load()
	mine := t != nil && t.claim.Token() == token
	if !again {
		e.core.unkept.Note(e.key, mine && t.used())
	}
	if mine && !e.mark(occupancy.Draining) {
		t.tellWanted()
	}
	return keeps
}

// used reports whether a goroutine has entered the tenure since the last renewal, or was handed it.
func (t *tenure) used() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holder.handovers > 0 || t.snapshot.Load().enters.Checked()
}

// decide passes on, or releases, a tenure that the caller has taken. The caller may be the goroutine of a connection or the
// scheduler, and nobody has unlocked. So decide does not call Hooks.HandedOver.
func (k *keeper) decide(t *tenure) {
	e := k.entrance
	e.state.Admit() // for the next holder, if there is one
	if _, done := k.pass(t.holder); done {
		return
	}
	if k.isOver(t, e.core.clock()) {
		e.core.unkept.Note(e.key, true) // clients that cannot recall the lock find it free now and then
	}
	t.kept = true
	e.state.Yield()
	e.releaseTaken(t)
}
