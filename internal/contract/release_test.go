package contract_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAFailedAttemptLeavesNoKey(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault func(ms *redlocktest.Masters)
		mend  func(ms *redlocktest.Masters)
		want  string
	}{
		{
			name:  "refused by a majority",
			fault: func(ms *redlocktest.Masters) { hold(ms, "a", 0, 1, 2) },
			mend: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).Del("a")
				}
			},
			want: "held",
		},
		{
			name: "executed, reply lost",
			fault: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).LoseReply("SET")
				}
			},
			want: "no quorum",
		},
		{
			name: "never executed",
			fault: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).DropRequest("SET")
				}
			},
			want: "no quorum",
		},
		{
			name: "frozen, thawed soon",
			fault: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).Freeze()
				}
			},
			mend: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).Thaw()
				}
			},
			want: "no quorum",
		},
		{
			name: "frozen, thawed after the connection was given up",
			fault: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).Freeze()
				}
			},
			mend: func(ms *redlocktest.Masters) {
				time.Sleep(5 * time.Second)
				for i := range 3 {
					ms.Master(i).Thaw()
				}
			},
			want: "no quorum",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				// A key that nobody deletes would stay for an hour.
				opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}}
				l := connected(t, ms, opts).Locker("a")
				row.fault(ms)
				if err := l.TryLockContext(t.Context()); locktest.Outcome(err) != row.want {
					t.Errorf("TryLockContext = %v, want %s", err, row.want)
				}
				if row.mend != nil {
					row.mend(ms)
				}
				time.Sleep(15 * time.Second) // reconnected, and the release repeated
				wantFree(t, ms, "a")
			})
		})
	}
}

func TestAReleaseIsOwedUntilItsMasterAnswers(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}}
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		synctest.Wait()
		ms.Master(0).Stop() // it keeps its data
		ms.Master(1).Freeze()
		l.Unlock()
		synctest.Wait()
		if got := len(holders(ms, "a")); got != 2 {
			t.Fatalf("%d masters keep the key, want the stopped and the frozen one", got)
		}
		time.Sleep(10 * time.Minute)
		ms.Master(0).Start()
		ms.Master(1).Thaw()
		time.Sleep(15 * time.Second)
		wantFree(t, ms, "a")
	})
}

func TestAReleaseThatWasAnsweredByAnErrorIsOwed(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}}
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		synctest.Wait()
		for i := range 3 {
			ms.Master(i).Fail("BUSY Redis is busy running a script")
		}
		l.Unlock()
		time.Sleep(time.Minute)
		if got := len(holders(ms, "a")); got != 3 {
			t.Fatalf("%d masters keep the key, want the three that answer errors", got)
		}
		for i := range 3 {
			ms.Master(i).Fail("")
		}
		time.Sleep(1500 * time.Millisecond)
		wantFree(t, ms, "a")
	})
}

func TestNoReleaseIsOwedToAMasterThatNeverGotTheSet(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		ms.Master(0).Stop()
		l := ms.Open(nil).Locker("a")
		for range 100 {
			locktest.Pass(l)
		}
		ms.Master(0).Start()
		time.Sleep(15 * time.Second)
		for _, command := range ms.Master(0).Commands() {
			if strings.HasPrefix(command, "EVALSHA") && strings.Contains(command, "release") {
				t.Errorf("%s was sent, of locks that the master never saw", command)
			}
		}
	})
}

func TestALateUnlockDoesNotReleaseTheSuccessorsLock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second, RenewEvery: -1}}
		stale, next := connected(t, ms, opts).Locker("a"), connected(t, ms, nil).Locker("a")
		stale.Lock()
		s := stale.Lease()
		ms.Get("a") // reading makes miniredis expire keys that are due
		time.Sleep(2 * time.Second)
		if s.Valid() {
			t.Error("a lease of 1s is valid after 2s")
		}
		if err := next.LockContext(t.Context()); err != nil {
			t.Fatalf("LockContext after the lease ran out = %v", err)
		}
		if err := stale.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("the late UnlockContext = %v, want ErrLost", err)
		}
		synctest.Wait()
		if want := slices.Repeat([]string{next.Lease().Token()}, 5); !slices.Equal(ms.Get("a"), want) {
			t.Errorf("the masters hold %q, want the successor's token", ms.Get("a"))
		}
		if !next.Lease().Valid() {
			t.Error("the successor's lease has ended")
		}
		next.Unlock()
	})
}

