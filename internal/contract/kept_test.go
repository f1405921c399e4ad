package contract_test

//lint:file-ignore SA2001 A benchmark or a test locks and unlocks, with nothing between.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// keeping returns options with Keep.
func keeping(d time.Duration) *redlock.Options {
	return &redlock.Options{LockOptions: redlock.LockOptions{Keep: d}}
}

// lockCommands returns how many commands the masters have received that may concern locks.
func lockCommands(ms *redlocktest.Masters) (n int) {
	for i := range ms.Len() {
		for _, command := range []string{"SET", "EVALSHA", "EVAL"} {
			n += ms.Master(i).Count(command)
		}
	}
	return n
}

// registrations returns how many registrations with the default TTL the masters have received: the most of any master, since
// one of them may not be connected yet.
func registrations(ms *redlocktest.Masters) (most int) {
	for i := range ms.Len() {
		n := 0
		for _, command := range ms.Master(i).Commands() {
			if strings.HasPrefix(command, "EVALSHA") && strings.Contains(command, "register 10000") {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// keep has l keep its lock.
func keep(t *testing.T, ms *redlocktest.Masters, l *redlock.Locker) {
	t.Helper()
	for range 3 { // it is not kept if the acquisition has needed two attempts by chance
		locktest.Pass(l)
		locktest.Pass(l)
		synctest.Wait()
		if len(holders(ms, l.Name())) == ms.Len() {
			return
		}
		time.Sleep(3 * time.Second)
	}
	t.Fatal("the lock is not kept")
}

// unkeptMost is longer than a lock is not kept after others have wanted it, whatever has happened.
const unkeptMost = 65 * time.Second

func TestAKeptLockIsEnteredWithoutCommands(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, keeping(20*time.Second))
		l := c.Locker("stock")
		keep(t, ms, l)
		before := lockCommands(ms)
		var leases []*redlock.Lease
		for i := range 100 {
			l.Lock()
			if i%10 == 0 {
				s := l.Lease()
				if !s.Valid() || slices.Contains(leases, s) {
					t.Fatal("the Lease of a holder is not valid, or is that of an earlier holder")
				}
				leases = append(leases, s)
			}
			l.Unlock()
			if !l.TryLock() {
				t.Fatal("TryLock fails")
			}
			if err := l.UnlockContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := l.UnlockContext(t.Context()); err != redlock.ErrNotHeld {
				t.Fatalf("a second UnlockContext: %v", err)
			}
		}
		for i, s := range leases {
			if s.Err() != redlock.ErrReleased {
				t.Errorf("Lease %d after Unlock: %v", i, s.Err())
			}
		}
		for range 3 {
			var inner context.Context
			if err := l.Do(t.Context(), func(ctx context.Context) error { inner = ctx; return ctx.Err() }); err != nil {
				t.Error(err)
			}
			if context.Cause(inner) != redlock.ErrReleased {
				t.Errorf("the context of Do ended with %v", context.Cause(inner))
			}
		}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { locktest.Pass(c.Locker("stock")) })
		}
		all.Wait()
		synctest.Wait()
		if n := lockCommands(ms) - before; n != 0 {
			t.Errorf("%d commands, want none", n)
		}
	})
}

func TestEnteringAKeptLockAllocatesNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, keeping(time.Hour)).Locker("stock")
		keep(t, ms, l)
		if n := testing.AllocsPerRun(1000, func() { l.Lock(); l.Unlock() }); n != 0 {
			t.Errorf("Lock and Unlock allocate %v times, want never", n)
		}
		if n := testing.AllocsPerRun(1000, func() { l.Lock(); l.Lease(); l.Unlock() }); n > 1 {
			t.Errorf("with Lease they allocate %v times, want once", n)
		}
	})
}

func TestAKeptLockIsRenewedWhileItIsUsed(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, keeping(20*time.Second))
		l := c.Locker("stock")
		keep(t, ms, l)
		for range 12 {
			time.Sleep(time.Second)
			locktest.Pass(l)
		}
		synctest.Wait()
		if n := registrations(ms); n != 1 {
			t.Errorf("%d acquisitions, want 1", n)
		}
		l.Lock()
		time.Sleep(6 * time.Second)
		l.Unlock()
		time.Sleep(time.Second) // a renewal was due
		locktest.Pass(l)
		if n := registrations(ms); n != 1 {
			t.Errorf("%d acquisitions, want 1", n)
		}
		time.Sleep(7 * time.Second)
		wantFree(t, ms, "stock") // its renewal was due, and nobody had used it
	})
}

