package contract_test

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

// about returns those of a master's commands that concern a key, without the probes behind them.
func about(m *redlocktest.Master, key string) (found []string) {
	for _, command := range m.Commands() {
		if slices.Contains(strings.Fields(command), key) {
			found = append(found, command)
		}
	}
	return found
}

// wantLeft fails t if redlock's keys of locks are left on any master.
func wantLeft(t *testing.T, ms *redlocktest.Masters, keys ...string) {
	t.Helper()
	for _, key := range keys {
		wantFree(t, ms, key)
	}
}

func TestALockerOfSeveralNamesIsOneTokenUnderAllKeys(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, &redlock.Options{Prefix: "shop:", Owner: "web"})
		l := c.Locker("b", "a", "b", "c")
		if l.Name() != "a, b, c" {
			t.Errorf("Name = %q, want each name once, in order", l.Name())
		}
		for range 3 {
			l.Lock()
			synctest.Wait()
			for _, key := range []string{"shop:a", "shop:b", "shop:c"} {
				if got := holders(ms, key); len(got) != 5 || slices.ContainsFunc(got, func(s string) bool { return s != l.Lease().Token() }) {
					t.Fatalf("the masters hold %v under %s, want the token %q", got, key, l.Lease().Token())
				}
				if ttl := ms.Master(0).TTL(key); ttl != 10*time.Second {
					t.Errorf("TTL of %s = %v, want that of the lock", key, ttl)
				}
			}
			if err := l.UnlockContext(t.Context()); err != nil {
				t.Fatalf("UnlockContext = %v", err)
			}
			wantLeft(t, ms, "shop:a", "shop:b", "shop:c")
		}
	})
}

func TestALockAndUnlockOfSeveralNamesIsOneCommandEach(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a", "b", "c", "d")
		locktest.Pass(l) // this loads the script
		synctest.Wait()
		before := len(about(ms.Master(0), "b"))
		l.Lock()
		synctest.Wait()
		if got := about(ms.Master(0), "b")[before:]; len(got) != 1 {
			t.Errorf("a lock is %q, want one command", got)
		}
		l.Unlock()
		synctest.Wait()
		if got := about(ms.Master(0), "b")[before:]; len(got) != 2 {
			t.Errorf("a lock and unlock are %q, want two commands", got)
		}
	})
}

func TestANameGivenTwiceIsOneName(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a", "a")
		l.Lock()
		synctest.Wait()
		if got := sets(ms.Master(0), "a"); got != 1 || l.Name() != "a" {
			t.Errorf("a Locker of one name given twice is %q, and has sent %d SETs, want a Locker of that name", l.Name(), got)
		}
		l.Unlock()
	})
}

func TestBadNamesAmongSeveralAreErrors(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		var many []string
		for i := range 128 {
			many = append(many, fmt.Sprint("n", i))
		}
		for _, row := range []struct {
			name string
			more []string
			want string // "": none
		}{
			{"128 names", many[1:], ""},
			{"129 names", append(many, "a"), "129 names, the limit is 128"},
			{"an empty one", []string{"a", ""}, "needs a name"},
			{"a reserved one", []string{"redlock:a"}, "reserved"},
			{"one that is too long", []string{strings.Repeat("x", 64<<10+1)}, "bytes long"},
		} {
			l, err := c.NewLocker("n0", &redlock.LockOptions{}, row.more...)
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%s: NewLocker = %v, want %q", row.name, err, row.want)
			}
			if err == nil {
				locktest.Pass(l)
			}
		}
		if _, err := c.NewLocker("a", &redlock.LockOptions{TTL: -1}, "b"); err == nil {
			t.Error("NewLocker with bad options and several names = nil, want an error")
		}
	})
}

