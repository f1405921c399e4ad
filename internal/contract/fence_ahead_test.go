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

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// These tests are about a fence far ahead of the clock that was written by hand. It must not spread to other
// masters.

const (
	fenceKey = "redlock:fence:a"
	farAhead = 400 * 24 * time.Hour
)

// wantNear fails t unless the master's fence is near the clock.
func wantNear(t *testing.T, m *redlocktest.Master) {
	t.Helper()
	if n, now := fenceAt(t, m, "a"), locktest.Ticks(time.Now()); n > now+40 {
		t.Errorf("%s keeps a fence that is %v ahead of the clock", m.Name(), time.Duration(n-now)*250*time.Microsecond)
	}
}

func TestAFenceFarAheadOnOneMasterStaysThere(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var attempts, rounds int
		opts := locktest.Fenced(nil)
		opts.Trace.AttemptDone = func(_ context.Context, info redlock.AttemptInfo) { attempts++ }
		opts.Trace.Acquired = func(_ context.Context, info redlock.AcquiredInfo) { rounds += info.Rounds }
		c := connected(t, ms, opts)
		other := connected(t, ms, locktest.Fenced(nil))
		ms.Master(0).Set(fenceKey, fmt.Sprint(locktest.Ticks(time.Now().Add(farAhead))), 10*time.Minute)
		for i := 1; i < 5; i++ {
			ms.Master(i).Delay(time.Millisecond) // the master with the high fence answers first
		}
		last := uint64(0)
		for range 8 {
			for _, l := range []*redlock.Locker{c.Locker("a"), other.Locker("a")} {
				if err := l.LockContext(t.Context()); err != nil {
					t.Fatal(err)
				}
				if f := l.Lease().Fence(); f <= last || f >= 1<<53 {
					t.Errorf("fence %d after %d", f, last)
				} else {
					last = f
				}
				// The other client is refused, and learns the master's fence.
				if other.Locker("a").TryLock() || c.Locker("a").TryLock() {
					t.Fatal("TryLock of a held lock succeeded")
				}
				time.Sleep(5 * time.Second)
				l.UnlockContext(t.Context())
				synctest.Wait()
				for i := 1; i < 5; i++ {
					wantNear(t, ms.Master(i))
				}
			}
		}
		if rounds > 10 {
			t.Errorf("8 acquisitions took %d rounds, want one each: the number that is refused is not proposed", rounds)
		}
		if left := ms.Master(0).TTL(fenceKey); left > 10*time.Minute-80*time.Second {
			t.Errorf("after 80 s the fence that was to live for ten minutes lives for %v more: attempts renew it", left)
		}
		time.Sleep(10 * time.Minute)
		locktest.Pass(c.Locker("a"))
		synctest.Wait()
		wantNear(t, ms.Master(0)) // the fence has expired
	})
}

func TestAMasterWhoseFenceIsFarAheadIsNamed(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, locktest.Fenced(nil))
		for i := range 2 {
			ms.Master(i).Set(fenceKey, fmt.Sprint(locktest.Ticks(time.Now().Add(farAhead))), 10*time.Minute)
		}
		ms.Master(2).Set(fenceKey, "999999999999999", time.Hour)
		const want = "(master 1, master 2: its fence for this name is 9600h0m0s ahead of our clock; master 3: its fence for this name is "
		err := c.Locker("a").TryLockContext(t.Context())
		if err == nil || errors.Is(err, redlock.ErrHeld) || !strings.Contains(err.Error(), want) {
			t.Errorf("TryLockContext = %v, want it to name the masters: %s", err, want)
		}
		wantFree(t, ms, "a")
		wantNear(t, ms.Master(3))
		wantNear(t, ms.Master(4))
	})
}

