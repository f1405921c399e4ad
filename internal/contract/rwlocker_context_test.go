package contract_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// The methods of both sides are those of their Lockers: readers share the lock, and a ctx bounds the wait.
func TestTheMethodsOfAnRWLockerThatTakeAContext(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		ours, theirs := locktest.Connected(t, ms, nil).RWLocker("a"), locktest.Connected(t, ms, nil).RWLocker("a")
		short := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("%s = %v, want it to end with ctx, since the lock is held", what, err)
			}
		}
		never := func(context.Context) error { t.Error("Do calls its function without the lock"); return nil }
		wrong := errors.New("wrong")

		err := ours.RDo(t.Context(), func(ctx context.Context) error {
			if err := theirs.RLockContext(ctx); err != nil {
				t.Errorf("RLockContext beside a reader = %v", err)
			}
			defer theirs.RUnlock()
			refused("LockContext beside readers", theirs.LockContext(short()))
			refused("Do beside readers", theirs.Do(short(), never))
			return wrong
		})
		if err != wrong {
			t.Errorf("RDo = %v, want the error of its function", err)
		}
		err = ours.Do(t.Context(), func(ctx context.Context) error {
			if lease := ours.Locker().Lease(); !lease.Valid() {
				t.Error("the writer's side has no lease within Do")
			}
			refused("RLockContext beside a writer", theirs.RLockContext(short()))
			refused("RDo beside a writer", theirs.RDo(short(), never))
			return wrong
		})
		if err != wrong {
			t.Errorf("Do = %v, want the error of its function", err)
		}
		if err := theirs.LockContext(t.Context()); err != nil {
			t.Errorf("LockContext of a free lock = %v", err)
		}
		theirs.Unlock()
	})
}

// RWLockers of one name may have different options. Their readers share a lease, with the options of whoever acquired it.
func TestARWLockerHasOptionsOfItsOwn(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := locktest.Connected(t, ms, &redlock.Options{MaxTTL: time.Minute})
		with := func(opts redlock.LockOptions) *redlock.RWLocker {
			l, err := c.NewRWLocker("a", &opts)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		keeps, leaves := with(redlock.LockOptions{TTL: time.Minute}), with(redlock.LockOptions{Handover: -1})
		for _, row := range []struct {
			name string
			l    *redlock.RWLocker
			ttl  time.Duration
			kept int
		}{
			{"kept", keeps, time.Minute, 3}, {"not kept", leaves, 10 * time.Second, 0}, {"kept again", keeps, time.Minute, 3},
		} {
			row.l.Lock()
			if left := time.Until(row.l.Locker().Lease().Until()); left > row.ttl || left < row.ttl*9/10 {
				t.Errorf("%s: the writer's lease is valid for %v, want the TTL, %v", row.name, left, row.ttl)
			}
			row.l.Unlock()
			row.l.RLock()
			if left := time.Until(row.l.RLocker().Lease().Until()); left > row.ttl || left < row.ttl*9/10 {
				t.Errorf("%s: the readers' lease is valid for %v, want the TTL, %v", row.name, left, row.ttl)
			}
			row.l.RUnlock()
			synctest.Wait()
			if n := len(holders(ms, "a")); n != row.kept {
				t.Errorf("%s: readers hold the lock at %d masters when none is inside, want %d", row.name, n, row.kept)
			}
		}
		for _, name := range []string{"", "redlock:x"} {
			if _, err := c.NewRWLocker(name, nil); err == nil {
				t.Errorf("NewRWLocker(%q) = nil, want an error", name)
			}
		}
		if _, err := c.NewRWLocker("a", &redlock.LockOptions{TTL: -1}); err == nil {
			t.Error("NewRWLocker with a TTL below 0: no error")
		}
	})
}
