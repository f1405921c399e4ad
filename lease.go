package redlock

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/renew"
)

// A Lease is one successful acquisition of a lock. It belongs to its holder:
// locking the same Locker again makes another Lease. It ends when the lock is
// unlocked, when it is lost, or when the Client is closed, and never comes
// back. Its methods are safe for concurrent use, and those of a nil Lease say
// that nothing is held.
type Lease struct {
	client   *Client       // immutable
	name     string        // immutable
	opts     LockOptions   // immutable
	claim    *master.Claim // immutable
	validity time.Duration // immutable; from start on
	granted  clock.Reading // immutable; before the first byte of the round that the masters granted
	acquired clock.Reading // immutable; the same, or when the lease was handed over to this holder

	fence     int64 // immutable; the number agreed on with the masters; 0: none
	handovers int   // immutable; how often the lease was handed over before
	rounds    int   // immutable; how many the acquisition took

	entry renew.Entry // when there is something to do: renew, ask again, end

	mu      sync.Mutex                 // guards what follows; the lease's commands are queued under it
	start   clock.Reading              // of the acquisition, or of the last renewal that succeeded
	err     error                      // why it ended; nil while it lasts
	done    chan struct{}              // made when asked for; closed with err
	cancels map[*leaseContext]struct{} // those that have not ended
	renewal *renewal                   // the one under way, or the last one
}

// Token returns the random value that stands on the masters while the lease
// lasts. Whoever knows it can release the lock. It is empty for a nil Lease.
func (s *Lease) Token() string {
	if s == nil {
		return ""
	}
	return s.claim.Token()
}

