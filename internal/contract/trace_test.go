package contract_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// loseLease acquires a lock and deletes its key at a majority of the masters.
func loseLease(c *redlock.Client, ms *redlocktest.Masters, name string) *redlock.Locker {
	l := c.Locker(name)
	l.Lock()
	for i := range ms.Len() {
		ms.Master(i).Del(name)
	}
	return l
}

func TestCloseFromTraceLostReturns(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var c *redlock.Client
		closed := make(chan error, 1)
		c = connected(t, ms, &redlock.Options{Trace: &redlock.Trace{
			Lost: func(context.Context, redlock.LostInfo) { closed <- c.Close() },
		}})
		loseLease(c, ms, "a")
		select {
		case <-closed:
		case <-time.After(time.Minute):
			t.Error("Close hangs")
		}
	})
}

func TestATraceThatBlocksHangsNoClose(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		block := make(chan struct{})
		defer close(block)
		wait := func() { <-block }
		c, err := redlock.New(ms.Pools(), &redlock.Options{Trace: &redlock.Trace{
			Renewed:       func(context.Context, redlock.RenewedInfo) { wait() },
			Lost:          func(context.Context, redlock.LostInfo) { wait() },
			MasterChanged: func(context.Context, redlock.MasterStatus) { wait() },
		}})
		if err != nil {
			t.Fatal(err)
		}
		loseLease(c, ms, "a")
		time.Sleep(time.Minute)
		began := time.Now()
		if err := c.Close(); err == nil {
			t.Error("Close = nil, want an error that names the Trace")
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// A function of Trace that takes longer than a TTL must not delay the renewal of leases.
func TestASlowTraceDelaysNoRenewal(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var slow atomic.Bool
		slow.Store(true)
		c := connected(t, ms, &redlock.Options{Trace: &redlock.Trace{
			Renewed: func(context.Context, redlock.RenewedInfo) {
				if slow.Load() {
					time.Sleep(time.Minute)
				}
			},
		}})
		a, b := c.Locker("a"), c.Locker("b")
		a.Lock()
		b.Lock()
		time.Sleep(5 * time.Minute)
		if err := a.Lease().Err(); err != nil {
			t.Error(err)
		}
		if err := b.Lease().Err(); err != nil {
			t.Error(err)
		}
		slow.Store(false)
		a.Unlock()
		b.Unlock()
		time.Sleep(2 * time.Minute) // for the call under way
		synctest.Wait()
	})
}

func TestEachCallThatLocksIsTracedFromStartToDone(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var mu sync.Mutex
		starts, dones := 0, []redlock.LockDoneInfo{}
		c := connected(t, ms, &redlock.Options{Trace: &redlock.Trace{
			LockStart: func(_ context.Context, i redlock.LockStartInfo) {
				mu.Lock()
				defer mu.Unlock()
				starts++
			},
			LockDone: func(_ context.Context, i redlock.LockDoneInfo) {
				mu.Lock()
				defer mu.Unlock()
				dones = append(dones, i)
			},
		}})
		want := func(waited time.Duration, attempts int, err error) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if starts != len(dones) {
				t.Errorf("%d starts and %d dones", starts, len(dones))
			}
			got := dones[len(dones)-1]
			if got.Name != "a" || got.Waited != waited || attempts >= 0 && got.Attempts != attempts || !errors.Is(got.Err, err) {
				t.Errorf("LockDone(%+v), want %v, %d attempts, error %v", got, waited, attempts, err)
			}
		}
		l := c.Locker("a")
		l.Lock()
		want(0, 1, nil)
		go func() {
			time.Sleep(10 * time.Millisecond)
			l.Unlock()
		}()
		l.Lock() // by handover
		want(10*time.Millisecond, 0, nil)
		if c.Locker("a").TryLock() {
			t.Fatal("TryLock of a held lock succeeded")
		}
		want(0, 0, redlock.ErrHeld)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := connected(t, ms, nil).Locker("a").LockContext(ctx); err == nil {
			t.Fatal("two hold the lock")
		}
		if err := c.Locker("a").LockContext(ctx); err == nil {
			t.Fatal("two hold the lock")
		}
		want(0, 0, context.DeadlineExceeded) // ctx had ended before
		l.Unlock()
	})
}

func TestLockDoneReportsAPanicAsAnError(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var done []error
		c := connected(t, ms, &redlock.Options{Trace: &redlock.Trace{
			Acquired: func(context.Context, redlock.AcquiredInfo) { panic("the user's") },
			LockDone: func(_ context.Context, i redlock.LockDoneInfo) { done = append(done, i.Err) },
		}})
		func() {
			defer func() { recover() }()
			c.Locker("a").Lock()
		}()
		if len(done) != 1 || done[0] == nil {
			t.Errorf("LockDone was called with %v, want one error", done)
		}
	})
}

func TestATraceThatPanicsLeavesTheLockFree(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		panics := true
		c := connected(t, ms, &redlock.Options{Trace: &redlock.Trace{LockDone: func(context.Context, redlock.LockDoneInfo) {
			if panics {
				panic("the user's")
			}
		}}})
		for name, lock := range map[string]func(l *redlock.Locker){
			"Lock":    (*redlock.Locker).Lock,
			"TryLock": func(l *redlock.Locker) { l.TryLock() },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: no panic", name)
					}
				}()
				lock(c.Locker("a"))
			}()
		}
		panics = false
		if !connected(t, ms, nil).Locker("a").TryLock() {
			t.Error("the lock is still held")
		}
	})
}

func TestTheOutcomeOfACallIsOneWord(t *testing.T) {
	for want, err := range map[string]error{
		"acquired":    nil,
		"closed":      redlock.ErrClosed,
		"timeout":     errors.Join(context.DeadlineExceeded, redlock.ErrHeld),
		"canceled":    errors.Join(context.Canceled, redlock.ErrHeld),
		"held":        redlock.ErrHeld,
		"quarantined": redlock.ErrQuarantined,
		"unavailable": errors.New("connection refused"),
	} {
		if got := (redlock.LockDoneInfo{Err: err}).Outcome(); got != want {
			t.Errorf("the outcome of %v is %q, want %q", err, got, want)
		}
	}
}
