package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
		if locktest.Outcome(err) != "no quorum" || !strings.Contains(err.Error(), "no answer within 400ms (is the server up") {
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

func TestMasterStatesHaveNames(t *testing.T) {
	for state, want := range map[redlock.MasterState]string{
		redlock.MasterConnecting: "connecting", redlock.MasterUp: "up", redlock.MasterDown: "down", redlock.MasterRefused: "refused",
		redlock.MasterQuarantined: "quarantined", redlock.MasterUnwritable: "unwritable", -1: "MasterState(-1)", redlock.MasterUnwritable + 1: "MasterState(6)",
	} {
		if got := state.String(); got != want {
			t.Errorf("state %d is named %q, want %q", int(state), got, want)
		}
	}
}

func TestSilentMastersDoNotDelayADecision(t *testing.T) {
	for _, row := range []struct {
		name   string
		held   []int // masters that hold another client's token
		silent []int // frozen
		dead   []int // stopped
		want   string
		after  time.Duration
	}{
		{name: "all free", want: "locked"},
		{name: "a minority is silent", silent: []int{0, 1}, want: "locked"},
		{name: "a minority is dead", dead: []int{3, 4}, want: "locked"},
		{name: "a minority holds", held: []int{1, 2}, want: "locked"},
		{name: "one silent, one holds", held: []int{1}, silent: []int{2}, want: "locked"},
		{name: "a majority holds", held: []int{0, 1, 2}, want: "held"},
		{name: "a majority holds, the rest is silent", held: []int{0, 1, 2}, silent: []int{3, 4}, want: "held"},
		{name: "two hold, one is silent", held: []int{0, 1}, silent: []int{2}, want: "no quorum", after: 50 * time.Millisecond},
		{name: "two hold, one is dead", held: []int{0, 1}, dead: []int{2}, want: "no quorum"},
		{name: "a majority is silent", silent: []int{0, 1, 2}, want: "no quorum", after: 50 * time.Millisecond},
		{name: "a majority is dead", dead: []int{0, 1, 2}, want: "no quorum"},
		{name: "all are dead", dead: []int{0, 1, 2, 3, 4}, want: "no quorum"},
		{name: "dead masters do not hide a holder", held: []int{0, 1, 2}, dead: []int{3, 4}, want: "held"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				c := connected(t, ms, nil)
				hold(ms, "a", row.held...)
				for _, i := range row.silent {
					ms.Master(i).Freeze()
				}
				for _, i := range row.dead {
					ms.Master(i).Stop()
				}
				if len(row.dead) > 0 {
					time.Sleep(1500 * time.Millisecond) // the heartbeat finds them dead
				}
				l := c.Locker("a")
				start := time.Now()
				err := l.TryLockContext(t.Context())
				if took := time.Since(start); took != row.after {
					t.Errorf("decided after %v, want %v", took, row.after)
				}
				if got := locktest.Outcome(err); got != row.want {
					t.Errorf("TryLockContext: %s (%v), want %s", got, err, row.want)
				}
				if err == nil {
					start := time.Now()
					l.Unlock()
					if took := time.Since(start); took != 0 {
						t.Errorf("Unlock took %v, want no wait", took)
					}
				}
			})
		})
	}
}

func TestAMajorityIsNeededOfAnyNumberOfMasters(t *testing.T) {
	for n := 1; n <= 6; n++ {
		for dead := range n + 1 {
			t.Run(fmt.Sprintf("%d of %d dead", dead, n), func(t *testing.T) {
				bubble(t, n, func(t *testing.T, ms *redlocktest.Masters) {
					for i := range dead {
						ms.Master(i).Stop()
					}
					want := "no quorum"
					if n-dead >= n/2+1 {
						want = "locked"
					}
					l := ms.Open(nil).Locker("a")
					err := l.TryLockContext(t.Context())
					if got := locktest.Outcome(err); got != want {
						t.Errorf("TryLockContext: %s (%v), want %s", got, err, want)
					}
					if err == nil {
						l.Unlock()
					}
				})
			})
		}
	}
}

func TestScriptsThatWereFlushedAreLoadedAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}})
		l := c.Locker("a")
		l.Lock()
		synctest.Wait()
		for i := range 3 {
			conn := ms.Pools()[i].Get()
			if _, err := conn.Do("SCRIPT", "FLUSH"); err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
		if err := l.UnlockContext(t.Context()); err != nil {
			t.Errorf("UnlockContext after SCRIPT FLUSH = %v", err)
		}
		wantFree(t, ms, "a")
	})
}