// Until returns the end of validity, as far as it is known now: TTL less drift
// after the acquisition, or the last successful renewal, began. It is the zero
// Time for a nil Lease.
func (s *Lease) Until() time.Time {
	if s == nil {
		return time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untilLocked()
}

// Valid reports whether the holder may still rely on the lease. It is computed
// when asked, by the monotonic and the wall clock, of which the stricter counts:
// so it is right at once after a pause of the process or the machine.
func (s *Lease) Valid() bool { return s.Err() == nil }

// Err returns nil while the lease lasts, and then why it ended: ErrReleased if
// it was unlocked, ErrClosed if the Client was closed, or an error that matches
// ErrLost and says why. Like Valid it looks at the clocks. It is ErrNotHeld for
// a nil Lease.
func (s *Lease) Err() error {
	if s == nil {
		return ErrNotHeld
	}
	return s.look(s.client.clock())
}

// Done returns a channel that is closed when the lease ends for whatever
// reason: at the end of validity at the latest, even if no master answers. After
// a pause of the process it may be late by the time that timers need; Valid and
// Err are not. It is closed already for a nil Lease.
func (s *Lease) Done() <-chan struct{} {
	if s == nil {
		return closedChannel
	}
	s.mu.Lock()
	defer s.mu.Unlock()
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

// Context returns a context that ends with parent or with the lease; then its
// cause is what Lease.Err says. It needs no cancel: what it holds is freed when
// either ends. Its Err looks at the clocks, as Valid does.
func (s *Lease) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	if s == nil {
		cancel(ErrNotHeld)
		return ctx
	}
	c := &leaseContext{Context: ctx, lease: s, cancel: cancel}
	s.mu.Lock()
	if s.cancels == nil {
		s.cancels = make(map[*leaseContext]struct{})
	}
	if s.err == nil {
		s.cancels[c] = struct{}{}
	}
	s.mu.Unlock()
	context.AfterFunc(ctx, c.forget)
	c.Err() // the lease may have ended before
	return c
}

// A leaseContext asks the clocks before it says that it lasts.
type leaseContext struct {
	context.Context
	lease  *Lease
	cancel context.CancelCauseFunc
}

// Err implements context.Context. A lease that has ended has ended this context,
// also if it has not been told yet.
func (c *leaseContext) Err() error {
	if err := c.lease.Err(); err != nil {
		c.cancel(err)
	}
	return c.Context.Err()
}

// forget lets the lease forget a context that has ended.
func (c *leaseContext) forget() {
	c.lease.mu.Lock()
	defer c.lease.mu.Unlock()
	delete(c.lease.cancels, c)
}

// acquire makes one acquisition: one round of SETs and, unless that is won, the
// releases that undo it on all masters, whatever they have answered: also one
// that refused, or whose answer was lost, may have set the key.
func (c *Client) acquire(ctx context.Context, l *Locker, kind master.Kind, start clock.Reading, waited time.Duration) (*Lease, error) {
	validity := l.opts.TTL - c.opts.drift(l.opts.TTL)
	s := &Lease{client: c, name: l.name, opts: l.opts, validity: validity, granted: start, acquired: start, start: start, rounds: 1}
	s.claim = master.NewClaim(l.key, newToken(), l.opts.TTL, waited)
	limit := validity
	if l.opts.Fencing {
		s.claim.Propose(c.fences.propose(l.key, start.Wall()))
		limit = c.opts.fencedWithin(l.opts.TTL)
	}
	round := c.group.Ask(kind, s.claim)
	defer round.End()
	t := round.Wait(ctx, c.closing, quorum.Tally.Decided)
	var err error
	if l.opts.Fencing {
		votes := round.Votes()
		c.fences.heard(l.key, votes, start.Wall())
		if t.Won() {
			s.fence, s.rounds, err = c.fence(ctx, l, s.claim, votes, start)
		}
	}
	took := c.clock().Since(start)
	if t.Won() && err == nil && took < limit {
		s.begin()
		return s, nil
	}
	c.tellAll(master.Undo, s.claim)
	if t.Won() {
		return nil, c.wasted(l.name, round, err, took, limit, validity)
	}
	// The rollback is on its way. What follows only finds out what to tell: one
	// dead master must not make a lock that is held look like an outage.
	round.Wait(ctx, c.closing, quorum.Tally.Explained)
	return nil, c.quorumError(opAcquire, l.name, round)
}

// wasted returns what to say of a round that was won in vain: for err, or because
// it took too long.
func (c *Client) wasted(name string, round *quorum.Round, err error, took, limit, validity time.Duration) *QuorumError {
	if e, ok := err.(*QuorumError); ok {
		return e
	}
	e := c.quorumError(opAcquire, name, round)
	if err == nil && limit < validity {
		err = fmt.Errorf("it took %v: with Fencing, %v is the limit", took, limit)
	} else if err == nil {
		err = fmt.Errorf("it took %v, which leaves nothing of a validity of %v", took, limit)
	}
	e.Errs = append(e.Errs, err)
	return e
}

// newToken returns 20 bytes of randomness as text, as the specification asks.
func newToken() string {
	var b [20]byte
	rand.Read(b[:]) // never fails: see crypto/rand
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// begin schedules the lease's first renewal, or its end.
func (s *Lease) begin() {
	s.mu.Lock()
	open := s.scheduleLocked()
	s.mu.Unlock()
	if !open {
		s.end(ErrClosed)
	}
}

// end ends the lease for the reason err, unless it has ended; it reports
// whether it did. Nothing is sent to the masters.
func (s *Lease) end(err error) bool {
	s.mu.Lock()
	ended := s.endLocked(err)
	s.mu.Unlock()
	if ended {
		s.tell(err)
	}
	return ended
}

// endLocked ends the lease for the reason err, unless it has ended; it reports
// whether it did. Then the caller gives up the mutex, calls tell, and only then
// queues the releases, if any: the holder, and whoever has a context of the
// lease, knows before anybody else gets in. Nothing of the lease can follow its
// release, since all its commands are queued under the mutex while it lasts: a
// key that is set again behind the release would lock the name for nobody.
func (s *Lease) endLocked(err error) bool {
	if s.err != nil {
		return false
	}
	s.err = err
	if s.done != nil {
		close(s.done)
	}
	s.client.renewals.Remove(&s.entry)
	return true
}

// drop gives up a lease that never became anybody's.
func (s *Lease) drop() {
	if s.end(ErrReleased) {
		s.client.tellAll(master.Release, s.claim)
	}
}

// tell ends the contexts of a lease that has just ended.
func (s *Lease) tell(err error) {
	s.mu.Lock()
	cancels := s.cancels
	s.cancels = nil
	s.mu.Unlock()
	for c := range cancels {
		c.cancel(err)
	}
}

// release ends the lease and releases its lock on all masters, whatever they
// answered before. It returns when a quorum has deleted the key, or when it is
// clear what else to say, or when ctx ends: the rest finishes by itself. A lease
// that has ended before was released then; its reason is returned.
func (s *Lease) release(ctx context.Context) error {
	c := s.client
	if err := s.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if !s.endLocked(ErrReleased) {
		defer s.mu.Unlock()
		return s.err
	}
	s.mu.Unlock()
	s.tell(ErrReleased)
	round := c.group.Ask(master.Release, s.claim)
	defer round.End()
	t := round.Wait(ctx, nil, quorum.Tally.Settled)
	if round.Any(wokeAnother) {
		c.sleepers.yield(s.claim.Key())
	}
	err := s.released(ctx, t, round)
	if f := c.opts.Trace.Released; f != nil {
		f(ctx, ReleasedInfo{Name: s.name, Held: c.clock().Since(s.acquired), Err: err})
	}
	return err
}

func (s *Lease) released(ctx context.Context, t quorum.Tally, round *quorum.Round) error {
	if !t.Held() && t.Answered() {
		return nil
	}
	err := s.client.quorumError(opRelease, s.name, round)
	switch {
	case t.Held():
		// The key was gone at so many masters that others could get in.
		return &lostError{name: s.name, reason: errors.New("the key was gone when it was unlocked"), votes: err}
	case ctx.Err() != nil:
		return &endedError{op: opRelease, name: s.name, ctx: ctx, last: err}
	}
	return err
}

// wokeAnother reports whether a vote on a release says that it woke a client.
func wokeAnother(v quorum.Vote) bool { return v.Value == 2 }

// tellAll sends a command to all masters and waits for nothing.
func (c *Client) tellAll(kind master.Kind, claim *master.Claim) {
	for _, m := range c.masters {
		m.Ask(kind, claim, nil)
	}
}
