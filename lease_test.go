package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// short are LockOptions with a TTL of 1 s: validity is 988 ms, renewal is due
// after 333 ms.
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

func TestALeaseIsRenewedForHours(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
		opts := short()
		opts.LockOptions.MaxHold = -1
		l := connected(t, ms, opts).Locker("a")
		other := connected(t, ms, nil).Locker("a")
		l.Lock()
		s := l.Lease()
		for range 2 * 60 {
			time.Sleep(time.Minute)
			if err := s.Err(); err != nil {
				t.Fatalf("the lease ended: %v", err)
			}
			if other.TryLock() {
				t.Fatal("somebody else got in")
			}
		}
		if got := time.Until(s.Until()); got < shortValidity/2 || got > shortValidity {
			t.Errorf("Until is %v away, want between two thirds and all of the validity", got)
		}
		if err := l.UnlockContext(t.Context()); err != nil {
			t.Errorf("UnlockContext after two hours = %v", err)
		}
		wantFree(t, ms, "a")
		if err := s.Err(); err != redlock.ErrReleased {
			t.Errorf("Err after the unlock = %v, want ErrReleased", err)
		}
	})
}

func TestLossComesExactlyAtTheEndOfValidity(t *testing.T) {
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
					// One renewal may have been on its way.
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

func TestARenewalSucceedsOnABareQuorum(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, short()).Locker("a")
		l.Lock()
		ms.Master(0).Stop()
		ms.Master(1).Freeze()
		time.Sleep(10 * time.Minute)
		if err := l.Lease().Err(); err != nil {
			t.Errorf("with three of five masters the lease ended: %v", err)
		}
		if err := l.UnlockContext(t.Context()); err != nil {
			t.Errorf("UnlockContext = %v", err)
		}
	})
}

func TestASlowQuorumDoesNotLoseTheLease(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, short()).Locker("a")
		l.Lock()
		for i := range 5 {
			// Nine times NodeTimeout; one renewal follows the other within validity.
			ms.Master(i).Delay(450 * time.Millisecond)
		}
		time.Sleep(10 * time.Minute)
		if err := l.Lease().Err(); err != nil {
			t.Errorf("the lease ended: %v", err)
		}
	})
}

func TestARenewalThatFailsIsTriedAgain(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, short()).Locker("a")
		for _, outage := range []time.Duration{100, 300, 500} {
			l.Lock()
			s := l.Lease()
			time.Sleep(300 * time.Millisecond) // before the renewal
			for i := range 3 {
				ms.Master(i).Fail("LOADING Redis is loading the dataset in memory")
			}
			time.Sleep(outage * time.Millisecond)
			for i := range 3 {
				ms.Master(i).Fail("")
			}
			time.Sleep(10 * time.Second)
			if err := s.Err(); err != nil {
				t.Errorf("after an outage of %d ms: %v", outage, err)
			}
			l.Unlock()
		}
	})
}

func TestAKeyThatOneMasterLostIsSetAgain(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, short()).Locker("a")
		l.Lock()
		s := l.Lease()
		synctest.Wait()
		ms.Master(3).Del("a")
		ms.Master(4).Stop()
		ms.Master(4).Forget()
		ms.Master(4).Adopt() // or its vote would not count
		ms.Master(4).Start()
		time.Sleep(3 * time.Second)
		if want := slices.Repeat([]string{s.Token()}, 5); !slices.Equal(ms.Get("a"), want) {
			t.Errorf("the masters hold %q, want the token everywhere again", ms.Get("a"))
		}
		// And they count: now two others may go.
		ms.Master(0).Stop()
		ms.Master(1).Stop()
		time.Sleep(10 * time.Second)
		if err := s.Err(); err != nil {
			t.Errorf("with the two that were healed and one more: %v", err)
		}
	})
}

func TestADeletedOrStolenLockIsNoticedByTheNextRenewal(t *testing.T) {
	for _, row := range []struct {
		name  string
		steal func(m *redlocktest.Master)
		why   string
	}{
		{"deleted", func(m *redlocktest.Master) { m.Del("a") }, "the key is gone"},
		{"stolen", func(m *redlocktest.Master) { m.Set("a", "theirs", time.Hour) }, "the key is somebody else's"},
	} {
		for masters := 1; masters <= 5; masters++ {
			t.Run(fmt.Sprintf("%s at %d", row.name, masters), func(t *testing.T) {
				bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
					l := connected(t, ms, short()).Locker("a")
					l.Lock()
					s := l.Lease()
					synctest.Wait()
					start := time.Now()
					for i := range masters {
						row.steal(ms.Master(i))
					}
					if masters < 3 {
						time.Sleep(10 * time.Second)
						if err := s.Err(); err != nil {
							t.Errorf("lost: %v", err)
						}
						return
					}
					<-s.Done()
					if took := time.Since(start); took > 334*time.Millisecond {
						t.Errorf("noticed after %v, want by the next renewal", took)
					}
					wantLost(t, s, row.why)
					time.Sleep(time.Second)
					token := s.Token()
					if got := ms.Get("a"); slices.Contains(got, token) {
						t.Errorf("the masters hold %q: a lost lease was not released, or was healed", got)
					}
				})
			})
		}
	}
}

