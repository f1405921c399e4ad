package contract_test

import (
	"context"
	"errors"
	"fmt"
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

func TestALeaseOfSeveralNamesIsRenewedAndHealedTogether(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		set := connected(t, ms, nil).Locker("a", "b")
		set.Lock()
		ms.Master(0).Del("a")
		ms.Master(1).Del("b")
		time.Sleep(5 * time.Second)
		for i := range 2 {
			for _, key := range []string{"a", "b"} {
				if got, _ := ms.Master(i).Get(key); got != set.Lease().Token() {
					t.Errorf("master %d holds %q under %s after a renewal, want the token", i, got, key)
				}
			}
		}
		time.Sleep(time.Minute)
		if err := set.UnlockContext(t.Context()); err != nil {
			t.Errorf("UnlockContext = %v after a minute", err)
		}
		wantLeft(t, ms, "a", "b")
	})
}

func TestALeaseOfSeveralNamesIsLostWithOneOfThem(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		set := connected(t, ms, nil).Locker("a", "b")
		set.Lock()
		for i := range 3 {
			ms.Master(i).Del("b")
		}
		<-set.Lease().Done()
		err := set.Lease().Err()
		if !errors.Is(err, redlock.ErrLost) || !strings.Contains(err.Error(), `"a, b"`) {
			t.Errorf("Err = %v, want ErrLost of a, b", err)
		}
		wantLeft(t, ms, "a", "b")
		if err := set.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("UnlockContext = %v, want ErrLost", err)
		}
		locktest.Pass(set)
	})
}

func TestAFenceOfSeveralNamesIsAboveThoseOfAllNames(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		ours, theirs := connected(t, ms, locktest.Fenced(nil)), connected(t, ms, locktest.Fenced(nil))
		last := map[string]uint64{}
		check := func(l *redlock.Locker, names ...string) {
			t.Helper()
			if err := l.LockContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if f := l.Lease().Fence(); f <= last[name] {
					t.Errorf("the fence of %q is %d, want it above %d of %s", l.Name(), f, last[name], name)
				}
				last[name] = l.Lease().Fence()
			}
			if err := l.UnlockContext(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 20 {
			ms.Master(i%5).Set("redlock:fence:b", fmt.Sprint(time.Now().UnixMicro()/250+int64(40*i)), time.Hour) // one master is ahead
			check(theirs.Locker("b"), "b")
			check(ours.Locker("a", "b", "c"), "a", "b", "c")
			check(theirs.Locker("c"), "c")
			check(theirs.Locker("a", "c"), "a", "c")
			check(ours.Locker("a"), "a")
		}
	})
}

func TestALeaseOfSeveralNamesIsHandedOver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var passed atomic.Int32
		c := connected(t, ms, &redlock.Options{Trace: &redlock.Trace{HandedOver: func(_ context.Context, i redlock.HandedOverInfo) {
			if i.Name == "a, b" {
				passed.Add(1)
			}
		}}})
		set := c.Locker("a", "b")
		set.Lock()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { locktest.Pass(c.Locker("b", "a")) })
			all.Go(func() { locktest.Pass(c.Locker("a")) })
		}
		synctest.Wait()
		set.Unlock()
		all.Wait()
		if passed.Load() == 0 {
			t.Error("the lease was not handed over")
		}
		wantLeft(t, ms, "a", "b")
	})
}

func TestUnlockOfSeveralNamesWakesTheWaitersOfEach(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		ours, theirs := connected(t, ms, nil), connected(t, ms, nil)
		set := ours.Locker("a", "b")
		set.Lock()
		times := make(chan time.Duration, 2)
		var unlocked time.Time
		for _, name := range []string{"a", "b"} {
			go func() {
				l := theirs.Locker(name)
				l.Lock()
				times <- time.Since(unlocked)
				l.Unlock()
			}()
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		unlocked = time.Now()
		set.Unlock()
		for range 2 {
			if d := <-times; d > 5*time.Millisecond {
				t.Errorf("a waiter got its name after %v, want it woken", d)
			}
		}
	})
}

