package redlock

import (
	"bytes"
	"context"
	"fmt"

	"github.com/redlock-go/redlock/internal/engine"
	"github.com/redlock-go/redlock/internal/flight"
	"github.com/redlock-go/redlock/internal/wire"
)

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
	locker, err := c.NewLocker(name, &opts)
	if err != nil {
		return nil, false, err
	}
	l := locker.lock()
	for {
		fl, place := l.Join()
		if place == 0 {
			return fly(ctx, l, fl, f)
		}
		select {
		case <-fl.Landed():
			if value, served := fl.Value(place); served {
				return value, true, nil
			}
			continue
		case <-ctx.Done():
		case <-l.Closing(): // the other goroutine may be in its f
		}
		return nil, false, l.NotServed(ctx)
	}
}

// fly is SingleFlight for the goroutine that leads a flight.
func fly(ctx context.Context, l *engine.Locker, fl *flight.Flight, f func(ctx context.Context) ([]byte, error)) (value []byte, shared bool, err error) {
	defer fl.Land()
	s, err := l.LockFor(ctx, fl)
	if value, received := fl.Received(); received {
		return value, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	fl.Depart()
	var sent []byte
	err = call(ctx, l, s, func(ctx context.Context) (err error) {
		if value, err = f(ctx); err != nil {
			return err
		}
		if len(value) > wire.ValueMost {
			return fmt.Errorf("%w: that of %q has %d bytes, %d is the limit", ErrTooLarge, l.Name(), len(value), wire.ValueMost)
		}
		sent = bytes.Clone(value) // f's caller may change it while it is being sent
		s.Publish(sent)
		return nil
	})
	if err == nil {
		fl.Serve(sent)
	}
	return value, false, err
}