func TestAnotherClientRecallsAKeptLock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l, c, plain := connected(t, ms, keeping(time.Minute)).Locker("stock"), connected(t, ms, keeping(time.Minute)), connected(t, ms, nil)
		for _, other := range []struct {
			name string
			lock sync.Locker
		}{
			{"a Locker with Keep", c.Locker("stock")},
			{"a Locker without Keep", plain.Locker("stock")},
			{"a Locker of two names", plain.Locker("stock", "other")},
			{"a writer with Keep", c.RWLocker("stock")},
			{"a writer", plain.RWLocker("stock")},
			{"readers", plain.RWLocker("stock").RLocker()},
		} {
			time.Sleep(unkeptMost)
			keep(t, ms, l)
			began := time.Now()
			other.lock.Lock()
			if took := time.Since(began); took > 250*time.Millisecond {
				t.Errorf("%s: Lock took %v", other.name, took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if !errors.Is(l.LockContext(ctx), context.DeadlineExceeded) {
				t.Fatalf("%s: both have the lock", other.name)
			}
			cancel()
			other.lock.Unlock()
			time.Sleep(20 * time.Second) // readers keep their lease
			locktest.Pass(l)
		}
	})
}

// A kept lock that nobody holds costs one round trip more than a free one, and a plain SET that recalls nothing another one.
func TestAKeptLockIsTakenAwayInTwoRoundTrips(t *testing.T) {
	const trip = 20 * time.Millisecond
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a, b, plain := openAt(ms, trip/2, keeping(time.Minute)), openAt(ms, trip/2, keeping(time.Minute)), openAt(ms, trip/2, nil)
		for _, row := range []struct {
			name  string
			of    func(name string) sync.Locker
			kept  bool
			trips int
		}{
			{"free", func(name string) sync.Locker { return b.Locker(name) }, false, 1},
			{"with Keep", func(name string) sync.Locker { return b.Locker(name) }, true, 2},
			{"without Keep", func(name string) sync.Locker { return plain.Locker(name) }, true, 3},
			{"a writer", func(name string) sync.Locker { return b.RWLocker(name) }, true, 3},
		} {
			for i := range 10 {
				name := fmt.Sprint(row.name, i)
				if row.kept {
					locktest.Pass(a.Locker(name))
					time.Sleep(200 * time.Millisecond)
				}
				l := row.of(name)
				began := time.Now()
				l.Lock()
				if took := time.Since(began); took > time.Duration(row.trips)*trip+trip/10 {
					t.Errorf("%s: Lock took %v, want %d round trips of %v", name, took, row.trips, trip)
				}
				l.Unlock()
			}
		}
	})
}

func TestTryLockRecallsAKeptLock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a := connected(t, ms, keeping(time.Minute)).Locker("stock")
		b := openAt(ms, 10*time.Millisecond, keeping(time.Minute)).Locker("stock")
		keep(t, ms, a)
		if err := b.TryLockContext(t.Context()); err != nil {
			t.Fatalf("TryLock fails although nobody holds the lock: %v", err)
		}
		if err := a.TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryLock of a lock that is held: %v, want ErrHeld", err)
		}
		b.Unlock()
	})
}

// A lostRecall is a connection that loses recalls while it is lossy.
type lostRecall struct {
	net.Conn
	lossy *atomic.Bool
	lost  *atomic.Int32
}

func (c *lostRecall) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.lossy.Load() || !bytes.Contains(p[:n], []byte("\r\n? ")) {
			return n, err
		}
		c.lost.Add(1)
	}
}

// The head of the queue has a recall sent again.
func TestALostRecallIsSentAgain(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var lossy atomic.Bool
		var lost atomic.Int32
		keeper := openVia(t, ms, keeping(time.Hour), func(ctx context.Context, i int) (net.Conn, error) {
			conn, err := ms.Master(i).Dial(ctx)
			return &lostRecall{conn, &lossy, &lost}, err
		})
		b := connected(t, ms, keeping(time.Hour)).Locker("stock")
		keep(t, ms, keeper.Locker("stock"))
		lossy.Store(true)
		in := locktest.Enter(b)
		began := time.Now()
		time.Sleep(10 * time.Millisecond)
		if lost.Load() != 5 {
			t.Fatalf("%d recalls were lost, want 5", lost.Load())
		}
		lossy.Store(false)
		if took := (<-in).Sub(began); took < 40*time.Millisecond || took > 200*time.Millisecond {
			t.Errorf("Lock took %v, want the time between two polls", took)
		}
		b.Unlock()
	})
}