func TestSetsInAnyOrderDoNotDeadlock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		clients := []*redlock.Client{connected(t, ms, nil), connected(t, ms, nil)}
		var inside sync.Map
		var all sync.WaitGroup
		for i, c := range clients {
			for _, names := range [][]string{{"a", "b"}, {"b", "a"}, {"b", "c"}, {"c", "a"}, {"a"}, {"b"}, {"c", "a", "b"}} {
				all.Go(func() {
					for range 10 {
						l := c.Locker(names[0], names[1:]...)
						l.Lock()
						for _, name := range names {
							if other, taken := inside.LoadOrStore(name, i); taken {
								t.Errorf("%d entered %s while %v was inside", i, name, other)
							}
						}
						time.Sleep(time.Millisecond)
						for _, name := range names {
							inside.Delete(name)
						}
						l.Unlock()
					}
				})
			}
		}
		all.Wait()
		wantLeft(t, ms, "a", "b", "c")
	})
}

func TestShutdownAndCloseCountASetOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		set := c.Locker("a", "b")
		set.Lock()
		waits := make(chan error)
		go func() { waits <- c.Locker("b", "c").LockContext(t.Context()) }()
		time.Sleep(3 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "locks still held: 1") {
			t.Errorf("Shutdown = %v, want that one lock is held", err)
		}
		if err := <-waits; err != redlock.ErrClosed {
			t.Errorf("LockContext = %v, want ErrClosed", err)
		}
		set.Unlock()
	})
}

// When single leases become one lease of several names, a minority may refuse one of the names.
func TestTokensOfTheNamesDoNotStayWhereTheMergerWasRefused(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		ours, theirs := connected(t, ms, nil), connected(t, ms, nil)
		b := theirs.Locker("b")
		b.Lock()
		set := ours.Locker("a", "b")
		done := make(chan struct{})
		go func() { defer close(done); set.Lock() }()
		time.Sleep(3 * time.Second)
		ms.Master(4).Set("b", "somebody else's", 0)
		b.Unlock()
		<-done
		synctest.Wait()
		if got, _ := ms.Master(4).Get("a"); got != "" {
			t.Errorf("the master that refused b keeps %q under a, want nothing", got)
		}
		ms.Master(4).Del("b")
		time.Sleep(4 * time.Second) // a renewal sets the lost key again
		for _, key := range []string{"a", "b"} {
			if got, _ := ms.Master(4).Get(key); got != set.Lease().Token() {
				t.Errorf("the master holds %q under %s after a renewal, want the token of the set", got, key)
			}
		}
		set.Unlock()
		wantLeft(t, ms, "a", "b")
	})
}

// The leases of the single names end before they are made one. If they lasted, they would be renewed and lost beside the
// lease of the set.
func TestNothingIsSentForTheNamesOfASetOnceTheyAreOneLease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		ours, theirs := connected(t, ms, nil), connected(t, ms, nil)
		b := theirs.Locker("b")
		b.Lock()
		set := ours.Locker("a", "b")
		done := make(chan struct{})
		go func() { defer close(done); set.Lock() }()
		time.Sleep(3 * time.Second)
		parts := ms.Get("a")
		if len(holders(ms, "a")) != ms.Len() {
			t.Fatal("the set did not acquire a alone")
		}
		b.Unlock()
		<-done
		synctest.Wait()
		var sent [3]int
		for i := range sent {
			sent[i] = len(ms.Master(i).Commands())
		}
		time.Sleep(time.Minute)
		for i := range sent {
			for _, command := range ms.Master(i).Commands()[sent[i]:] {
				if strings.Contains(command, parts[i]) {
					t.Errorf("%s, long after a and b became one lease: %s", ms.Master(i).Name(), command)
				}
			}
		}
		set.Unlock()
	})
}

// The claim that takes over the single names may have a minority of the masters when it fails.
func TestAMergerThatFailsLeavesNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		b := connected(t, ms, nil).Locker("b")
		b.Lock()
		var mergers atomic.Int32
		set := connected(t, ms, &redlock.Options{Trace: &redlock.Trace{AttemptDone: func(_ context.Context, i redlock.AttemptInfo) {
			if i.Name == "b" && i.Err == nil { // both names are acquired
				mergers.Add(1)
				hold(ms, "b", 0, 1)
			}
		}}}).Locker("a", "b")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		go func() {
			time.Sleep(3 * time.Second)
			b.Unlock()
		}()
		if err := set.LockContext(ctx); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("LockContext = %v, want ErrHeld", err)
		}
		synctest.Wait()
		if n := mergers.Load(); n != 1 {
			t.Fatalf("the names were acquired one by one %d times, want once", n)
		}
		for _, name := range []string{"a", "b"} {
			if got, _ := ms.Master(2).Get(name); got != "" {
				t.Errorf("the master that granted the merger keeps %q under %s, want nothing", got, name)
			}
		}
	})
}
