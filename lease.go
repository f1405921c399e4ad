package redlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/renew"
)

// A Lease is one successful acquisition of a lock. Locking the same Locker again makes another Lease. A
// Lease ends when the lock is unlocked, when the lease is lost, or when the Client is closed. It does not
// begin again. Its methods are safe for concurrent use. Those of a nil Lease report that nothing is held.
type Lease struct {
	client    *Client       // immutable
	name      string        // immutable
	opts      LockOptions   // immutable
	claim     *master.Claim // immutable
	granted   clock.Reading // immutable; the time before the first byte of the round that was won
	acquired  clock.Reading // immutable; as granted, or the time of the handover to this holder
	won       *queuedClaim  // immutable; the claim that became the lease; nil if it was not registered
	contended bool          // immutable; not acquired by the first attempt: see lastReleases

	fence     int64 // immutable; 0: none
	handovers int   // immutable; how often the lease was handed over before
	rounds    int   // immutable; how many rounds the acquisition took
	ofSet     bool  // immutable; of one name of a set that waits for the others: neither its loss nor its release is reported

	shared *readers             // immutable; the readers that share it, or nil
	term   atomic.Pointer[term] // start and validity, for the readers

	ended clock.Reading // when it was unlocked; set once, before the release is queued

	entry renew.Entry // in the scheduler: the time to renew, to ask again, or to end

	mu       sync.Mutex                 // guards what follows; the lease's commands are queued under it
	validity time.Duration              // from start on
	short    bool                       // a release granted it, and it was not renewed since: validity is not that of the TTL
	start    clock.Reading              // the start of the acquisition, or of the last renewal that succeeded
	err      error                      // why it ended; nil while it lasts
	queued   chan struct{}              // closed when the release of a lost lease is queued; nil: it was not lost
	done     chan struct{}              // made by the first Done; closed when err is set
	cancels  map[*leaseContext]struct{} // the contexts that have not ended
	void     uint64                     // the masters, as bits, that do not count in the current renewal: see doubt
	renewal  *renewal                   // the current renewal, or the last one; nil before the first
}

// Token returns the value that stands on the masters while the lease lasts: random text, and behind
// an @ the owner, if there is one (see Options.Owner). Whoever knows it can release the lock. It is
// empty for a nil Lease.
func (s *Lease) Token() string {
	if s == nil {
		return ""
	}
	return s.claim.Token()
}

// Until returns the end of validity as known now: the start of the acquisition, or of the last successful
// renewal, plus the TTL less drift. It is the zero Time for a nil Lease.
//
// A lease that the release of another process has granted is short until its first renewal: it is valid for
// 400 ms, or for 8 round trips if these are longer, and is renewed after a quarter of that time. Extend gives it
// the TTL at once.
func (s *Lease) Until() time.Time {
	if s == nil {
		return time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untilLocked()
}

// Valid reports whether the holder may still rely on the lease. It reads the monotonic clock, the
// wall clock and, on Linux, the clock that counts sleep. The one that shows the most elapsed time counts. So
// Valid is correct right after a pause of the process or the machine.
func (s *Lease) Valid() bool { return s.Err() == nil }

// Err returns nil while the lease lasts. Afterwards it returns ErrReleased if the lock was unlocked,
// ErrClosed if the Client was closed, or an error that matches ErrLost and says why. Like Valid it reads
// the clocks. It returns ErrNotHeld for a nil Lease.
func (s *Lease) Err() error {
	if s == nil {
		return ErrNotHeld
	}
	return s.check(s.client.clock())
}

// Done returns a channel that is closed when the lease ends, for whatever reason: at the end of validity at
// the latest, even if no master answers. After a pause of the process the timers may be late, and Done with
// them; Valid and Err are not. For a nil Lease the channel is closed.
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

// begin schedules the lease's first renewal, or its end. If the Client is closed, it ends the lease and reports
// false.
func (s *Lease) begin() (open bool) {
	s.mu.Lock()
	// A lease that was handed over may have been unlocked by its new holder already.
	open = s.err != nil || s.scheduleLocked()
	s.mu.Unlock()
	if !open {
		s.end(ErrClosed)
	}
	return open
}

// end ends the lease for the reason err, unless it has ended, and reports whether it did. It sends nothing
// to the masters.
func (s *Lease) end(err error) bool {
	s.mu.Lock()
	ended := s.endLocked(err)
	s.mu.Unlock()
	if ended {
		s.cancelContexts(err)
		if s.shared != nil {
			s.shared.shutOut(s)
			s.shared.drained()
		}
	}
	return ended
}

// endLocked ends the lease for the reason err, unless it has ended, and reports whether it did. If it did,
// the caller gives up the mutex, calls cancelContexts, and then queues the releases, if any. So the holder
// knows of the end before another client can acquire the lock.
//
// No command of the lease can follow its release, since all its commands are queued under the mutex while
// err is nil. A key that is set after the release would lock the name for nobody.
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

// cancelContexts ends the contexts of a lease that has just ended.
func (s *Lease) cancelContexts(err error) {
	s.mu.Lock()
	cancels := s.cancels
	s.cancels = nil
	s.mu.Unlock()
	for c := range cancels {
		c.cancel(err)
	}
}

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