func TestARecallOfALockThatIsHeldEndsWithItsUnlock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, keeping(time.Hour)).Locker("stock"), connected(t, ms, keeping(time.Hour)).Locker("stock")
		for range 3 { // otherwise a poll that comes by chance could hide that the recall was dropped
			time.Sleep(unkeptMost)
			keep(t, ms, a)
			a.Lock()
			in := locktest.Enter(b)
			time.Sleep(30 * time.Second)
			a.Unlock()
			left := time.Now()
			if took := (<-in).Sub(left); took > 5*time.Millisecond {
				t.Errorf("the lock was had %v after Unlock", took)
			}
			b.Unlock()
		}
	})
}

// While a kept lock is being released, each reading of the clocks tries to enter it.
func TestNoGoroutineEntersAKeptLockWhileItIsReleased(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var armed, busy atomic.Bool
		var tries, entered atomic.Int32
		var l *redlock.Locker
		opts := keeping(time.Hour)
		locktest.SetClocks(opts, func() (time.Duration, time.Duration) {
			if armed.Load() && busy.CompareAndSwap(false, true) {
				tries.Add(1)
				if l.TryLock() {
					entered.Add(1)
					armed.Store(false)
				}
				busy.Store(false)
			}
			return 0, 0
		})
		l = connected(t, ms, opts).Locker("stock")
		b := connected(t, ms, nil).Locker("stock")
		keep(t, ms, l)
		in := locktest.Enter(b)
		armed.Store(true)
		<-in
		armed.Store(false)
		if tries.Load() == 0 || entered.Load() > 0 {
			t.Errorf("%d goroutines tried, and %d have entered; want some, and none", tries.Load(), entered.Load())
		}
		b.Unlock()
	})
}

// One process that locks all the time does not keep others out, although its goroutines hand the lock over.
func TestABusyKeeperLetsAnotherClientIn(t *testing.T) {
	var longest [2]time.Duration // without Keep, and with it
	for i := range longest {
		bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
			opts := keeping(time.Duration(i) * time.Minute)
			a, b := openAt(ms, 10*time.Millisecond, opts), openAt(ms, 10*time.Millisecond, opts)
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for l := a.Locker("stock"); l.LockContext(ctx) == nil; l.Unlock() {
						time.Sleep(time.Millisecond)
					}
				})
			}
			for range 10 {
				time.Sleep(2500 * time.Millisecond)
				began := time.Now()
				locktest.Pass(b.Locker("stock"))
				longest[i] = max(longest[i], time.Since(began))
			}
			cancel()
			all.Wait()
		})
	}
	if t.Logf("another process waited for %v at most without Keep, %v with it", longest[0], longest[1]); longest[1] > longest[0] {
		t.Error("it waited for longer with Keep")
	}
}

func TestALossIsToldToTheKeeper(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log locktest.Log
		opts := log.Options()
		opts.LockOptions.Keep = time.Hour
		l := connected(t, ms, opts).Locker("stock")
		del := func() {
			for i := range 3 {
				ms.Master(i).Del("stock")
			}
		}
		for range 2 {
			keep(t, ms, l)
			del()
			time.Sleep(5 * time.Second) // a renewal finds out
			hold(ms, "stock", 0, 1, 2)
			if l.TryLock() {
				t.Error("two clients have the lock")
			}
			del()
		}
		keep(t, ms, l)
		for i := range 3 {
			ms.Master(i).Freeze()
		}
		time.Sleep(20 * time.Second) // no renewal succeeds
		if l.TryLock() {
			t.Error("a lease that is over is entered")
		}
		for i := range 3 {
			ms.Master(i).Thaw()
		}
		locktest.Pass(l)
		log.Want(t, 0, "lost") // nobody held it
	})
}

