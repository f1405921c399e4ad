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

// A renewal extends a lease on all masters. It succeeds when a quorum has
// extended the key before the old validity ends; until then masters that fail
// are asked again, NodeTimeout apart. An answer that the key is missing, or
// somebody else's, is final: somebody may have held the lock meanwhile, and no
// later answer may outweigh that.
//
// The lease's mutex guards all of it.
type renewal struct {
	lease *Lease        // immutable
	start clock.Reading // immutable; before the first byte was sent
	won   chan struct{} // closed when it has succeeded
	votes []quorum.Vote // by master
	retry time.Time     // when those that failed are asked again; zero: none has
}

// slackMost is how much earlier than due a lease may be renewed, so that
// thousands of them share commands; those with a short TTL take less.
const slackMost = 100 * time.Millisecond

// untilLocked returns the end of validity.
func (s *Lease) untilLocked() time.Time { return s.start.Time().Add(s.validity) }

// renewsLocked reports whether the lease will be renewed when that is due, and
// when that is. MaxHold ends it: a lock that is renewed silently for ever would
// break the promise that it becomes free by itself.
func (s *Lease) renewsLocked() (time.Time, bool) {
	at := s.start.Time().Add(s.opts.RenewEvery)
	return at, s.opts.RenewEvery > 0 && (s.opts.MaxHold < 0 || at.Sub(s.acquired.Time()) < s.opts.MaxHold)
}

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
	at, slack := s.untilLocked(), time.Duration(0) // the end never comes early
	if r := s.pendingLocked(); r != nil {
		if !r.retry.IsZero() && r.retry.Before(at) {
			at = r.retry
		}
	} else if next, ok := s.renewsLocked(); ok && next.Before(at) {
		at, slack = next, min(slackMost, s.opts.RenewEvery/8)
	}
	return s.client.renewals.Set(&s.entry, (*task)(s), at, slack)
}

// A task is a Lease as the scheduler sees it.
type task Lease

var _ renew.Task = (*task)(nil)

func (t *task) Look(now clock.Reading) { (*Lease)(t).look(now) }

