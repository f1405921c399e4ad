package contract_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestValidityIsWhatTheMastersCountLessTheDrift(t *testing.T) {
	unrenewed := redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1}}
	for _, row := range []struct {
		name  string
		opts  redlock.Options
		delay time.Duration // of each master
		px    string
		want  time.Duration // validity from the call on
	}{
		{name: "default", px: "10000", opts: unrenewed, want: 10*time.Second - 100*time.Millisecond - 2*time.Millisecond},
		{name: "rounded down to whole milliseconds", px: "1000", want: time.Second - 10*time.Millisecond - 2*time.Millisecond,
			opts: redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second + 999*time.Microsecond, RenewEvery: -1}}},
		{name: "counted from before the first byte", px: "10000", opts: unrenewed, delay: 40 * time.Millisecond,
			want: 10*time.Second - 102*time.Millisecond},
		{name: "another drift", px: "10000", want: 8*time.Second - 2*time.Millisecond,
			opts: redlock.Options{DriftFactor: 0.2, LockOptions: redlock.LockOptions{RenewEvery: -1}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				l := connected(t, ms, &row.opts).Locker("a")
				for i := range 3 {
					ms.Master(i).Delay(row.delay)
				}
				start := time.Now()
				l.Lock()
				if got := time.Since(start); got != row.delay {
					t.Errorf("Lock took %v, want %v", got, row.delay)
				}
				synctest.Wait() // Lock waits only for a quorum
				s := l.Lease()
				if got := s.Until().Sub(start); got != row.want {
					t.Errorf("Until is %v after the call, want %v", got, row.want)
				}
				set := ""
				for _, command := range ms.Master(0).Commands() {
					if strings.HasPrefix(command, "SET ") {
						set = command
					}
				}
				if want := "SET a " + s.Token() + " NX PX " + row.px; set != want {
					t.Errorf("sent %q, want %q", set, want)
				}
				time.Sleep(time.Until(s.Until()) - 1)
				if !s.Valid() {
					t.Error("not valid 1ns before its end")
				}
				time.Sleep(1 * time.Nanosecond)
				if s.Valid() {
					t.Error("valid at its end")
				}
				l.Unlock()
			})
		})
	}
}

func TestARoundThatUsesUpTheValidityIsNotWon(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		for i := range 3 {
			ms.Master(i).HangDials()
		}
		c := ms.Open(&redlock.Options{LockOptions: redlock.LockOptions{TTL: 200 * time.Millisecond}})
		time.AfterFunc(300*time.Millisecond, func() {
			for i := range 3 {
				ms.Master(i).ResumeDials()
			}
		})
		err := c.Locker("a").TryLockContext(t.Context())
		if locktest.Outcome(err) != "no quorum" || !strings.Contains(err.Error(), "leaves nothing of a validity of 196ms") {
			t.Errorf("TryLockContext = %v, want an error that tells of the validity", err)
		}
		wantFree(t, ms, "a")
	})
}

func TestValidityDoesNotCountTheWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		l.Lock()
		time.AfterFunc(5*time.Second, l.Unlock)
		if err := l.LockContext(t.Context()); err != nil { // at the gate
			t.Fatal(err)
		}
		if got := time.Until(l.Lease().Until()); got != 9898*time.Millisecond {
			t.Errorf("validity after a wait at the gate is %v, want all of it", got)
		}
		l.Unlock()
		hold(ms, "a", 0, 1, 2)
		time.AfterFunc(5*time.Second, func() {
			for i := range 3 {
				ms.Master(i).Del("a")
			}
		})
		if err := l.LockContext(t.Context()); err != nil { // between rounds
			t.Fatal(err)
		}
		// The validity is that of a grant until the first renewal, which is due after a quarter of it.
		const first = 394 * time.Millisecond
		if got := time.Until(l.Lease().Until()); got != first {
			t.Errorf("validity after a wait between rounds is %v, want %v", got, first)
		}
		time.Sleep(first / 2)
		if got := time.Until(l.Lease().Until()); got < 9898*time.Millisecond-first/2 {
			t.Errorf("validity after the first renewal is %v, want all of it", got)
		}
		l.Unlock()
	})
}
