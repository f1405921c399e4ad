package redlock

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/redlock-go/redlock/internal/flight"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// LockContext locks l like Lock, but stops waiting when ctx ends. ctx bounds the wait, not how long the lock
// is held. LockContext returns nil only with the lock.
//
// If ctx ends, the error matches ctx.Err and its cause. It wraps the error of the last attempt, if there was
// one: it matches ErrHeld if another client or goroutine held the lock; otherwise a *QuorumError says which
// masters failed, and why. As long as the Client is open, a failed LockContext leaves no key on a master that
// answers, now or later. If the schedule of Options.NewBackOff stops, the error is the last *QuorumError. On
// a closed Client it is ErrClosed.
func (l *Locker) LockContext(ctx context.Context) error {
	_, err := l.lock(ctx)
	return err
}

// TryLockContext tries to lock l in one attempt. It does not wait for other goroutines. The error
//
//   - matches ErrHeld if the lock is held, or ErrNotALock if its key is not a lock. To tell, and to name the holder, TryLockContext asks the
//     masters, which takes another round trip; at most once a second for each name. TryLock does not ask;
//   - is a *QuorumError that does not match ErrHeld if too few masters granted the lock for other reasons;
//   - matches ctx.Err if ctx ended;
//   - is ErrClosed on a closed Client.
func (l *Locker) TryLockContext(ctx context.Context) error {
	return l.explained(ctx, l.tryLock(ctx))
}

// tryLock is TryLockContext without the question who holds the lock.
func (l *Locker) tryLock(ctx context.Context) error {
	mustBeMade(l.client, "Locker")
	_, err := (&wait{locker: l, ctx: ctx, once: true}).run()
	return err
}

// UnlockContext unlocks l and returns the outcome. ctx bounds only the wait for the answers: the release is
// sent to all masters even if ctx has ended. The error
//
//   - is nil if the lease lasted until now and a quorum answered;
//   - matches ErrNotHeld if l is not locked;
//   - matches ErrLost if the lease had ended before: then another client may have held the lock meanwhile;
//   - is a *QuorumError if too few masters answered within NodeTimeout;
//   - matches ctx.Err if ctx ended first;
//   - is ErrClosed on a closed Client.
//
// After a *QuorumError, and after an error that matches ctx.Err, the lease lasted and l is unlocked. As long
// as the Client is open, a master that did not answer receives the release as soon as it answers again.
func (l *Locker) UnlockContext(ctx context.Context) error {
	mustBeMade(l.client, "Locker")
	ctx.Done() // a nil ctx panics before anything has changed
	err := l.kind.unlock(ctx, l, true)
	if err == ErrNotHeld {
		return fmt.Errorf("%w%s", err, l.heldOtherwise())
	}
	return err
}

// Do calls f while it holds the lock. It waits for the lock like LockContext. If that fails, Do returns the
// error without calling f. The context of f ends with ctx or with the lease, and its cause says which. f
// should then return.
//
// So a deadline of ctx bounds both the wait and f. To bound only the wait, call LockContext with the deadline,
// defer UnlockContext, and call f with Lease.Context of a context without it: see the example of LockContext.
//
// If the lease lasted until f returned, Do returns f's error unchanged. Otherwise another client may have
// held the lock, and Do returns an error that matches ErrLost, says why, and wraps f's error. Do also unlocks
// if f panics or calls runtime.Goexit. If f has unlocked l, Do does not unlock l again.
func (l *Locker) Do(ctx context.Context, f func(ctx context.Context) error) (err error) {
	s, err := l.lock(ctx)
	if err != nil {
		return err
	}
	return l.call(ctx, s, f)
}

// call is Do once l is locked, with the lease s.
func (l *Locker) call(ctx context.Context, s *Lease, f func(ctx context.Context) error) (err error) {
	s.seen.Store(true)
	inner := s.contexts.New(ctx, s)
	defer func() {
		inner.End(ErrReleased) // the lease may last, if readers share it
		// The end of ctx must neither prevent the release nor shorten the wait for its outcome.
		if lost := lossOf(s, l.kind.unlockLease(context.WithoutCancel(ctx), l, s)); lost != nil {
			err = &doError{lost: lost, err: err}
		}
	}()
	return f(inner)
}

