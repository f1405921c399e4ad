package contract_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// A clockHook delays one goroutine where it reads the clocks, as if it were stopped there.
type clockHook struct {
	armed atomic.Pointer[func()]
}

// options returns opts whose clocks call the hook.
func (h *clockHook) options(opts *redlock.Options) *redlock.Options {
	opts.DisableRestartGuard = true // it would take a goroutine that was stopped for one whose clock was set
	locktest.SetClocks(opts, func() (wall, asleep time.Duration) {
		if f := h.armed.Swap(nil); f != nil {
			(*f)()
		}
		return 0, 0
	})
	return opts
}

// next has the next reading of the clocks call f first.
func (h *clockHook) next(f func()) { h.armed.Store(&f) }

// A goroutine that enters a lease without the masters may be stopped before it reads the clocks. So it looks then whether the lease
// has ended meanwhile, or another client has asked for it.
func TestAGoroutineThatWasStoppedWhileItEnteredLeavesALeaseThatHasEndedOrIsWanted(t *testing.T) {
	for _, kind := range []struct {
		name string
		of   func(c *redlock.Client) *redlock.Locker
		seen bool // an earlier holder has a pointer to the lease
	}{
		{"a kept lock", func(c *redlock.Client) *redlock.Locker { return c.Locker("stock") }, false},
		{"a kept lock whose lease was seen", func(c *redlock.Client) *redlock.Locker { return c.Locker("stock") }, true},
		{"a read lock", func(c *redlock.Client) *redlock.Locker { return c.RWLocker("stock").RLocker() }, false},
	} {
		t.Run(kind.name+"/has ended", func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				var clock clockHook
				l := kind.of(connected(t, ms, clock.options(keeping(time.Hour))))
				passTwice(l, kind.seen)
				clock.next(func() {
					for i := range 3 {
						ms.Master(i).Del("stock")
					}
					time.Sleep(4 * time.Second) // a renewal finds out; half of the validity is left
				})
				l.Lock()
				if err := l.Lease().Err(); err != nil {
					t.Errorf("the goroutine has a lease that had ended: %v", err)
				}
				l.Unlock()
			})
		})
		t.Run(kind.name+"/is wanted", func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				var clock clockHook
				l := kind.of(connected(t, ms, clock.options(keeping(time.Hour))))
				other := connected(t, ms, nil).RWLocker("stock")
				passTwice(l, kind.seen)
				in := make(chan time.Time, 1)
				clock.next(func() {
					go func() {
						other.Lock()
						in <- time.Now()
					}()
					time.Sleep(10 * time.Millisecond)
				})
				done := make(chan struct{})
				go func() {
					defer close(done)
					l.Lock()
					time.Sleep(time.Second)
					l.Unlock()
				}()
				time.Sleep(100 * time.Millisecond)
				select {
				case <-in:
				default:
					t.Error("the client that had asked for the lock waits for the goroutine")
					<-in
				}
				other.Unlock()
				<-done
			})
		})
	}
}

// passTwice locks and unlocks l twice, so that its lease is kept.
func passTwice(l *redlock.Locker, seen bool) {
	for range 2 {
		l.Lock()
		if seen {
			l.Lease()
		}
		l.Unlock()
	}
	synctest.Wait()
}

func TestTheContextsOfALeaseEndWithTheUnlockOfALockThatIsKept(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, keeping(time.Hour)).Locker("stock")
		keep(t, ms, l)
		l.Lock()
		ctx := l.Lease().Context(t.Context())
		l.Unlock()
		synctest.Wait()
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); cause != redlock.ErrReleased {
				t.Errorf("the context has ended with %v, want %v", cause, redlock.ErrReleased)
			}
		default:
			t.Error("after Unlock the context has not ended")
		}
		if got := holders(ms, "stock"); len(got) != 3 {
			t.Errorf("%d masters keep the lock, want 3: nothing is tested", len(got))
		}
	})
}

// A client that others cannot ask for a lock does not keep it.
func TestAClientKeepsNoLockWhileItIsNotSubscribed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c, rights := openWithRights(t, ms, keeping(time.Hour))
		for i, r := range rights {
			r.denied.Store(true)
			ms.Master(i).Cut() // it may have subscribed before
		}
		time.Sleep(time.Minute)
		locktest.Pass(c.Locker("early"))
		wantFree(t, ms, "early")
		for i, r := range rights {
			r.denied.Store(false)
			ms.Master(i).Cut()
		}
		time.Sleep(time.Minute)
		keep(t, ms, c.Locker("late"))
	})
}