func (t *task) Due(now clock.Reading) {
	s := (*Lease)(t)
	if s.look(now) != nil {
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
	s.settleLocked()
}

// settleLocked acts on the votes that have come, schedules what is next, and
// unlocks the mutex. It is how everything that may change a renewal ends.
func (s *Lease) settleLocked() {
	won, lost := s.countLocked()
	open := lost != nil || s.scheduleLocked()
	until := s.untilLocked()
	s.mu.Unlock()
	switch f := s.client.opts.Trace.Renewed; {
	case lost != nil:
		s.lose(lost)
	case !open:
		s.end(ErrClosed)
	case won != nil && f != nil:
		f(context.Background(), RenewedInfo{Name: s.name, Elapsed: s.client.clock().Since(won.start), Until: until})
	}
}

// renewLocked begins a renewal.
func (s *Lease) renewLocked(now clock.Reading) *renewal {
	r := &renewal{
		lease: s,
		start: now,
		won:   make(chan struct{}),
		votes: make([]quorum.Vote, len(s.client.masters)),
	}
	s.renewal = r
	for i := range r.votes {
		r.askLocked(i, now)
	}
	return r
}

// retryLocked asks those again that have failed, if it is time to.
func (r *renewal) retryLocked(now clock.Reading) {
	if r.retry.IsZero() || r.retry.After(now.Time()) {
		return
	}
	r.retry = time.Time{}
	for i, v := range r.votes {
		if v.In && v.Err != nil {
			r.votes[i] = quorum.Vote{}
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
	r.votes[i] = quorum.Vote{Answer: a, In: true}
	if a.Err == nil {
		return
	}
	retry := now.Add(r.lease.client.opts.NodeTimeout)
	if q := (*master.QuarantineError)(nil); errors.As(a.Err, &q) && q.Until.After(retry) {
		retry = q.Until // not before: ten thousand leases may be asking
	}
	if r.retry.IsZero() || retry.Before(r.retry) {
		r.retry = retry
	}
}

// Answered implements master.Asker.
func (r *renewal) Answered(i int, a master.Answer) {
	s := r.lease
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
	s.settleLocked()
}

// countLocked acts on the votes of the renewal under way. If it has succeeded
// it makes the lease last longer and returns it; if the lease is lost, why.
func (s *Lease) countLocked() (won *renewal, lost *lostError) {
	r := s.pendingLocked()
	if r == nil {
		return nil, nil
	}
	switch t := quorum.Count(r.votes); {
	case t.Held():
		return nil, &lostError{name: s.name, reason: errGone, votes: s.client.quorumErrorOf(opRenew, s.name, r.votes)}
	case !t.Won():
		return nil, nil
	}
	// The votes count until the old validity ends, and not a moment longer.
	if now := s.client.clock(); now.Since(s.start) >= s.validity {
		return nil, s.overLocked(now)
	}
	s.start = r.start
	close(r.won)
	for i := range r.votes {
		r.healLocked(i)
	}
	return r, nil
}

// healLocked sets the key again at a master that has lost it. It is done only
// after the renewal has succeeded without that master, and counts from the next
// renewal on. Counted at once, or set by a renewal that then is tried again, it
// would hide that the keys had run out and somebody else had held the lock. A
// key that is set is behind this renewal on the master's connection and before
// the next one, so the connection's order does the counting.
func (r *renewal) healLocked(i int) {
	if v := r.votes[i]; v.In && v.Err == nil && v.Value == 0 {
		r.votes[i].Value = healed
		r.lease.client.masters[i].Ask(master.Heal, r.lease.claim, nil)
	}
}

// healed marks the vote of a master that was sent the key again.
const healed = -2

// look ends the lease if it is over by now, and returns its error.
func (s *Lease) look(now clock.Reading) error {
	s.mu.Lock()
	if s.err != nil || now.Since(s.start) < s.validity {
		defer s.mu.Unlock()
		return s.err
	}
	err := s.overLocked(now)
	s.mu.Unlock()
	return s.lose(err)
}

// overLocked says why a lease was not renewed before its validity ended.
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
		err.reason, err.votes = errUnrenewed, s.client.quorumErrorOf(opRenew, s.name, r.votes)
	default:
		err.reason = fmt.Errorf("this process was stopped: validity ended %v ago", late.Round(time.Millisecond))
	}
	return err
}

// lose ends the lease for a reason, unless it has ended, and returns what it
// ended with. A lost lease is released on all masters, as a true release:
// somebody may be waiting.
func (s *Lease) lose(err *lostError) error {
	if !s.end(err) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.err
	}
	s.client.tellAll(master.Release, s.claim)
	s.client.notices.lost(err)
	if f := s.client.opts.Trace.Lost; f != nil {
		f(context.Background(), LostInfo{Name: s.name, Held: s.client.clock().Since(s.acquired), Err: err})
	}
	return err
}

// Extend renews the lease now, for those who turned renewal off, and waits for
// the outcome; it joins a renewal that is under way, whose beginning counts.
// Masters that fail are asked again until validity ends. It returns
// nil if a quorum has renewed it, which moves Until; Err's error if the lease
// has ended; and one that matches ctx.Err, and wraps a *QuorumError, if ctx
// ended first, which ends nothing else. MaxHold does not bound it.
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
	s.settleLocked()
	select {
	case <-r.won:
		return nil
	case <-s.Done():
		return s.Err()
	case <-ctx.Done():
	}
	s.mu.Lock()
	votes := s.client.quorumErrorOf(opRenew, s.name, r.votes)
	s.mu.Unlock()
	return &endedError{op: opRenew, name: s.name, ctx: ctx, last: votes}
}

// Reasons for a loss.
var (
	errGone      = errors.New("its key is gone, or somebody else's, at too many masters")
	errUnrenewed = errors.New("no quorum of masters renewed it in time")
)

// A lostError says why a lease was lost. It matches ErrLost.
type lostError struct {
	name   string
	reason error
	votes  *QuorumError // of the last renewal, or nil
}

func (e *lostError) Error() string {
	s := fmt.Sprintf("redlock: lease of %q lost: %s", e.name, unprefixed(e.reason))
	if e.votes != nil {
		s += " (" + unprefixed(e.votes) + ")"
	}
	return s
}

func (e *lostError) Is(target error) bool { return target == ErrLost }

func (e *lostError) Unwrap() []error {
	if e.votes == nil {
		return []error{e.reason}
	}
	return []error{e.reason, e.votes}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
