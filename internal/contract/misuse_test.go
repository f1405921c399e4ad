package contract_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAPanicInTheUsersFunctionsFreesTheLock(t *testing.T) {
	for _, row := range []struct {
		name string
		opts func() *redlock.Options
		held bool
	}{
		{name: "Acquired", opts: func() *redlock.Options {
			return &redlock.Options{Trace: &redlock.Trace{Acquired: func(context.Context, redlock.AcquiredInfo) { panic("mine") }}}
		}},
		{name: "AttemptDone", opts: func() *redlock.Options {
			return &redlock.Options{Trace: &redlock.Trace{AttemptDone: func(context.Context, redlock.AttemptInfo) { panic("mine") }}}
		}},
		{name: "NewBackOff", held: true, opts: func() *redlock.Options {
			return &redlock.Options{NewBackOff: func() redlock.BackOff { panic("mine") }}
		}},
		{name: "a nil BackOff", held: true, opts: func() *redlock.Options {
			return &redlock.Options{NewBackOff: func() redlock.BackOff { return nil }}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				l := connected(t, ms, row.opts()).Locker("a")
				if row.held {
					hold(ms, "a", 0, 1, 2)
				}
				for _, lock := range []func(){l.Lock, func() { l.TryLock() }} {
					func() {
						defer func() { recover() }()
						lock()
					}()
				}
				for i := range 3 {
					if row.held {
						ms.Master(i).Del("a")
					}
				}
				wantFree(t, ms, "a")
				func() {
					defer func() { recover() }()
					if err := l.TryLockContext(t.Context()); err != nil {
						t.Errorf("TryLockContext after a panic = %v, want the gate to be free", err)
					}
				}()
			})
		})
	}
}

func TestMisuseEndsTheProcess(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(c *redlock.Client)
		want string
	}{
		{"unlock of unlocked", func(c *redlock.Client) { c.Locker("a").Unlock() },
			"redlock: unlock of unlocked Locker"},
		{"unlock twice", func(c *redlock.Client) {
			l := c.Locker("a")
			locktest.Pass(l)
			l.Unlock()
		}, "redlock: unlock of unlocked Locker"},
		{"unlock of another Locker of the name", func(c *redlock.Client) {
			locked, other := c.Locker("a"), c.Locker("a")
			locked.Lock()
			other.Unlock()
		}, "redlock: unlock of unlocked Locker"},
		{"Lock on closed", func(c *redlock.Client) {
			c.Close()
			c.Locker("a").Lock()
		}, `redlock: Lock of "a" on a closed Client`},
		{"no name", func(c *redlock.Client) { c.Locker("") }, "redlock: a lock needs a name"},
		{"a name of ours", func(c *redlock.Client) { c.Locker("redlock:incarnation") },
			`redlock: the key "redlock:incarnation" begins with "redlock:", which is reserved`},
		{"zero Locker", func(c *redlock.Client) { new(redlock.Locker).Lock() },
			"redlock: use of a zero Locker; Client.Locker makes one that can be used"},
		{"zero Locker, unlock", func(c *redlock.Client) { new(redlock.Locker).Unlock() },
			"redlock: use of a zero Locker; Client.Locker makes one that can be used"},
		{"zero Locker, name", func(c *redlock.Client) { new(redlock.Locker).Name() },
			"redlock: use of a zero Locker; Client.Locker makes one that can be used"},
		{"zero Locker, lease", func(c *redlock.Client) { new(redlock.Locker).Lease() },
			"redlock: use of a zero Locker; Client.Locker makes one that can be used"},
		{"zero Locker, try", func(c *redlock.Client) { new(redlock.Locker).TryLock() },
			"redlock: use of a zero Locker; Client.Locker makes one that can be used"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				defer func() {
					if got := fmt.Sprint(recover()); got != row.want {
						t.Errorf("panic: %s, want %s", got, row.want)
					}
				}()
				row.do(connected(t, ms, nil))
			})
		})
	}
}

func TestMethodsOfANilLeaseDoNotPanic(t *testing.T) {
	var s *redlock.Lease
	if s.Token() != "" || !s.Until().IsZero() || s.Valid() {
		t.Errorf("Token, Until, Valid = %q, %v, %v, want none", s.Token(), s.Until(), s.Valid())
	}
}
