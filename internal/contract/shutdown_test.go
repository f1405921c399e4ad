package contract_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestShutdownWaitsForHoldersAndRefusesOthers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, short())
		a, b := c.Locker("a"), c.Locker("b")
		a.Lock()
		b.Lock()
		waits := make(chan error, 2)
		go func() { waits <- c.Locker("a").LockContext(t.Context()) }() // waits for a goroutine of the same Client
		other := connected(t, ms, nil).Locker("c")
		other.Lock()
		go func() { waits <- c.Locker("c").LockContext(t.Context()) }() // waits for another Client
		time.Sleep(time.Second)
		down := make(chan error, 1)
		go func() { down <- c.Shutdown(t.Context()) }()
		for range 2 {
			if err := <-waits; err != redlock.ErrClosed {
				t.Errorf("a wait ended with %v, want ErrClosed", err)
			}
		}
		if err := c.Locker("d").TryLockContext(t.Context()); err != redlock.ErrClosed {
			t.Errorf("TryLockContext = %v, want ErrClosed", err)
		}
		time.Sleep(time.Minute) // many TTLs
		for _, l := range []*redlock.Locker{a, b} {
			if err := l.Lease().Err(); err != nil {
				t.Errorf("the lease of %q has ended: %v", l.Name(), err)
			}
		}
		if err := a.UnlockContext(t.Context()); err != nil {
			t.Errorf("UnlockContext = %v", err)
		}
		time.Sleep(time.Second)
		select {
		case err := <-down:
			t.Fatalf("Shutdown = %v although a lock is held", err)
		default:
		}
		b.Unlock()
		if err := <-down; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		wantFree(t, ms, "a")
		wantFree(t, ms, "b")
		if err := c.Shutdown(t.Context()); err != nil {
			t.Errorf("a second Shutdown = %v", err)
		}
		other.Unlock()
	})
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, short())
		l := c.Locker("a")
		l.Lock()
		s := l.Lease()
		stop := errors.New("the pod must go")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, stop)
		defer cancel()
		err := c.Shutdown(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, stop) || err.Error() != "redlock: Shutdown: the pod must go; locks still held: 1" {
			t.Errorf("Shutdown = %v", err)
		}
		if s.Err() != redlock.ErrClosed {
			t.Errorf("the lease's Err = %v, want ErrClosed", s.Err())
		}
		l.Unlock()
	})
}

func TestShutdownOfAnIdleClientClosesIt(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		if err := c.Ping(t.Context()); err != redlock.ErrClosed {
			t.Errorf("Ping = %v, want ErrClosed", err)
		}
	})
}

func TestAShutdownThatIsCutShortCountsHoldersOnly(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		other := connected(t, ms, nil).Locker("a")
		other.Lock()
		c := connected(t, ms, nil)
		wait := make(chan error, 1)
		go func() { wait <- c.Locker("a").LockContext(t.Context()) }()
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown = %v, although no lock is held", err)
		}
		if err := <-wait; err != redlock.ErrClosed {
			t.Errorf("the wait ended with %v, want ErrClosed", err)
		}
		other.Unlock()
	})
}

func TestCloseEndsAShutdown(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		l := c.Locker("a")
		l.Lock()
		down := make(chan error, 1)
		go func() { down <- c.Shutdown(t.Context()) }()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if err := <-down; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		l.Unlock()
	})
}