// The classics: a holder pauses, its keys expire, somebody else locks and
// unlocks, and then the holder's renewal comes. It must not succeed.
func TestARenewalDoesNotBridgeSomebodyElsesHolding(t *testing.T) {
	for _, row := range []struct {
		name    string
		between func(t *testing.T, ms *redlocktest.Masters, other *redlock.Locker)
	}{
		{"the keys are free again", func(t *testing.T, ms *redlocktest.Masters, other *redlock.Locker) {
			pass(other)
		}},
		{"free again, and a minority is slow", func(t *testing.T, ms *redlocktest.Masters, other *redlock.Locker) {
			pass(other)
			ms.Master(0).Delay(100 * time.Millisecond)
			ms.Master(1).Delay(100 * time.Millisecond)
		}},
		{"free again, and a majority fails at first", func(t *testing.T, ms *redlocktest.Masters, other *redlock.Locker) {
			pass(other)
			for i := range 3 {
				ms.Master(i).Fail("BUSY")
				time.AfterFunc(200*time.Millisecond, func() { ms.Master(i).Fail("") })
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				// Until its first renewal the holder knows nothing. That its keys
				// vanish early stands for a pause, which no test can have in one
				// process: the holder believes in its validity.
				l := connected(t, ms, short()).Locker("a")
				other := connected(t, ms, nil).Locker("a")
				l.Lock()
				s := l.Lease()
				time.Sleep(100 * time.Millisecond)
				for i := range 5 {
					ms.Master(i).Del("a")
				}
				row.between(t, ms, other)
				<-s.Done()
				wantLost(t, s, "")
				time.Sleep(15 * time.Second)
				wantFree(t, ms, "a")
				for i := range 5 {
					for _, command := range ms.Master(i).Commands() {
						if strings.HasPrefix(command, "SET a "+s.Token()) && strings.Count(strings.Join(ms.Master(i).Commands(), "\n"), command) > 1 {
							t.Errorf("master %d was sent the key again by a renewal that failed", i+1)
						}
					}
				}
			})
		})
	}
}

func TestARenewalOnItsWayDoesNotOutliveTheUnlock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := short()
		opts.LockOptions.MaxHold = -1
		c := connected(t, ms, opts)
		for i := range 5 {
			ms.Master(i).Delay(40 * time.Millisecond)
		}
		// Unlock at every moment around a renewal that heals a master.
		for step := range 40 {
			l := c.Locker(fmt.Sprint("a", step))
			l.Lock()
			time.Sleep(50 * time.Millisecond) // the late SETs are through
			ms.Master(4).Del(l.Name())
			time.Sleep(200*time.Millisecond + time.Duration(step)*5*time.Millisecond)
			l.Unlock()
			time.Sleep(200 * time.Millisecond)
			wantFree(t, ms, l.Name())
		}
	})
}

func TestRenewalsQueuedAtFrozenMastersRunAfterTheLoss(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := short()
		opts.DialTimeout = time.Minute // the connections outlast the freeze
		l := connected(t, ms, opts).Locker("a")
		other := connected(t, ms, nil).Locker("a")
		l.Lock()
		s := l.Lease()
		for i := range 3 {
			ms.Master(i).Freeze()
		}
		<-s.Done()
		for i := range 3 {
			ms.Master(i).Thaw()
		}
		time.Sleep(time.Second)
		wantLost(t, s, "")
		wantFree(t, ms, "a")
		if err := other.LockContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Unlock()
		time.Sleep(time.Second)
		if err := other.Lease().Err(); err != nil {
			t.Errorf("the successor lost its lease: %v", err)
		}
	})
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
		// It counts from before the first byte was sent.
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
		// A ctx that ends, ends the wait and nothing else.
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
				opts := &redlock.Options{} // a TTL of 10 s: nothing is due soon
				opts.SetClocks(func() (wall, asleep time.Duration) {
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
				// The first question is answered right, before any timer runs.
				if got := ctx.Err() != nil; got != row.lost {
					t.Errorf("the context's Err = %v, lost: %v, want %v", ctx.Err(), got, row.lost)
				}
				if row.lost {
					wantLost(t, s, "the machine slept, or its clock was set")
				} else if err := s.Err(); err != nil {
					t.Errorf("Err = %v, want nil", err)
				}
				// Nobody need ask: Done follows within a second.
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
		opts.SetClocks(func() (wall, asleep time.Duration) { return 0, time.Duration(slept.Load()) })
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		s := l.Lease()
		for i := range 3 {
			ms.Master(i).Delay(100 * time.Millisecond)
		}
		time.Sleep(350 * time.Millisecond) // the renewal is on its way
		// The old validity has ended in the sleep; the new one would not have.
		slept.Store(int64(800 * time.Millisecond))
		time.Sleep(100 * time.Millisecond)
		wantLost(t, s, "the machine slept")
	})
}