// A fence may be overwritten between the two rounds of an acquisition.
func TestAFenceFarAheadIsFoundInTheSecondRound(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, locktest.Fenced(nil)).Locker("a")
		for i := range 5 { // the masters have different fences
			ms.Master(i).Set(fenceKey, fmt.Sprint(locktest.Ticks(time.Now())+int64(10*i)), time.Hour)
			ms.Master(i).Delay(10 * time.Millisecond)
		}
		result := make(chan error)
		go func() { result <- l.TryLockContext(t.Context()) }()
		time.Sleep(15 * time.Millisecond) // the commits are on their way
		for i := range 3 {
			ms.Master(i).Set(fenceKey, fmt.Sprint(locktest.Ticks(time.Now().Add(farAhead+time.Minute))), time.Hour)
		}
		const want = "its fence for this name is 9600h"
		if err := <-result; err == nil || strings.Count(err.Error(), want) != 1 || !strings.Contains(err.Error(), "(master 1, master 2, master 3: "+want) {
			t.Errorf("TryLockContext = %v, want it to name three masters: %s", err, want)
		}
		time.Sleep(50 * time.Millisecond)
		wantFree(t, ms, "a")
		wantNear(t, ms.Master(3))
		wantNear(t, ms.Master(4))
	})
}

// A master compares a fence with its own clock before it raises its fence.
func TestAClientWhoseClockIsFarAheadDoesNotSpreadAFence(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := locktest.Fenced(nil)
		locktest.SetClocks(opts, func() (wall, asleep time.Duration) { return farAhead + time.Hour, 0 })
		c := connected(t, ms, opts)
		ms.Master(0).Set(fenceKey, fmt.Sprint(locktest.Ticks(time.Now().Add(farAhead))), 10*time.Minute)
		for i := 3; i < 5; i++ {
			ms.Master(i).Delay(time.Millisecond) // the first is among the quorum that answers
		}
		err := c.Locker("a").TryLockContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "the fence is 34563600 s ahead of this server's clock") {
			t.Errorf("TryLockContext = %v, want the masters to refuse the fence", err)
		}
		synctest.Wait()
		for i := 1; i < 5; i++ {
			if n, latest := fenceAt(t, ms.Master(i), "a"), locktest.Ticks(time.Now().Add(time.Second)); n > latest {
				t.Errorf("%s keeps a fence that is %v ahead of the clock", ms.Master(i).Name(), time.Duration(n-latest)*250*time.Microsecond)
			}
		}
	})
}

// A fence that is only a little ahead of the clock is spread after the client has waited for the clock.
func TestAFenceIsSpreadWhenTheClockHasComeNearIt(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, locktest.Fenced(nil)).Locker("a")
		at := time.Now().Add(4 * time.Second)
		ms.Master(0).Set(fenceKey, fmt.Sprint(locktest.Ticks(at)), time.Hour)
		for i := 3; i < 5; i++ {
			ms.Master(i).Delay(time.Millisecond) // the first is among the quorum that answers
		}
		in := locktest.Enter(l)
		time.Sleep(2900 * time.Millisecond)
		synctest.Wait()
		for i := 1; i < 5; i++ {
			if n := fenceAt(t, ms.Master(i), "a"); n >= locktest.Ticks(at) {
				t.Errorf("%s was raised to a fence that is %v ahead of the clock", ms.Master(i).Name(), time.Until(at))
			}
		}
		<-in
		if until := time.Until(at); until > time.Second {
			t.Errorf("a fence is committed %v before its time, want a second at most", until)
		}
		if n, _ := number(l.Lease().Fence()); n <= locktest.Ticks(at) {
			t.Errorf("the fence is %d, want more than %d", n, locktest.Ticks(at))
		}
		l.Unlock()
	})
}

// Fences that a client received while its clock was wrong must not be proposed later.
func TestAFenceReceivedWhileTheClockWasWrongIsNotProposed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var off atomic.Int64
		off.Store(int64(farAhead))
		opts := locktest.Fenced(nil)
		locktest.SetClocks(opts, func() (wall, asleep time.Duration) { return time.Duration(off.Load()), 0 })
		c := connected(t, ms, opts)
		l := c.Locker("a")
		for i := range 3 {
			ms.Master(i).Set(fenceKey, fmt.Sprint(locktest.Ticks(time.Now().Add(farAhead))), 10*time.Minute)
			ms.Master(i).Set("a", "somebody's", time.Minute)
		}
		if l.TryLock() {
			t.Fatal("TryLock of a held lock succeeded")
		}
		synctest.Wait() // all masters have refused it
		off.Store(0)
		for i := range 3 {
			ms.Master(i).Del(fenceKey)
			ms.Master(i).Del("a")
		}
		l.Lock()
		synctest.Wait()
		for i := range 3 {
			wantNear(t, ms.Master(i))
		}
		l.Unlock()
	})
}
