package contract_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAScheduleThatStopsEndsTheWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		steps := 0
		var attempts atomic.Int32
		opts := &redlock.Options{Trace: &redlock.Trace{
			AttemptDone: func(context.Context, redlock.AttemptInfo) { attempts.Add(1) },
		}, LockOptions: redlock.LockOptions{RenewEvery: -1}, NewBackOff: func() redlock.BackOff { // a claim has a pace of its own
			steps = 0
			return locktest.BackOffFunc(func() time.Duration {
				if steps++; steps > 3 {
					return -1
				}
				return time.Duration(steps) * time.Second
			})
		}}
		c := connected(t, ms, opts)
		hold(ms, "a", 0, 1, 2)
		start := time.Now()
		err := c.Locker("a").LockContext(t.Context())
		var quorum *redlock.QuorumError
		if !errors.As(err, &quorum) || !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("LockContext = %v, want the last QuorumError", err)
		}
		if took := time.Since(start); took != 6*time.Second {
			t.Errorf("LockContext gave up after %v, want 1s + 2s + 3s", took)
		}
		// Lock continues with the longest step.
		attempts.Store(0)
		time.AfterFunc(31*time.Second, func() {
			for i := range 3 {
				ms.Master(i).Del("a")
			}
		})
		start = time.Now()
		l := c.Locker("a")
		l.Lock()
		if took := time.Since(start); took != 33*time.Second {
			t.Errorf("Lock took %v, want 33s: 1 + 2 + 3, then steps of 3s", took)
		}
		if got := attempts.Load(); got != 14 { // the second follows the first at once
			t.Errorf("Lock made %d attempts, want 14", got)
		}
		l.Unlock()
	})
}

func TestLockSurvivesAScheduleThatNeverBegins(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{NewBackOff: func() redlock.BackOff {
			return locktest.BackOffFunc(func() time.Duration { return -1 })
		}}
		c := connected(t, ms, opts)
		hold(ms, "a", 0, 1)
		time.AfterFunc(10*time.Second, func() { ms.Master(0).Del("a") })
		l := c.Locker("a")
		locktest.Pass(l)
		// 10 polls a second at least find a free key there, and give it up again.
		if n := ms.Master(2).Count("EVALSHA"); n > 200 {
			t.Errorf("%d scripts in 10s: a busy loop", n)
		}
	})
}

func TestDefaultDelaysGrowAndAreRandom(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
		var at []time.Time
		opts := &redlock.Options{DisableWakeups: true, Trace: &redlock.Trace{
			AttemptDone: func(context.Context, redlock.AttemptInfo) { at = append(at, time.Now()) },
		}}
		c := connected(t, ms, opts)
		hold(ms, "a", 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Locker("a").LockContext(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("LockContext = %v, want to wait for all of it", err)
		}
		distinct := make(map[time.Duration]bool)
		for i := 2; i < len(at); i++ { // the second follows the first at once
			d := at[i].Sub(at[i-1])
			distinct[d] = true
			if d < 2500*time.Microsecond || d > 375*time.Millisecond {
				t.Errorf("delay %d is %v, want 5ms to 250ms, randomised by half", i, d)
			}
			if i > 20 && d < 125*time.Millisecond {
				t.Errorf("delay %d is %v, want the longest step by now", i, d)
			}
		}
		if first := at[2].Sub(at[1]); first > 7500*time.Microsecond {
			t.Errorf("the first delay is %v, want about 5ms", first)
		}
		if len(distinct) < len(at)/2 {
			t.Errorf("%d attempts had %d different delays: not random", len(at), len(distinct))
		}
	})
}

// A schedule may return any delay. Adding to a very large one must not overflow and become no delay.
func TestAnOverflowingDelayCausesNoBusyLoop(t *testing.T) {
	for _, wakeups := range []bool{true, false} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			c := connected(t, ms, &redlock.Options{DisableWakeups: !wakeups, NewBackOff: func() redlock.BackOff {
				return locktest.BackOffFunc(func() time.Duration { return math.MaxInt64 })
			}})
			for i := range 3 {
				ms.Master(i).Set("a", "somebody's", 0) // for ever
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := c.Locker("a").LockContext(ctx); !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("LockContext = %v, want it to be held", err)
			}
			if n := ms.Master(0).Count("EVALSHA"); n > 1000 {
				t.Errorf("wake-ups: %t: %d script calls in a minute, want few", wakeups, n)
			}
		})
	}
}