func TestALateAnswerToAnEarlierRenewalHealsNothing(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, short()).Locker("a")
		l.Lock()
		synctest.Wait()
		ms.Master(4).Delay(400 * time.Millisecond) // more than RenewEvery
		ms.Master(4).Del("a")
		time.Sleep(5 * time.Second)
		if n := ms.Master(4).Count("SET"); n != 1 {
			t.Errorf("the slow master was sent %d SETs, want the first only", n)
		}
		ms.Master(4).Delay(0)
		time.Sleep(2 * time.Second)
		if n := ms.Master(4).Count("SET"); n != 2 {
			t.Errorf("the master that is quick again was sent %d SETs, want 2", n)
		}
	})
}

func TestDo(t *testing.T) {
	mine := errors.New("mine")
	for _, row := range []struct {
		name string
		f    func(ctx context.Context, l *redlock.Locker, ms *redlocktest.Masters) error
		want []error // all of them must match
		not  []error // none of them may
	}{
		{name: "f's nil", f: func(context.Context, *redlock.Locker, *redlocktest.Masters) error { return nil }},
		{name: "f's error, unchanged", f: func(context.Context, *redlock.Locker, *redlocktest.Masters) error { return mine },
			want: []error{mine}, not: []error{redlock.ErrLost}},
		{name: "lost, and f returns nil", want: []error{redlock.ErrLost},
			f: func(ctx context.Context, l *redlock.Locker, ms *redlocktest.Masters) error {
				for i := range 5 {
					ms.Master(i).Del("a")
				}
				<-ctx.Done()
				return nil
			}},
		{name: "lost, and f returns its error", want: []error{redlock.ErrLost, mine},
			f: func(ctx context.Context, l *redlock.Locker, ms *redlocktest.Masters) error {
				for i := range 5 {
					ms.Master(i).Del("a")
				}
				<-ctx.Done()
				return mine
			}},
		{name: "keys gone, found by the release", want: []error{redlock.ErrLost, mine},
			f: func(ctx context.Context, l *redlock.Locker, ms *redlocktest.Masters) error {
				synctest.Wait()
				for i := range 5 {
					ms.Master(i).Del("a")
				}
				return mine
			}},
		{name: "f unlocks by itself", want: []error{mine}, not: []error{redlock.ErrLost},
			f: func(ctx context.Context, l *redlock.Locker, ms *redlocktest.Masters) error {
				l.Unlock()
				if cause := context.Cause(ctx); cause != redlock.ErrReleased {
					return fmt.Errorf("cause %v, want ErrReleased", cause)
				}
				return mine
			}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				l := connected(t, ms, short()).Locker("a")
				err := l.Do(t.Context(), func(ctx context.Context) error {
					if l.Lease() == nil || !l.Lease().Valid() || ctx.Err() != nil {
						t.Error("f runs without a lease")
					}
					return row.f(ctx, l, ms)
				})
				if len(row.want) == 0 && err != nil || len(row.want) == 1 && row.want[0] == mine && err != mine {
					t.Errorf("Do = %v, want f's own error", err)
				}
				for _, want := range row.want {
					if !errors.Is(err, want) {
						t.Errorf("Do = %v, which does not match %v", err, want)
					}
				}
				for _, not := range row.not {
					if errors.Is(err, not) {
						t.Errorf("Do = %v, which matches %v", err, not)
					}
				}
				wantFree(t, ms, "a")
				if !l.TryLock() {
					t.Error("the lock is not free after Do")
				} else {
					l.Unlock()
				}
			})
		})
	}
}