func TestASetExcludesEachLockerOfOneOfItsNames(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		ours, theirs := connected(t, ms, nil), connected(t, ms, nil)
		set := ours.Locker("a", "b", "c")
		set.Lock()
		for _, c := range []*redlock.Client{ours, theirs} {
			for _, l := range []*redlock.Locker{c.Locker("a"), c.Locker("c"), c.Locker("c", "d"), c.Locker("c", "b", "a")} {
				if err := l.TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
					t.Errorf("TryLock of %q = %v while a set with one of the names is held, want ErrHeld", l.Name(), err)
				}
			}
			if l := c.Locker("d", "e"); !l.TryLock() {
				t.Error("TryLock of other names = false")
			} else if err := l.UnlockContext(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		set.Unlock()
		for _, c := range []*redlock.Client{ours, theirs} {
			for _, name := range []string{"a", "c"} {
				l := c.Locker(name)
				if err := l.TryLockContext(t.Context()); err != nil {
					t.Fatalf("TryLock of a freed name = %v", err)
				}
				for _, c := range []*redlock.Client{ours, theirs} {
					if err := c.Locker("a", "b", "c").TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
						t.Errorf("TryLock of a set of which %q is held = %v, want ErrHeld", name, err)
					}
				}
				if err := l.UnlockContext(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		wantLeft(t, ms, "a", "b", "c", "d", "e")
	})
}

func TestTheErrorOfASetNamesTheNameThatIsHeldAndItsHolder(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		ours, theirs := connected(t, ms, nil), connected(t, ms, &redlock.Options{Owner: "web-2"})
		theirs.Locker("b").Lock()
		synctest.Wait() // until all masters have the key
		err := ours.Locker("a", "b", "c").TryLockContext(t.Context())
		var q *redlock.QuorumError
		if !errors.Is(err, redlock.ErrHeld) || !errors.As(err, &q) || q.Held != "b" || q.Name != "a, b, c" {
			t.Errorf("TryLock = %v, Held %q, want ErrHeld because of b", err, q.Held)
		}
		if want := `acquire "a, b, c": granted by 0, 3 needed (master `; !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `: "b" is held by another`) {
			t.Errorf("the error is %q, want %q and that b is held by another", err, want)
		}
		wantLeft(t, ms, "a", "c")
		ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
		defer cancel()
		err = ours.Locker("a", "b", "c").LockContext(ctx)
		if !errors.Is(err, redlock.ErrHeld) || !errors.As(err, &q) || q.Held != "b" || q.Owner != "web-2" {
			t.Errorf("LockContext = %v, Held %q, Owner %q, want that web-2 holds b", err, q.Held, q.Owner)
		}
		wantLeft(t, ms, "a", "c")
	})
}