// Managed services flush scripts.
func TestAFreeLockIsAcquiredAtOnceAfterTheScriptsWereFlushed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		for range 3 {
			for i := range 3 {
				conn := ms.Pools()[i].Get()
				if _, err := conn.Do("SCRIPT", "FLUSH"); err != nil {
					t.Fatal(err)
				}
				conn.Close()
			}
			for _, name := range []string{"a", "b"} {
				l := c.Locker(name)
				if err := l.TryLockContext(t.Context()); err != nil {
					t.Errorf("TryLockContext of %s after SCRIPT FLUSH = %v", name, err)
				} else if err := l.UnlockContext(t.Context()); err != nil {
					t.Errorf("UnlockContext of %s after SCRIPT FLUSH = %v", name, err)
				}
			}
		}
		for _, m := range c.Masters() {
			if m.State != redlock.MasterUp {
				t.Errorf("%s is %v: %v", m.Name, m.State, m.Err)
			}
		}
	})
}

// The scripts are most of what a client would send when it connects. A server is sent them once.
func TestAServerIsSentTheScriptsOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		m := ms.Master(0)
		sent := func() (loads int) {
			for _, c := range m.Commands() {
				if strings.HasPrefix(c, "SCRIPT LOAD") && len(c) > 10_000 {
					loads++
				}
			}
			return loads
		}
		for i := range 3 {
			locktest.Pass(connected(t, ms, nil).Locker("a"))
			if got, want := sent(), 3; got != want {
				t.Errorf("%d clients have sent long scripts %d times, want %d: batch.lua, and batch.lua and slots.lua for its process", i+1, got, want)
			}
		}
		m.Stop()
		startAdopted(ms, 0)
		time.Sleep(5 * time.Second) // the clients have dialled again
		if got, want := sent(), 6; got != want {
			t.Errorf("after a restart, long scripts were sent %d times in all, want %d", got, want)
		}
	})
}

// A server that has lost the text for its process may be another process. Grants go on with the text for all, which asks.
func TestAGrantGoesOnAfterTheScriptsWereFlushed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		holder := connected(t, ms, nil).Locker("a")
		take(holder)
		waiter, entered := connected(t, ms, nil).Locker("a"), make(chan time.Time)
		go func() {
			waiter.Lock()
			entered <- time.Now()
			waiter.Unlock()
		}()
		queued(t, ms, "a", 1)
		for i := range 3 {
			conn := ms.Pools()[i].Get()
			if _, err := conn.Do("SCRIPT", "FLUSH"); err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
		began := time.Now()
		holder.Unlock()
		if took := (<-entered).Sub(began); took > 150*time.Millisecond { // a probe may have ended a connection
			t.Errorf("the next client has the lock after %v, want as soon as after a message that was lost, at most", took)
		}
	})
}

// Rounds are reused. The state of one use must not show in the next.
func TestARoundThatIsUsedAgainIsFresh(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		l := c.Locker("a")
		for range 20 {
			for range 5 {
				locktest.Pass(l)
				synctest.Wait() // the last vote frees the round
			}
			for i := range 3 {
				ms.Master(i).Freeze()
			}
			start := time.Now()
			if err := l.TryLockContext(t.Context()); locktest.Outcome(err) != "no quorum" {
				t.Errorf("TryLockContext with three frozen = %v", err)
			}
			if took := time.Since(start); took != 50*time.Millisecond {
				t.Errorf("it took %v, want NodeTimeout", took)
			}
			for i := range 3 {
				ms.Master(i).Thaw()
			}
			time.Sleep(time.Second) // late votes come, and free their rounds
			ctx, cancel := context.WithCancel(t.Context())
			for i := range 5 {
				ms.Master(i).Delay(10 * time.Millisecond)
			}
			time.AfterFunc(10*time.Millisecond, cancel) // when the votes arrive
			if l.LockContext(ctx) == nil {
				l.Unlock()
			}
			for i := range 5 {
				ms.Master(i).Delay(0)
			}
			time.Sleep(time.Second)
		}
		wantFree(t, ms, "a")
	})
}

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
		// The validity is that of a grant until the first renewal, which is due after 100 ms.
		if got, want := time.Until(l.Lease().Until()), 988*time.Millisecond; got != want {
			t.Errorf("validity after a wait between rounds is %v, want %v", got, want)
		}
		time.Sleep(150 * time.Millisecond)
		if got := time.Until(l.Lease().Until()); got < 9748*time.Millisecond {
			t.Errorf("validity after the first renewal is %v, want all of it", got)
		}
		l.Unlock()
	})
}
