package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// For a client near three of five masters, the distance of the other two must not matter. Each row is timed
// with five masters at 1 ms, and again with two of them farther away.
func TestAClientNearAQuorumIsNotDelayedByTheOtherMasters(t *testing.T) {
	open := func(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options) *redlock.Client {
		c := ms.Open(opts)
		time.Sleep(time.Second)
		return c
	}
	timed := func(f func()) time.Duration {
		began := time.Now()
		f()
		return time.Since(began)
	}
	for _, row := range []struct {
		name string
		time func(t *testing.T, near *redlocktest.Masters) time.Duration
	}{
		{"lock and Unlock", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			c := open(t, ms, nil)
			return timed(func() {
				for range 10 {
					locktest.Pass(c.Locker("a"))
					locktest.Pass(c.Locker("b"))
				}
			})
		}},
		{"fenced lock and UnlockContext", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			l := open(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{Fencing: true}}).Locker("a")
			return timed(func() {
				for range 10 {
					l.Lock()
					if err := l.UnlockContext(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}},
		{"Do and Extend", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			l := open(t, ms, nil).Locker("a")
			return timed(func() {
				l.Do(t.Context(), func(context.Context) error { return l.Lease().Extend(t.Context()) })
			})
		}},
		{"TryLock of a held lock", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			holder, c := open(t, ms, nil), open(t, ms, nil)
			holder.Locker("a").Lock()
			time.Sleep(time.Second)
			return timed(func() {
				if err := c.Locker("a").TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
					t.Errorf("TryLockContext = %v", err)
				}
			})
		}},
		{"TryLock while near masters fail", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			c := open(t, ms, nil)
			for i := range 3 {
				ms.Master(i).Fail("ERR broken")
				defer ms.Master(i).Fail("")
			}
			return timed(func() {
				if err := c.Locker("a").TryLockContext(t.Context()); err == nil || errors.Is(err, redlock.ErrHeld) {
					t.Errorf("TryLockContext = %v", err)
				}
			})
		}},
		{"from a release to the entering of a waiter", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			// With the default schedule the waiter tries about every 100 ms, and would enter earlier if it did so just now.
			holder, waiter := open(t, ms, lazy()).Locker("a"), open(t, ms, lazy()).Locker("a")
			least := time.Hour
			for range 10 { // some releases leave the lock open, which takes longer
				holder.Lock()
				entered := make(chan struct{})
				go func() {
					waiter.Lock()
					close(entered)
				}()
				time.Sleep(222 * time.Millisecond)
				least = min(least, timed(func() {
					holder.Unlock()
					<-entered
				}))
				waiter.Unlock()
				time.Sleep(222 * time.Millisecond)
			}
			return least
		}},
		{"the first Lock of a client", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			c := ms.Open(nil)
			return timed(c.Locker("a").Lock)
		}},
		{"the first Ping of a client", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			c := ms.Open(nil)
			return timed(func() {
				if err := c.Ping(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}},
		{"the first TryLock of a held lock", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			open(t, ms, nil).Locker("a").Lock()
			time.Sleep(time.Second)
			c := ms.Open(nil)
			return timed(func() {
				if err := c.Locker("a").TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
					t.Errorf("TryLockContext = %v", err)
				}
			})
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var took [2]time.Duration
			for i, far := range []time.Duration{time.Millisecond, 40 * time.Millisecond} {
				bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
					near := time.Millisecond
					took[i] = row.time(t, ms.WithDelays(near, near, near, far, far))
				})
			}
			if took[0] == 0 || took[1] != took[0] {
				t.Errorf("it takes %v, and with two masters farther %v", took[0], took[1])
			}
		})
	}
}
