package redlock_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
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
		if n := ms.Master(0).Count("SET"); n != 0 {
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
		if outcome(err) != "no quorum" {
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
		// As the connections are healthy, overdue, given up and dialled again.
		for range 100 {
			start := time.Now()
			err := c.Locker("a").TryLockContext(t.Context())
			if took := time.Since(start); took > 150*time.Millisecond {
				t.Errorf("TryLockContext took %v, want 3 × NodeTimeout at most", took)
			}
			if outcome(err) != "no quorum" {
				t.Errorf("TryLockContext = %v, want a QuorumError that is not ErrHeld", err)
			}
			time.Sleep(37 * time.Millisecond)
		}
	})
}

func TestAScheduleThatStops(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		steps := 0
		var attempts atomic.Int32
		opts := &redlock.Options{Trace: &redlock.Trace{
			AttemptDone: func(context.Context, redlock.AttemptInfo) { attempts.Add(1) },
		}, NewBackOff: func() redlock.BackOff {
			steps = 0
			return backOffFunc(func() time.Duration {
				if steps++; steps > 3 {
					return -1
				}
				return time.Duration(steps) * time.Second
			})
		}}
		c := connected(t, ms, opts)
		hold(ms, "a", 0, 1)
		start := time.Now()
		err := c.Locker("a").LockContext(t.Context())
		var quorum *redlock.QuorumError
		if !errors.As(err, &quorum) || !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("LockContext = %v, want the last QuorumError", err)
		}
		if took := time.Since(start); took != 6*time.Second {
			t.Errorf("LockContext gave up after %v, want 1s + 2s + 3s", took)
		}
		// Lock goes on at the longest step.
		attempts.Store(0)
		time.AfterFunc(31*time.Second, func() {
			ms.Master(0).Del("a")
			ms.Master(1).Del("a")
		})
		start = time.Now()
		l := c.Locker("a")
		l.Lock()
		if took := time.Since(start); took != 33*time.Second {
			t.Errorf("Lock took %v, want 33s: 1 + 2 + 3, then steps of 3s", took)
		}
		if got := attempts.Load(); got != 14 { // the first two follow each other at once
			t.Errorf("Lock made %d attempts, want 14", got)
		}
		l.Unlock()
	})
}

// backOffFunc is a schedule in one function.
type backOffFunc func() time.Duration

func (f backOffFunc) NextBackOff() time.Duration { return f() }

func TestLockSurvivesAScheduleThatNeverBegins(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{NewBackOff: func() redlock.BackOff {
			return backOffFunc(func() time.Duration { return -1 })
		}}
		c := connected(t, ms, opts)
		hold(ms, "a", 0, 1)
		time.AfterFunc(10*time.Second, func() { ms.Master(0).Del("a") })
		l := c.Locker("a")
		pass(l)
		if n := ms.Master(2).Count("EVALSHA"); n > 100 {
			t.Errorf("%d scripts in 10s: a busy loop", n)
		}
	})
}

func TestDefaultDelaysGrowAreRandomAndNeverStop(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
		var at []time.Time
		opts := &redlock.Options{DisableWakeups: true, Trace: &redlock.Trace{
			AttemptDone: func(context.Context, redlock.AttemptInfo) { at = append(at, time.Now()) },
		}}
		c := connected(t, ms, opts)
		hold(ms, "a", 0)
		ctx, cancel := context.WithTimeout(t.Context(), 16*time.Minute) // backoff's own default stops after 15
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

func TestUnlockContextBoundsTheWaitNotTheRelease(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		for _, ended := range []bool{false, true} {
			l.Lock()
			synctest.Wait()
			for i := range 5 {
				ms.Master(i).Delay(20 * time.Millisecond)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if ended {
				cancel()
			}
			if err := l.UnlockContext(ctx); !errors.Is(err, ctx.Err()) || err == nil {
				t.Errorf("UnlockContext = %v, want %v", err, ctx.Err())
			}
			cancel()
			for i := range 5 {
				ms.Master(i).Delay(0)
			}
			time.Sleep(100 * time.Millisecond)
			wantFree(t, ms, "a")
		}
	})
}

func TestUnlockContextSaysWhatItFound(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		if err := l.UnlockContext(t.Context()); err != redlock.ErrNotHeld {
			t.Errorf("UnlockContext of an unlocked Locker = %v, want ErrNotHeld", err)
		}
		l.Lock()
		for i := range 3 {
			ms.Master(i).Freeze()
		}
		start := time.Now()
		err := l.UnlockContext(t.Context())
		var quorum *redlock.QuorumError
		if !errors.As(err, &quorum) || quorum.Op != "release" || errors.Is(err, redlock.ErrLost) || errors.Is(err, redlock.ErrHeld) {
			t.Errorf("UnlockContext with three frozen masters = %v, want a QuorumError of the release", err)
		}
		if took := time.Since(start); took != 50*time.Millisecond {
			t.Errorf("it took %v, want NodeTimeout", took)
		}
		if err := l.UnlockContext(t.Context()); err != redlock.ErrNotHeld {
			t.Errorf("a second UnlockContext = %v, want ErrNotHeld", err)
		}
	})
}

