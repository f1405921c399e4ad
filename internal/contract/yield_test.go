package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// These tests use two Clients. One is near the masters and locks again and again. The other is far from them
// and waits. Whatever the way in which the first Client releases the lock, the second must get its turn.

// testTurns makes a far Client wait while a near one locks, and releases the lock by leave, again and again.
func testTurns(t *testing.T, opts *redlock.Options, leave func(l *redlock.Locker)) {
	t.Helper()
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := openAt(ms, 100*time.Microsecond, opts).Locker("a")
		l.Lock()
		waiter := openAt(ms, 5*time.Millisecond, nil).Locker("a")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		in := make(chan error, 1)
		go func() {
			err := waiter.LockContext(ctx)
			if err == nil {
				defer waiter.Unlock()
			}
			in <- err
		}()
		time.Sleep(50 * time.Millisecond)
		turns := 0
		for ; len(in) == 0; turns++ {
			leave(l)
			l.Lock()
		}
		if err := <-in; err != nil {
			t.Fatalf("the waiter's LockContext = %v after %d turns of the other", err, turns)
		}
		if turns > 3 {
			t.Errorf("the other had %d turns first, want 3 at most", turns)
		}
		l.Unlock()
	})
}

func TestAHolderWhoseLeaseEndsByMaxHoldLeavesTheLockToAWaiter(t *testing.T) {
	opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second, MaxHold: 2 * time.Second, Handover: -1}}
	testTurns(t, opts, func(l *redlock.Locker) {
		<-l.Lease().Done()
		l.Unlock()
	})
}

func TestAHolderThatDoesNotWaitForItsReleaseLeavesTheLockToAWaiter(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	testTurns(t, noHandover(), func(l *redlock.Locker) {
		time.Sleep(time.Millisecond)
		l.UnlockContext(over)
	})
}
