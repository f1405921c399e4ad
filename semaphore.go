package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redlock-go/redlock/internal/wire"
)

// A Semaphore limits how many holders there are at a time, among all processes: never more than its limit, while any majority of
// the masters answers. It is fair: permits are given in the order of the calls, also to calls for several. A call for one permit
// may pass others that came a little earlier, but none that has waited for twice as long. Any number of goroutines share it. It
// must not be copied. Client.Semaphore returns Semaphores.
//
// It is no rate limiter: it limits holders, not calls in a minute. A holder that was stopped for longer than its lease may still work
// when others have its permit. So a holder should end its work when the context of Do ends, and a cap that must hold
// whatever happens should be a little lower than what the resource can bear.
//
// All clients should use the same limit. Otherwise the largest one counts. A raised limit counts at once. A client with a lowered
// limit gets no permit until fewer than that are held. While it is at the head of the queue, others wait behind it.
//
// The permits of a process that has crashed come back when its leases have expired: see LockOptions.TTL. A semaphore and a lock of the
// same name have nothing to do with each other.
type Semaphore struct {
	client *Client
	name   string
	key    string
	limit  int
	opts   LockOptions
	crowd  *crowd
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
// Options.LockOptions. Fencing and Keep do not matter: permits have no fences, and stay with no Client. NewSemaphore
// returns an error if the name or the options are invalid, if limit is below 1 or above 65536, without renewals or wake-ups, and for a
// TTL below 400 ms.
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
	case !c.canBeGranted(o):
		return nil, fmt.Errorf("redlock: a Semaphore needs wake-ups, renewals, and a TTL of %v or more", wire.GrantLeast)
	}
	o.Fencing, o.Keep = false, 0
	return &Semaphore{client: c, name: name, key: key, limit: limit, opts: o, crowd: c.crowds.ofKey(key)}, nil
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
	return l.Do(ctx, f)
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
	if _, err = l.lock(ctx); err != nil {
		return nil, err
	}
	return newPermit(l), nil
}

// TryAcquire acquires a permit if one is free and nobody waits. The error is that of Locker.TryLockContext: it matches ErrHeld if
// the semaphore is full. If 64 goroutines of the Client try at the same time, a further one makes no attempt.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Permit, error) {
	l, err := s.locker(1)
	if err != nil {
		return nil, err
	}
	if err = l.tryLock(ctx); err != nil {
		return nil, err
	}
	return newPermit(l), nil
}

// locker returns a Locker for one acquisition of n permits: see permits.
func (s *Semaphore) locker(n int) (*Locker, error) {
	if s.client == nil {
		panic("redlock: use of a zero Semaphore; Client.Semaphore makes one that can be used")
	}
	if n < 1 || n > s.limit || n > wire.SlotsMost {
		return nil, fmt.Errorf("redlock: %d permits of %s were asked for; from 1 to %d can be had", n, quote(s.name), min(s.limit, wire.SlotsMost))
	}
	l := &Locker{client: s.client, name: s.name, opts: s.opts, terms: wire.NewSlotTerms(s.key, s.limit, n, s.opts.TTL), grantable: true}
	l.key = fmt.Sprintf("redlock:permit:%d:%s", s.client.permits.Add(1), s.key)
	l.init(&permits{crowd: s.crowd, n: n, limit: s.limit})
	return l, nil
}

// A Permit is one acquisition of a Semaphore: the lease of one permit or several. It is renewed until it is released or lost.
// Lease.Fence is 0.
type Permit struct {
	*Lease
	locker *Locker
}

func newPermit(l *Locker) *Permit { return &Permit{Lease: l.Lease(), locker: l} }

// Release returns the permits. It does not wait for the masters: see Locker.Unlock. A second call does nothing.
func (p *Permit) Release() { p.locker.kind.unlock(context.Background(), p.locker, false) }

// ReleaseContext returns the permits, and waits for the outcome: see Locker.UnlockContext. A second call returns ErrReleased.
func (p *Permit) ReleaseContext(ctx context.Context) error {
	if err := p.locker.UnlockContext(ctx); !errors.Is(err, ErrNotHeld) {
		return err
	}
	return ErrReleased
}

// Slots returns the numbers of the permits, from 0 to the limit less 1, in ascending order. No other holder has them while the permit
// lasts. So they can choose a port, a GPU or a connection.
func (p *Permit) Slots() []int { return slices.Clone(p.tenure.slots) }
