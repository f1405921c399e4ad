package contract_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A wanting is somebody who waits for the lock "a" until ctx ends.
type wanting struct {
	name   string
	own    bool // it is a goroutine of the holder's Client
	opts   redlock.Options
	lock   func(ctx context.Context, c *redlock.Client) error
	within time.Duration // in which the channel is closed
}

var wants = []wanting{
	{name: "a goroutine", own: true, lock: func(ctx context.Context, c *redlock.Client) error { return c.Locker("a").LockContext(ctx) }},
	{name: "a goroutine that writes", own: true, lock: func(ctx context.Context, c *redlock.Client) error { return c.RWLocker("a").Locker().LockContext(ctx) }},
	{name: "a goroutine that wants two names", own: true,
		lock: func(ctx context.Context, c *redlock.Client) error { return c.Locker("a", "b").LockContext(ctx) }},
	{name: "a client", lock: func(ctx context.Context, c *redlock.Client) error { return c.Locker("a").LockContext(ctx) }, within: renewal},
	{name: "a client that writes", lock: func(ctx context.Context, c *redlock.Client) error { return c.RWLocker("a").Locker().LockContext(ctx) }, within: renewal},
	{name: "a client that wants two names", lock: func(ctx context.Context, c *redlock.Client) error { return c.Locker("z", "a").LockContext(ctx) }, within: renewal},
	{name: "a client that polls", opts: redlock.Options{DisableWakeups: true},
		lock: func(ctx context.Context, c *redlock.Client) error { return c.Locker("a").LockContext(ctx) }, within: 2*renewal + time.Second},
}

// renewal is the time from one renewal to the next with the default options.
const renewal = 10*time.Second/3 + 200*time.Millisecond

// wantWanted fails t unless the channel is closed only when somebody waits, and then within the time that is promised.
func wantWanted(t *testing.T, ms *redlocktest.Masters, c *redlock.Client, lease *redlock.Lease, w wanting) {
	t.Helper()
	wanted := lease.Wanted()
	time.Sleep(20 * time.Second)
	if wanted != lease.Wanted() {
		t.Error("two calls of Wanted return two channels")
	}
	if isClosed(wanted) {
		t.Error("the channel is closed, and nobody waits")
	}
	if !w.own {
		opts := w.opts
		c = locktest.Connected(t, ms, &opts)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		if err := w.lock(ctx, c); err == nil {
			t.Error("the lock was acquired twice")
		}
	}()
	synctest.Wait()
	select {
	case <-lease.Wanted():
	case <-time.After(time.Minute):
		t.Fatal("the channel is not closed")
	}
	if took := time.Since(began); took > w.within {
		t.Errorf("the channel is closed after %v, want %v", took, w.within)
	}
	if !lease.Valid() {
		t.Error("the lease has ended")
	}
	cancel()
	<-ended
}

func TestWantedIsClosedWhenSomebodyWaits(t *testing.T) {
	for _, w := range wants {
		t.Run(w.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				c := locktest.Connected(t, ms, nil)
				l := c.Locker("a")
				l.Lock()
				wantWanted(t, ms, c, l.Lease(), w)
				l.Unlock()
				if l.Lock(); isClosed(l.Lease().Wanted()) {
					t.Error("the channel of the next lease is closed, and nobody waits")
				}
				l.Unlock()
			})
		})
	}
}

func TestWantedOfALeaseOfSeveralNamesIsClosedWhenSomebodyWaitsForOne(t *testing.T) {
	for _, w := range wants {
		t.Run(w.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				c := locktest.Connected(t, ms, nil)
				l := c.Locker("b", "a", "c")
				l.Lock()
				wantWanted(t, ms, c, l.Lease(), w)
				l.Unlock()
			})
		})
	}
}

