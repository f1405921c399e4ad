package contract_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestACancelledWaitSaysWhatItWaitedFor(t *testing.T) {
	cause := errors.New("the shop has closed")
	for _, row := range []struct {
		name     string
		before   func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client)
		wantHeld bool
		wantText string
	}{
		{
			name: "at the gate, behind a holder",
			before: func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client) {
				c.Locker("a").Lock()
			},
			wantHeld: true,
		},
		{
			name: "at the gate, behind a goroutine that is refused",
			before: func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client) {
				hold(ms, "a", 0, 1, 2, 3, 4)
				go c.Locker("a").LockContext(t.Context())
				synctest.Wait()
			},
			wantHeld: true,
		},
		{
			name: "at the gate, behind a goroutine that reaches no quorum",
			before: func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client) {
				for i := range 3 {
					ms.Master(i).Freeze()
				}
				go c.Locker("a").LockContext(t.Context())
				time.Sleep(60 * time.Millisecond)
			},
			wantText: "master 3: no answer within 50ms",
		},
		{
			name: "in the first round",
			before: func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client) {
				for i := range 5 {
					ms.Master(i).Delay(20 * time.Millisecond)
				}
			},
			wantText: "no answer yet",
		},
		{
			name: "between rounds, the lock being held",
			before: func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client) {
				hold(ms, "a", 0, 1, 2)
			},
			wantHeld: true,
			wantText: "held by another",
		},
		{
			name: "between rounds, masters being down",
			before: func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client) {
				for i := range 3 {
					ms.Master(i).Stop()
				}
				time.Sleep(2 * time.Second)
			},
			wantText: "connection refused",
		},
	} {
		for _, end := range []struct {
			name string
			ctx  func(context.Context) (context.Context, context.CancelFunc)
			want error
		}{
			{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 10*time.Millisecond)
			}, context.DeadlineExceeded},
			{"cancel", func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
				return ctx, func() { cancel(nil) }
			}, context.Canceled},
		} {
			t.Run(row.name+"/"+end.name, func(t *testing.T) {
				bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
					// A schedule that goes on longer than the context.
					c := connected(t, ms, nil)
					row.before(t, ms, c)
					ctx, cancel := end.ctx(t.Context())
					defer cancel()
					start := time.Now()
					err := c.Locker("a").LockContext(ctx)
					if took := time.Since(start); took != 10*time.Millisecond {
						t.Errorf("it returned after %v, want 10ms", took)
					}
					if !errors.Is(err, end.want) {
						t.Errorf("%v does not match %v", err, end.want)
					}
					if other := map[error]error{context.Canceled: context.DeadlineExceeded, context.DeadlineExceeded: context.Canceled}[end.want]; errors.Is(err, other) {
						t.Errorf("%v matches %v too", err, other)
					}
					if end.want == context.Canceled && !errors.Is(err, cause) {
						t.Errorf("%v does not match the context's cause", err)
					}
					if got := errors.Is(err, redlock.ErrHeld); got != row.wantHeld {
						t.Errorf("errors.Is(%v, ErrHeld) = %v, want %v", err, got, row.wantHeld)
					}
					if !strings.Contains(err.Error(), row.wantText) || strings.Contains(err.Error(), "\n") {
						t.Errorf("%q: want one line with %q", err, row.wantText)
					}
				})
			})
		}
	}
}

func TestAWaitThatEndedLeavesNoKey(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault func(m *redlocktest.Master)
		mend  func(m *redlocktest.Master)
	}{
		{"slow masters", func(m *redlocktest.Master) { m.Delay(20 * time.Millisecond) }, func(m *redlocktest.Master) { m.Delay(0) }},
		{"frozen masters", (*redlocktest.Master).Freeze, (*redlocktest.Master).Thaw},
		{"masters not connected yet", (*redlocktest.Master).HangDials, (*redlocktest.Master).ResumeDials},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				var c *redlock.Client
				opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}}
				if row.name != "masters not connected yet" {
					c = connected(t, ms, opts)
				}
				for i := range 5 {
					row.fault(ms.Master(i))
				}
				if c == nil {
					c = ms.Open(opts)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				if err := c.Locker("a").LockContext(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("LockContext = %v, want deadline exceeded", err)
				}
				for i := range 5 {
					row.mend(ms.Master(i))
				}
				time.Sleep(15 * time.Second)
				wantFree(t, ms, "a")
			})
		})
	}
}

func TestAnEndedContextSendsNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for name, f := range map[string]func(context.Context) error{"LockContext": l.LockContext, "TryLockContext": l.TryLockContext} {
			if err := f(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s = %v, want canceled", name, err)
			}
		}
		time.Sleep(time.Minute)
		if n := sets(ms.Master(0), "a"); n != 0 {
			t.Errorf("%d SETs were sent, want none", n)
		}
	})
}

func TestTryLockDoesNotWaitBehindOthers(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		for i := range 5 {
			ms.Master(i).Freeze()
		}
		go c.Locker("a").LockContext(t.Context()) // in its first round
		synctest.Wait()
		start := time.Now()
		err := c.Locker("a").TryLockContext(t.Context())
		if took := time.Since(start); took != 0 {
			t.Errorf("TryLockContext waited for %v", took)
		}
		if locktest.Outcome(err) != "no quorum" {
			t.Errorf("TryLockContext beside a first round = %v, want a QuorumError that is not ErrHeld", err)
		}
		for i := range 5 {
			ms.Master(i).Thaw()
		}
	})
}

