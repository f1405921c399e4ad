package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/renew"
)

// A renewal extends a lease on all masters. It succeeds if a quorum has extended the key before the old
// validity ends. Until then, masters that fail are asked again, NodeTimeout apart. The answer that the key
// is missing, or holds another token, is final: somebody may have held the lock meanwhile.
//
// The lease's mutex guards all of it.
type renewal struct {
	lease  *Lease        // immutable
	start  clock.Reading // immutable; the time before the first byte was sent
	won    chan struct{} // closed when the renewal has succeeded
	ballot quorum.Ballot
	retry  time.Time // when the masters that failed are asked again; zero: none has failed
}

// slackMost is how much earlier than due a lease may be renewed, so that thousands of leases share
// commands. It is less for a short TTL.
const slackMost = 100 * time.Millisecond

// untilLocked returns the end of validity.
func (s *Lease) untilLocked() time.Time { return s.start.Time().Add(s.validity) }

// renewsLocked returns when the next renewal is due, and reports whether there will be one. MaxHold ends the
// renewals: a lock that is renewed for ever would break the promise that it becomes free by itself. A lease
// that was granted has its TTL only from its first renewal on.
func (s *Lease) renewsLocked() (time.Time, bool) {
	every := s.opts.RenewEvery
	if s.short {
		every = min(every, s.validity/shortParts)
	}
	at := s.start.Time().Add(every)
	hold := s.opts.MaxHold
	if s.shared != nil {
		hold *= 2 // after MaxHold no reader enters: see readers.skipRenewal
	}
	within := s.short || s.opts.MaxHold < 0 || at.Sub(s.acquired.Time()) < hold
	return at, s.opts.RenewEvery > 0 && within
}

// shortParts: a short lease is first renewed when one shortParts-th of its validity has passed.
const shortParts = 4

// pendingLocked returns the renewal under way, or nil.
func (s *Lease) pendingLocked() *renewal {
	if r := s.renewal; r != nil && !isClosed(r.won) {
		return r
	}
	return nil
}

// scheduleLocked schedules what is to be done next, and reports whether the
// Client is still open.
func (s *Lease) scheduleLocked() bool {
	at, slack := s.untilLocked(), time.Duration(0) // a lease never ends early
	if r := s.pendingLocked(); r != nil {
		if !r.retry.IsZero() && r.retry.Before(at) {
			at = r.retry
		}
	} else if next, ok := s.renewsLocked(); ok && next.Before(at) {
		at, slack = next, min(slackMost, s.opts.RenewEvery/8)
		if s.short {
			slack = min(slack, s.validity/(8*shortParts))
		}
	}
	return s.client.renewals.Set(&s.entry, (*task)(s), at, slack)
}

// A task is the scheduler's view of a Lease.
type task Lease

var _ renew.Task = (*task)(nil)

func (t *task) Check(now clock.Reading) { (*Lease)(t).check(now) }

func (t *task) Due(now clock.Reading) {
	s := (*Lease)(t)
	if s.check(now) != nil || s.shared != nil && s.shared.skipRenewal(s, now) {
		return
	}
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	if r := s.pendingLocked(); r != nil {
		r.retryLocked(now)
	} else if _, ok := s.renewsLocked(); ok {
		s.renewLocked(now)
	}
	d := s.settleLocked()
	s.mu.Unlock()
	s.conclude(d)
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
func (s *Lease) settleLocked() (d settlement) {
	d.won, d.lost = s.countLocked()
	d.closed = d.lost == nil && !s.scheduleLocked()
	d.until = s.untilLocked()
	return d
}

// conclude does what settleLocked has left to do.
func (s *Lease) conclude(d settlement) {
	switch f := s.client.opts.Trace.Renewed; {
	case d.lost != nil:
		s.lose(d.lost)
	case d.closed:
		s.end(ErrClosed)
	case d.won != nil && f != nil:
		info := RenewedInfo{Name: s.name, Elapsed: s.client.clock().Since(d.won.start), Until: d.until}
		s.client.events.Post(func() { f(context.Background(), info) })
	}
}

// renewLocked begins a renewal.
func (s *Lease) renewLocked(now clock.Reading) *renewal {
	r := &renewal{
		lease:  s,
		start:  now,
		won:    make(chan struct{}),
		ballot: quorum.NewBallot(len(s.client.masters)),
	}
	s.renewal = r
	for i := range s.client.masters {
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
			r.askLocked(i, now)
		}
	}
}

