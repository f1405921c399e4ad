package contract_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestErrorsAreOneLineAndNameTheMaster(t *testing.T) {
	node := &redlock.NodeError{Master: "10.0.0.1:6379", Op: "acquire", Err: errors.New("two\r\nlines, \x1b[31mred")}
	if got, want := node.Error(), "redlock: 10.0.0.1:6379: acquire: two lines, ?[31mred"; got != want {
		t.Errorf("NodeError = %q, want %q", got, want)
	}
	quorum := &redlock.QuorumError{Op: "acquire", Name: "a\nb", Granted: 2, Need: 3,
		Errs: []error{node, fmt.Errorf("slow")}}
	if got, want := quorum.Error(), `redlock: acquire "a\nb": granted by 2, 3 needed (10.0.0.1:6379: two lines, ?[31mred; slow)`; got != want {
		t.Errorf("QuorumError = %q, want %q", got, want)
	}
	if !errors.Is(quorum, node.Err) {
		t.Error("a QuorumError does not wrap its masters' errors")
	}
	if errors.Is(quorum, redlock.ErrHeld) {
		t.Error("a QuorumError matches ErrHeld without refusals")
	}
}

// refusedBy returns the error of net.Dial for an address on which no process listens.
func refusedBy(address string) error {
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		panic(err)
	}
	return &net.OpError{Op: "dial", Net: "tcp", Addr: tcp, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

func TestAQuorumErrorListsMastersWithOneReasonTogether(t *testing.T) {
	node := func(address string, err error) error {
		return &redlock.NodeError{Master: address, Op: "ping", Err: err}
	}
	reset := func(local string) error { // the error of a read on an established connection
		err := refusedBy("10.0.0.5:6379").(*net.OpError)
		err.Op, err.Err = "read", os.NewSyscallError("read", syscall.ECONNRESET)
		err.Source = refusedBy(local).(*net.OpError).Addr
		return fmt.Errorf("connection lost: %w", err)
	}
	for _, row := range []struct {
		name string
		errs []error
		want string
	}{
		{"nothing", nil, ""},
		{
			"refused dials at different addresses",
			[]error{node("10.0.0.1:6379", refusedBy("10.0.0.1:6379")), node("10.0.0.2:6379", refusedBy("10.0.0.2:6379"))},
			" (10.0.0.1:6379, 10.0.0.2:6379: connection refused)",
		},
		{
			"two reasons in turns",
			[]error{node("a", errors.New("slow")), node("b", errors.New("full")), node("c", errors.New("slow")), node("d", errors.New("full"))},
			" (a, c: slow; b, d: full)",
		},
		{
			"connections from different local ports",
			[]error{node("a", reset("10.0.0.9:1024")), node("b", reset("10.0.0.9:1025"))},
			" (a, b: connection lost: connection reset by peer)",
		},
		{
			"an error that names no master",
			[]error{node("a", errors.New("slow")), errors.New("slow"), errors.New("slow")},
			" (a: slow; slow; slow)",
		},
		{"several lines", []error{node("a", errors.New("two\r\nlines"))}, " (a: two lines)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := &redlock.QuorumError{Op: "ping", Need: 3, Errs: row.errs}
			if want := "redlock: ping: granted by 0, 3 needed" + row.want; err.Error() != want {
				t.Errorf("got  %s\nwant %s", err, want)
			}
		})
	}
}

// TestAnErrorMatchesErrQuarantinedWhereWaitingIsEnough has some masters in quarantine and some that are down.
// The error of a round matches ErrQuarantined only if the masters in quarantine would complete a quorum.
func TestAnErrorMatchesErrQuarantinedWhereWaitingIsEnough(t *testing.T) {
	for _, row := range []struct {
		quarantined, stopped int
		fails, wait          bool // whether the calls fail, and whether waiting is enough
	}{
		{quarantined: 0, stopped: 3, fails: true, wait: false},
		{quarantined: 1, stopped: 1, fails: false},
		{quarantined: 1, stopped: 2, fails: true, wait: true},
		{quarantined: 2, stopped: 3, fails: true, wait: false},
		{quarantined: 3, stopped: 0, fails: true, wait: true},
		{quarantined: 3, stopped: 2, fails: true, wait: true},
		{quarantined: 5, stopped: 0, fails: true, wait: true},
	} {
		t.Run(fmt.Sprintf("%d quarantined, %d down", row.quarantined, row.stopped), func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				for i := range row.quarantined {
					ms.Master(i).Forget()
				}
				for i := range row.stopped {
					ms.Master(4 - i).Stop()
				}
				c := ms.Open(nil)
				time.Sleep(100 * time.Millisecond)
				l := c.Locker("a")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				for _, call := range []struct {
					name string
					err  error
				}{
					{"Ping", c.Ping(t.Context())},
					{"TryLockContext", l.TryLockContext(t.Context())},
					{"LockContext", c.Locker("b").LockContext(ctx)},
				} {
					if fails := call.err != nil; fails != row.fails {
						t.Errorf("%s = %v, want an error: %v", call.name, call.err, row.fails)
					}
					if got := errors.Is(call.err, redlock.ErrQuarantined); got != row.wait {
						t.Errorf("%s = %v: errors.Is(err, ErrQuarantined) = %v, want %v", call.name, call.err, got, row.wait)
					}
				}
				for i, m := range c.Masters() {
					if got, want := errors.Is(m.Err, redlock.ErrQuarantined), i < row.quarantined; got != want {
						t.Errorf("%s: Err = %v: errors.Is(Err, ErrQuarantined) = %v, want %v", m.Name, m.Err, got, want)
					}
				}
				if row.quarantined == 5 {
					if text := c.Ping(t.Context()).Error(); strings.Count(text, "in quarantine until") != 1 {
						t.Errorf("%s\nnames one reason more than once", text)
					}
				}
			})
		})
	}
}