// Readers do not want a lock that readers hold: they share it.
func TestWantedOfAReadLeaseIsClosedWhenAWriterWaits(t *testing.T) {
	for _, w := range wants {
		if !strings.Contains(w.name, "writes") {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				c, other := locktest.Connected(t, ms, nil), locktest.Connected(t, ms, nil)
				l := c.RWLocker("a")
				l.RLock()
				for _, c := range []*redlock.Client{c, other} {
					beside := c.RWLocker("a")
					beside.RLock()
					defer beside.RUnlock()
				}
				wantWanted(t, ms, c, l.RLocker().Lease(), w)
				l.RUnlock()
			})
		})
	}
}

func TestWantedOfALockThatMayBeKeptIsClosedByTheRecall(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := openAt(ms, time.Millisecond, &redlock.Options{LockOptions: redlock.LockOptions{Keep: time.Hour}})
		l := c.Locker("a")
		keep(t, ms, l)
		l.Lock()
		lease := l.Lease()
		other := openAt(ms, time.Millisecond, nil)
		if err := other.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if isClosed(lease.Wanted()) {
			t.Error("the channel is closed, and nobody waits")
		}
		began := time.Now()
		waiter := other.Locker("a")
		in := locktest.Enter(waiter)
		<-lease.Wanted()
		if took := time.Since(began); took > 6*time.Millisecond { // a SET that is refused, a registration, and a message
			t.Errorf("the channel is closed after %v, want 6 ms at most", took)
		}
		l.Unlock()
		<-in
		waiter.Unlock()
	})
}

// By a handover the next goroutine gets a lease of its own, with a channel of its own.
func TestWantedOfALeaseThatWasHandedOverTellsOfThoseThatWaitNow(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := locktest.Connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{Handover: time.Hour}})
		first, second, third := c.Locker("a"), c.Locker("a"), c.Locker("a")
		first.Lock()
		lease := first.Lease()
		lease.Wanted()
		in2 := locktest.Enter(second)
		synctest.Wait()
		in3 := locktest.Enter(third)
		synctest.Wait()
		if !isClosed(lease.Wanted()) {
			t.Error("two goroutines wait, and the channel is open")
		}
		first.Unlock()
		<-in2
		if !isClosed(second.Lease().Wanted()) {
			t.Error("a goroutine waits, and the channel of the second lease is open")
		}
		second.Unlock()
		<-in3
		if third.Lease().Token() != lease.Token() {
			t.Fatal("the lock was not handed over")
		}
		wanted := third.Lease().Wanted()
		if isClosed(wanted) {
			t.Error("nobody waits, and the channel of the third lease is closed")
		}
		in1 := locktest.Enter(first)
		synctest.Wait()
		if !isClosed(wanted) {
			t.Error("a goroutine has come, and the channel of the third lease is open")
		}
		third.Unlock()
		<-in1
		first.Unlock()
	})
}

func TestWantedIsNotClosedByCallsThatDoNotWaitNorByTheEndOfTheLease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c, other := locktest.Connected(t, ms, nil), locktest.Connected(t, ms, nil)
		l := c.Locker("a")
		l.Lock()
		lease := l.Lease()
		wanted := lease.Wanted()
		for range 10 {
			if other.Locker("a").TryLock() || c.Locker("a").TryLock() {
				t.Fatal("the lock was acquired twice")
			}
			time.Sleep(time.Second)
		}
		l.Unlock()
		next := other.Locker("a")
		next.Lock()
		defer next.Unlock()
		if isClosed(wanted) || isClosed(lease.Wanted()) {
			t.Error("the channel is closed, and nobody has waited while the lease lasted")
		}
		var none *redlock.Lease
		if none.Wanted() != nil {
			t.Error("Wanted of no lease is not nil")
		}
		late := c.Locker("b")
		late.Lock()
		lease = late.Lease()
		late.Unlock()
		if lease.Wanted() != nil {
			t.Error("Wanted of a lease that had ended is not nil")
		}
	})
}