func (r *renewal) askLocked(i int, now clock.Reading) {
	s := r.lease
	if err := s.client.masters[i].Ask(master.Renew, s.claim, r); err != nil {
		r.voteLocked(i, master.Answer{Err: err}, now.Time())
	}
}

func (r *renewal) voteLocked(i int, a master.Answer, now time.Time) {
	if r.lease.void>>i&1 == 1 && a.Done() {
		a = master.Answer{Outcome: master.Missing} // as it was when a late poll came
	}
	r.ballot.Cast(i, a)
	if a.Err == nil {
		return
	}
	c := r.lease.client
	retry := now.Add(c.group.Timeout(c.opts.limit(r.lease.opts.TTL)))
	if q := (*master.QuarantineError)(nil); errors.As(a.Err, &q) && q.Until.After(retry) {
		retry = q.Until // not earlier, since ten thousand leases may be asking
	}
	if r.retry.IsZero() || retry.Before(r.retry) {
		r.retry = retry
	}
}

// Answered implements master.Asker.
func (r *renewal) Answered(i int, a master.Answer) {
	s := r.lease
	if a.Recalled {
		s.shared.close()
	}
	s.mu.Lock()
	if s.err != nil || s.renewal != r {
		s.mu.Unlock() // too late to matter
		return
	}
	r.voteLocked(i, a, time.Now())
	if isClosed(r.won) {
		r.healLocked(i) // the others have been
		s.mu.Unlock()
		return
	}
	d := s.settleLocked()
	s.mu.Unlock()
	s.conclude(d)
}

// countLocked acts on the votes of the current renewal. If the renewal has succeeded, countLocked prolongs
// the lease and returns the renewal. If the lease is lost, it returns why.
func (s *Lease) countLocked() (won *renewal, lost *lostError) {
	r := s.pendingLocked()
	if r == nil {
		return nil, nil
	}
	switch t := r.ballot.Tally(); {
	case t.RuledOut():
		return nil, &lostError{name: s.name, reason: errGone, votes: s.client.quorumError(opRenew, s.name, r.ballot.Votes())}
	case !t.Won():
		return nil, nil
	}
	// The votes count only if the old validity has not ended.
	if now := s.client.clock(); now.Since(s.start) >= s.validity {
		return nil, s.overLocked(now)
	}
	s.start, s.short, s.void = r.start, false, 0
	s.validity = s.opts.TTL - s.client.opts.drift(s.opts.TTL)
	s.publishLocked()
	close(r.won)
	for i := range s.client.masters {
		r.healLocked(i)
	}
	return r, nil
}

// doubt is called when a late poll has found that master i had lost the key: see queuedClaim. The key may be there
// again by now. As with a key that was healed, it counts from the next renewal on, behind one that succeeds without it. So
// a renewal decides whether the lease is lost. If none is under way, doubt begins one.
//
// The answer to the poll comes ahead of that to any renewal of the lease, by the order of the commands. While the renewal
// is not decided, the lease is not handed over.
func (s *Lease) doubt(i int) {
	now := s.client.clock()
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.void |= 1 << i
	if s.pendingLocked() == nil {
		s.renewLocked(now)
	}
	d := s.settleLocked()
	s.mu.Unlock()
	s.conclude(d)
}

// healLocked sets the key again at a master that has lost it. It is called only after the renewal has
// succeeded without that master. The key counts from the next renewal on, by the order of the commands on
// the connection. If the key counted at once, or a renewal that is retried could set it, that would hide
// that the keys had expired and somebody else had held the lock.
func (r *renewal) healLocked(i int) {
	if r.ballot.Vote(i).Outcome == master.Missing {
		r.lease.client.masters[i].Ask(master.Heal, r.lease.claim, nil)
	}
}

