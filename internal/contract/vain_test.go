package contract_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// waitingCalls are all calls that wait for the name "a" until ctx ends.
var waitingCalls = []struct {
	name string
	wait func(ctx context.Context, c *redlock.Client) error
}{
	{"Do", func(ctx context.Context, c *redlock.Client) error {
		return c.Locker("a").Do(ctx, func(context.Context) error { return nil })
	}},
	{"LockContext", func(ctx context.Context, c *redlock.Client) error { return c.Locker("a").LockContext(ctx) }},
	{"LockContext of two names", func(ctx context.Context, c *redlock.Client) error { return c.Locker("a", "b").LockContext(ctx) }},
	{"RWLocker.LockContext", func(ctx context.Context, c *redlock.Client) error { return c.RWLocker("a").LockContext(ctx) }},
	{"RLockContext", func(ctx context.Context, c *redlock.Client) error { return c.RWLocker("a").RLockContext(ctx) }},
	{"SingleFlight", func(ctx context.Context, c *redlock.Client) error {
		_, _, err := c.SingleFlight(ctx, "a", func(context.Context) ([]byte, error) { return nil, nil })
		return err
	}},
	{"Acquire", func(ctx context.Context, c *redlock.Client) error {
		p, err := c.Semaphore("a", 2).Acquire(ctx)
		if err == nil {
			p.Release()
		}
		return err
	}},
}

// Whatever call waits, the Logger is told after a second that a right is missing, which waiting cannot cure, and that the wait has no
// deadline. The wait itself goes on: somebody may grant the right.
func TestEveryLongWaitForWhichARightIsMissingIsLoggedAsVain(t *testing.T) {
	for _, call := range waitingCalls {
		t.Run(call.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				var log logged
				c := connected(t, ms, log.Options())
				for i := range 3 {
					ms.Master(i).Fail("NOPERM No permissions to access a key")
				}
				ctx, cancel := context.WithCancel(t.Context())
				var err error
				var wait sync.WaitGroup
				wait.Go(func() { err = call.wait(ctx, c) })
				time.Sleep(65 * time.Second)
				log.Want(t, 1, `level=ERROR msg="redlock: waiting for locks in vain`, "waited=1s", "NOPERM", "waits_without_deadline=1")
				log.Want(t, 1, "in vain", "waited=10s")
				log.Want(t, 1, "in vain", "waited=1m0s")
				log.Want(t, 0, "still waiting")
				cancel()
				wait.Wait()
				if !errors.Is(err, redlock.ErrDenied) || !errors.Is(err, context.Canceled) || errors.Is(err, redlock.ErrHeld) {
					t.Errorf("the error is %v, want ErrDenied and the end of ctx, and not ErrHeld", err)
				}
			})
		})
	}
}

// A right that a minority of the masters denies keeps nobody from the lock.
func TestARightThatAMinorityDeniesIsNoErrDenied(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		c := connected(t, ms, log.Options())
		hold(ms, "a", 0, 1)
		ms.Master(2).Fail("NOPERM No permissions to access a key")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := c.Locker("a").LockContext(ctx); errors.Is(err, redlock.ErrDenied) || !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("LockContext = %v, want ErrHeld, and not ErrDenied", err)
		}
		log.Want(t, 0, "in vain")
	})
}

// A wait for a lock that somebody else holds is ordinary for a call that returns an error, and not for Lock.
func TestAWaitForAHeldLockIsInfoUnlessItIsLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		c := connected(t, ms, log.Options())
		hold(ms, "a", 0, 1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := c.Locker("a").LockContext(ctx); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("LockContext = %v, want ErrHeld", err)
		}
		log.Want(t, 1, "level=INFO", "still waiting for locks", "names=a waited=1s")
		time.Sleep(3 * time.Minute)
		in := make(chan struct{})
		go func() {
			c.Locker("a").Lock()
			close(in)
		}()
		time.Sleep(5 * time.Second)
		log.Want(t, 1, "level=WARN", "still waiting for locks", "names=a waited=1s")
		for i := range 3 {
			ms.Master(i).Del("a")
		}
		<-in
	})
}