func TestAKeptLockThatIsHeldAndLostIsReported(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log locktest.Log
		opts := log.Options()
		opts.LockOptions.Keep = time.Hour
		l := connected(t, ms, opts).Locker("stock")
		keep(t, ms, l)
		l.Lock()
		s := l.Lease()
		for i := range 3 {
			ms.Master(i).Del("stock")
		}
		<-s.Done()
		hold(ms, "stock", 0, 1, 2)
		if err := l.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("UnlockContext: %v, want ErrLost", err)
		}
		if l.TryLock() {
			t.Error("two clients have the lock")
		}
		time.Sleep(5 * time.Second)
		log.Want(t, 1, "lost")
	})
}

// Validity is checked before a kept lock is entered.
func TestAKeptLockIsNotEnteredAfterASuspend(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var asleep atomic.Int64
		opts := keeping(time.Hour)
		opts.DisableRestartGuard = true
		locktest.SetClocks(opts, func() (time.Duration, time.Duration) { return 0, time.Duration(asleep.Load()) })
		l := connected(t, ms, opts).Locker("stock")
		keep(t, ms, l)
		asleep.Store(int64(5 * time.Second)) // half of the validity
		l.Lock()
		synctest.Wait()
		if n := registrations(ms); n != 2 {
			t.Errorf("%d acquisitions, want 2", n)
		}
		l.Unlock()
	})
}

func TestCloseReleasesKeptLocks(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, keeping(time.Hour))
		keep(t, ms, c.Locker("stock"))
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantFree(t, ms, "stock")
	})
}

func TestShutdownReleasesKeptLocks(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, keeping(time.Hour))
		keep(t, ms, c.Locker("a"))
		l := c.Locker("b")
		l.Lock()
		done := make(chan error)
		go func() { done <- c.Shutdown(t.Context()) }()
		time.Sleep(time.Minute)
		wantFree(t, ms, "a")
		l.Unlock()
		if err := <-done; err != nil {
			t.Error(err)
		}
		wantFree(t, ms, "b")
	})
}

func TestFencesOfAKeptLockRise(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := keeping(time.Hour)
		opts.LockOptions.Fencing = true
		l := connected(t, ms, opts).Locker("stock")
		last := uint64(0)
		for range 3000 {
			l.Lock()
			f := l.Lease().Fence()
			if f <= last {
				t.Fatalf("the fence %d follows %d", f, last)
			}
			last = f
			l.Unlock()
		}
		synctest.Wait()
		if n := registrations(ms); n != 3 {
			t.Errorf("%d acquisitions, want 3: each counts 1023 handovers", n)
		}
	})
}

// MaxHold counts for each holder, also if none has looked at its Lease.
func TestMaxHoldOfAKeptLockCountsFromItsHolder(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := keeping(time.Hour)
		opts.LockOptions.MaxHold = time.Minute
		l := connected(t, ms, opts).Locker("stock")
		for range 90 {
			locktest.Pass(l)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := registrations(ms); n != 1 {
			t.Errorf("%d acquisitions, want 1", n)
		}
		l.Lock()
		began := time.Now()
		<-l.Lease().Done()
		if d := time.Since(began); d < time.Minute || d > time.Minute+15*time.Second {
			t.Errorf("a holder lost the lock after %v, want MaxHold, and at most the TTL and a third more", d)
		}
		l.Unlock()
	})
}

func TestARenewalTellsTheKeeperThatAClientWaits(t *testing.T) {
	for _, queue := range []string{"redlock:queue:stock", "redlock:rqueue:stock"} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			l := connected(t, ms, keeping(time.Hour)).Locker("stock")
			keep(t, ms, l)
			for _, p := range ms.Pools() {
				conn := p.Get()
				if _, err := conn.Do("ZADD", queue, 1, "somebody"); err != nil {
					t.Fatal(err)
				}
				conn.Close()
			}
			time.Sleep(3500 * time.Millisecond)
			wantFree(t, ms, "stock")
		})
	}
}

func TestAKeptLockIsFreeForClientsOfOtherLibrariesWhenKeepIsOver(t *testing.T) {
	for _, lasts := range []time.Duration{time.Second, 5 * time.Second, 15 * time.Second} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			l := connected(t, ms, keeping(lasts)).Locker("stock")
			began := time.Now()
			for free := false; !free; free = len(holders(ms, "stock")) == 0 {
				locktest.Pass(l)
				if time.Sleep(20 * time.Millisecond); time.Since(began) > time.Minute {
					t.Fatalf("Keep %v: never free", lasts)
				}
			}
			if d := time.Since(began); d > lasts+50*time.Millisecond || d < lasts/2 {
				t.Errorf("Keep %v: free after %v", lasts, d)
			}
		})
	}
}

