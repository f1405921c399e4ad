package contract_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAClientWithoutWakeUpsLeavesAGapBehindEachRelease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const oneWay, passes = 5 * time.Millisecond, 10
		l := openAt(ms, oneWay, &redlock.Options{DisableWakeups: true}).Locker("a")
		began := time.Now()
		for range passes {
			locktest.Pass(l)
		}
		if took, want := time.Since(began), (2*passes-1)*2*oneWay; took != want {
			t.Errorf("%d passes took %v, want %v", passes, took, want)
		}
	})
}

// Clients that do not queue find a lock free only while its holder does not request it again. A client that
// locks and unlocks in a loop must leave such gaps.
func TestALoopOfLocksLeavesGaps(t *testing.T) {
	poll := func() redlock.BackOff {
		return locktest.BackOffFunc(func() time.Duration { return 7 * time.Millisecond })
	}
	for _, row := range []struct {
		name          string
		loop, polling redlock.Options
		lock          func(l *redlock.Locker)
	}{
		{"beside a client without wake-ups", redlock.Options{}, redlock.Options{DisableWakeups: true, NewBackOff: poll}, (*redlock.Locker).Lock},
		{"without wake-ups", redlock.Options{DisableWakeups: true}, redlock.Options{DisableWakeups: true, NewBackOff: poll}, (*redlock.Locker).Lock},
		{"by TryLock", redlock.Options{}, redlock.Options{DisableWakeups: true, NewBackOff: poll}, untilTried},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				loop := openAt(ms, 5*time.Millisecond, &row.loop).Locker("a")
				polling := openAt(ms, 5*time.Millisecond, &row.polling).Locker("a")
				loop.Lock()
				entered := make(chan struct{})
				go func() {
					defer close(entered)
					locktest.Pass(polling)
				}()
				for end := time.Now().Add(time.Minute); ; {
					loop.Unlock()
					row.lock(loop)
					select {
					case <-entered:
						loop.Unlock()
						return
					default:
					}
					if time.Now().After(end) {
						t.Error("a client that polls has not got the lock in a minute")
						loop.Unlock()
						<-entered
						return
					}
				}
			})
		})
	}
}

// untilTried calls l.TryLock until it succeeds.
func untilTried(l *redlock.Locker) {
	for !l.TryLock() {
		time.Sleep(time.Millisecond)
	}
}

// With the defaults, no attempt fails on a network with round trips of 40 ms.
func TestNoAttemptFailsOnASlowNetwork(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		failed := 0
		c := openAt(ms, 20*time.Millisecond, &redlock.Options{Trace: &redlock.Trace{
			AttemptDone: func(_ context.Context, info redlock.AttemptInfo) {
				if info.Err != nil {
					failed++
				}
			},
			Released: func(_ context.Context, info redlock.ReleasedInfo) {
				if info.Err != nil {
					t.Errorf("the release of %q: %v", info.Name, info.Err)
				}
			},
		}})
		l := c.Locker("a")
		for i := range 100 {
			locktest.Pass(l)
			locktest.Pass(c.Locker(fmt.Sprint(i)))
		}
		synctest.Wait()
		if failed > 0 {
			t.Errorf("%d of 200 attempts failed", failed)
		}
	})
}

// When Unlock has returned, the lock is free. But a client that waits gets it before the Client that has just
// released it.
func TestTheNextLockOfAClientDoesNotOvertakeAWaiter(t *testing.T) {
	near := []time.Duration{1e6, 1e6, 1e6, 1e6, 1e6}
	far := []time.Duration{20e6, 20e6, 20e6, 20e6, 20e6}
	for _, row := range []struct {
		name   string
		unlock func(l *redlock.Locker)
	}{
		{"Unlock", (*redlock.Locker).Unlock},
		{"UnlockContext", func(l *redlock.Locker) { l.UnlockContext(context.Background()) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				a := ms.WithDelays(near...).Open(nil).Locker("a")
				w := ms.WithDelays(far...).Open(nil).Locker("a")
				time.Sleep(time.Second)
				a.Lock()
				entered := make(chan struct{})
				go func() {
					w.Lock()
					close(entered)
					w.Unlock()
				}()
				time.Sleep(200 * time.Millisecond) // the waiter has joined the queue
				row.unlock(a)
				if a.TryLock() {
					t.Error("TryLock has overtaken a client that waits")
					a.Unlock()
				}
				for i := range ms.Len() {
					if n := len(queue(t, ms, i, "a")); n > 1 {
						t.Errorf("TryLock has joined the queue of master %d", i)
					}
				}
				a.Lock()
				select {
				case <-entered:
				default:
					t.Error("Lock has overtaken a client that waits")
				}
				a.Unlock()
				<-entered
			})
		})
	}
}

// hammer does the same as HammerMutex in the tests of package sync.
func hammer(l *redlock.Locker, loops int) {
	for i := range loops {
		if i%3 == 0 {
			if l.TryLock() {
				l.Unlock()
			}
			continue
		}
		locktest.Pass(l)
	}
}

func TestManyGoroutinesHammerALocker(t *testing.T) {
	for _, opts := range []*redlock.Options{nil, noHandover()} {
		bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
			c := ms.WithDelays(1e6, 2e6, 3e6, 4e6, 5e6).Open(opts)
			time.Sleep(time.Second)
			l := c.Locker("a")
			if !l.TryLock() {
				t.Fatal("TryLock failed with the lock unlocked")
			}
			if l.TryLock() {
				t.Fatal("TryLock succeeded with the lock locked")
			}
			l.Unlock()
			if !l.TryLock() {
				t.Fatal("TryLock failed right after Unlock")
			}
			l.Unlock()
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() { hammer(l, 50) })
			}
			wg.Wait()
			time.Sleep(time.Second)
			wantFree(t, ms, "a")
		})
	}
}

// This is TestMutexFairness of package sync: a goroutine that holds the lock for long, again and again, must
// not starve one that needs it for a moment.
func TestALongHoldStarvesNoWaiter(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := openAt(ms, time.Millisecond, noHandover())
		l := c.Locker("a")
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				l.Lock()
				time.Sleep(100 * time.Microsecond)
				l.Unlock()
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
		began := time.Now()
		for range 10 {
			time.Sleep(100 * time.Microsecond)
			locktest.Pass(l)
		}
		close(stop)
		<-done
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("10 passes beside a greedy goroutine took %v", took)
		}
	})
}
