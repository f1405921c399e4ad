package contract_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAFailedAttemptLeavesNoKey(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault func(ms *redlocktest.Masters)
		mend  func(ms *redlocktest.Masters)
		want  string
	}{
		{
			name:  "refused by a majority",
			fault: func(ms *redlocktest.Masters) { hold(ms, "a", 0, 1, 2) },
			mend: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).Del("a")
				}
			},
			want: "held",
		},
		{
			name: "executed, reply lost",
			fault: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).LoseReply("SET")
				}
			},
			want: "no quorum",
		},
		{
			name: "never executed",
			fault: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).DropRequest("SET")
				}
			},
			want: "no quorum",
		},
		{
			name: "frozen, thawed soon",
			fault: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).Freeze()
				}
			},
			mend: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).Thaw()
				}
			},
			want: "no quorum",
		},
		{
			name: "frozen, thawed after the connection was given up",
			fault: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).Freeze()
				}
			},
			mend: func(ms *redlocktest.Masters) {
				time.Sleep(5 * time.Second)
				for i := range 3 {
					ms.Master(i).Thaw()
				}
			},
			want: "no quorum",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				// A key that nobody deletes would stay for an hour.
				opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}}
				l := connected(t, ms, opts).Locker("a")
				row.fault(ms)
				if err := l.TryLockContext(t.Context()); locktest.Outcome(err) != row.want {
					t.Errorf("TryLockContext = %v, want %s", err, row.want)
				}
				if row.mend != nil {
					row.mend(ms)
				}
				time.Sleep(15 * time.Second) // reconnected, and the release repeated
				wantFree(t, ms, "a")
			})
		})
	}
}

func TestAReleaseIsOwedUntilItsMasterAnswers(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}}
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		synctest.Wait()
		ms.Master(0).Stop() // it keeps its data
		ms.Master(1).Freeze()
		l.Unlock()
		synctest.Wait()
		if got := len(holders(ms, "a")); got != 2 {
			t.Fatalf("%d masters keep the key, want the stopped and the frozen one", got)
		}
		time.Sleep(10 * time.Minute)
		ms.Master(0).Start()
		ms.Master(1).Thaw()
		time.Sleep(15 * time.Second)
		wantFree(t, ms, "a")
	})
}

func TestAReleaseThatWasAnsweredByAnErrorIsOwed(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}}
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		synctest.Wait()
		for i := range 3 {
			ms.Master(i).Fail("BUSY Redis is busy running a script")
		}
		l.Unlock()
		time.Sleep(time.Minute)
		if got := len(holders(ms, "a")); got != 3 {
			t.Fatalf("%d masters keep the key, want the three that answer errors", got)
		}
		for i := range 3 {
			ms.Master(i).Fail("")
		}
		time.Sleep(1500 * time.Millisecond)
		wantFree(t, ms, "a")
	})
}

func TestNoReleaseIsOwedToAMasterThatNeverGotTheSet(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		ms.Master(0).Stop()
		l := ms.Open(nil).Locker("a")
		for range 100 {
			locktest.Pass(l)
		}
		ms.Master(0).Start()
		time.Sleep(15 * time.Second)
		for _, command := range ms.Master(0).Commands() {
			if strings.HasPrefix(command, "EVALSHA") && strings.Contains(command, "release") {
				t.Errorf("%s was sent, of locks that the master never saw", command)
			}
		}
	})
}

func TestALateUnlockDoesNotReleaseTheSuccessorsLock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second, RenewEvery: -1}}
		stale, next := connected(t, ms, opts).Locker("a"), connected(t, ms, nil).Locker("a")
		stale.Lock()
		s := stale.Lease()
		ms.Get("a") // reading makes miniredis expire keys that are due
		time.Sleep(2 * time.Second)
		if s.Valid() {
			t.Error("a lease of 1s is valid after 2s")
		}
		if err := next.LockContext(t.Context()); err != nil {
			t.Fatalf("LockContext after the lease ran out = %v", err)
		}
		if err := stale.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("the late UnlockContext = %v, want ErrLost", err)
		}
		synctest.Wait()
		if want := slices.Repeat([]string{next.Lease().Token()}, 5); !slices.Equal(ms.Get("a"), want) {
			t.Errorf("the masters hold %q, want the successor's token", ms.Get("a"))
		}
		if !next.Lease().Valid() {
			t.Error("the successor's lease has ended")
		}
		next.Unlock()
	})
}

func TestTheGateStaysTakenUntilTheUnlockAlsoAfterALoss(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second, RenewEvery: -1}}
		c := connected(t, ms, opts)
		l := c.Locker("a")
		l.Lock()
		time.Sleep(time.Minute)
		other := c.Locker("a")
		if err := other.TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryLockContext before the late unlock = %v, want ErrHeld", err)
		}
		l.Unlock()
		if !other.TryLock() {
			t.Error("TryLock after the late unlock failed")
		}
		other.Unlock()
	})
}

func TestAKeyDeletedByAnAdministratorShowsAtTheUnlock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		for gone, want := range []error{nil, nil, nil, redlock.ErrLost, redlock.ErrLost, redlock.ErrLost} {
			l.Lock()
			synctest.Wait()
			for i := range gone {
				ms.Master(i).Del("a")
			}
			if err := l.UnlockContext(t.Context()); !errors.Is(err, want) {
				t.Errorf("UnlockContext with %d keys gone = %v, want %v", gone, err, want)
			}
		}
	})
}

func TestNothingLeaksThroughManyFreezes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		pools := ms.Pools()
		c, err := redlock.New(pools, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l := c.Locker("a")
		cycle := func() {
			ms.Master(0).Freeze()
			ms.Master(1).Freeze()
			l.TryLock() // commands and releases for the frozen masters
			time.Sleep(1500 * time.Millisecond)
			ms.Master(0).Thaw()
			ms.Master(1).Thaw()
			time.Sleep(12 * time.Second) // releases are repeated during this time
		}
		for range 3 {
			cycle()
		}
		before := runtime.NumGoroutine()
		for range 10 {
			cycle()
		}
		synctest.Wait()
		if after := runtime.NumGoroutine(); after > before {
			t.Errorf("%d goroutines, then %d", before, after)
		}
		for i, p := range pools {
			if n := p.ActiveCount(); n > 2 {
				t.Errorf("pool %d has %d connections, want 2 at most", i, n)
			}
		}
		locktest.Pass(l)
		wantFree(t, ms, "a")
	})
}