func TestAKeptLockThatIsNotUsedIsReleasedWhenKeepIsOver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, keeping(time.Second)).Locker("stock") // a renewal is due after 3.3 s
		keep(t, ms, l)
		time.Sleep(1100 * time.Millisecond)
		wantFree(t, ms, "stock")
		time.Sleep(2 * time.Second)
		keep(t, ms, l)
		l.Lock()
		time.Sleep(2 * time.Second)
		l.Unlock()
		synctest.Wait()
		wantFree(t, ms, "stock")
	})
}

// Goroutines that have come to the gate before the lock is held are handed it, one by one.
func TestAKeptLockIsNotKeptBesideGoroutinesThatCameEarly(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := openAt(ms, 10*time.Millisecond, keeping(time.Hour))
		began := time.Now()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { locktest.Pass(c.Locker("stock")) })
		}
		all.Wait()
		if took := time.Since(began); took > 30*time.Millisecond {
			t.Errorf("four goroutines had the lock within %v, want one round trip", took)
		}
	})
}

// The lease cannot be handed over to Lockers of other kinds and with other options, so it is released for them.
func TestAKeptLockIsReleasedForOtherLockersOfItsClient(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, keeping(time.Hour))
		l := c.Locker("a")
		other, err := c.NewLocker("a", &redlock.LockOptions{TTL: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []sync.Locker{other, c.Locker("a", "b"), c.RWLocker("a"), c.RWLocker("a").RLocker()} {
			time.Sleep(unkeptMost)
			keep(t, ms, l)
			began := time.Now()
			locktest.Pass(x)
			if d := time.Since(began); d > 10*time.Millisecond {
				t.Errorf("%T: the lock was had after %v", x, d)
			}
			time.Sleep(unkeptMost)
			keep(t, ms, l)
			if l, ok := x.(*redlock.Locker); ok {
				if err := l.TryLockContext(t.Context()); err != nil {
					t.Fatalf("%s: TryLock fails although nobody holds the lock: %v", l.Name(), err)
				}
				x.Unlock()
			}
			l.Lock()
			got := make(chan time.Time)
			go func() { locktest.Pass(x); got <- time.Now() }()
			time.Sleep(time.Second)
			l.Unlock()
			began = time.Now()
			if d := (<-got).Sub(began); d > 10*time.Millisecond {
				t.Errorf("%T: the lock was had %v after Unlock", x, d)
			}
		}
	})
}

func TestAWriterKeepsTheLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, keeping(time.Hour))
		rw := c.RWLocker("stock")
		keep(t, ms, rw.Locker())
		before := lockCommands(ms)
		for range 10 {
			rw.Lock()
			rw.Unlock()
			locktest.Pass(c.Locker("stock"))
		}
		if n := lockCommands(ms) - before; n != 0 {
			t.Errorf("%d commands, want none", n)
		}
	})
}

func TestKeptLocksExclude(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var inside atomic.Int32
		var entered [2]atomic.Int32
		var all sync.WaitGroup
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		for p := range 2 {
			c := connected(t, ms, keeping(3*time.Second))
			for g := range 3 {
				all.Go(func() {
					l := c.Locker("stock")
					for i := 0; ctx.Err() == nil; i++ {
						short, cancel := context.WithTimeout(ctx, time.Duration(1+i%200)*time.Millisecond)
						err := l.LockContext(short)
						cancel()
						if err != nil {
							continue
						}
						if inside.Add(1) != 1 {
							t.Error("two goroutines are inside")
						}
						entered[p].Add(1)
						if i%7 == 0 && !l.Lease().Valid() {
							t.Error("the lease is not valid")
						}
						time.Sleep(time.Duration(i%5) * 5 * time.Millisecond)
						inside.Add(-1)
						if i%3 == 0 {
							l.UnlockContext(t.Context())
						} else {
							l.Unlock()
						}
						if i%50 == 0 {
							time.Sleep(time.Duration(g+p) * time.Second)
						}
					}
				})
			}
		}
		for i := range 19 {
			time.Sleep(time.Second)
			ms.Master(i % 3).Cut()
		}
		all.Wait()
		for p := range entered {
			if n := entered[p].Load(); n < 100 {
				t.Errorf("process %d was inside %d times", p, n)
			}
		}
	})
}
