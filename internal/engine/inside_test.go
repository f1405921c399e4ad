package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/engine"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// These tests use export_test.go. All other tests of what users see are in internal/contract.

// core returns the engine of a Client.
func core(c *redlock.Client) *engine.Core {
	l, err := c.NewLocker("core", &redlock.LockOptions{}) // without Keep, it has no entrance
	if err != nil {
		panic(err)
	}
	return (*engine.Locker)(l).Core()
}

// lease returns a lease as the engine knows it.
func lease(s *redlock.Lease) *engine.Lease { return (*engine.Lease)(s) }

func TestMain(m *testing.M) { locktest.Main(m) }

func TestALeaseForgetsContextsThatHaveEnded(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := locktest.Connected(t, ms, nil).Locker("a")
		l.Lock()
		s := l.Lease()
		for range 1000 {
			parent, cancel := context.WithCancel(t.Context())
			s.Context(parent)
			cancel()
		}
		synctest.Wait()
		if n := lease(s).Contexts(); n != 0 {
			t.Errorf("the lease keeps %d contexts that have ended", n)
		}
		l.Unlock()
	})
}

// After a handover, the new holder may unlock the lease before the previous holder has scheduled it. Then it
// must not be scheduled.
func TestALeaseThatHasEndedIsNotScheduled(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := locktest.Connected(t, ms, nil)
		l := c.Locker("a")
		l.Lock()
		s := l.Lease()
		l.Unlock()
		lease(s).Begin()
		if n := core(c).Scheduled(); n != 0 {
			t.Errorf("%d leases are scheduled, want none", n)
		}
	})
}

// The Client is closed when the votes of an attempt have come, and are about to become a lease.
func TestAnAttemptThatTheEndOfTheClientMakesUselessSaysSo(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var attempts []error
		c := locktest.Connected(t, ms, &redlock.Options{Trace: &redlock.Trace{AttemptDone: func(_ context.Context, i redlock.AttemptInfo) { attempts = append(attempts, i.Err) }}})
		core(c).Scheduled() // no lease can be scheduled from now on, as after Close
		c.Locker("a").TryLock()
		if len(attempts) != 1 || !errors.Is(attempts[0], redlock.ErrClosed) {
			t.Errorf("AttemptDone was told %v, want one error that matches ErrClosed", attempts)
		}
	})
}

// The gate must not be left before the release of a lost lease is queued. Otherwise the next acquisition by the Client
// could come before that release.
func TestUnlockWaitsUntilTheReleaseOfALostLeaseIsQueued(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var asleep atomic.Int64
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second}}
		opts.DisableRestartGuard = true
		locktest.SetClocks(opts, func() (wall, slept time.Duration) { return 0, time.Duration(asleep.Load()) })
		c := locktest.Connected(t, ms, opts)
		l := c.Locker("a")
		l.Lock()
		s := l.Lease()
		resume := core(c).HoldRelease()
		asleep.Store(int64(time.Minute))
		go s.Valid() // loses the lease
		<-s.Done()
		unlocked := make(chan struct{})
		go func() {
			defer close(unlocked)
			l.Unlock()
		}()
		for range 10_000 {
			runtime.Gosched()
		}
		select {
		case <-unlocked:
			t.Error("Unlock returned before the release was queued")
		default:
		}
		resume()
		<-unlocked
		if err := l.TryLockContext(t.Context()); err != nil {
			t.Errorf("after Unlock: %v", err)
		}
	})
}

