package contract_test

import (
	"context"
	"errors"
	"strings"
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