// The masters are asked who waits only if somebody wants to know.
func TestARenewalAsksWhoWaitsOnlyIfWantedWasCalled(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := locktest.Connected(t, ms, nil).Locker("a")
		for _, asks := range []bool{false, true} {
			l.Lock()
			if asks {
				l.Lease().Wanted()
			}
			before := len(ms.Master(0).Commands())
			time.Sleep(15 * time.Second)
			plain, asking := 0, 0
			for _, command := range ms.Master(0).Commands()[before:] {
				asking += strings.Count(command, "renew 10000 -")
				plain += strings.Count(command, "renew 10000") - strings.Count(command, "renew 10000 -")
			}
			if (plain > 0) == asks || (asking > 0) != asks {
				t.Errorf("Wanted was called: %t; %d plain renewals, %d that ask", asks, plain, asking)
			}
			l.Unlock()
		}
	})
}

// Those who want permits are noticed with the next renewal, and goroutines of the Client a round trip later.
func TestAWaitForPermitsIsNoticed(t *testing.T) {
	for own, within := range map[bool]time.Duration{false: renewal, true: 10 * time.Millisecond} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			c := connected(t, ms, nil)
			p := acquire(t, c.Semaphore("a", 2), 2)
			wanted := p.Wanted()
			time.Sleep(20 * time.Second)
			if isClosed(wanted) {
				t.Error("the channel is closed, and nobody waits")
			}
			if !own {
				c = connected(t, ms, nil)
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			c.Semaphore("a", 2).Acquire(ctx)
			if !isClosed(wanted) {
				t.Errorf("own goroutine %t: the channel is not closed after %v", own, within)
			}
		})
	}
}

// A call of Wanted is told of a goroutine that waits already, also one behind those that have claims, and not of one that has given up or has
// found a free permit.
func TestWantedOfAPermitKnowsWhoWaits(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		s := connected(t, ms, nil).Semaphore("a", 6)
		all := acquire(t, s, 5)
		early := all.Wanted()
		one := acquire(t, s, 1) // which is free
		time.Sleep(time.Second)
		if isClosed(early) || isClosed(one.Wanted()) {
			t.Error("a channel is closed, and nobody waits")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waits sync.WaitGroup
		for range 10 {
			waits.Go(func() { s.Acquire(ctx) })
			time.Sleep(10 * time.Millisecond)
		}
		if !isClosed(early) || !isClosed(one.Wanted()) {
			t.Error("a channel is not closed, and goroutines wait")
		}
		one.Release() // to one that waits
		time.Sleep(10 * time.Millisecond)
		cancel()
		waits.Wait()
		all.Release()
		late := acquire(t, s, 5)
		if isClosed(late.Wanted()) {
			t.Error("a channel is closed although those that waited have given up")
		}
	})
}

// Whoever waits when Wanted is called for the first time closes the channel. A call that does not wait, or that too few masters answer, does not.
func TestWantedOfAPermitIsClosedByThoseThatFindNoneFree(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		s := connected(t, ms, nil).Semaphore("a", 2)
		p := acquire(t, s, 1)
		wanted := p.Wanted()
		q := acquire(t, s, 1)
		for range 3 {
			if _, err := s.TryAcquire(t.Context()); !errors.Is(err, redlock.ErrHeld) {
				t.Fatalf("TryAcquire of a full semaphore = %v, want ErrHeld", err)
			}
		}
		if isClosed(wanted) {
			t.Error("the channel is closed by calls that do not wait")
		}
		q.Release()
		time.Sleep(time.Second)
		for i := range 2 {
			ms.Master(i).Freeze()
		}
		short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		s.Acquire(short)
		cancel()
		if isClosed(wanted) {
			t.Error("the channel is closed by a call that finds the masters down")
		}
		for i := range 2 {
			ms.Master(i).Thaw()
		}
		time.Sleep(time.Second)
		full := acquire(t, s, 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Acquire(ctx)
		}()
		time.Sleep(100 * time.Millisecond)
		if !isClosed(full.Wanted()) {
			t.Error("the channel is not closed, and a goroutine waits")
		}
		cancel()
		<-done
		p.Release()
		full.Release()
	})
}