func TestDoThatGetsNoLockDoesNotCallF(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		hold(ms, "a", 0, 1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := connected(t, ms, nil).Locker("a").Do(ctx, func(context.Context) error {
			t.Error("f was called")
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("Do = %v, want deadline exceeded and held", err)
		}
	})
}

func TestDoUnlocksOnPanicAndGoexit(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		func() {
			defer func() {
				if p := recover(); p != "mine" {
					t.Errorf("Do panicked with %v, want f's own panic", p)
				}
			}()
			l.Do(t.Context(), func(context.Context) error { panic("mine") })
		}()
		wantFree(t, ms, "a")
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Do(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
		}()
		<-done
		wantFree(t, ms, "a")
		if !l.TryLock() {
			t.Error("the lock is not free")
		}
		l.Unlock()
	})
}

func TestDoWhoseContextEndsStillReleases(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		ctx, cancel := context.WithCancel(t.Context())
		err := l.Do(ctx, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err != context.Canceled {
			t.Errorf("Do = %v, want f's canceled", err)
		}
		wantFree(t, ms, "a")
	})
}

func TestDoFreesNoSuccessor(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		l.Do(t.Context(), func(context.Context) error {
			l.Unlock()
			l.Lock() // somebody else's, as far as Do is concerned
			return nil
		})
		if !l.Lease().Valid() {
			t.Error("Do has ended a lease that was not its own")
		}
		l.Unlock()
	})
}

func TestCloseEndsLeases(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		l, m := c.Locker("a"), c.Locker("b")
		l.Lock()
		s := l.Lease()
		ctx := s.Context(t.Context())
		done := make(chan error)
		go func() {
			done <- m.Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
		}()
		synctest.Wait()
		c.Close()
		if err := s.Err(); err != redlock.ErrClosed {
			t.Errorf("Err = %v, want ErrClosed", err)
		}
		<-s.Done()
		<-ctx.Done()
		if cause := context.Cause(ctx); cause != redlock.ErrClosed {
			t.Errorf("the context's cause is %v, want ErrClosed", cause)
		}
		if err := <-done; !errors.Is(err, redlock.ErrClosed) || !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Do = %v, want ErrLost because of ErrClosed", err)
		}
		if err := l.UnlockContext(t.Context()); err != redlock.ErrClosed {
			t.Errorf("UnlockContext = %v, want ErrClosed", err)
		}
		if err := s.Extend(t.Context()); err != redlock.ErrClosed {
			t.Errorf("Extend = %v, want ErrClosed", err)
		}
	})
}

func TestContextsOfALeaseEndWithIt(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		l.Lock()
		s := l.Lease()
		parent, cancel := context.WithCancel(t.Context())
		type key struct{}
		ctx, ended := s.Context(context.WithValue(t.Context(), key{}, 1)), s.Context(parent)
		child, cancelChild := context.WithTimeout(ctx, time.Hour)
		defer cancelChild()
		cancel()
		if ended.Err() != context.Canceled || context.Cause(ended) != context.Canceled {
			t.Errorf("Err, Cause = %v, %v after the parent ended, want canceled", ended.Err(), context.Cause(ended))
		}
		if ctx.Err() != nil || ctx.Value(key{}) != 1 {
			t.Errorf("Err, Value = %v, %v while the lease lasts, want nil, 1", ctx.Err(), ctx.Value(key{}))
		}
		l.Unlock()
		<-child.Done()
		if ctx.Err() != context.Canceled || context.Cause(child) != redlock.ErrReleased {
			t.Errorf("Err, Cause = %v, %v after the unlock, want canceled, ErrReleased", ctx.Err(), context.Cause(child))
		}
		if late := s.Context(t.Context()); late.Err() == nil || context.Cause(late) != redlock.ErrReleased {
			t.Errorf("a context of an ended lease has Err %v, cause %v", late.Err(), context.Cause(late))
		}
	})
}

