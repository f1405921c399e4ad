package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/fence"
	"github.com/redlock-go/redlock/internal/leasectx"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/turns"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Lease is one acquisition of a lock by one holder: see Lease of package redlock. The methods that are exported may be called for a nil Lease,
// but for Slots and Publish.
type Lease struct {
	tenure    *tenure       // immutable
	acquired  clock.Reading // immutable; tenure.sentAt, or the time of the handover
	handovers int           // immutable; how often the tenure was handed over before
	seen      atomic.Bool   // a caller may have a pointer to it, or know its fence: it ends with the unlock, even if the tenure is kept

	contexts leasectx.Contexts // it has a mutex of its own

	// Guarded by tenure.mu:
	err    error         // why it ended; nil while it lasts
	done   chan struct{} // made by the first Done; closed when err is set
	wanted chan struct{} // made by the first Wanted; closed when somebody waits for the lock

	// By how much MaxHold is prolonged. Readers have twice MaxHold: see newTenure. A goroutine that enters a kept lock has its own MaxHold. So of a
	// kept Lease, longer is its age when nobody held it last, as far as renewals have noticed.
	longer time.Duration
}

// Token returns the token of s; "" for a nil Lease.
func (s *Lease) Token() string {
	if s == nil {
		return ""
	}
	return s.tenure.claim.Token()
}

// Name returns the name of the lock. s must not be nil.
func (s *Lease) Name() string { return s.tenure.name }

// Until returns the end of validity as known now; the zero Time for a nil Lease.
func (s *Lease) Until() time.Time {
	if s == nil {
		return time.Time{}
	}
	s.tenure.mu.Lock()
	defer s.tenure.mu.Unlock()
	return s.tenure.validity.Until()
}

// Valid reports whether Err is nil.
func (s *Lease) Valid() bool { return s.Err() == nil }

// Err returns nil while the lease lasts, and then why it has ended, as an error for users. It reads the clocks.
func (s *Lease) Err() error {
	if s == nil {
		return ErrNotHeld
	}
	t := s.tenure
	now := t.core.clock()
	t.mu.Lock()
	if err := s.err; err != nil || !t.validity.Over(now) {
		t.mu.Unlock()
		return err
	}
	t.mu.Unlock()
	t.check(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.err
}

// Done returns a channel that is closed when the lease ends.
func (s *Lease) Done() <-chan struct{} {
	if s == nil {
		return closedChannel
	}
	s.tenure.mu.Lock()
	defer s.tenure.mu.Unlock()
	if s.done == nil {
		if s.err != nil {
			return closedChannel
		}
		s.done = make(chan struct{})
	}
	return s.done
}

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Wanted returns a channel that is closed when somebody else waits for the lock; nil if the lease has ended before the first call.
func (s *Lease) Wanted() <-chan struct{} {
	if s == nil {
		return nil
	}
	t := s.tenure
	t.mu.Lock()
	if s.wanted != nil || s.err != nil {
		defer t.mu.Unlock()
		return s.wanted
	}
	wanted := make(chan struct{})
	s.wanted = wanted
	watches := t.renews != nil
	if !watches {
		t.renews = t.claim.RenewingAsked()
	}
	t.mu.Unlock()
	if of := t.sharing.semaphore; of != nil {
		of.watch(t)
	} else {
		t.watchGates(watches)
	}
	return wanted
}

// watchGates calls tellWanted for each goroutine that waits now or later at a gate of the tenure. already reports that it was called before.
func (t *tenure) watchGates(already bool) {
	watch := func(key string) {
		if !already {
			t.core.gates.Watch(key, t.tellWanted)
		}
		if t.core.gates.Waiting(key) {
			t.tellWanted()
		}
	}
	watch(t.claim.Key())
	for key := range t.claim.Keys {
		if key != t.claim.Key() { // one of several names, each of which has a gate
			watch(key)
		}
	}
}

// tellWanted tells the present holder that somebody waits for the lock. It may be called under the mutex of the gates.
func (t *tenure) tellWanted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.holder; s.wanted != nil && s.err == nil && !isClosed(s.wanted) {
		close(s.wanted)
	}
}

// Fence returns the number of the lease, or 0.
func (s *Lease) Fence() uint64 {
	if s == nil {
		return 0
	}
	return fence.Of(s.tenure.fence, s.handovers)
}