// A process that is throttled is granted locks while it does not run. It would be granted them again at once if
// it kept its waiting time. All grants that one stop has left unused count as one.
func TestGrantsThatWereNotUsedPutTheNextClaimsBehindOthersForASecond(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := locktest.Connected(t, ms, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		names := []string{"a", "b", "c", "d"}
		for _, name := range names {
			locktest.Hold(ms, name, 0, 1, 2)
			go func() { ended <- c.Locker(name).LockContext(ctx) }()
		}
		time.Sleep(2 * time.Second)
		for _, name := range names {
			core(c).GrantInVain(name)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
		first, behind := 0, 0
		for _, sent := range regexp.MustCompile(`"register \d+ (-?\d+) \d+"`).FindAllStringSubmatch(strings.Join(ms.Master(0).Commands(), "\n"), -1) {
			switch ms, _ := strconv.Atoi(sent[1]); {
			case ms == 0:
				first++
			case -1000 <= ms && ms < 0:
				behind++
			default:
				t.Errorf("a claim was registered as having waited for %d ms", ms)
			}
		}
		if first != len(names) || behind != len(names) {
			t.Errorf("%d claims were registered as having waited for 0 ms, and %d as less than that, want each name once, and once more after its unused grant", first, behind)
		}
		cancel()
		for range names {
			<-ended
		}
	})
}

// A goroutine waits at the gate of a lock that is kept, and has not yet said so, when another client recalls the lock. The
// goroutine of a connection then passes the lock on, and must not wait for a function of the user.
func TestARecallThatPassesAKeptLockOnCallsNoFunctionOfTheUser(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		called := 0
		c := locktest.Connected(t, ms, &redlock.Options{
			LockOptions: redlock.LockOptions{Keep: time.Hour, Handover: time.Hour},
			Trace:       &redlock.Trace{HandedOver: func(context.Context, redlock.HandedOverInfo) { called++ }},
		})
		l := c.Locker("stock")
		l.Lock()
		token := l.Lease().Token()
		core(c).IgnoreQueued()
		in := locktest.Enter(c.Locker("stock"))
		synctest.Wait()
		l.Unlock()
		synctest.Wait()
		select {
		case <-in:
			t.Fatal("Unlock has passed the lock on: nothing is tested")
		default:
		}
		core(c).Recall("stock", token)
		<-in
		if called != 0 {
			t.Errorf("HandedOver was called %d times, want never", called)
		}
	})
}

// A lock that is not kept any more leaves its place to another one, whatever has ended it.
func TestALockThatHasEndedTakesNoPlaceAmongThoseThatAreKept(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c, other := locktest.Connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{Keep: time.Minute}}), locktest.Connected(t, ms, nil)
		core(c).KeepMost(2)
		for i := range 12 {
			l := c.Locker(fmt.Sprint("stock", i))
			locktest.Pass(l)
			synctest.Wait()
			if n := len(locktest.Holders(ms, l.Name())); n != 3 {
				t.Fatalf("lock %d is not kept: %d masters have it", i, n)
			}
			switch i % 4 {
			case 0:
				locktest.Pass(other.Locker(l.Name()))
			case 1: // a renewal finds out
				for m := range 3 {
					ms.Master(m).Del(l.Name())
				}
				time.Sleep(5 * time.Second)
			case 2: // it is not used
				time.Sleep(10 * time.Second)
			case 3:
				locktest.Pass(c.RWLocker(l.Name()).RLocker())
				time.Sleep(10 * time.Second)
			}
		}
	})
}

// A renewal begins to note anew when a lock was used. What was noted before still says which lock was not used for longest.
func TestALockThatWasUsedBeforeItsRenewalOutlastsOneThatWasUsedEarlier(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := locktest.Connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{Keep: time.Minute}})
		core(c).KeepMost(2)
		for _, name := range []string{"late", "early", "early", "late"} {
			locktest.Pass(c.Locker(name))
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(2500 * time.Millisecond) // both are renewed
		locktest.Pass(c.Locker("other"))
		synctest.Wait()
		for name, want := range map[string]int{"late": 3, "early": 0, "other": 3} {
			if n := len(locktest.Holders(ms, name)); n != want {
				t.Errorf("%d masters have %s, want %d", n, name, want)
			}
		}
	})
}