func TestARefusedSetHoldsNothingWhileItPolls(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		ours, theirs := connected(t, ms, nil), connected(t, ms, nil)
		b := theirs.Locker("b")
		b.Lock()
		set := ours.Locker("a", "b")
		done := make(chan struct{})
		go func() { defer close(done); set.Lock() }()
		for range 3 { // until it acquires the names one by one
			time.Sleep(10 * time.Millisecond)
			for _, c := range []*redlock.Client{ours, theirs} {
				l := c.Locker("a")
				if err := l.TryLockContext(t.Context()); err != nil {
					t.Fatalf("TryLock of a = %v while a set with a polls", err)
				}
				if err := l.UnlockContext(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		b.Unlock()
		<-done
		set.Unlock()
		wantLeft(t, ms, "a", "b")
	})
}

func TestASetThatIsOftenRefusedHoldsWhatItHasAndBecomesOneLease(t *testing.T) {
	for _, fencing := range []bool{false, true} {
		bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
			ours, theirs := connected(t, ms, nil), connected(t, ms, nil)
			b := theirs.Locker("b")
			b.Lock()
			acquired := 0
			ours2 := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{Fencing: fencing}, Trace: &redlock.Trace{
				Acquired: func(_ context.Context, i redlock.AcquiredInfo) {
					acquired++
					if i.Name != "a, b, c" {
						t.Errorf("acquired %q, want the set alone", i.Name)
					}
				},
				Released: func(_ context.Context, i redlock.ReleasedInfo) {
					if i.Name != "a, b, c" || i.Err != nil {
						t.Errorf("released %q, %v, want the set alone", i.Name, i.Err)
					}
				},
			}})
			set := ours2.Locker("c", "b", "a")
			done := make(chan struct{})
			go func() { defer close(done); set.Lock() }()
			time.Sleep(8 * time.Second) // a is renewed meanwhile
			if err := ours.Locker("a").TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
				t.Fatalf("TryLock of a = %v, want ErrHeld: the set has waited long", err)
			}
			if c := ours.Locker("c"); !c.TryLock() {
				t.Error("TryLock of c = false, want true: the set waits for b first")
			} else {
				c.Unlock()
			}
			b.Unlock()
			<-done
			time.Sleep(8 * time.Second) // a master that had not carried the release of b out is healed by a renewal
			for _, key := range []string{"a", "b", "c"} {
				if got := holders(ms, key); len(got) != 5 || slices.ContainsFunc(got, func(s string) bool { return s != set.Lease().Token() }) {
					t.Errorf("the masters hold %v under %s, want the token %q", got, key, set.Lease().Token())
				}
			}
			if acquired != 1 || fencing != (set.Lease().Fence() != 0) {
				t.Errorf("acquired %d times, fence %d, want one acquisition", acquired, set.Lease().Fence())
			}
			if err := set.UnlockContext(t.Context()); err != nil {
				t.Errorf("UnlockContext = %v after renewals", err)
			}
			wantLeft(t, ms, "a", "b", "c")
		})
	}
}

func TestASetThatGivesUpLeavesNothing(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		ours, theirs := connected(t, ms, nil), connected(t, ms, nil)
		b := theirs.Locker("b")
		b.Lock()
		for _, limit := range []time.Duration{time.Millisecond, 50 * time.Millisecond, 3 * time.Second, 12 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			if err := ours.Locker("a", "b", "c").LockContext(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("LockContext = %v after %v, want the end of ctx, and ErrHeld", err, limit)
			}
			cancel()
			wantLeft(t, ms, "a", "c")
			for _, c := range []*redlock.Client{ours, theirs} {
				for _, name := range []string{"a", "c"} {
					l := c.Locker(name)
					if err := l.LockContext(t.Context()); err != nil {
						t.Fatal(err)
					}
					if err := l.UnlockContext(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}

func TestASetBeginsAgainWhenANameIsLostWhileItWaitsForTheNext(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		ours, theirs := connected(t, ms, nil), connected(t, ms, nil)
		b := theirs.Locker("b")
		b.Lock()
		set := ours.Locker("a", "b")
		done := make(chan struct{})
		go func() { defer close(done); set.Lock() }()
		time.Sleep(5 * time.Second)
		hold(ms, "a", 0, 1, 2) // a is lost
		time.Sleep(5 * time.Second)
		b.Unlock()
		time.Sleep(5 * time.Second)
		if set.Lease() != nil {
			t.Error("the set is locked although a is held by another")
		}
		if !b.TryLock() {
			// The set must not hold b while it waits for a, which comes first.
			t.Fatal("TryLock of b = false while the set waits for a")
		}
		synctest.Wait() // a quorum was enough; a SET that arrives later would keep b locked
		for i := range 3 {
			ms.Master(i).Del("a")
		}
		b.Unlock()
		<-done
		set.Unlock()
	})
}

// A quorum of masters for each name is not always a quorum of masters that grant all names.
func TestASetNeedsAQuorumOfWholeSets(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		for i := range 2 {
			ms.Master(i).Set("a", "somebody else's", 5*time.Second)
			ms.Master(4-i).Set("b", "somebody else's", 5*time.Second)
		}
		set := c.Locker("a", "b")
		if err := set.TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryLock = %v with a whole set at one of five masters, want ErrHeld", err)
		}
		start := time.Now()
		set.Lock()
		if took := time.Since(start); took < 4*time.Second || took > 8*time.Second {
			t.Errorf("Lock took %v, want until the other keys have expired", took)
		}
		synctest.Wait()
		for _, key := range []string{"a", "b"} {
			if got := holders(ms, key); len(got) < 3 || slices.ContainsFunc(got, func(s string) bool { return s != set.Lease().Token() }) {
				t.Errorf("the masters hold %v under %s, want the token %q", got, key, set.Lease().Token())
			}
		}
		set.Unlock()
		wantLeft(t, ms, "a", "b")
	})
}

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
				t.Errorf("a waiter got its name after %v, want it granted at once", d)
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

