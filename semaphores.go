package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redlock-go/redlock/internal/engine"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Semaphore limits how many holders there are at a time, among all processes: never more than its limit, whichever minority of
// the masters is dead. Without a majority nobody gets a permit. Permits are given in the order of the calls, also to calls for
// several. A call for one permit may pass others that came a little earlier, but none that has waited for twice as long. Any number
// of goroutines share a Semaphore. It must not be copied. Client.Semaphore returns Semaphores.
//
//	calls := client.Semaphore("api", 10)
//	err := calls.Do(ctx, func(ctx context.Context) error { // at most ten are in here, on all machines
//		return call(ctx) // ctx ends if the permit is lost
//	})
//
// # What to choose
//
//   - Limit: all clients should use the same one. Otherwise the largest one counts. To raise it, start clients with the new limit,
//     which counts at once. To lower it, replace all clients: one with the lower limit gets no permit until fewer than that are held, and
//     while it is at the head of the queue, others wait behind it.
//   - A margin: a holder that was stopped for longer than its lease may still work when others have its permit. End the work with the
//     context of Do or of the Permit. A cap that must hold whatever happens should be a little lower than what the resource can bear.
//   - LockOptions.TTL: the permits of a process that has crashed come back when it has passed. A shorter one brings them back earlier, and
//     costs more renewals.
//   - LockOptions.Handover: goroutines of one process pass permits on to each other without a command, for this long after the masters
//     have given them, between calls for as many permits of the same limit. If permits are held for about a round trip, that doubles what
//     the process gets done. A shorter one gives other processes their turns earlier.
//   - Errors: ErrHeld says that the semaphore is full. Any other *QuorumError says which masters failed. A program that would rather go
//     on without a permit decides by that.
//
// # What it costs
//
// A free permit takes one round trip, whatever the limit and however many are held. A permit that is passed on takes one more. Of all
// that wait, the first few poll each master ten times a second, and the others less often the more are ahead. Per name, as many calls of a
// Client wait at the masters as it holds permits, at least 4 and at most 64, and the others behind them in the process. If many clients
// begin at one moment, and hold permits for less time than the distances of the masters differ, the first of them may need two or three round
// trips more.
//
// # What it is not
//
// It is no rate limiter: it limits holders, not calls in a minute. A semaphore and a lock of the same name have nothing to do with each
// other. It has no fence without LockOptions.Fencing: see [Permit].
type Semaphore struct {
	core   *engine.Core
	name   string
	key    string
	limit  int
	opts   LockOptions
	shared *engine.Semaphore
}

// Semaphore returns a Semaphore for name that has limit permits, with Options.LockOptions. It is cheap and sends nothing. Semaphore
// panics where NewSemaphore returns an error.
func (c *Client) Semaphore(name string, limit int) *Semaphore {
	s, err := c.NewSemaphore(name, limit, nil)
	if err != nil {
		panic(err.Error())
	}
	return s
}

// NewSemaphore returns a Semaphore for name that has limit permits, with opts, which replace Options.LockOptions; nil means
// Options.LockOptions. Keep does not matter: permits stay with no Client. With Fencing, each acquisition takes a round trip more, or
// two, and its permits have a fence: see Permit. NewSemaphore returns an error if the name or the options are invalid, if limit is below 1
// or above 65536, without renewals, with Options.DisableWakeups, and for a TTL below 400 ms.
func (c *Client) NewSemaphore(name string, limit int, opts *LockOptions) (*Semaphore, error) {
	key, err := c.opts.key(name)
	if err != nil {
		return nil, err
	}
	o, err := c.opts.lockOptions(opts)
	switch {
	case err != nil:
		return nil, err
	case limit < 1 || limit > wire.LimitMost:
		return nil, fmt.Errorf("redlock: a Semaphore has a limit of %d; it must be from 1 to %d", limit, wire.LimitMost)
	case c.opts.DisableWakeups || o.RenewEvery < 0 || o.TTL < wire.GrantLeast:
		return nil, fmt.Errorf("redlock: a Semaphore needs wake-ups, renewals, and a TTL of %v or more", wire.GrantLeast)
	}
	o.Keep = 0
	return &Semaphore{core: c.core, name: name, key: key, limit: limit, opts: o, shared: c.core.Semaphore(key)}, nil
}

