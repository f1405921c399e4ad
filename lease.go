package redlock

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/engine"
)

// A Lease is one successful acquisition of a lock. Locking the same Locker again makes another Lease. A
// Lease ends when the lock is unlocked, when the lease is lost, or when the Client is closed. It does not
// begin again. Its methods are safe for concurrent use. Those of a nil Lease report that nothing is held.
type Lease engine.Lease

// lease returns s as the engine knows it.
func (s *Lease) lease() *engine.Lease { return (*engine.Lease)(s) }

// Token returns the value that stands on the masters while the lease lasts: random text, and behind
// an @ the owner, if there is one (see Options.Owner). Whoever knows it can release the lock. It is
// empty for a nil Lease.
func (s *Lease) Token() string { return s.lease().Token() }

// Until returns the end of validity as known now: the start of the acquisition, or of the last successful
// renewal, plus the TTL less drift. It is the zero Time for a nil Lease.
//
// A lease that the release of another process has granted is short until its first renewal: it is valid for a tenth of the
// TTL, but for 400 ms at least and 1 s at most, or for 8 round trips if these are longer. It is renewed after 100 ms, or a quarter of its
// validity if that is less. A process that is stopped for longer meanwhile loses it. Extend gives it the TTL at once.
func (s *Lease) Until() time.Time { return s.lease().Until() }

// Valid reports whether the holder may still rely on the lease. It reads the monotonic clock, the
// wall clock and, on Linux, the clock that counts sleep. The one that shows the most elapsed time counts. So
// Valid is correct right after a pause of the process or the machine.
func (s *Lease) Valid() bool { return s.lease().Valid() }

// Err returns nil while the lease lasts. Afterwards it returns ErrReleased if the lock was unlocked,
// ErrClosed if the Client was closed, or an error that matches ErrLost and says why. Like Valid it reads
// the clocks. It returns ErrNotHeld for a nil Lease.
func (s *Lease) Err() error { return s.lease().Err() }

// Done returns a channel that is closed when the lease ends, for whatever reason: at the end of validity at
// the latest, even if no master answers. After a pause of the process the timers may be late, and Done with
// them; Valid and Err are not. For a nil Lease the channel is closed.
func (s *Lease) Done() <-chan struct{} { return s.lease().Done() }

// Wanted returns a channel that is closed when somebody else waits for the lock. So a long holder can yield: it unlocks and locks
// again, and those that waited have their turn in between. The end of the lease does not close the channel: see Done. It is nil, and
// blocks for ever, if the lease has ended before the first call.
//
//   - A goroutine of this Client that waits closes it at once.
//   - Another Client that waits closes it with the next renewal, after LockOptions.RenewEvery at the latest; with LockOptions.Keep after
//     one trip of a message. If renewals are off, Extend does. A Client without a subscription (Options.DisableWakeups) is noticed after a second.
//   - Of a read lock, it is writers that are noticed.
//   - The channel of a permit is closed a round trip after a goroutine of this Client begins to wait, and so are those of all holders.
//   - Calls that do not wait are not noticed: TryLock, unless the lock has LockOptions.Keep, and clients of other libraries.
//   - Whoever waited may have given up, or died, when the channel is closed or later.
//
// Locks cost no more for it, unless Wanted is called: then each renewal of the lease asks whether somebody waits.
func (s *Lease) Wanted() <-chan struct{} { return s.lease().Wanted() }

// Fence returns the lease's number, which is greater than that of each earlier lease of the name. A resource
// can store the highest number and refuse requests with a lower one. Then a holder that was stopped for
// longer than its lease cannot overwrite later writes. Without LockOptions.Fencing, and for a nil Lease,
// Fence returns 0, which the resource must refuse. It is below 2⁵³ until 2039, so it fits an SQL BIGINT and a
// JSON number. The fences of permits rise by slot: see Permit.
func (s *Lease) Fence() uint64 { return s.lease().Fence() }

// Extend renews the lease now and waits for the outcome. It is for users who have turned renewal off. If a
// renewal is under way, Extend waits for that one, and validity counts from its start. Masters that fail are
// asked again until validity ends. MaxHold does not limit Extend.
//
// Extend returns nil if a quorum has renewed the lease. It returns Err if the lease has ended. If ctx ends
// first, the error matches ctx.Err and wraps a *QuorumError; the renewal goes on.
func (s *Lease) Extend(ctx context.Context) error { return s.lease().Extend(ctx) }

// Context returns a context that ends with parent or with the lease. If the lease ended it, its cause is
// Lease.Err. The context needs no cancel function: its resources are freed when either ends. Its Err reads
// the clocks, as Valid does.
func (s *Lease) Context(parent context.Context) context.Context {
	return s.lease().Context(parent)
}
