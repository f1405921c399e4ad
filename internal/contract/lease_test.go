package contract_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// short returns Options with a TTL of 1 s. Validity is then 988 ms, and a renewal is due after 333 ms.
func short() *redlock.Options {
	return &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second}}
}

const shortValidity = time.Second - 10*time.Millisecond - 2*time.Millisecond

// wantLost fails t unless the lease is lost, for a reason that contains why.
func wantLost(t *testing.T, s *redlock.Lease, why string) {
	t.Helper()
	err := s.Err()
	if !errors.Is(err, redlock.ErrLost) || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "\n") {
		t.Errorf("Err = %v, want one line that matches ErrLost and says %q", err, why)
	}
	if s.Valid() {
		t.Error("a lost lease is valid")
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done of a lost lease is open")
	}
}

func TestALeaseIsLostExactlyAtTheEndOfValidity(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault func(m *redlocktest.Master)
		why   string
	}{
		{"frozen", (*redlocktest.Master).Freeze, "no answer yet"},
		{"dead", (*redlocktest.Master).Stop, "connection re"}, // refused or reset
		{"slow", func(m *redlocktest.Master) { m.Delay(5 * time.Second) }, "no answer yet"},
		{"failing", func(m *redlocktest.Master) { m.Fail("MISCONF the disk is full") }, "MISCONF"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				l := connected(t, ms, short()).Locker("a")
				l.Lock()
				s := l.Lease()
				time.Sleep(10 * time.Second)
				ctx := s.Context(t.Context())
				for i := range 3 {
					row.fault(ms.Master(i))
				}
				end := s.Until()
				<-s.Done()
				if late := time.Since(end); late < 0 || late > 0 {
					// One renewal may have been under way.
					if end = s.Until(); time.Since(end) != 0 {
						t.Errorf("Done closed %v after the end of validity, want 0", time.Since(end))
					}
				}
				<-ctx.Done()
				if late := time.Since(end); late != 0 {
					t.Errorf("the context ended %v after the end of validity, want 0", late)
				}
				wantLost(t, s, "no quorum of masters renewed it in time")
				wantLost(t, s, row.why)
				if cause := context.Cause(ctx); !errors.Is(cause, redlock.ErrLost) {
					t.Errorf("the context's cause is %v, want ErrLost", cause)
				}
				if err := l.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrLost) {
					t.Errorf("UnlockContext = %v, want ErrLost", err)
				}
				for i := range 3 {
					ms.Master(i).Thaw()
					ms.Master(i).Start()
					ms.Master(i).Delay(0)
					ms.Master(i).Fail("")
				}
				time.Sleep(15 * time.Second)
				wantFree(t, ms, "a")
			})
		})
	}
}

func TestMaxHoldBoundsRenewal(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := short()
		opts.LockOptions.MaxHold = 10 * time.Second
		c := connected(t, ms, opts)
		l := c.Locker("a")
		start := time.Now()
		l.Lock()
		s := l.Lease()
		<-s.Done()
		if held := time.Since(start); held < 10*time.Second || held > 10*time.Second+shortValidity {
			t.Errorf("the lease ended after %v, want MaxHold and what was left of validity", held)
		}
		wantLost(t, s, "MaxHold, 10s")
		synctest.Wait()
		wantFree(t, ms, "a")
		// For this Client the lock stays taken until the unlock.
		if c.Locker("a").TryLock() {
			t.Error("another goroutine got in before the unlock")
		}
		l.Unlock()
	})
}

