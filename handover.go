package redlock

import (
	"context"

	"github.com/redlock-go/redlock/internal/clock"
)

// Handover passes a live lease to the next goroutine of the Client that waits
// for the lock, without a word to the masters. It is bounded by
// LockOptions.Handover since the masters granted the lock, so that other
// processes wait for no more than that and one critical section of ours.

// handOver ends the lease s, and makes the goroutine that has waited longest the
// holder of a new one on the same token. It reports false, and does nothing, if
// nobody waits, if the first who does has other LockOptions, or if the lease is
// better released.
func (l *Locker) handOver(ctx context.Context, s *Lease) bool {
	c := l.client
	if s.opts.Handover < 0 || s.opts.RenewEvery < 0 {
		return false
	}
	var next *Lease
	passed := c.gates.Pass(l.key, func(tag any) any {
		// A different TTL or MaxHold would not be what the next one asked for.
		if tag.(*Locker).opts != l.opts {
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
	s.tell(ErrReleased)
	next.begin()
	if f := c.opts.Trace.HandedOver; f != nil {
		f(ctx, HandedOverInfo{Name: s.name, Held: c.clock().Since(s.acquired), Until: next.Until(), Fence: next.Fence()})
	}
	return true
}

// succeed ends the lease and returns its successor's, or returns nil if it is
// better released: if it has ended, has travelled for Handover, or as often as its
// fence can count, has little validity left, or is being renewed, so that nobody
// would get the votes.
func (s *Lease) succeed(now clock.Reading) *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.validity - now.Since(s.start)
	if s.err != nil || s.fence != 0 && s.handovers == handoversMost || left < s.validity/2 || now.Since(s.granted) >= s.opts.Handover || s.pendingLocked() != nil {
		return nil
	}
	s.endLocked(ErrReleased)
	return &Lease{
		client:    s.client,
		name:      s.name,
		opts:      s.opts,
		claim:     s.claim,
		validity:  s.validity,
		granted:   s.granted,
		acquired:  now,
		fence:     s.fence,
		handovers: s.handovers + 1,
		start:     s.start,
	}
}
