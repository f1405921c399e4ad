package contract_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestADeadSubscriptionIsReplaced(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, lazy()).Locker("a"), connected(t, ms, lazy()).Locker("a")
		for i := range 5 { // no master answers or ends a connection
			ms.Master(i).Freeze()
		}
		time.Sleep(5 * time.Second)
		for i := range 5 {
			ms.Master(i).Thaw()
		}
		time.Sleep(5 * time.Second)
		take(a)
		in := locktest.Enter(b)
		queued(t, ms, "a", 1)
		released := time.Now()
		a.Unlock()
		if took := (<-in).Sub(released); took != 0 {
			t.Errorf("the waiter entered %v after the release, want no wait at all", took)
		}
	})
}

func TestAWaiterThatDiesInItsTurnDelaysNoOther(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a := connected(t, ms, lazy()).Locker("a")
		take(a)
		first := connected(t, ms, lazy())
		waits := make(chan error, 1)
		go func() { waits <- first.Locker("a").LockContext(t.Context()) }()
		queued(t, ms, "a", 1)
		in := locktest.Enter(connected(t, ms, lazy()).Locker("a"))
		queued(t, ms, "a", 2)
		first.Close() // its entry stays, and its subscriptions end
		<-waits
		synctest.Wait()
		released := time.Now()
		a.Unlock()
		if took := (<-in).Sub(released); took != 0 {
			t.Errorf("behind a client that is gone the waiter entered after %v, want at once", took)
		}
	})
}

func TestAWakeUpThatNobodyWantsIsPassedOn(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a := connected(t, ms, lazy()).Locker("a")
		take(a)
		// The first client leaves. Its entries are put back, as if the commands by which it left had been lost. So
		// it is woken although it no longer waits.
		opts := lazy()
		opts.LockOptions.RenewEvery = -1 // it is woken, and never granted the lock
		first := connected(t, ms, opts)
		ctx, cancel := context.WithCancel(t.Context())
		go first.Locker("a").LockContext(ctx)
		queued(t, ms, "a", 1)
		id := queueHead(t, ms, "a")
		cancel()
		queued(t, ms, "a", 0)
		in := locktest.Enter(connected(t, ms, lazy()).Locker("a"))
		queued(t, ms, "a", 1)
		for i := range 5 {
			conn := ms.Pools()[i].Get()
			conn.Do("ZADD", "redlock:queue:a", 1, id)
			conn.Close()
		}
		released := time.Now()
		a.Unlock()
		if took := (<-in).Sub(released); took > 2*time.Millisecond {
			t.Errorf("the waiter behind entered after %v, want the wake-up passed on", took)
		}
	})
}

// A grant to a claim that was given up stands until it expires.
func TestAGrantThatNobodyWantsDelaysTheOthersUntilItExpires(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a := connected(t, ms, nil).Locker("a")
		take(a)
		ctx, cancel := context.WithCancel(t.Context())
		go connected(t, ms, nil).Locker("a").LockContext(ctx)
		queued(t, ms, "a", 1)
		member := queueHead(t, ms, "a")
		cancel()
		queued(t, ms, "a", 0)
		in := locktest.Enter(connected(t, ms, nil).Locker("a"))
		queued(t, ms, "a", 1)
		for i := range 5 {
			conn := ms.Pools()[i].Get()
			conn.Do("ZADD", "redlock:queue:a", 1, member) // as if the release of the claim had been lost
			conn.Close()
		}
		released := time.Now()
		a.Unlock()
		if took := (<-in).Sub(released); took > master.GrantLeast+250*time.Millisecond {
			t.Errorf("the waiter behind entered after %v, want the grant to expire before", took)
		}
	})
}

func TestLeavingTheWaitLeavesTheQueue(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a := connected(t, ms, lazy()).Locker("a")
		take(a)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		l := connected(t, ms, lazy()).Locker("a")
		go func() { done <- l.LockContext(ctx) }()
		queued(t, ms, "a", 1)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("LockContext = %v", err)
		}
		queued(t, ms, "a", 0)
		a.Unlock()
	})
}

func TestWaitersOfACrashedHolderWakeWhenItsKeyExpires(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		for i := range 5 {
			ms.Master(i).Set("a", "of one that crashed", 1234*time.Millisecond)
		}
		start := time.Now()
		in := locktest.Enter(connected(t, ms, lazy()).Locker("a"))
		if took := (<-in).Sub(start); took < 1234*time.Millisecond || took > 1234*time.Millisecond+10*time.Millisecond {
			t.Errorf("the waiter entered after %v, want when the key expired at 1.234s and a little jitter", took)
		}
	})
}
