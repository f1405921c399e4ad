package redlock

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// A Lease is one successful acquisition of a lock. It belongs to its holder:
// locking the same Locker again makes another Lease. Its methods are safe for
// concurrent use, and those of a nil Lease say that nothing is held.
type Lease struct {
	client   *Client
	name     string
	claim    *master.Claim
	start    clock.Reading // before the first byte of the acquisition was sent
	validity time.Duration // from start on
}

// Token returns the random value that stands on the masters while the lease
// lasts. Whoever knows it can release the lock. It is empty for a nil Lease.
func (s *Lease) Token() string {
	if s == nil {
		return ""
	}
	return s.claim.Token()
}

// Until returns the end of validity: TTL less drift after the acquisition
// began. It is the zero Time for a nil Lease.
func (s *Lease) Until() time.Time {
	if s == nil {
		return time.Time{}
	}
	return s.start.Time().Add(s.validity)
}

// Valid reports whether the holder may still rely on the lease. It is computed
// when asked, by the monotonic and the wall clock, of which the stricter counts:
// so it is right at once after a pause of the process or the machine.
func (s *Lease) Valid() bool {
	return s != nil && s.client.clock().Since(s.start) < s.validity
}

// newToken returns 20 bytes of randomness as text, as the specification asks.
func newToken() string {
	var b [20]byte
	rand.Read(b[:]) // never fails: see crypto/rand
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// acquire makes one acquisition: one round of SETs and, unless that is won, the
// releases that undo it on all masters, whatever they have answered: also one
// that refused, or whose answer was lost, may have set the key.
func (c *Client) acquire(ctx context.Context, l *Locker, start clock.Reading) (*Lease, error) {
	ttl := l.opts.TTL
	claim := master.NewClaim(l.key, newToken(), ttl)
	round := quorum.Ask(c.masters, master.Set, claim, c.opts.NodeTimeout)
	defer round.End()
	s := &Lease{client: c, name: l.name, claim: claim, start: start, validity: ttl - c.opts.drift(ttl)}
	t := round.Wait(ctx, c.closing, quorum.Tally.Decided)
	if t.Won() && s.Valid() {
		return s, nil
	}
	for _, m := range c.masters {
		m.Ask(master.Release, claim, nobody{})
	}
	if t.Won() {
		err := c.quorumError(opAcquire, l.name, round)
		err.Errs = append(err.Errs, fmt.Errorf("the round took %v, which leaves nothing of a validity of %v",
			c.clock().Since(start), s.validity))
		return nil, err
	}
	// The rollback is on its way. What follows only finds out what to tell: one
	// dead master must not make a lock that is held look like an outage.
	round.Wait(ctx, c.closing, quorum.Tally.Explained)
	return nil, c.quorumError(opAcquire, l.name, round)
}

// release ends the lease and releases its lock on all masters, whatever they
// answered before. It returns when a quorum has deleted the key, or when it is
// clear what else to say, or when ctx ends: the rest finishes by itself.
func (s *Lease) release(ctx context.Context) error {
	c := s.client
	lasted := s.Valid()
	round := quorum.Ask(c.masters, master.Release, s.claim, c.opts.NodeTimeout)
	defer round.End()
	t := round.Wait(ctx, nil, quorum.Tally.Settled)
	err := s.released(ctx, t, round, lasted)
	if f := c.opts.Trace.Released; f != nil {
		f(ctx, ReleasedInfo{Name: s.name, Held: c.clock().Since(s.start), Err: err})
	}
	return err
}

func (s *Lease) released(ctx context.Context, t quorum.Tally, round *quorum.Round, lasted bool) error {
	switch {
	case !lasted:
		return fmt.Errorf("%w: %q was held for longer than its validity", ErrLost, s.name)
	case t.Held():
		// The key was gone at so many masters that others could get in.
		return fmt.Errorf("%w: %w", ErrLost, s.client.quorumError(opRelease, s.name, round))
	case t.Answered():
		return nil
	case ctx.Err() != nil:
		return &endedError{op: opRelease, name: s.name, ctx: ctx, last: s.client.quorumError(opRelease, s.name, round)}
	}
	return s.client.quorumError(opRelease, s.name, round)
}

// nobody does not care for the answer.
type nobody struct{}

func (nobody) Answered(int, master.Answer) {}