// Extend renews the lease now, and waits for the outcome. Its error is one for users.
func (s *Lease) Extend(ctx context.Context) error {
	if err := s.Err(); err != nil {
		return err
	}
	t := s.tenure
	if ctx.Err() != nil {
		return t.core.ErrorOf(&Failure{Op: OpRenew, Name: t.name, Ended: ctx})
	}
	t.mu.Lock()
	if s.err != nil {
		defer t.mu.Unlock()
		return s.err
	}
	r := t.validity.Pending()
	if r == nil {
		r = t.renewLocked(t.core.clock())
	}
	d := t.settleLocked()
	t.mu.Unlock()
	t.conclude(d)
	select {
	case <-r.Won():
		return nil
	case <-s.Done():
		return s.Err()
	case <-ctx.Done():
	}
	t.mu.Lock()
	votes := failed(OpRenew, t.name, r.Votes())
	t.mu.Unlock()
	return t.core.ErrorOf(&Failure{Op: OpRenew, Name: t.name, Ended: ctx, Last: votes})
}

// Context returns a context that ends with parent or with the lease, whose Err is then its cause.
func (s *Lease) Context(parent context.Context) context.Context {
	if s == nil {
		ctx, cancel := context.WithCancelCause(parent)
		cancel(ErrNotHeld)
		return ctx
	}
	return s.contexts.New(parent, s)
}

// Work is Context for a function that works while the lock is held. The context can be ended earlier.
func (s *Lease) Work(parent context.Context) *leasectx.Context {
	s.seen.Store(true)
	return s.contexts.New(parent, s)
}

// endLocked ends the lease for the reason err, unless it has ended. The caller gives up the mutex, and then ends
// the contexts.
func (s *Lease) endLocked(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	if s.done != nil {
		close(s.done)
	}
}

// handOver passes the lock from the holder of the lease to the goroutine of the Client that has waited longest, without
// any command to the masters, and returns the lease of that goroutine. It stops when within has passed since the masters granted the lock:
// Options.Handover, or Keep while no other client wants the lock. So other processes wait for no more than that and one critical section of this process.
//
// handOver does nothing and returns nil if no goroutine waits, if the tenure cannot be handed over, or if the first one that waits
//
//   - has other Options: it must get the TTL and MaxHold of its own Locker;
//   - wants another number of permits, or has another limit. So permits go back to the masters: else calls for several would starve.
func (s *Lease) handOver(within time.Duration) (next *Lease) {
	t := s.tenure
	if t.opts.Handover < 0 || t.opts.RenewEvery < 0 {
		return nil
	}
	succeed := func(tag any) any {
		if l, ok := tag.(*Locker); !ok || l.opts != t.opts || l.permits != len(t.slots) || l.limit != t.limit {
			return nil
		}
		if next = t.handOver(t.core.clock(), within); next == nil {
			return nil
		}
		return next
	}
	// Neither call lets succeed escape, so it costs no allocation.
	if of := t.sharing.semaphore; of != nil && !of.crowd.Pass(succeed) || of == nil && !t.core.gates.Pass(t.claim.Key(), succeed) {
		return nil
	}
	s.contexts.End(ErrReleased)
	return next
}

// traceHandover calls Hooks.HandedOver. ctx is that of the call that unlocks the lease.
func (s *Lease) traceHandover(ctx context.Context, next *Lease) {
	t := s.tenure
	if hook := t.core.hooks.HandedOver; hook != nil {
		hook(ctx, Event{Name: t.name, Held: t.core.clock().Since(s.acquired), Until: next.Until(), Fence: next.Fence(), Permits: len(t.slots)})
	}
}

// releaseLease releases the lease s, which l no longer refers to, and leaves the gate. If block is
// true, it waits for the outcome of the release and returns it.
//
// The gate is left as soon as the release is queued. The next acquisition of the name then follows the
// release on the same ordered connections, so it finds the key deleted: see package turns.
func (l *Locker) releaseLease(ctx context.Context, s *Lease, block bool) error {
	c, t := l.core, s.tenure
	l.noteHeld(false) // from now on, our lease does not hold the lock
	if !c.calls.Begin() {
		l.leaveGate()
		return ErrClosed
	}
	defer c.calls.Done()
	if !block {
		defer l.leaveGate()
		return (*releasing)(t).queue()
	}
	ctx, cancel := leasectx.Outlive(ctx, s) // the release ends the contexts of the lease, and ctx may be one of them
	defer cancel()
	if err := (*releasing)(t).finish(); err != nil {
		l.leaveGate()
		return err
	}
	round := c.group.Ask((*releasing)(t).releaseRequest(), t.claim, c.cfg.Bounds.Limit(t.opts.TTL))
	l.leaveGate()
	return (*releasing)(t).await(ctx, round)
}

