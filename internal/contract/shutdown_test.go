package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/locktest"
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

func TestAShutdownThatIsCutShortCountsReaders(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		c.RWLocker("a").RLock()
		c.RWLocker("a").RLock()
		locktest.Pass(c.RWLocker("b").RLocker()) // its lease is kept, and nobody holds it
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Shutdown(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "held: 1") {
			t.Errorf("Shutdown = %v, want the deadline, and one lock that was held", err)
		}
	})
}

// Masters that do not answer delay Close for longer than a DialTimeout, and Shutdown for no longer than its context.
func TestShutdownEndsWithItsContextThoughMastersHang(t *testing.T) {
	for _, row := range []struct {
		name string
		hold bool
		want string
	}{
		{"no lock is held", false, "redlock: Shutdown: context deadline exceeded; connections to masters are still ending"},
		{"a lock is held", true, "redlock: Shutdown: context deadline exceeded; locks still held: 1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				c := connected(t, ms, nil)
				l := c.Locker("a")
				take(l)
				for i := range 3 {
					ms.Master(i).Freeze()
				}
				if !row.hold {
					l.Unlock()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				start := time.Now()
				err := c.Shutdown(ctx)
				if took := time.Since(start); took > 310*time.Millisecond {
					t.Errorf("Shutdown took %v, want 310ms at most", took)
				}
				if !errors.Is(err, context.DeadlineExceeded) || err.Error() != row.want {
					t.Errorf("Shutdown = %v, want %q", err, row.want)
				}
				if c.Locker("b").TryLock() {
					t.Error("a lock was acquired after Shutdown")
				}
				if err := c.Close(); err != nil { // waits for the rest
					t.Errorf("Close = %v", err)
				}
			})
		})
	}
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

func TestCloseEndsWaits(t *testing.T) {
	for _, row := range []struct {
		name   string
		before func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client)
	}{
		{"at the gate", func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client) { c.Locker("a").Lock() }},
		{"between rounds", func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client) { hold(ms, "a", 0, 1, 2) }},
		{"in a round", func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client) {
			for i := range 3 {
				ms.Master(i).Freeze()
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				c := connected(t, ms, nil)
				row.before(t, ms, c)
				waits, panics := make(chan error, 1), make(chan any, 1)
				go func() { waits <- c.Locker("a").LockContext(t.Context()) }()
				go func() {
					defer func() { panics <- recover() }()
					c.Locker("a").Lock()
				}()
				time.Sleep(20 * time.Millisecond)
				c.Close()
				if err := <-waits; err != redlock.ErrClosed {
					t.Errorf("LockContext = %v, want ErrClosed", err)
				}
				if p := <-panics; p != `redlock: Lock of "a" on a closed Client` {
					t.Errorf("Lock panicked with %v", p)
				}
			})
		})
	}
}

func TestCloseUndoesAttemptsThatItInterrupts(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}})
		for i := range 5 {
			ms.Master(i).Delay(30 * time.Millisecond)
		}
		done := make(chan error)
		go func() { done <- c.Locker("a").LockContext(t.Context()) }()
		time.Sleep(10 * time.Millisecond)
		c.Close()
		<-done
		wantFree(t, ms, "a")
	})
}

func TestCloseDoesNotReleaseHeldLocks(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		l := c.Locker("a")
		l.Lock()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("a second Close = %v", err)
		}
		if got := len(holders(ms, "a")); got != 5 {
			t.Errorf("%d masters hold the key after Close, want 5: its holder may still be at work", got)
		}
		l.Unlock() // it does nothing
		if got := len(holders(ms, "a")); got != 5 {
			t.Errorf("%d masters hold the key after the late Unlock, want 5", got)
		}
		time.Sleep(11 * time.Second)
		wantFree(t, ms, "a")
		if err := l.LockContext(t.Context()); err != redlock.ErrClosed {
			t.Errorf("LockContext of a closed Client = %v, want ErrClosed", err)
		}
		if l.TryLock() {
			t.Error("TryLock of a closed Client succeeded")
		}
	})
}

