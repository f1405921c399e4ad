package contract_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestUnlockContextWithAContextOfTheLeaseWaitsForTheMasters(t *testing.T) {
	type key struct{}
	for _, row := range []struct {
		name   string
		derive func(context.Context) (context.Context, context.CancelFunc)
	}{
		{"the context itself", func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} }},
		{"with a value", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithValue(ctx, key{}, 1), func() {}
		}},
		{"with a deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				c := openAt(ms, 10*time.Millisecond, nil)
				l := c.Locker("a")
				l.Lock()
				ctx, cancel := row.derive(l.Lease().Context(t.Context()))
				defer cancel()
				if err := l.UnlockContext(ctx); err != nil {
					t.Errorf("UnlockContext = %v, want nil", err)
				}
				if n := len(holders(ms, "a")); n > 2 {
					t.Errorf("UnlockContext returned while %d masters keep the key", n)
				}
			})
		})
	}
}

func TestUnlockContextEndsWithTheParentOfTheLeasesContext(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		l := c.Locker("a")
		l.Lock()
		parent, cancel := context.WithCancel(t.Context())
		ctx := l.Lease().Context(parent)
		for i := range 5 {
			ms.Master(i).Freeze()
		}
		time.AfterFunc(5*time.Millisecond, cancel)
		began := time.Now()
		if err := l.UnlockContext(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("UnlockContext = %v, want context.Canceled", err)
		}
		if took := time.Since(began); took != 5*time.Millisecond {
			t.Errorf("UnlockContext took %v, want 5ms", took)
		}
		for i := range 5 {
			ms.Master(i).Thaw()
		}
	})
}

// The context belongs to an outer lease that was lost. This does not mean that the inner lease was lost.
func TestUnlockContextDoesNotReportTheLossOfAnotherLease(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		outer, inner := c.Locker("outer"), c.Locker("inner")
		outer.Lock()
		ctx := outer.Lease().Context(t.Context())
		inner.Lock()
		for i := range 5 {
			ms.Master(i).Del("outer")
		}
		<-ctx.Done()
		if err := inner.UnlockContext(ctx); errors.Is(err, redlock.ErrLost) {
			t.Errorf("UnlockContext = %v, which matches ErrLost", err)
		}
		outer.Unlock()
		synctest.Wait()
		wantFree(t, ms, "inner")
	})
}

// The client that has waited longest is woken, and leaves before its attempt is answered. The next client
// must not wait until its own next poll, an hour later.
func TestAWokenWaiterThatLeavesPassesTheWakeUpOn(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		rarely := &redlock.Options{
			NewBackOff:  func() redlock.BackOff { return hourly{} },
			LockOptions: redlock.LockOptions{TTL: 9 * time.Second, RenewEvery: -1},
		}
		holder := connected(t, ms, rarely).Locker("a")
		far := openAt(ms, 20*time.Millisecond, rarely).Locker("a")
		next := connected(t, ms, rarely).Locker("a")
		holder.Lock()

		leaving, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- far.LockContext(leaving) }()
		time.Sleep(200 * time.Millisecond) // it has joined the queue
		entered := make(chan time.Time)
		go func() {
			next.Lock()
			entered <- time.Now()
		}()
		time.Sleep(200 * time.Millisecond)

		unlocked := time.Now()
		holder.Unlock()
		time.Sleep(30 * time.Millisecond) // far has been woken, and its attempt is under way
		leave()
		if err := <-left; err == nil {
			t.Fatal("the far waiter has the lock: the test has lost its subject")
		}
		if waited := (<-entered).Sub(unlocked); waited > 200*time.Millisecond {
			t.Errorf("the next waiter entered after %v", waited)
		}
		next.Unlock()
	})
}

// hourly is a schedule with one attempt an hour.
type hourly struct{}

func (hourly) NextBackOff() time.Duration { return time.Hour }

// openAt returns a connected Client with the same one-way delay to all masters.
func openAt(ms *redlocktest.Masters, oneWay time.Duration, opts *redlock.Options) *redlock.Client {
	c := ms.WithDelays(slices.Repeat([]time.Duration{oneWay}, ms.Len())...).Open(opts)
	time.Sleep(time.Second)
	return c
}