func TestTheGateStaysTakenUntilTheUnlockAlsoAfterALoss(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second, RenewEvery: -1}}
		c := connected(t, ms, opts)
		l := c.Locker("a")
		l.Lock()
		time.Sleep(time.Minute)
		other := c.Locker("a")
		if err := other.TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryLockContext before the late unlock = %v, want ErrHeld", err)
		}
		l.Unlock()
		if !other.TryLock() {
			t.Error("TryLock after the late unlock failed")
		}
		other.Unlock()
	})
}

func TestAKeyDeletedByAnAdministratorShowsAtTheUnlock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		for gone, want := range []error{nil, nil, nil, redlock.ErrLost, redlock.ErrLost, redlock.ErrLost} {
			l.Lock()
			synctest.Wait()
			for i := range gone {
				ms.Master(i).Del("a")
			}
			if err := l.UnlockContext(t.Context()); !errors.Is(err, want) {
				t.Errorf("UnlockContext with %d keys gone = %v, want %v", gone, err, want)
			}
		}
	})
}

func TestNothingLeaksThroughManyFreezes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		pools := ms.Pools()
		c, err := redlock.New(pools, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l := c.Locker("a")
		cycle := func() {
			ms.Master(0).Freeze()
			ms.Master(1).Freeze()
			l.TryLock() // commands and releases for the frozen masters
			time.Sleep(1500 * time.Millisecond)
			ms.Master(0).Thaw()
			ms.Master(1).Thaw()
			time.Sleep(12 * time.Second) // releases are repeated during this time
		}
		for range 3 {
			cycle()
		}
		synctest.Wait()
		before := bubbletest.Stacks()
		for range 10 {
			cycle()
		}
		synctest.Wait()
		if after := bubbletest.Stacks(); len(after) > len(before) {
			t.Errorf("%d goroutines, then %d:\n%s", len(before), len(after), strings.Join(after, "\n\n"))
		}
		for i, p := range pools {
			if n := p.ActiveCount(); n > 2 {
				t.Errorf("pool %d has %d connections, want 2 at most", i, n)
			}
		}
		locktest.Pass(l)
		wantFree(t, ms, "a")
	})
}

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

// noHandover returns options with which each goroutine acquires the lock from the masters.
func noHandover() *redlock.Options {
	return &redlock.Options{LockOptions: redlock.LockOptions{Handover: -1}}
}

func TestUnlockDoesNotWaitForTheMasters(t *testing.T) {
	for _, frozen := range []int{0, 2, 5} {
		t.Run(fmt.Sprint(frozen, " frozen"), func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				c := openAt(ms, 20*time.Millisecond, nil)
				l := c.Locker("a")
				l.Lock()
				for i := range frozen {
					ms.Master(i).Freeze()
				}
				began := time.Now()
				l.Unlock()
				if took := time.Since(began); took != 0 {
					t.Errorf("Unlock took %v, want no time", took)
				}
				time.Sleep(20 * time.Millisecond)
				synctest.Wait()
				if n := len(holders(ms, "a")); n != frozen {
					t.Errorf("one way later %d masters keep the key, want the %d that are frozen", n, frozen)
				}
				for i := range frozen {
					ms.Master(i).Thaw()
				}
				time.Sleep(20 * time.Millisecond)
				wantFree(t, ms, "a")
			})
		})
	}
}