// lossOf returns why the lease s was lost, or nil if it was not. err is the error of its release. For Do,
// whose function should have held the lock until it returned, the end of the Client is a loss.
func lossOf(s *Lease, err error) error {
	switch ended := s.Err(); {
	case errors.Is(ended, ErrLost): // the loss came before the Client was closed, if it was closed
		return ended
	case errors.Is(err, ErrClosed):
		return &lostError{name: s.tenure.name, reason: ErrClosed}
	case errors.Is(err, ErrLost):
		return err
	}
	return nil
}

// SingleFlight calls f while it holds the lock of name, as Do does, and gives the value to others that wait in SingleFlight for
// that name, in this process and in others: they return it, and do not call their own f. So a token is refreshed once, or a cache
// is filled once, although many want that. shared reports whether the value is that of another caller's f.
//
//   - No caller gets the value of an f that began before its own call. So a caller that comes while f runs waits for the next one:
//     of many that come at once, two call f, as a rule.
//   - If no lease is lost, one f runs at a time.
//   - A value is sent to those who wait, and is not stored. Whoever misses the message gets the lock in its turn, and calls its own f. If the
//     outcome is stored somewhere, f should look there first whether the work is done already.
//   - A value is sent to 1024 waiting calls of other processes at most. One of the others serves the next 1024.
//   - Errors and panics of f are not shared: the next caller calls its own f.
//   - The context of f ends with ctx or with the lease, as that of Do. The end of one caller's ctx ends the wait, or the f, of that
//     caller only.
//   - A value of more than 4 KiB is shared with nobody. SingleFlight returns it with an error that matches ErrTooLarge.
//   - If the lease was lost while f ran, nothing is shared, and the error matches ErrLost, as that of Do. If f returned a value, it
//     is returned, too.
//   - Other errors are those of LockContext.
//
// The lock is that of Locker(name), with Options.LockOptions, but is not kept. With DisableWakeups, SingleFlight shares nothing between
// processes. Values pass through the masters unencrypted, but for TLS: whoever may subscribe to the clients' channels can read them. A value counts that a quorum of masters has sent. Whoever may publish at these, and read their queues, can forge one.
func (c *Client) SingleFlight(ctx context.Context, name string, f func(ctx context.Context) ([]byte, error)) (value []byte, shared bool, err error) {
	opts := c.opts.LockOptions
	opts.Keep = 0
	l, err := c.NewLocker(name, &opts)
	if err != nil {
		return nil, false, err
	}
	for {
		fl, place := c.flights.Join(l.key)
		if place == 0 {
			return l.fly(ctx, fl, f)
		}
		select {
		case <-fl.Landed():
			if value, served := fl.Value(place); served {
				return value, true, nil
			}
			continue
		case <-ctx.Done():
		case <-c.closing: // the other goroutine may be in its f
		}
		return nil, false, (&wait{locker: l, ctx: ctx, last: l.blockedBy(c.gates.Reason(l.key))}).outcome()
	}
}

