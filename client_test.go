package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
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
		pass(l)
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
		if outcome(err) != "no quorum" || !strings.Contains(err.Error(), "no connection within 400ms") {
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
		if err := c.Ping(t.Context()); outcome(err) != "no quorum" {
			t.Errorf("Ping = %v, want a QuorumError", err)
		}
		for _, m := range c.Masters() {
			if m.State != redlock.MasterDown || m.Err == nil {
				t.Errorf("%s is %s (%v), want down with a reason", m.Name, m.State, m.Err)
			}
		}
		for i := range 5 {
			ms.Master(i).Start()
		}
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
		ms.Master(1).Start()
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

func TestCloseEndsWaits(t *testing.T) {
	for _, row := range []struct {
		name   string
		before func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client)
	}{
		{"at the gate", func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client) { c.Locker("a").Lock() }},
		{"between rounds", func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client) { hold(ms, "a", 0, 1, 2) }},
		{"in a round", func(t *testing.T, ms *redlocktest.Masters, c *redlock.Client) {
			for i := range 3 {
				ms.Master(i).Freeze()
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				c := connected(t, ms, nil)
				row.before(t, ms, c)
				waits, panics := make(chan error, 1), make(chan any, 1)
				go func() { waits <- c.Locker("a").LockContext(t.Context()) }()
				go func() {
					defer func() { panics <- recover() }()
					c.Locker("a").Lock()
				}()
				time.Sleep(20 * time.Millisecond)
				c.Close()
				if err := <-waits; err != redlock.ErrClosed {
					t.Errorf("LockContext = %v, want ErrClosed", err)
				}
				if p := <-panics; p != `redlock: Lock of "a" on a closed Client` {
					t.Errorf("Lock panicked with %v", p)
				}
			})
		})
	}
}

func TestCloseRollsBackWhatItInterrupts(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}})
		for i := range 5 {
			ms.Master(i).Delay(30 * time.Millisecond)
		}
		done := make(chan error)
		go func() { done <- c.Locker("a").LockContext(t.Context()) }()
		time.Sleep(10 * time.Millisecond)
		c.Close()
		<-done
		wantFree(t, ms, "a")
	})
}

func TestCloseDoesNotReleaseWhatIsHeld(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		l := c.Locker("a")
		l.Lock()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("a second Close = %v", err)
		}
		if got := len(holders(ms, "a")); got != 5 {
			t.Errorf("%d masters hold the key after Close, want 5: its holder may still be at work", got)
		}
		l.Unlock() // just returns
		if got := len(holders(ms, "a")); got != 5 {
			t.Errorf("%d masters hold the key after the late Unlock, want 5", got)
		}
		time.Sleep(11 * time.Second)
		wantFree(t, ms, "a")
		if err := l.LockContext(t.Context()); err != redlock.ErrClosed {
			t.Errorf("LockContext of a closed Client = %v, want ErrClosed", err)
		}
		if l.TryLock() {
			t.Error("TryLock of a closed Client succeeded")
		}
	})
}

func TestCloseIsBoundedByDialTimeout(t *testing.T) {
	for _, row := range []struct {
		name   string
		before func(ms *redlocktest.Masters)
		after  func(ms *redlocktest.Masters, c *redlock.Client)
	}{
		{"masters that hang while they are dialled", func(ms *redlocktest.Masters) {
			for i := range 5 {
				ms.Master(i).HangDials()
			}
		}, func(*redlocktest.Masters, *redlock.Client) {}},
		{"frozen masters with replies due", func(*redlocktest.Masters) {}, func(ms *redlocktest.Masters, c *redlock.Client) {
			for i := range 5 {
				ms.Master(i).Freeze()
			}
			c.Locker("a").TryLock()
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				row.before(ms)
				c := ms.Open(nil)
				synctest.Wait()
				row.after(ms, c)
				start := time.Now()
				if err := c.Close(); err != nil {
					t.Errorf("Close = %v", err)
				}
				if took := time.Since(start); took > time.Second {
					t.Errorf("Close took %v, want DialTimeout at most", took)
				}
			})
		})
	}
}

func TestADialThatHeedsNoContextDoesNotHoldUpClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, dials := make(chan struct{}), atomic.Int32{}
		pool := &redis.Pool{Dial: func() (redis.Conn, error) {
			dials.Add(1)
			<-release
			return nil, errors.New("too late")
		}}
		c, err := redlock.New([]*redis.Pool{pool}, nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n := dials.Load(); n != 2 {
			t.Errorf("%d dials hang, want one for commands and one for wake-ups", n)
		}
		start := time.Now()
		if err := c.Close(); err == nil || !strings.Contains(err.Error(), "master 1") {
			t.Errorf("Close = %v, want an error that names the master whose dial goes on", err)
		}
		if took := time.Since(start); took > 1100*time.Millisecond {
			t.Errorf("Close took %v, want about DialTimeout", took)
		}
		close(release)
	})
}

func TestCloseLeavesPoolsOpen(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		pools := ms.Pools()
		for range 3 {
			c, err := redlock.New(pools, nil)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // Close cancels a dial that is under way
			l := c.Locker("a")
			pass(l)
			c.Close()
			for i, p := range pools {
				if p.ActiveCount() != 1 || p.IdleCount() != 1 {
					t.Errorf("pool %d has %d connections, %d idle, want the one that the Client gave back", i, p.ActiveCount(), p.IdleCount())
				}
				conn := p.Get()
				if _, err := conn.Do("PING"); err != nil {
					t.Errorf("pool %d after Close: %v", i, err)
				}
				conn.Close()
			}
		}
	})
}

func TestTraceTellsWhatHappens(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var mu sync.Mutex
		var got []string
		type key struct{}
		note := func(ctx context.Context, what string, err error) {
			mu.Lock()
			defer mu.Unlock()
			caller, _ := ctx.Value(key{}).(string)
			if err != nil {
				what += " (" + outcome(err) + ")"
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
		slices.Sort(got) // the masters come up in any order
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

func TestTheLoggerWarnsOfWhatLockCannotSay(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log lockedBuffer
		c := connected(t, ms, &redlock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if log.String() != "" {
			t.Errorf("a healthy start logs %q", log.String())
		}
		ms.Master(0).Stop()
		ms.Master(1).Stop()
		for range 50 { // waits of many goroutines are one line
			go func() {
				l := c.Locker("a")
				pass(l)
			}()
		}
		time.Sleep(5 * time.Second)
		ms.Master(0).Start()
		time.Sleep(5 * time.Second)
		text := log.String()
		for want, times := range map[string]int{
			`level=WARN msg="redlock: master is down" master="master 1"`:       1,
			`level=WARN msg="redlock: master is down" master="master 2"`:       1,
			`level=WARN msg="redlock: still waiting for a lock" name=a waited`: 1,
			`level=INFO msg="redlock: master is up again" master="master 1"`:   1,
		} {
			if got := strings.Count(text, want); got != times {
				t.Errorf("%d lines with %s, want %d", got, want, times)
			}
		}
		if !strings.Contains(text, "connection refused") {
			t.Error("the log does not say why")
		}
		if t.Failed() {
			t.Log(text)
		}
	})
}

// lockedBuffer is a bytes.Buffer that many goroutines may write to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