// A releasing is a tenure that was unlocked, and its release.
type releasing tenure

var _ quorum.Observer = (*releasing)(nil)

// finish ends the tenure because it is unlocked. If it returns nil, the caller must queue the release. If the
// tenure has ended before, finish returns the reason. If it was lost, its release has been queued by then.
func (o *releasing) finish() error {
	t := (*tenure)(o)
	now := t.core.clock()
	t.check(now) // ends it if its validity is over
	t.mu.Lock()
	ended := t.endLocked(ErrReleased)
	err, queued := t.err, t.queued
	t.mu.Unlock()
	if !ended {
		if queued != nil {
			<-queued // another goroutine may be about to queue the release; it waits for nothing
		}
		return err
	}
	t.tellHolders(ErrReleased)
	t.unlocked = now
	t.core.releases.Released(t.claim, t.contended)
	return nil
}

// queue ends the tenure, and queues its release. Nobody waits for the outcome. If the tenure has ended before, it returns why.
func (o *releasing) queue() error {
	t := (*tenure)(o)
	err := o.finish()
	if err == nil {
		t.core.group.Tell(o.releaseRequest(), t.claim, o)
	}
	return err
}

// releaseRequest returns the release, which says how it passes the lock on, and which fence it proposes. A release by readers says
// neither, since readers and writers take turns by rules of their own. A release of permits says neither, since only clients that queue want permits.
func (o *releasing) releaseRequest() wire.Request {
	if o.claim.Reads() || o.slots != nil {
		return wire.Release
	}
	how, number := turns.PassTo(o.successor.Token, !o.successor.Differ && !o.recalled), int64(0)
	if o.fence != 0 {
		// It is not stored: as a rule nobody waits, and numbers may not run ahead of the clock.
		number = max(fence.At(o.unlocked.Wall()), o.fence+1)
	}
	return o.claim.Releasing(how, number)
}

// await waits until the votes on the release of the lease are settled, or until ctx ends, and returns the
// outcome. The release goes on without it.
func (o *releasing) await(ctx context.Context, round *quorum.Round) error {
	t := (*tenure)(o)
	tally := round.Wait(ctx, nil, quorum.Tally.Settled)
	e := o.event(o.outcome(ctx, tally, round))
	t.reported = true
	round.Leave(o)
	if hook := t.core.hooks.Released; hook != nil {
		hook(ctx, e)
	}
	return e.Err
}

// Settled implements quorum.Observer. The end of a release matters to the next acquisition: see package turns. Users are told of it if nobody waits.
func (o *releasing) Settled(round *quorum.Round, tally quorum.Tally) {
	o.core.releases.Answered(o.claim, round.Any(passedOn))
	if hook := o.core.hooks.ReleasedLater; hook != nil && !o.silent && !o.reported {
		hook(o.event(o.outcome(context.Background(), tally, round)))
	}
}

// outcome returns why the release has failed, given the votes on it, or nil.
func (o *releasing) outcome(ctx context.Context, tally quorum.Tally, round *quorum.Round) *Failure {
	if !tally.RuledOut() && tally.Answered() {
		return nil
	}
	f := failed(OpRelease, o.name, round.Votes())
	switch {
	case tally.RuledOut():
		// The key was gone at so many masters that others could get in.
		return &Failure{Name: o.name, Lost: errGoneAtUnlock, Last: f}
	case ctx.Err() != nil:
		return &Failure{Op: OpRelease, Name: o.name, Ended: ctx, Last: f}
	}
	return f
}

// passedOn reports whether a vote on a release says that the master has passed the lock on.
func passedOn(v quorum.Vote) bool { return v.Outcome == wire.PassedOn }

// event returns what users are told of the release, given its outcome.
func (o *releasing) event(f *Failure) Event {
	return Event{Name: o.name, Held: o.unlocked.Since(o.holder.acquired), Kept: o.kept, Err: o.core.ErrorOf(f), Permits: len(o.slots)}
}

// Publish sends a value to those who wait in a flight for the lock of s, ahead of the release. It does nothing if
// the tenure was not acquired by LockFor: another goroutine of this Client has handed the lock over.
func (s *Lease) Publish(value []byte) {
	t := s.tenure
	if t.publish == nil {
		return
	}
	settled := t.publish.Settled()
	now := t.core.clock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || t.validity.Over(now) {
		return
	}
	for i, m := range t.core.masters {
		sure, contact := t.publish.To(i, settled)
		m.Publish(value, sure, contact, t.claim)
	}
}