// A client of another library cannot recall the lock. That it has had it shows that others want it.
func TestALockThatWasWaitedForIsNotKeptForASecond(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, keeping(time.Hour)).Locker("stock")
		hold(ms, "stock", 0, 1, 2)
		in := locktest.Enter(l)
		time.Sleep(2 * time.Second)
		for i := range ms.Len() {
			ms.Master(i).Del("stock")
		}
		<-in
		l.Unlock()
		for range 3 {
			wantFree(t, ms, "stock")
			time.Sleep(200 * time.Millisecond)
			locktest.Pass(l)
		}
		time.Sleep(1100 * time.Millisecond)
		keep(t, ms, l)
	})
}

// A master that does not answer in time does not show that others want the lock.
func TestALockWhoseFirstAttemptWasNotAnsweredIsKept(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, keeping(time.Hour)).Locker("stock")
		ms.Master(0).Freeze()
		ms.Master(1).Freeze()
		in := locktest.Enter(l)
		time.Sleep(300 * time.Millisecond) // the subscriptions last: without them, the lock could not be recalled, and would not be kept
		ms.Master(0).Thaw()
		ms.Master(1).Thaw()
		<-in
		l.Unlock()
		synctest.Wait()
		if got := holders(ms, "stock"); len(got) != ms.Len() {
			t.Errorf("%d masters keep the lock, want %d", len(got), ms.Len())
		}
	})
}

func TestWithoutMaxHoldALockIsKeptForAsLongAsItIsUsed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := keeping(time.Hour)
		opts.LockOptions.MaxHold = -1
		l := connected(t, ms, opts).Locker("stock")
		for range 60 {
			locktest.Pass(l)
			time.Sleep(time.Second)
		}
		if n := registrations(ms); n != 1 {
			t.Errorf("%d acquisitions, want 1", n)
		}
	})
}

// A lock that is recalled each time before its Client has used it again is kept less and less often.
func TestALockThatIsKeptInVainIsKeptLessOften(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, keeping(time.Hour)).Locker("stock"), connected(t, ms, nil).Locker("stock")
		kept := 0
		for range 20 {
			locktest.Pass(a)
			time.Sleep(10 * time.Millisecond)
			if len(holders(ms, "stock")) == ms.Len() {
				kept++
			}
			locktest.Pass(b)
			time.Sleep(1500 * time.Millisecond)
		}
		if kept > 8 { // 1 s, 2 s, 4 s and so on after the recalls
			t.Errorf("it was kept %d times of 20, and never used", kept)
		}
	})
}

// A Trace that is told for how long each holder held the lock is told it of goroutines that enter a kept one, too.
func TestATraceIsToldForHowLongTheLastHolderHeldAKeptLock(t *testing.T) {
	for name, trace := range map[string]func(held *time.Duration) *redlock.Trace{
		"Released": func(held *time.Duration) *redlock.Trace {
			return &redlock.Trace{Released: func(_ context.Context, i redlock.ReleasedInfo) { *held = i.Held }}
		},
		"HandedOver": func(held *time.Duration) *redlock.Trace {
			return &redlock.Trace{HandedOver: func(_ context.Context, i redlock.HandedOverInfo) { *held = i.Held }}
		},
		"Lost": func(held *time.Duration) *redlock.Trace {
			return &redlock.Trace{Lost: func(_ context.Context, i redlock.LostInfo) { *held = i.Held }}
		},
	} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			var held time.Duration
			opts := keeping(time.Hour)
			opts.Trace = trace(&held)
			c := connected(t, ms, opts)
			l := c.Locker("stock")
			keep(t, ms, l)
			for range 3 {
				time.Sleep(time.Second)
				locktest.Pass(l)
			}
			time.Sleep(time.Second)
			l.Lock()
			switch name {
			case "Lost":
				for i := range 3 {
					ms.Master(i).Del("stock")
				}
				time.Sleep(5 * time.Second)
				l.Unlock()
			case "HandedOver":
				in := locktest.Enter(c.Locker("stock"))
				time.Sleep(time.Second)
				l.Unlock()
				<-in
			default:
				in := locktest.Enter(connected(t, ms, nil).Locker("stock"))
				time.Sleep(time.Second)
				l.Unlock()
				<-in
			}
			synctest.Wait()
			if held < time.Second-10*time.Millisecond || name != "Lost" && held > time.Second+10*time.Millisecond || held > 3400*time.Millisecond {
				t.Errorf("%s: the last holder held the lock for %v, want its own time", name, held)
			}
		})
	}
}