func TestALossIsToldToTraceAndLogger(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log lockedBuffer
		var renewed, lost atomic.Int32
		opts := short()
		opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		opts.Trace = &redlock.Trace{
			Renewed: func(_ context.Context, i redlock.RenewedInfo) {
				renewed.Add(1)
				if i.Name != "a" || time.Until(i.Until) > shortValidity || time.Until(i.Until) < shortValidity/2 {
					t.Errorf("RenewedInfo = %+v", i)
				}
			},
			Lost: func(_ context.Context, i redlock.LostInfo) {
				lost.Add(1)
				if i.Name != "a" || i.Held < 2*time.Second || !errors.Is(i.Err, redlock.ErrLost) {
					t.Errorf("LostInfo = %+v", i)
				}
			},
		}
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		time.Sleep(2 * time.Second)
		ms.Master(0).Del("a")
		ms.Master(1).Del("a")
		time.Sleep(2 * time.Second)
		l.Unlock()
		if r, l := renewed.Load(), lost.Load(); r < 5 || r > 8 || l != 1 {
			t.Errorf("renewed %d times, lost %d times, want about 6 and once", r, l)
		}
		if got := log.String(); strings.Count(got, "a lease was lost") != 1 || !strings.Contains(got, "master 1: the key is gone") {
			t.Errorf("the log says %q, want the loss and why", got)
		}
	})
}

func TestTenThousandLeasesAreRenewedInBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("slow under the race detector")
	}
	bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		const leases = 500
		for i := range leases {
			c.Locker(fmt.Sprint("a", i)).Lock()
		}
		before := ms.Master(0).Count("EVALSHA")
		time.Sleep(10 * time.Second) // three renewals of each
		calls := ms.Master(0).Count("EVALSHA") - before
		if calls > 3*leases/20 {
			t.Errorf("%d script calls for %d renewals, want batches", calls, 3*leases)
		}
		if got := len(ms.Master(0).Keys()); got != leases {
			t.Errorf("%d keys are left, want %d", got, leases)
		}
	})
}

// stuckHandler is a Logger's handler that does not return until released.
type stuckHandler struct {
	slog.Handler
	release chan struct{}
}

func (h stuckHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h stuckHandler) Handle(context.Context, slog.Record) error {
	<-h.release
	return nil
}

func TestAStuckLoggerHoldsUpNoLease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		release := make(chan struct{})
		opts := short()
		opts.Logger = slog.New(stuckHandler{release: release})
		c := connected(t, ms, opts)
		gone, kept, lost := c.Locker("gone"), c.Locker("kept"), c.Locker("lost")
		for _, l := range []*redlock.Locker{gone, kept, lost} {
			l.Lock()
		}
		synctest.Wait()
		for i := range 3 {
			ms.Master(i).Del("gone") // the Logger is told of the loss, and stays there
		}
		time.Sleep(10 * time.Second)
		wantLost(t, gone.Lease(), "gone")
		if err := kept.Lease().Err(); err != nil {
			t.Errorf("another lease, whose masters are well: %v", err)
		}
		for i := range 3 {
			ms.Master(i).Stop()
		}
		s := lost.Lease()
		<-s.Done()
		if late := time.Since(s.Until()); late != 0 {
			t.Errorf("Done closed %v after the end of validity", late)
		}
		close(release)
	})
}

func TestDoTellsOfALossAlsoIfFHasUnlocked(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, short()).Locker("a")
		err := l.Do(t.Context(), func(ctx context.Context) error {
			synctest.Wait()
			for i := range 5 {
				ms.Master(i).Del("a")
			}
			<-ctx.Done()
			l.Unlock()
			return nil
		})
		if !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Do = %v, want ErrLost", err)
		}
	})
}

func TestAContextSaysNothingElseThanItsLease(t *testing.T) {
	c := redlocktest.StartN(t, 3).Open(nil)
	l := c.Locker("a")
	for range 200 {
		l.Lock()
		s := l.Lease()
		var contexts []context.Context
		for range 50 {
			contexts = append(contexts, s.Context(context.Background()))
		}
		unlocked := make(chan struct{})
		go func() {
			defer close(unlocked)
			l.Unlock()
		}()
		<-s.Done()
		for _, ctx := range contexts {
			if ctx.Err() == nil {
				t.Fatal("a context lasts whose lease has ended")
			}
		}
		<-unlocked
	}
}

func TestALeaseForgetsContextsThatHaveEnded(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		l.Lock()
		s := l.Lease()
		for range 1000 {
			parent, cancel := context.WithCancel(t.Context())
			s.Context(parent)
			cancel()
		}
		synctest.Wait()
		if n := s.Contexts(); n != 0 {
			t.Errorf("the lease keeps %d contexts that have ended", n)
		}
		l.Unlock()
	})
}

func TestAnUnlockAsTheFirstQuestionAfterASleepTellsOfTheLoss(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var slept atomic.Int64
		opts := &redlock.Options{}
		opts.SetClocks(func() (wall, asleep time.Duration) { return 0, time.Duration(slept.Load()) })
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		slept.Store(int64(time.Hour))
		if err := l.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("UnlockContext = %v, want ErrLost", err)
		}
	})
}