func TestALockAndUnlockTakesOneRoundTrip(t *testing.T) {
	const oneWay, passes = 20 * time.Millisecond, 10
	for name, nameOf := range map[string]func(i int) string{
		"the same name":  func(int) string { return "a" },
		"changing names": func(i int) string { return fmt.Sprint("a", i) },
	} {
		for _, fencing := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", fencing ", fencing), func(t *testing.T) {
				bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
					c := openAt(ms, oneWay, &redlock.Options{LockOptions: redlock.LockOptions{Fencing: fencing}})
					began := time.Now()
					for i := range passes {
						locktest.Pass(c.Locker(nameOf(i)))
					}
					if took, want := time.Since(began), passes*2*oneWay; took != want {
						t.Errorf("%d passes took %v, want %v", passes, took, want)
					}
				})
			})
		}
	}
}

// A Client that locks one name all the time leaves a gap of one round trip now and then: see
// TestALoopOfLocksLeavesGaps.
func TestAThousandLocksTakeHardlyMoreThanOneRoundTripEach(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const oneWay, passes = time.Millisecond, 1000
		l := openAt(ms, oneWay, nil).Locker("a")
		began := time.Now()
		for range passes {
			locktest.Pass(l)
		}
		if took, most := time.Since(began), passes*2*oneWay*107/100; took > most {
			t.Errorf("%d passes took %v, want %v at most", passes, took, most)
		}
	})
}

func TestTryLockAfterUnlockSucceeds(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := ms.WithDelays(1e6, 1e6, 20e6, 40e6, 5e6).Open(nil)
		time.Sleep(time.Second)
		l, other := c.Locker("a"), c.Locker("a")
		for i := range 100 {
			if err := l.TryLockContext(t.Context()); err != nil {
				t.Fatalf("TryLock %d after Unlock: %v", i, err)
			}
			l.Unlock()
			if !other.TryLock() {
				t.Fatalf("TryLock %d of another Locker of the name failed after Unlock", i)
			}
			other.Unlock()
		}
		time.Sleep(time.Second)
		wantFree(t, ms, "a")
	})
}

func TestUnlockReportsTheReleaseLater(t *testing.T) {
	for _, row := range []struct {
		name string
		harm func(ms *redlocktest.Masters)
		want func(err error) bool
		log  string
	}{
		{"it succeeds", func(*redlocktest.Masters) {}, func(err error) bool { return err == nil }, ""},
		{"the key is gone", func(ms *redlocktest.Masters) {
			for i := range 3 {
				ms.Master(i).Del("a")
			}
		}, func(err error) bool { return errors.Is(err, redlock.ErrLost) }, "leases were lost"},
		{"a majority is frozen", func(ms *redlocktest.Masters) {
			for i := range 3 {
				ms.Master(i).Freeze()
			}
		}, func(err error) bool {
			votes := (*redlock.QuorumError)(nil)
			return errors.As(err, &votes) && votes.Granted == 2
		}, "releases were not answered"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				var log logged
				opts := log.Options()
				released := make(chan redlock.ReleasedInfo, 10)
				opts.Trace = &redlock.Trace{Released: func(_ context.Context, info redlock.ReleasedInfo) { released <- info }}
				c := openAt(ms, time.Millisecond, opts)
				l := c.Locker("a")
				l.Lock()
				time.Sleep(time.Second)
				row.harm(ms)
				l.Unlock()
				if len(released) != 0 {
					t.Error("Released was called before a master could answer")
				}
				info := <-released
				if !row.want(info.Err) {
					t.Errorf("Released says %v", info.Err)
				}
				if want := time.Second + 2*time.Millisecond; info.Held != want {
					t.Errorf("Released says that the lock was held for %v, want %v", info.Held, want)
				}
				for i := range 5 {
					ms.Master(i).Thaw()
				}
				time.Sleep(5 * time.Second)
				wantFree(t, ms, "a")
				if len(released) != 0 {
					t.Error("Released was called twice")
				}
				if n := len(log.Lines("level=WARN", "names=a")); (n == 1) != (row.log != "") || row.log != "" && len(log.Lines(row.log)) != 1 {
					t.Errorf("the log has %d lines about the lock, want %q in one or none; the log:\n%s", n, row.log, log.String())
				}
			})
		})
	}
}