func TestWithoutAQuorumTryLockSaysSoWithinThreeNodeTimeouts(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		for i := range 3 {
			ms.Master(i).Freeze()
		}
		// The connections are healthy, then overdue, then closed and dialled again.
		for range 100 {
			start := time.Now()
			err := c.Locker("a").TryLockContext(t.Context())
			if took := time.Since(start); took > 150*time.Millisecond {
				t.Errorf("TryLockContext took %v, want 3 × NodeTimeout at most", took)
			}
			if locktest.Outcome(err) != "no quorum" {
				t.Errorf("TryLockContext = %v, want a QuorumError that is not ErrHeld", err)
			}
			time.Sleep(37 * time.Millisecond)
		}
	})
}

func TestAnAttemptThatWasCutShortDoesNotHideTheOnesBefore(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		hold(ms, "a", 0, 1, 2)
		time.AfterFunc(500*time.Millisecond, func() {
			for i := range 3 {
				ms.Master(i).Delay(time.Minute) // no master answers from now on
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second-time.Millisecond)
		defer cancel()
		err := c.Locker("a").LockContext(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("LockContext = %v", err)
		}
		// By then several rounds have ended without an answer. Their errors say so.
		if errors.Is(err, redlock.ErrHeld) {
			t.Errorf("%v matches ErrHeld, and the last whole attempt had no answer", err)
		}
		for i := range 3 {
			ms.Master(i).Delay(0)
		}
		time.Sleep(2 * time.Minute)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.AfterFunc(time.Second-20*time.Millisecond, func() {
			for i := range 3 {
				ms.Master(i).Delay(time.Minute)
			}
		})
		if err := c.Locker("a").LockContext(ctx); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("LockContext = %v, want ErrHeld: every attempt that ran its course was refused", err)
		}
		for i := range 3 {
			ms.Master(i).Delay(0)
		}
	})
}

func TestAScheduleThatStopsEndsTheWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		steps := 0
		var attempts atomic.Int32
		opts := &redlock.Options{Trace: &redlock.Trace{
			AttemptDone: func(context.Context, redlock.AttemptInfo) { attempts.Add(1) },
		}, DisableWakeups: true, NewBackOff: func() redlock.BackOff { // with wake-ups, a claim polls at a pace of its own
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
				ms.Master(i).Set("a", "somebody's", 24*time.Hour)
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

// One of three masters is down, and another has a key that nobody releases. Each waiting client has at most one
// vote. By their tokens, they give up in favour of that key, or keep their votes.
func TestAKeyThatNobodyReleasesDoesNotKeepClaimsBusy(t *testing.T) {
	for _, row := range []struct {
		token   string
		waiters int
	}{{"!", 1}, {"~", 1}, {"!", 4}, {"~", 4}} {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				const lasts = 5 * time.Second
				results := make(chan error)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second+lasts)
				defer cancel()
				for range row.waiters {
					l := connected(t, ms, nil).Locker("a")
					go func() {
						time.Sleep(time.Second)
						results <- l.LockContext(ctx)
					}()
				}
				ms.Master(2).Stop()
				ms.Master(1).Set("a", row.token+" nobody's", 0)
				time.Sleep(time.Second)
				before := ms.Master(0).Count("EVALSHA")
				for range row.waiters {
					if err := <-results; err == nil {
						t.Fatal("locked, want no quorum")
					}
				}
				synctest.Wait()
				most := 50 * row.waiters * int(lasts/time.Second)
				if n := ms.Master(0).Count("EVALSHA") - before; n > most {
					t.Errorf("%d waiting clients have sent %d commands in %v, want %d at most", row.waiters, n, lasts, most)
				}
			})
		})
	}
}

func TestAWaitForALockWhoseFenceIsFarAheadSaysSo(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, locktest.Fenced(nil)).Locker("a")
		for i := range 3 {
			ms.Master(i).Set(fenceKey, fmt.Sprint(locktest.Ticks(time.Now().Add(farAhead))), time.Hour)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		const want = "its fence for this name is 9599h"
		if err := l.LockContext(ctx); err == nil || strings.Count(err.Error(), want) != 1 {
			t.Errorf("LockContext = %v, want %s", err, want)
		}
		wantFree(t, ms, "a")
	})
}

// A short lease could not be renewed in time, or would never be long enough to count.
func TestAWaitWhoseMastersAreTooFarForAGrantGetsTheLock(t *testing.T) {
	for _, oneWay := range []time.Duration{240 * time.Millisecond, 270 * time.Millisecond} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			far := ms.WithDelays(oneWay, oneWay, oneWay)
			opts := &redlock.Options{NodeTimeout: 700 * time.Millisecond, DialTimeout: 10 * time.Second, LockOptions: redlock.LockOptions{TTL: time.Second}}
			a, b := far.Open(opts).Locker("a"), far.Open(opts).Locker("a")
			time.Sleep(20 * time.Second)
			take(a)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			go func() {
				time.Sleep(800 * time.Millisecond)
				a.Unlock()
			}()
			if err := b.LockContext(ctx); err != nil {
				t.Errorf("%v away: %v", oneWay, err)
				return
			}
			if left := time.Until(b.Lease().Until()); left < 300*time.Millisecond {
				t.Errorf("%v away: the lease is valid for %v, want what the TTL leaves after a round trip", oneWay, left)
			}
			b.Unlock()
		})
	}
}
