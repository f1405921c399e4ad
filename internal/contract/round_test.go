package contract_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

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