// check ends the lease if its validity is over, and returns its error.
func (s *Lease) check(now clock.Reading) error {
	s.mu.Lock()
	if s.err != nil || now.Since(s.start) < s.validity {
		defer s.mu.Unlock()
		return s.err
	}
	err := s.overLocked(now)
	s.mu.Unlock()
	return s.lose(err)
}

// overLocked returns why the lease was not renewed before its validity ended.
func (s *Lease) overLocked(now clock.Reading) *lostError {
	err := &lostError{name: s.name}
	late := now.Time().Sub(s.untilLocked())
	_, renews := s.renewsLocked()
	switch r := s.pendingLocked(); {
	case late < 0:
		err.reason = fmt.Errorf("the machine slept, or its clock was set: by one clock %v have passed, by another %v",
			now.Time().Sub(s.start.Time()).Round(time.Millisecond), now.Since(s.start).Round(time.Millisecond))
	case s.opts.RenewEvery < 0:
		err.reason = fmt.Errorf("its validity of %v has ended, and renewal is off", s.validity)
	case !renews:
		err.reason = fmt.Errorf("it was held for longer than MaxHold, %v", s.opts.MaxHold)
	case r != nil:
		err.reason, err.votes = errUnrenewed, s.client.quorumError(opRenew, s.name, r.ballot.Votes())
	default:
		err.reason = fmt.Errorf("this process was stopped: validity ended %v ago", late.Round(time.Millisecond))
	}
	return err
}

// lose ends the lease for a reason, unless it has ended, and returns its error. A lost lease is released on
// all masters, and the release wakes a waiting client. The order matters: the holder knows of the end, no further
// reader enters, the release is queued, and then the gate may be left. From endLocked until the release is queued,
// nothing may wait for another goroutine, since finish waits for this one.
func (s *Lease) lose(err *lostError) error {
	s.mu.Lock()
	if !s.endLocked(err) {
		defer s.mu.Unlock()
		return s.err
	}
	queued := make(chan struct{})
	s.queued = queued
	s.mu.Unlock()
	s.cancelContexts(err)
	if s.shared != nil {
		s.shared.shutOut(s)
	}
	s.client.lastReleases.released(s.claim, s.contended)
	s.client.group.Tell(master.Release, s.claim, (*losing)(s))
	close(queued) // only now may the readers' gate be left, or that of a holder that unlocks meanwhile
	if s.shared != nil {
		s.shared.drained()
	}
	if s.ofSet {
		return err
	}
	s.client.notices.Lost(s.name, err.cause())
	if f := s.client.opts.Trace.Lost; f != nil {
		info := LostInfo{Name: s.name, Held: s.client.clock().Since(s.acquired), Err: err}
		s.client.events.Post(func() { f(context.Background(), info) })
	}
	return err
}

// Extend renews the lease now and waits for the outcome. It is for users who have turned renewal off. If a
// renewal is under way, Extend waits for that one, and validity counts from its start. Masters that fail are
// asked again until validity ends. MaxHold does not limit Extend.
//
// Extend returns nil if a quorum has renewed the lease. It returns Err if the lease has ended. If ctx ends
// first, the error matches ctx.Err and wraps a *QuorumError; the renewal goes on.
func (s *Lease) Extend(ctx context.Context) error {
	if err := s.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &endedError{op: opRenew, name: s.name, ctx: ctx}
	}
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return s.err
	}
	r := s.pendingLocked()
	if r == nil {
		r = s.renewLocked(s.client.clock())
	}
	d := s.settleLocked()
	s.mu.Unlock()
	s.conclude(d)
	select {
	case <-r.won:
		return nil
	case <-s.Done():
		return s.Err()
	case <-ctx.Done():
	}
	s.mu.Lock()
	votes := s.client.quorumError(opRenew, s.name, r.ballot.Votes())
	s.mu.Unlock()
	return &endedError{op: opRenew, name: s.name, ctx: ctx, last: votes}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