// Two of three masters have refused, so the attempt does not wait for the third, which is slow but healthy.
func TestAQuorumErrorTellsWhichMastersWereNotWaitedFor(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		hold(ms, "a", 0, 1)
		ms.Master(2).Delay(5 * time.Millisecond)
		err := c.Locker("a").TryLockContext(t.Context())
		if want := `(master 1, master 2: held by another; master 3: not waited for)`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("TryLockContext = %v, want %s", err, want)
		}
	})
}

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
			take(c.Locker("a"))
			c.Locker("a").Unlock()
		}, `redlock: unlock of unlocked Locker: another Locker of this Client holds "a"; unlock the Locker that was locked`},
		{"unlock of another Locker of the name, kept", func(c *redlock.Client) {
			take(keepingLocker(c, "a"))
			keepingLocker(c, "a").Unlock()
		}, `redlock: unlock of unlocked Locker: another Locker of this Client holds "a"; unlock the Locker that was locked`},
		{"unlock twice, kept", func(c *redlock.Client) {
			l := keepingLocker(c, "a")
			locktest.Pass(l)
			l.Unlock()
		}, "redlock: unlock of unlocked Locker"},
		{"unlock of a name of a set", func(c *redlock.Client) {
			c.Locker("a", "b").Lock()
			c.Locker("b").Unlock()
		}, `redlock: unlock of unlocked Locker: another Locker of this Client holds "b"; unlock the Locker that was locked`},
		{"unlock of a set with the name", func(c *redlock.Client) {
			c.Locker("b").Lock()
			c.Locker("a", "b").Unlock()
		}, `redlock: unlock of unlocked Locker: another Locker of this Client holds "b"; unlock the Locker that was locked`},
		{"unlock of another set of the names", func(c *redlock.Client) {
			c.Locker("a", "b").Lock()
			c.Locker("b", "a").Unlock()
		}, `redlock: unlock of unlocked Locker: another Locker of this Client holds "a"; unlock the Locker that was locked`},
		{"unlock of the writer of another RWLocker", func(c *redlock.Client) {
			take(c.RWLocker("a").Locker())
			c.RWLocker("a").Unlock()
		}, `redlock: unlock of unlocked Locker: another Locker of this Client holds "a"; unlock the Locker that was locked`},
		{"unlock instead of RUnlock", func(c *redlock.Client) {
			c.RWLocker("a").RLock()
			c.RWLocker("a").Unlock()
		}, `redlock: unlock of unlocked Locker: readers of this Client hold "a"; they call RUnlock`},
		{"RUnlock instead of unlock", func(c *redlock.Client) {
			l := c.RWLocker("a")
			l.Lock()
			l.RUnlock()
		}, "redlock: RUnlock of unlocked RWLocker: a writer of this Client holds it, and calls Unlock"},
		{"unlock while another name is held", func(c *redlock.Client) {
			c.Locker("a").Lock()
			c.Locker("b").Unlock()
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

// keepingLocker returns a Locker whose lock stays with the Client.
func keepingLocker(c *redlock.Client, name string) *redlock.Locker {
	l, err := c.NewLocker(name, &redlock.LockOptions{Keep: time.Minute})
	if err != nil {
		panic(err)
	}
	return l
}

func TestUnlockContextSaysThatAnotherLockerHoldsTheName(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		locked := c.Locker("a")
		locked.Lock()
		want := `redlock: not locked: another Locker of this Client holds "a"; unlock the Locker that was locked`
		if err := c.Locker("a").UnlockContext(t.Context()); !errors.Is(err, redlock.ErrNotHeld) || err.Error() != want {
			t.Errorf("UnlockContext = %v, want %s", err, want)
		}
		if err := locked.UnlockContext(t.Context()); err != nil {
			t.Errorf("the holder's UnlockContext = %v", err)
		}
		if err := locked.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrNotHeld) || err.Error() != "redlock: not locked" {
			t.Errorf("a second UnlockContext = %v, want ErrNotHeld alone", err)
		}
	})
}

func TestMethodsOfANilLeaseDoNotPanic(t *testing.T) {
	var s *redlock.Lease
	if s.Token() != "" || !s.Until().IsZero() || s.Valid() {
		t.Errorf("Token, Until, Valid = %q, %v, %v, want none", s.Token(), s.Until(), s.Valid())
	}
}
