package redlock

import (
	"context"

	"github.com/redlock-go/redlock/internal/clock"
)

// Handover passes a valid lease to the next goroutine of the Client that waits for the lock, without any
// command to the masters. It stops when LockOptions.Handover has passed since the masters granted the lock.
// So other processes wait for no more than that and one critical section of this process.

// handOver ends the lease s, and gives the goroutine that has waited longest a new lease with the same token.
// It does nothing and reports false if no goroutine waits, if the first one waits with other LockOptions, or
// if succeed returns nil.
func (l *Locker) handOver(ctx context.Context, s *Lease) bool {
	c := l.client
	if s.opts.Handover < 0 || s.opts.RenewEvery < 0 {
		return false
	}
	var next *Lease
	passed := c.gates.Pass(l.key, func(tag any) any {
		// The next holder must get the TTL and MaxHold of its own Locker. A Locker of several names, which waits
		// at the gates of all of them, has another key.
		if next := tag.(*Locker); next.opts != l.opts || next.key != l.key || next.shared != nil {
			return nil
		}
		if next = s.succeed(c.clock()); next == nil {
			return nil
		}
		return next
	})
	if !passed {
		return false
	}
	s.cancelContexts(ErrReleased)
	next.begin()
	if f := c.opts.Trace.HandedOver; f != nil {
		f(ctx, HandedOverInfo{Name: s.name, Held: c.clock().Since(s.acquired), Until: next.Until(), Fence: next.Fence()})
	}
	return true
}

// succeed ends the lease and returns the successor's lease. It returns nil if the lease
//
//   - has ended;
//   - was granted by the masters longer ago than Handover;
//   - was handed over as often as its fence can count;
//   - has little validity left;
//   - is being renewed: its successor would not receive the votes.
func (s *Lease) succeed(now clock.Reading) *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.validity - now.Since(s.start)
	if s.err != nil || s.fence != 0 && s.handovers == handoversMost || left < s.validity/2 || now.Since(s.granted) >= s.opts.Handover || s.pendingLocked() != nil {
		return nil
	}
	s.endLocked(ErrReleased)
	next := &Lease{
		client:    s.client,
		name:      s.name,
		opts:      s.opts,
		claim:     s.claim,
		won:       s.won,
		validity:  s.validity,
		short:     s.short,
		contended: s.contended,
		granted:   s.granted,
		acquired:  now,
		fence:     s.fence,
		handovers: s.handovers + 1,
		start:     s.start,
	}
	if s.won != nil {
		s.won.lease.Store(next) // under mu, so that what a late poll has found reaches one of the two: see doubt
	}
	return next
}