func TestWithRenewalOffOnlyExtendExtends(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := short()
		opts.LockOptions.RenewEvery = -1
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		s := l.Lease()
		for range 10 {
			time.Sleep(900 * time.Millisecond)
			if err := s.Extend(t.Context()); err != nil {
				t.Fatalf("Extend = %v", err)
			}
			if got := time.Until(s.Until()); got != shortValidity {
				t.Errorf("Until is %v away after Extend, want all of the validity", got)
			}
		}
		// Validity counts from before the first byte was sent.
		for i := range 5 {
			ms.Master(i).Delay(100 * time.Millisecond)
		}
		if err := s.Extend(t.Context()); err != nil {
			t.Fatalf("Extend = %v", err)
		}
		if got := time.Until(s.Until()); got != shortValidity-100*time.Millisecond {
			t.Errorf("Until is %v away after an Extend of 100ms, want that much less", got)
		}
		for i := range 5 {
			ms.Master(i).Delay(0)
		}
		// The end of ctx ends the wait, and nothing else.
		for i := range 3 {
			ms.Master(i).Freeze()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := s.Extend(ctx)
		var votes *redlock.QuorumError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &votes) || errors.Is(err, redlock.ErrLost) {
			t.Errorf("Extend = %v, want deadline exceeded with the votes", err)
		}
		if !s.Valid() {
			t.Error("the lease ended with the context")
		}
		if err := s.Extend(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Extend without a quorum = %v, want ErrLost at the end of validity", err)
		}
		for i := range 3 {
			ms.Master(i).Thaw()
		}
		l.Unlock()
		l.Lock()
		s = l.Lease()
		<-s.Done()
		wantLost(t, s, "renewal is off")
		if err := s.Extend(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Extend of a lost lease = %v, want ErrLost", err)
		}
		l.Unlock()
	})
}

func TestALeaseIsOverWhenEitherClockSaysSo(t *testing.T) {
	for _, row := range []struct {
		name         string
		wall, asleep time.Duration
		lost         bool
	}{
		{"the machine slept, and the wall clock tells", time.Hour, 0, true},
		{"the machine slept, and the boot clock tells", 0, time.Hour, true},
		{"both tell", time.Hour, time.Hour, true},
		{"the wall clock was set back", -time.Hour, 0, false},
		{"a TTL of sleep", 0, 10 * time.Second, true},
		{"a second of sleep", 0, time.Second, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				var slept atomic.Bool
				opts := &redlock.Options{} // with a TTL of 10 s no renewal is due soon
				locktest.SetClocks(opts, func() (wall, asleep time.Duration) {
					if slept.Load() {
						return row.wall, row.asleep
					}
					return 0, 0
				})
				c := connected(t, ms, opts)
				asked, unasked := c.Locker("a"), c.Locker("b")
				asked.Lock()
				unasked.Lock()
				s, done := asked.Lease(), unasked.Lease().Done()
				ctx := s.Context(t.Context())
				slept.Store(true)
				// The first call returns the right answer, before any timer runs.
				if got := ctx.Err() != nil; got != row.lost {
					t.Errorf("the context's Err = %v, lost: %v, want %v", ctx.Err(), got, row.lost)
				}
				if row.lost {
					wantLost(t, s, "the machine slept, or its clock was set")
				} else if err := s.Err(); err != nil {
					t.Errorf("Err = %v, want nil", err)
				}
				// Done is closed within a second, even if nobody asks.
				time.Sleep(1001 * time.Millisecond)
				select {
				case <-done:
					if !row.lost {
						t.Errorf("Done closed: %v", unasked.Lease().Err())
					}
				default:
					if row.lost {
						t.Error("Done is open a second after the machine woke up")
					}
				}
			})
		})
	}
}

func TestAVoteThatComesAfterASleepDoesNotReviveTheLease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var slept atomic.Int64
		opts := short()
		locktest.SetClocks(opts, func() (wall, asleep time.Duration) { return 0, time.Duration(slept.Load()) })
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		s := l.Lease()
		for i := range 3 {
			ms.Master(i).Delay(100 * time.Millisecond)
		}
		time.Sleep(350 * time.Millisecond) // the renewal is under way
		// The old validity has ended during the sleep. The new one would not have.
		slept.Store(int64(800 * time.Millisecond))
		time.Sleep(100 * time.Millisecond)
		wantLost(t, s, "the machine slept")
	})
}

func TestUnlockContextRightAfterASleepReportsTheLoss(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var slept atomic.Int64
		opts := &redlock.Options{}
		locktest.SetClocks(opts, func() (wall, asleep time.Duration) { return 0, time.Duration(slept.Load()) })
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		slept.Store(int64(time.Hour))
		if err := l.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("UnlockContext = %v, want ErrLost", err)
		}
	})
}