// Name returns the name that was given to Client.Semaphore.
func (s *Semaphore) Name() string { return s.name }

// Limit returns the limit that was given to Client.Semaphore.
func (s *Semaphore) Limit() int { return s.limit }

// Do calls f while it holds a permit. It waits for the permit like Acquire. If that fails, Do returns the error without calling
// f. The context of f ends with ctx or with the permit: see Locker.Do. f does not learn the slot. If it needs the slot, use
// Acquire, and call f with Permit.Context and Permit.Slots.
func (s *Semaphore) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return s.DoN(ctx, 1, f)
}

// DoN is Do with n permits, all or none. For their slots, use AcquireN.
func (s *Semaphore) DoN(ctx context.Context, n int, f func(ctx context.Context) error) error {
	l, err := s.locker(n)
	if err != nil {
		return err
	}
	return (*Locker)(l).Do(ctx, f)
}

// Acquire waits for a permit. If ctx ends, the error matches ctx.Err and wraps that of the last attempt: it matches ErrHeld if the
// semaphore was full; otherwise a *QuorumError says which masters failed, and why. On a closed Client it is ErrClosed.
func (s *Semaphore) Acquire(ctx context.Context) (*Permit, error) { return s.AcquireN(ctx, 1) }

// AcquireN waits for n permits, all or none. While it waits it holds none, and later calls wait behind it, so it is not starved by
// calls for fewer. The error is that of Acquire, or says that n is below 1, or above the limit or 128.
func (s *Semaphore) AcquireN(ctx context.Context, n int) (*Permit, error) {
	l, err := s.locker(n)
	if err != nil {
		return nil, err
	}
	lease, err := l.Lock(ctx)
	if err != nil {
		return nil, err
	}
	return &Permit{Lease: (*Lease)(lease), locker: l}, nil
}

// TryAcquire acquires a permit if one is free and nobody waits. The error is that of Locker.TryLockContext: it matches ErrHeld if
// the semaphore is full. If 64 goroutines of the Client try at the same time, a further one makes no attempt.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Permit, error) {
	l, err := s.locker(1)
	if err != nil {
		return nil, err
	}
	if err = l.TryLock(ctx, true); err != nil {
		return nil, err
	}
	return &Permit{Lease: (*Lease)(l.Lease()), locker: l}, nil
}

// locker returns a Locker for one acquisition of n permits.
func (s *Semaphore) locker(n int) (*engine.Locker, error) {
	if s.core == nil {
		panic("redlock: use of a zero Semaphore; Client.Semaphore makes one that can be used")
	}
	if n < 1 || n > s.limit || n > wire.SlotsMost {
		return nil, fmt.Errorf("redlock: %d permits of %q were asked for; from 1 to %d can be had", n, s.name, min(s.limit, wire.SlotsMost))
	}
	return s.core.Permits(s.name, s.key, engine.Options(s.opts), s.shared, n, s.limit), nil
}

// A Permit is one acquisition of a Semaphore: the lease of one permit or several. It is renewed until it is released or lost.
//
// With LockOptions.Fencing, its Fence is greater than that of every earlier holder of any of its slots, among the holders with
// Fencing. Holders of different slots may have equal fences, and a later one may have a lower fence. So a resource that belongs to a
// slot, such as a GPU, stores the highest fence that it has seen, and refuses lower ones. Without Fencing, Fence returns 0, which such a
// resource must refuse.
type Permit struct {
	*Lease
	locker *engine.Locker
}

// Release returns the permits. It does not wait for the masters: see Locker.Unlock. A second call does nothing.
func (p *Permit) Release() { p.locker.Unlock(context.Background(), false) }

// ReleaseContext returns the permits, and waits for the outcome: see Locker.UnlockContext. A second call returns ErrReleased.
func (p *Permit) ReleaseContext(ctx context.Context) error {
	if err := (*Locker)(p.locker).UnlockContext(ctx); !errors.Is(err, ErrNotHeld) {
		return err
	}
	return ErrReleased
}

// Slots returns the numbers of the permits, from 0 to the limit less 1, in ascending order. No other holder has them while the permit
// lasts. So they can choose a port, a GPU or a connection.
func (p *Permit) Slots() []int { return slices.Clone(p.lease().Slots()) }