// A key that is not a lock is not held, and waiting does not help.
func TestAKeyThatIsNotALockIsToldFromOneThatIsHeld(t *testing.T) {
	for _, row := range []struct {
		name string
		put  []any // a command, without its key
		want string
	}{
		{"a list", []any{"RPUSH", "x"}, "the key holds data that is not a lock"},
		{"a hash", []any{"HSET", "f", "v"}, "the key holds data that is not a lock"},
		{"a bitmap", []any{"SETBIT", 7, 1}, "the key has no expiry, so it is not a lock"},
		{"a string without expiry", []any{"SET", "data"}, "the key has no expiry, so it is not a lock"},
		{"a long string", []any{"SETEX", 3600, strings.Repeat("x", 300)}, "the key holds data that is not a lock"},
	} {
		for _, call := range waitingCalls {
			if call.name == "Acquire" { // permits have a key of their own
				continue
			}
			t.Run(row.name+": "+call.name, func(t *testing.T) {
				bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
					var log logged
					c := connected(t, ms, log.Options())
					for i := range 2 {
						conn := ms.Pools()[i].Get()
						if _, err := conn.Do(row.put[0].(string), append([]any{"a"}, row.put[1:]...)...); err != nil {
							t.Fatal(err)
						}
						conn.Close()
					}
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					defer cancel()
					err := call.wait(ctx, c)
					if !errors.Is(err, redlock.ErrNotALock) || errors.Is(err, redlock.ErrHeld) || !strings.Contains(err.Error(), row.want) {
						t.Errorf("the error is %v, want ErrNotALock, not ErrHeld, and %q", err, row.want)
					}
					log.Want(t, 1, `level=ERROR msg="redlock: waiting for locks in vain`, "waited=1s", row.want)
					if err := c.Locker("a").TryLockContext(t.Context()); !errors.Is(err, redlock.ErrNotALock) || errors.Is(err, redlock.ErrHeld) {
						t.Errorf("TryLockContext = %v, want ErrNotALock, not ErrHeld", err)
					}
					for i := range 2 {
						conn := ms.Pools()[i].Get()
						if n, err := conn.Do("EXISTS", "a"); n != int64(1) || err != nil {
							t.Errorf("EXISTS = %v, %v, want the data still there", n, err)
						}
						conn.Close()
					}
				})
			})
		}
	}
}

// Another library's lock may be of another type, as the hash of Redisson is. It expires, so it is waited for.
func TestAKeyOfAnotherTypeThatExpiresCountsAsHeld(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		for i := range 3 {
			conn := ms.Pools()[i].Get()
			_, err := conn.Do("HSET", "a", "java:47", 1)
			if err == nil {
				_, err = conn.Do("PEXPIRE", "a", 3000)
			}
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
		if err := l.TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) || errors.Is(err, redlock.ErrNotALock) {
			t.Errorf("TryLockContext = %v, want ErrHeld", err)
		}
		if err := l.LockContext(t.Context()); err != nil {
			t.Errorf("LockContext = %v, want the lock when the key has expired", err)
		}
		l.Unlock()
	})
}

// The first error of TryLockContext names the holder, or says that the key is not a lock. A second one within a second asks nobody.
func TestTryLockContextAsksOnceASecondWhoHoldsTheLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		holder := connected(t, ms, &redlock.Options{Owner: "web-1"}).Locker("a")
		take(holder)
		defer holder.Unlock()
		l := connected(t, ms, nil).Locker("a")
		before := ms.Master(0).Count("GETRANGE")
		for range 5 {
			if err := l.TryLockContext(t.Context()); ownerOf(err) != "web-1" {
				t.Errorf("TryLockContext = %v, want the owner web-1", err)
			}
		}
		for range 5 {
			l.TryLock()
		}
		synctest.Wait() // an answer of a majority is enough, so the call may have ended before each master was asked
		if n := ms.Master(0).Count("GETRANGE") - before; n != 1 {
			t.Errorf("a master was asked %d times, want once", n)
		}
	})
}