// The connections end while the release is under way, before or after the next SET. The release is then owed,
// and goes first on the next connection.
func TestConnectionsThatEndBehindAnUnlockLeaveNoKey(t *testing.T) {
	for _, row := range []struct {
		name string
		harm func(m *redlocktest.Master)
	}{
		{"a lost release", func(m *redlocktest.Master) { m.DropRequest("EVALSHA") }},
		{"a lost reply", func(m *redlocktest.Master) { m.LoseReply("EVALSHA") }},
		{"a cut", (*redlocktest.Master).Cut},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				c := openAt(ms, 5*time.Millisecond, nil)
				l := c.Locker("a")
				for range 10 {
					l.Lock()
					for i := range 5 {
						row.harm(ms.Master(i))
					}
					l.Unlock()
					began := time.Now()
					l.Lock()
					if took := time.Since(began); took > time.Second {
						t.Errorf("Lock took %v after the connections had ended", took)
					}
					l.Unlock()
					time.Sleep(10 * time.Second)
					wantFree(t, ms, "a")
				}
			})
		})
	}
}

func TestUnlockAfterALossIsNoMisuse(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		l := loseLease(c, ms, "a")
		<-l.Lease().Done()
		l.Unlock()
		if !l.TryLock() {
			t.Error("TryLock after the unlock of a lost lease failed")
		}
		l.Unlock()
		defer func() {
			if p := recover(); p != "redlock: unlock of unlocked Locker" {
				t.Errorf("a second Unlock panics with %v", p)
			}
		}()
		l.Unlock()
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
		if err := l.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrNotHeld) {
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
		if err := l.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrNotHeld) {
			t.Errorf("a second UnlockContext = %v, want ErrNotHeld", err)
		}
	})
}

// A client without wake-ups waits for the answer to its last release before it locks again. The answer counts also if UnlockContext has
// not waited for it.
func TestAnUnlockThatIsCutShortDoesNotDelayTheNextLock(t *testing.T) {
	for _, wait := range []time.Duration{0, 10 * time.Millisecond} {
		bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
			const oneWay = 20 * time.Millisecond
			l := openAt(ms, oneWay, &redlock.Options{DisableWakeups: true, NodeTimeout: time.Second}).Locker("a")
			take(l)
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			if err := l.UnlockContext(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("UnlockContext = %v, want the end of its context", err)
			}
			start := time.Now()
			l.Lock()
			if took := time.Since(start); took > 4*oneWay {
				t.Errorf("the next Lock took %v, want two round trips at most", took)
			}
		})
	}
}

// If the connections to a majority end before they answer the release, no further answer will come.
func TestAReleaseThatNoMajorityAnswersDoesNotDelayTheNextLock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		const oneWay = 20 * time.Millisecond
		l := openAt(ms, oneWay, &redlock.Options{DisableWakeups: true, NodeTimeout: time.Second}).Locker("a")
		take(l)
		l.Unlock()
		for i := range 3 {
			ms.Master(i).Cut()
		}
		time.Sleep(300 * time.Millisecond)
		start := time.Now()
		l.Lock()
		if took := time.Since(start); took > 4*oneWay {
			t.Errorf("the next Lock took %v, want two round trips at most", took)
		}
	})
}

func TestAnUnlockWithANilContextPanicsAndLeavesTheLockLocked(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		l := c.Locker("a")
		l.Lock()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			var none context.Context // this is the mistake
			l.UnlockContext(none)
		}()
		if !l.Lease().Valid() {
			t.Error("the lock is not held any more")
		}
		if err := l.UnlockContext(t.Context()); err != nil {
			t.Errorf("UnlockContext = %v", err)
		}
		if !c.Locker("a").TryLock() {
			t.Error("the lock is still held")
		}
	})
}