func TestValidityIsWhatTheMastersCountLessTheDrift(t *testing.T) {
	unrenewed := redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1}}
	for _, row := range []struct {
		name  string
		opts  redlock.Options
		delay time.Duration // of each master
		px    string
		want  time.Duration // validity from the call on
	}{
		{name: "default", px: "10000", opts: unrenewed, want: 10*time.Second - 100*time.Millisecond - 2*time.Millisecond},
		{name: "rounded down to whole milliseconds", px: "1000", want: time.Second - 10*time.Millisecond - 2*time.Millisecond,
			opts: redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second + 999*time.Microsecond, RenewEvery: -1}}},
		{name: "counted from before the first byte", px: "10000", opts: unrenewed, delay: 40 * time.Millisecond,
			want: 10*time.Second - 102*time.Millisecond},
		{name: "another drift", px: "10000", want: 8*time.Second - 2*time.Millisecond,
			opts: redlock.Options{DriftFactor: 0.2, LockOptions: redlock.LockOptions{RenewEvery: -1}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				l := connected(t, ms, &row.opts).Locker("a")
				for i := range 3 {
					ms.Master(i).Delay(row.delay)
				}
				start := time.Now()
				l.Lock()
				if got := time.Since(start); got != row.delay {
					t.Errorf("Lock took %v, want %v", got, row.delay)
				}
				synctest.Wait() // a quorum is enough for Lock
				s := l.Lease()
				if got := s.Until().Sub(start); got != row.want {
					t.Errorf("Until is %v after the call, want %v", got, row.want)
				}
				set := ""
				for _, command := range ms.Master(0).Commands() {
					if strings.HasPrefix(command, "SET ") {
						set = command
					}
				}
				if want := "SET a " + s.Token() + " NX PX " + row.px; set != want {
					t.Errorf("sent %q, want %q", set, want)
				}
				time.Sleep(time.Until(s.Until()) - 1)
				if !s.Valid() {
					t.Error("not valid 1ns before its end")
				}
				time.Sleep(1 * time.Nanosecond)
				if s.Valid() {
					t.Error("valid at its end")
				}
				l.Unlock()
			})
		})
	}
}

func TestARoundThatUsesUpTheValidityIsNotWon(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		for i := range 3 {
			ms.Master(i).HangDials()
		}
		c := ms.Open(&redlock.Options{LockOptions: redlock.LockOptions{TTL: 200 * time.Millisecond}})
		time.AfterFunc(300*time.Millisecond, func() {
			for i := range 3 {
				ms.Master(i).ResumeDials()
			}
		})
		err := c.Locker("a").TryLockContext(t.Context())
		if outcome(err) != "no quorum" || !strings.Contains(err.Error(), "leaves nothing of a validity of 196ms") {
			t.Errorf("TryLockContext = %v, want an error that tells of the validity", err)
		}
		wantFree(t, ms, "a")
	})
}

func TestValidityDoesNotCountTheWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		l.Lock()
		time.AfterFunc(5*time.Second, l.Unlock)
		if err := l.LockContext(t.Context()); err != nil { // at the gate
			t.Fatal(err)
		}
		if got := time.Until(l.Lease().Until()); got != 9898*time.Millisecond {
			t.Errorf("validity after a wait at the gate is %v, want all of it", got)
		}
		l.Unlock()
		hold(ms, "a", 0, 1, 2)
		time.AfterFunc(5*time.Second, func() {
			for i := range 3 {
				ms.Master(i).Del("a")
			}
		})
		if err := l.LockContext(t.Context()); err != nil { // between rounds
			t.Fatal(err)
		}
		if got := time.Until(l.Lease().Until()); got != 9898*time.Millisecond {
			t.Errorf("validity after a wait between rounds is %v, want all of it", got)
		}
		l.Unlock()
	})
}

func TestAnAttemptThatWasCutShortDoesNotHideTheOnesBefore(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		hold(ms, "a", 0, 1, 2)
		time.AfterFunc(500*time.Millisecond, func() {
			for i := range 3 {
				ms.Master(i).Delay(time.Minute) // no answer from here on
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second-time.Millisecond)
		defer cancel()
		err := c.Locker("a").LockContext(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("LockContext = %v", err)
		}
		// Rounds without an answer follow each other by then; each that ran its
		// course says so.
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