// fly is SingleFlight for the goroutine that leads a flight.
func (l *Locker) fly(ctx context.Context, fl *flight.Flight, f func(ctx context.Context) ([]byte, error)) (value []byte, shared bool, err error) {
	defer fl.Land()
	s, err := (&wait{locker: l, ctx: ctx, flight: fl}).run()
	if value, received := fl.Received(); received {
		return value, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	fl.Depart()
	var sent []byte
	err = l.call(ctx, s, func(ctx context.Context) (err error) {
		if value, err = f(ctx); err != nil {
			return err
		}
		if len(value) > wire.ValueMost {
			return fmt.Errorf("%w: that of %s has %d bytes, %d is the limit", ErrTooLarge, quote(l.name), len(value), wire.ValueMost)
		}
		sent = bytes.Clone(value) // f's caller may change it while it is being sent
		s.tenure.publish.send(s.tenure, sent)
		return nil
	})
	if err == nil {
		fl.Serve(sent)
	}
	return value, false, err
}

// A publishing says of which masters the holder of a tenure is sure, when it sends a value to those who wait: those where its token was set before
// the holder had the lock, and was not set again.
//
// A value must be that of a function that began after the call that takes it. No clock is needed for that. The holder has token R. A client B
// waits with claim C, which it has registered at a master after its call.
//
//  1. The script at the master sends the value only while the key holds R, and only to claims in the queue. So C was registered before that.
//  2. The answer to the registration says what the key held. If that was not R, R was set there later.
//  3. If the holder is sure of that master, R was set there before the holder had the lock, and so before the function began.
//
// So the call of B came before the registration, that before R was set, and that before the function began. One such master is enough to show
// it. A quorum must have sent the same value, so that a minority that lies cannot forge one.
//
// The holder is sure of a master if all of these hold. internal/model/flight strikes out each, and finds a value of a function that began
// before the call; its switches are in brackets.
//
//   - The master had voted when the holder got the lock [votesLate].
//   - All registrations and polls of the claim are answered when the value is sent: one that is executed late may set the key again [ignoresPoll].
//   - No poll has found the claim missing from the queue: then the key was lost, and may have been set again [ignoresNew].
//   - No heal was sent to the master [ignoresHeal].
//   - The connection has lasted since the registration: a command that was lost with it may be executed late, and a master that restarts may
//     have an earlier memory, in which the claim waits [ignoresLink].
//   - The subscription has lasted as well: a poll without one takes the key and leaves the claim in the queue, where it may be granted the key
//     later [ignoresDeaf].
//   - The script sends the value only if the key holds the token, whether the holder is sure or not [publishesBlind].
//
// The rules of a client that waits are at waits.Inbox.Value.
//
// The next client in the queue may miss the value: if the release of the former holder reaches a master after the commands of the new one, the
// new one is granted the lock at that master, and has a quorum with one more, when the value has come from that one alone. It then calls its own function. So
// does a client that was granted the lock while a poll of its claim was on its way, if its function is over before the poll is answered.
type publishing struct {
	voted    uint64        // the masters, as bits, that had voted when the holder got the lock, and were sent no heal since
	settled  func() uint64 // those that set the token no more, see waits.Inbox.Settled; nil: all
	contacts []int         // by master: the contact that must have lasted until the value is sent
}

// publishing returns how the tenure of a wait that has won may send a value; nil: it need not.
func (w *wait) publishing(votes []quorum.Vote, settled func() uint64) *publishing {
	if w.flight == nil {
		return nil
	}
	p := &publishing{settled: settled, contacts: w.try.contacts}
	for i, v := range votes {
		if v.Granted() {
			p.voted |= 1 << i
		}
	}
	return p
}

// send sends a value to those who wait for the lock of the tenure, ahead of the release.
func (p *publishing) send(t *tenure, value []byte) {
	if p == nil {
		return
	}
	sure := ^uint64(0)
	if p.settled != nil {
		sure = p.settled()
	}
	now := t.client.clock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || t.validity.Over(now) {
		return
	}
	for i, m := range t.client.masters {
		m.Publish(value, (sure&p.voted)>>i&1 == 1, p.contacts[i], t.claim)
	}
}

// Context returns a context that ends with parent or with the lease. If the lease ended it, its cause is
// Lease.Err. The context needs no cancel function: its resources are freed when either ends. Its Err reads
// the clocks, as Valid does.
func (s *Lease) Context(parent context.Context) context.Context {
	if s == nil {
		ctx, cancel := context.WithCancelCause(parent)
		cancel(ErrNotHeld)
		return ctx
	}
	return s.contexts.New(parent, s)
}