func TestCloseIsBoundedByDialTimeout(t *testing.T) {
	for _, row := range []struct {
		name   string
		before func(ms *redlocktest.Masters)
		after  func(ms *redlocktest.Masters, c *redlock.Client)
	}{
		{"masters that hang while they are dialled", func(ms *redlocktest.Masters) {
			for i := range 5 {
				ms.Master(i).HangDials()
			}
		}, func(*redlocktest.Masters, *redlock.Client) {}},
		{"frozen masters with replies due", func(*redlocktest.Masters) {}, func(ms *redlocktest.Masters, c *redlock.Client) {
			for i := range 5 {
				ms.Master(i).Freeze()
			}
			c.Locker("a").TryLock()
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				row.before(ms)
				c := ms.Open(nil)
				synctest.Wait()
				row.after(ms, c)
				start := time.Now()
				if err := c.Close(); err != nil {
					t.Errorf("Close = %v", err)
				}
				if took := time.Since(start); took > time.Second {
					t.Errorf("Close took %v, want DialTimeout at most", took)
				}
			})
		})
	}
}

func TestADialThatIgnoresItsContextDoesNotDelayClose(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		release, dials := make(chan struct{}), atomic.Int32{}
		pool := &redis.Pool{Dial: func() (redis.Conn, error) {
			dials.Add(1)
			<-release
			return nil, errors.New("too late")
		}}
		c, err := redlock.New([]*redis.Pool{pool}, nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n := dials.Load(); n != 2 {
			t.Errorf("%d dials hang, want one for commands and one for wake-ups", n)
		}
		start := time.Now()
		if err := c.Close(); err == nil || !strings.Contains(err.Error(), "master 1") {
			t.Errorf("Close = %v, want an error that names the master whose dial goes on", err)
		}
		if took := time.Since(start); took > 1100*time.Millisecond {
			t.Errorf("Close took %v, want about DialTimeout", took)
		}
		close(release)
	})
}

func TestCloseLeavesPoolsOpen(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		pools := ms.Pools()
		for range 3 {
			c, err := redlock.New(pools, nil)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // Close cancels a dial that is under way
			l := c.Locker("a")
			locktest.Pass(l)
			c.Close()
			for i, p := range pools {
				if p.ActiveCount() != 1 || p.IdleCount() != 1 {
					t.Errorf("pool %d has %d connections, %d idle, want the one that the Client gave back", i, p.ActiveCount(), p.IdleCount())
				}
				conn := p.Get()
				if _, err := conn.Do("PING"); err != nil {
					t.Errorf("pool %d after Close: %v", i, err)
				}
				conn.Close()
			}
		}
	})
}

func TestCloseEndsLeases(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		l, m := c.Locker("a"), c.Locker("b")
		l.Lock()
		s := l.Lease()
		ctx := s.Context(t.Context())
		done := make(chan error)
		go func() {
			done <- m.Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
		}()
		synctest.Wait()
		c.Close()
		if err := s.Err(); err != redlock.ErrClosed {
			t.Errorf("Err = %v, want ErrClosed", err)
		}
		<-s.Done()
		<-ctx.Done()
		if cause := context.Cause(ctx); cause != redlock.ErrClosed {
			t.Errorf("the context's cause is %v, want ErrClosed", cause)
		}
		if err := <-done; !errors.Is(err, redlock.ErrClosed) || !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Do = %v, want ErrLost because of ErrClosed", err)
		}
		if err := l.UnlockContext(t.Context()); err != redlock.ErrClosed {
			t.Errorf("UnlockContext = %v, want ErrClosed", err)
		}
		if err := s.Extend(t.Context()); err != redlock.ErrClosed {
			t.Errorf("Extend = %v, want ErrClosed", err)
		}
	})
}

func TestCloseSendsTheReleaseOfAnUnlock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := ms.WithDelays(1e6, 5e6, 20e6, 40e6, 80e6).Open(nil)
		time.Sleep(time.Second)
		for i := range 100 {
			locktest.Pass(c.Locker(fmt.Sprint("a", i)))
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		for i := range ms.Len() {
			for _, key := range ms.Master(i).Keys() {
				if key[0] == 'a' {
					t.Errorf("master %d keeps the key %q", i, key)
				}
			}
		}
	})
}