// A function of the user that panics between entering a kept tenure and holding it leaves that tenure to the next acquisition.
func TestAPanicInAKeptLockTakesNoPlaceAmongThoseThatAreKept(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var panics atomic.Bool
		opts := &redlock.Options{LockOptions: redlock.LockOptions{Keep: time.Minute}}
		opts.Trace = &redlock.Trace{LockDone: func(context.Context, redlock.LockDoneInfo) {
			if panics.CompareAndSwap(true, false) {
				panic("the user's")
			}
		}}
		c := locktest.Connected(t, ms, opts)
		core(c).KeepMost(2)
		for range 4 {
			l := c.Locker("stock")
			locktest.Pass(l)
			panics.Store(true)
			func() {
				defer func() { recover() }()
				l.Lock()
			}()
			synctest.Wait()
		}
		for _, name := range []string{"stock", "other"} {
			locktest.Pass(c.Locker(name))
		}
		synctest.Wait()
		for _, name := range []string{"stock", "other"} {
			if n := len(locktest.Holders(ms, name)); n != 3 {
				t.Errorf("%s is not kept: %d masters have it", name, n)
			}
		}
	})
}

// A service may lock a name for each of its users, once.
func TestANameThatIsNotUsedAnyMoreTakesNoMemory(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := locktest.Connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{Keep: time.Minute}})
		for i := range 20 {
			locktest.Pass(c.Locker(fmt.Sprint("stock", i)))
			locktest.Pass(c.RWLocker(fmt.Sprint("table", i)).RLocker())
		}
		runtime.GC()
		if n := core(c).Entrances(); n < 40 {
			t.Errorf("%d names are in memory while their leases are kept, want 40", n)
		}
		time.Sleep(time.Hour)
		if err := c.Ping(t.Context()); err != nil { // the last commands to a master are in memory until the next one
			t.Error(err)
		}
		for range 10 { // a goroutine that has just ended may still be seen on a stack
			runtime.GC()
			if core(c).Entrances() == 0 {
				break
			}
		}
		if n := core(c).Entrances(); n != 0 {
			t.Errorf("%d names are in memory an hour later, want none", n)
		}
	})
}

var most = flag.Int("most", 500, "how many locks the Client of TestAClientKeepsALimitedNumberOfLocks keeps; the default of Clients is 10000")

// A process that locks many names keeps those that it has used last.
func TestAClientKeepsALimitedNumberOfLocks(t *testing.T) {
	const used, more = 100, 200
	locktest.Bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
		c := locktest.Connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{Keep: time.Hour}})
		if n := core(c).KeepMost(*most); n != 10_000 {
			t.Errorf("a Client keeps %d locks, want 10 000", n)
		}
		lockers := make([]*redlock.Locker, *most+more)
		for i := range lockers {
			lockers[i] = c.Locker(fmt.Sprint("stock", i))
		}
		keys := func() (n int) {
			synctest.Wait()
			for _, key := range ms.Master(0).Keys() {
				if strings.HasPrefix(key, "stock") {
					n++
				}
			}
			return n
		}
		pass := func(lockers []*redlock.Locker) (scripts int) {
			before := ms.Master(0).Count("EVALSHA")
			for _, l := range lockers {
				locktest.Pass(l)
			}
			if n := keys(); n != *most {
				t.Fatalf("%d locks are kept, want %d", n, *most)
			}
			return ms.Master(0).Count("EVALSHA") - before
		}
		pass(lockers[:*most])
		time.Sleep(100 * time.Millisecond)
		pass(lockers[:used])
		time.Sleep(100 * time.Millisecond)
		pass(lockers[*most:])
		if n := pass(lockers[:used]) + pass(lockers[*most:]); n > 0 {
			t.Errorf("%d scripts ran, although these locks were used last", n)
		}
		if n := pass(lockers[used : used+more]); n < more {
			t.Errorf("%d scripts ran, although %d locks were not used for longest", n, more)
		}
		for _, l := range lockers {
			if !l.TryLock() {
				t.Fatalf("%s is not free", l.Name())
			}
		}
		if n := keys(); n != len(lockers) {
			t.Errorf("%d locks are held, want %d", n, len(lockers))
		}
		for _, l := range lockers {
			l.Unlock()
		}
		if n := keys(); n > *most {
			t.Errorf("%d locks are kept after all were held, want %d at most", n, *most)
		}
	})
}
