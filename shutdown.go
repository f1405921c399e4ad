package redlock

import (
	"context"
	"fmt"
)

// Shutdown closes the Client when no lock is held any more. At once, no lock can be acquired: calls
// that begin or wait to lock return ErrClosed, and Lock panics, as after Close. Locks that are held stay
// held, and their leases are renewed. Shutdown waits until each has been unlocked, and then calls Close.
//
// If ctx ends first, Shutdown calls Close at once, which ends the leases that are left with ErrClosed,
// and returns an error that matches ctx's and says how many locks were held. Otherwise it returns what
// Close returns. It must not be called by a holder, which it would wait for, without a ctx that ends.
func (c *Client) Shutdown(ctx context.Context) error {
	c.refuseLocks()
	var held error
	select {
	case <-c.gates.Drained():
	case <-c.closed: // by another goroutine
	case <-ctx.Done():
		isHeld := func(note error) bool { return note == ErrHeld } // a gate may be taken by a failing attempt
		if n := c.gates.Count(isHeld); n > 0 {
			held = &shutdownError{held: n, ctx: context.Cause(ctx), err: ctx.Err()}
		}
	}
	if err := c.Close(); err != nil && held == nil {
		return err
	}
	return held
}

// refuseLocks ends all waits for locks, and refuses new ones.
func (c *Client) refuseLocks() {
	c.refuse.Do(func() { close(c.closing) })
	c.gates.Close()
	c.shares.closeAll()
}

// A shutdownError says that a context has ended a Shutdown.
type shutdownError struct {
	held     int
	ctx, err error // the context's cause and error
}

func (e *shutdownError) Error() string {
	return fmt.Sprintf("redlock: Shutdown: %v; locks still held: %d", e.ctx, e.held)
}

func (e *shutdownError) Unwrap() []error { return []error{e.ctx, e.err} }