// The hooks that are called when the names have become one lease may panic. A master that refused one name has the key of the other then.
func TestAPanicOfATraceWhenTheNamesBecomeOneLeaseLeavesNothing(t *testing.T) {
	for name, trace := range map[string]func(panics func(name string, err error)) *redlock.Trace{
		"AttemptDone": func(panics func(string, error)) *redlock.Trace {
			return &redlock.Trace{AttemptDone: func(_ context.Context, i redlock.AttemptInfo) { panics(i.Name, i.Err) }}
		},
		"Acquired": func(panics func(string, error)) *redlock.Trace {
			return &redlock.Trace{Acquired: func(_ context.Context, i redlock.AcquiredInfo) { panics(i.Name, nil) }}
		},
		"LockDone": func(panics func(string, error)) *redlock.Trace {
			return &redlock.Trace{LockDone: func(_ context.Context, i redlock.LockDoneInfo) { panics(i.Name, i.Err) }}
		},
	} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			theirs := connected(t, ms, nil).Locker("b")
			theirs.Lock()
			ours := connected(t, ms, &redlock.Options{Trace: trace(func(name string, err error) {
				if name == "a, b" && err == nil {
					panic("the user's")
				}
			})})
			panicked := make(chan any)
			go func() {
				defer func() { panicked <- recover() }()
				ours.Locker("a", "b").Lock()
			}()
			time.Sleep(3 * time.Second)
			if n := len(holders(ms, "a")); n != 3 {
				t.Fatalf("%s: %d masters have a, want 3: nothing is tested", name, n)
			}
			ms.Master(2).Set("b", "somebody else's", 0)
			theirs.Unlock()
			if <-panicked == nil {
				t.Errorf("%s: no panic", name)
			}
			time.Sleep(100 * time.Millisecond)
			for i, key := range ms.Get("a") {
				if key != "" {
					t.Errorf("%s: master %d keeps %q under a for %v, want nothing", name, i, key, ms.Master(i).TTL("a"))
				}
			}
			for i := range 2 {
				if key, _ := ms.Master(i).Get("b"); key != "" {
					t.Errorf("%s: master %d keeps %q under b, want nothing", name, i, key)
				}
			}
		})
	}
}

func TestASetExcludesReadersOfItsNames(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		ours, theirs := connected(t, ms, nil), connected(t, ms, nil)
		for _, c := range []*redlock.Client{ours, theirs} {
			readers, set := c.RWLocker("b"), ours.Locker("a", "b")
			readers.RLock()
			if err := set.TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("TryLock of a set with readers of one name = %v, want ErrHeld", err)
			}
			readers.RUnlock()
			if c == ours && !set.TryLock() {
				t.Error("TryLock of a set = false beside a read lease that its Client keeps for nobody")
			} else if c == theirs {
				set.Lock() // the lease that the readers keep is given up
			}
			if readers.TryRLock() {
				t.Error("TryRLock = true while a set with the name is held")
			}
			set.Unlock()
			time.Sleep(time.Second)
			readers.RLock()
			//lint:ignore SA2001 it is the locking that is tested
			readers.RUnlock()
		}
	})
}
