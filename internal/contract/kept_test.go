package contract_test

//lint:file-ignore SA2001 A benchmark or a test locks and unlocks, with nothing between.

import (
	"context"
	"errors"
	"fmt"
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
	locktest.Pass(l)
	locktest.Pass(l) // enters it
	synctest.Wait()
	if got := holders(ms, l.Name()); len(got) != ms.Len() {
		t.Fatalf("%d masters keep the lock, want %d", len(got), ms.Len())
	}
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
			if err := l.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrNotHeld) {
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

// Locks of many names are renewed while they are used, and acquired once.
func TestManyKeptLocksAreAcquiredOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const names = 512
		c := connected(t, ms, keeping(time.Hour))
		acquisitions := func() (n int) {
			for i := range ms.Len() {
				for _, command := range ms.Master(i).Commands() {
					if strings.HasPrefix(command, "SET ") && !strings.Contains(command, " XX ") { // those ask whether writes are accepted
						n++
					}
				}
			}
			return n + registrations(ms)
		}
		lockers := make([]*redlock.Locker, names)
		for i := range lockers {
			lockers[i] = c.Locker(fmt.Sprint("stock", i))
			locktest.Pass(lockers[i])
			locktest.Pass(lockers[i])
		}
		time.Sleep(time.Second)
		before := acquisitions()
		for range 60 {
			for _, l := range lockers {
				locktest.Pass(l)
			}
			time.Sleep(time.Second)
		}
		if n := acquisitions() - before; n != 0 {
			t.Errorf("%d acquisitions in %d uses of kept locks, want none", n, 60*names)
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

// A function of the user delays a goroutine between the acquisition of a lease and the moment from which others can enter it.
func TestALeaseThatIsLostBeforeItIsSharedIsNotEntered(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var armed atomic.Bool
		opts := keeping(time.Hour)
		opts.Trace = &redlock.Trace{LockDone: func(context.Context, redlock.LockDoneInfo) {
			if armed.CompareAndSwap(true, false) {
				for i := range 3 {
					ms.Master(i).Del("stock")
				}
				time.Sleep(4 * time.Second) // a renewal finds out; half of the validity is left
			}
		}}
		c := connected(t, ms, opts)
		for _, l := range []*redlock.Locker{c.Locker("stock"), c.RWLocker("stock").RLocker()} {
			armed.Store(true)
			l.Lock()
			if s := l.Lease(); s.Err() == nil {
				t.Fatal("the lease is not lost: nothing is tested")
			}
			l.Unlock()
			armed.Store(true)
			locktest.Pass(l)
			l.Lock()
			if err := l.Lease().Err(); err != nil {
				t.Errorf("a lease is entered that was lost: %v", err)
			}
			l.Unlock()
			time.Sleep(time.Minute) // it is not kept any more
		}
	})
}

// Nobody held it, so nobody need look into it.
func TestAReadLeaseThatIsLostWithoutReadersIsNotReported(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		for inside, want := range []int{0, 1} {
			var log locktest.Log
			var kept []bool
			opts := log.Options()
			opts.Trace = &redlock.Trace{Lost: func(_ context.Context, i redlock.LostInfo) { kept = append(kept, i.Kept) }}
			l := connected(t, ms, opts).RWLocker(fmt.Sprint("stock", inside)).RLocker()
			locktest.Pass(l)
			locktest.Pass(l)
			if inside > 0 {
				l.Lock()
			}
			for i := range 3 {
				ms.Master(i).Del(l.Name())
			}
			time.Sleep(4 * time.Second) // a renewal finds out
			if inside > 0 {
				l.Unlock()
			}
			synctest.Wait()
			log.Want(t, want, "lost")
			if len(kept) != 1 || kept[0] != (inside == 0) {
				t.Errorf("%d readers inside: Trace.Lost said %v to Kept, want %v", inside, kept, inside == 0)
			}
		}
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
	for _, seen := range []bool{false, true} { // a Lease that a caller has seen is not used again
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			var asleep atomic.Int64
			opts := keeping(time.Hour)
			opts.DisableRestartGuard = true
			locktest.SetClocks(opts, func() (time.Duration, time.Duration) { return 0, time.Duration(asleep.Load()) })
			l := connected(t, ms, opts).Locker("stock")
			keep(t, ms, l)
			if seen {
				l.Lock()
				l.Lease()
				l.Unlock()
			}
			asleep.Store(int64(5 * time.Second)) // half of the validity
			l.Lock()
			synctest.Wait()
			if n := registrations(ms); n != 2 {
				t.Errorf("%d acquisitions, want 2", n)
			}
			l.Unlock()
		})
	}
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

// A function of the Trace that knows the fence of a holder is as good as a caller that has asked for it.
func TestTheFenceThatATraceWasToldIsNotThatOfTheNextHolderOfAKeptLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var told uint64
		opts := keeping(time.Hour)
		opts.LockOptions.Fencing = true
		opts.Trace = &redlock.Trace{Acquired: func(_ context.Context, i redlock.AcquiredInfo) { told = i.Fence }}
		l := connected(t, ms, opts).Locker("stock")
		locktest.Pass(l)
		l.Lock()
		if f := l.Lease().Fence(); told == 0 || f <= told {
			t.Errorf("the fence %d follows %d", f, told)
		}
		l.Unlock()
		synctest.Wait()
		if n := registrations(ms); n != 1 {
			t.Errorf("%d acquisitions, want 1: nothing is tested", n)
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

// MaxHold counts for each holder of a kept lock, also for one that enters shortly before it ends for the one before.
func TestAKeptLockIsNotLostByTheNextHolderForMaxHold(t *testing.T) {
	for _, row := range []struct {
		name         string
		unlock, lock time.Duration // since the acquisition: when the first holder unlocks, and the second locks
		seen         bool          // the first holder has asked for its Lease
		extends      time.Duration // when it has extended it; 0: it has not
	}{
		{"before the last renewal", 19 * time.Second, 21 * time.Second, false, 0},
		{"before the last renewal, a Lease that was seen", 19 * time.Second, 21 * time.Second, true, 0},
		{"after the last renewal", 20500 * time.Millisecond, 21 * time.Second, false, 0},
		{"after the last renewal, a Lease that was seen", 20500 * time.Millisecond, 21 * time.Second, true, 0},
		{"both before the last renewal", 18 * time.Second, 19 * time.Second, false, 0},
		{"after an Extend that is later than the last renewal", 19 * time.Second, 21 * time.Second, true, 18 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				l := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{MaxHold: 20 * time.Second, Keep: time.Hour}}).Locker("a")
				start := time.Now()
				l.Lock()
				if row.seen {
					l.Lease()
				}
				if row.extends > 0 {
					time.Sleep(time.Until(start.Add(row.extends)))
					if err := l.Lease().Extend(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Until(start.Add(row.unlock)))
				l.Unlock()
				time.Sleep(time.Until(start.Add(row.lock)))
				l.Lock()
				time.Sleep(19 * time.Second)
				if err := l.UnlockContext(t.Context()); err != nil {
					t.Errorf("a holder that has had the lock for less than MaxHold: %v", err)
				}
				time.Sleep(time.Until(start.Add(row.lock + 20*time.Second)))
				l.Lock()
				lease := l.Lease()
				time.Sleep(40 * time.Second)
				if !errors.Is(lease.Err(), redlock.ErrLost) {
					t.Errorf("a holder that has had the lock for longer than MaxHold: %v, want ErrLost", lease.Err())
				}
				l.Unlock()
			})
		})
	}
}
