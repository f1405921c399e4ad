package contract_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAFirstRoundWaitsForFirstConnections(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		for i := range 5 {
			ms.Master(i).HangDials()
		}
		c := ms.Open(nil)
		time.AfterFunc(700*time.Millisecond, func() {
			for i := range 5 {
				ms.Master(i).ResumeDials()
			}
		})
		l := c.Locker("a")
		if err := l.TryLockContext(t.Context()); err != nil {
			t.Errorf("the first TryLockContext = %v, want it to wait for the connections", err)
		} else {
			l.Unlock()
		}
	})
}

func TestAFirstRoundDoesNotWaitForMoreThanItNeeds(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		ms.Master(0).HangDials()
		ms.Master(1).HangDials()
		c := ms.Open(nil)
		start := time.Now()
		l := c.Locker("a")
		locktest.Pass(l)
		if took := time.Since(start); took != 0 {
			t.Errorf("three of five masters took %v, want no wait for the others", took)
		}
		time.Sleep(time.Minute)
		ms.Master(0).ResumeDials()
		ms.Master(1).ResumeDials()
		time.Sleep(time.Minute)
		wantFree(t, ms, "a")
	})
}

func TestMastersThatHangAreDownAfterDialTimeout(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		for i := range 3 {
			ms.Master(i).HangDials()
		}
		c := ms.Open(&redlock.Options{DialTimeout: 400 * time.Millisecond})
		start := time.Now()
		err := c.Locker("a").TryLockContext(t.Context())
		if took := time.Since(start); took != 400*time.Millisecond {
			t.Errorf("TryLockContext took %v, want DialTimeout", took)
		}
		if locktest.Outcome(err) != "no quorum" || !strings.Contains(err.Error(), "no connection within 400ms") {
			t.Errorf("TryLockContext = %v, want it to say that there is no connection", err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v matches DeadlineExceeded, and no context of the caller's has ended", err)
		}
		for i := range 3 {
			ms.Master(i).ResumeDials()
		}
	})
}

func TestMastersThatAreDownAtTheStartAreDialledAgain(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		for i := range 5 {
			ms.Master(i).Stop()
		}
		c := ms.Open(nil)
		if err := c.Ping(t.Context()); locktest.Outcome(err) != "no quorum" {
			t.Errorf("Ping = %v, want a QuorumError", err)
		}
		for _, m := range c.Masters() {
			if m.State != redlock.MasterDown || m.Err == nil {
				t.Errorf("%s is %s (%v), want down with a reason", m.Name, m.State, m.Err)
			}
		}
		startAdopted(ms, 0, 1, 2, 3, 4)
		time.Sleep(2 * time.Second)
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("Ping after the masters came = %v", err)
		}
		for i, m := range c.Masters() {
			if m.State != redlock.MasterUp || m.Err != nil || m.Name != ms.Names()[i] || time.Since(m.Since) > 2*time.Second {
				t.Errorf("%+v, want up since a moment ago", m)
			}
		}
	})
}

func TestAMasterThatDiesWhileIdleIsFoundByTheHeartbeat(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		ms.Master(1).Stop()
		time.Sleep(1100 * time.Millisecond)
		if got := c.Masters()[1].State; got != redlock.MasterDown {
			t.Errorf("the dead master is %s after a second, want down", got)
		}
		startAdopted(ms, 1)
		time.Sleep(2 * time.Second)
		if got := c.Masters()[1].State; got != redlock.MasterUp {
			t.Errorf("the restarted master is %s, want up", got)
		}
	})
}

func TestPing(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		ms.Master(0).Stop()
		ms.Master(1).Freeze()
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("Ping with three of five = %v, want nil", err)
		}
		ms.Master(2).Fail("LOADING Redis is loading the dataset in memory")
		err := c.Ping(t.Context())
		var quorum *redlock.QuorumError
		if !errors.As(err, &quorum) || quorum.Granted != 2 || quorum.Need != 3 || len(quorum.Errs) != 3 {
			t.Fatalf("Ping with two of five = %v, want a QuorumError with three errors", err)
		}
		var node *redlock.NodeError
		if !errors.As(quorum.Errs[2], &node) || node.Master != "master 3" || node.Op != "ping" || !strings.Contains(node.Error(), "LOADING") {
			t.Errorf("the third error is %v, want master 3's LOADING", quorum.Errs[2])
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Ping(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Ping with an ended context = %v", err)
		}
		c.Close()
		if err := c.Ping(t.Context()); err != redlock.ErrClosed {
			t.Errorf("Ping of a closed Client = %v, want ErrClosed", err)
		}
	})
}

func TestTraceReportsWhatHappens(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var mu sync.Mutex
		var got []string
		type key struct{}
		note := func(ctx context.Context, what string, err error) {
			mu.Lock()
			defer mu.Unlock()
			caller, _ := ctx.Value(key{}).(string)
			if err != nil {
				what += " (" + locktest.Outcome(err) + ")"
			}
			got = append(got, caller+what)
		}
		c := ms.Open(&redlock.Options{Trace: &redlock.Trace{
			AttemptDone: func(ctx context.Context, i redlock.AttemptInfo) { note(ctx, "attempt "+i.Name, i.Err) },
			Acquired: func(ctx context.Context, i redlock.AcquiredInfo) {
				if i.Attempts != 3 || i.Waited <= 0 || !i.Until.After(time.Now()) {
					t.Errorf("AcquiredInfo = %+v, want 3 attempts, a wait, and an end to come", i)
				}
				note(ctx, "acquired "+i.Name, nil)
			},
			Released: func(ctx context.Context, i redlock.ReleasedInfo) {
				if i.Held != time.Second {
					t.Errorf("held for %v, want 1s", i.Held)
				}
				note(ctx, "released "+i.Name, i.Err)
			},
			MasterChanged: func(ctx context.Context, i redlock.MasterStatus) { note(ctx, i.Name+" "+i.State.String(), i.Err) },
		}})
		synctest.Wait()
		slices.Sort(got) // the masters connect in any order
		hold(ms, "a", 0, 1, 2)
		time.AfterFunc(time.Millisecond, func() {
			for i := range 3 {
				ms.Master(i).Del("a")
			}
		})
		ctx := context.WithValue(t.Context(), key{}, "caller: ")
		l := c.Locker("a")
		if err := l.LockContext(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := l.UnlockContext(ctx); err != nil {
			t.Fatal(err)
		}
		ms.Master(1).Stop()
		time.Sleep(2 * time.Second)
		want := []string{
			"master 1 up", "master 2 up", "master 3 up",
			"caller: attempt a (held)", "caller: attempt a (held)", "caller: attempt a", "caller: acquired a", "caller: released a",
			"master 2 down (error)",
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

func TestMasterStatesHaveNames(t *testing.T) {
	for state, want := range map[redlock.MasterState]string{
		redlock.MasterConnecting: "connecting", redlock.MasterUp: "up", redlock.MasterDown: "down", redlock.MasterRefused: "refused",
		redlock.MasterQuarantined: "quarantined", -1: "MasterState(-1)", redlock.MasterQuarantined + 1: "MasterState(5)",
	} {
		if got := state.String(); got != want {
			t.Errorf("state %d is named %q, want %q", int(state), got, want)
		}
	}
}
