package migration

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

// redsyncOn returns redsync on the masters.
func redsyncOn(ms *redlocktest.Masters) *redsync.Redsync {
	var pools []redsyncredis.Pool
	for _, p := range ms.Pools() {
		pools = append(pools, redigo.NewPool(p))
	}
	return redsync.New(pools...)
}

// afterRestart returns how long a lock of redsync of 30 s still lasts when a client of redlock gets it, after all masters
// have lost their data and have been started again.
func afterRestart(t *testing.T, open func(ms *redlocktest.Masters) *redlock.Client) (left time.Duration) {
	bubbletest.Test(t, func(t *testing.T) {
		ms := redlocktest.StartN(t, 3)
		client := open(ms)
		defer client.Close()
		foreign := redsyncOn(ms).NewMutex("report", redsync.WithExpiry(30*time.Second))
		if err := foreign.LockContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range ms.Len() {
			ms.Master(i).Stop()
			ms.Master(i).Forget()
			ms.Master(i).Start()
		}
		client.Locker("report").Lock()
		left = time.Until(foreign.Until())
	})
	return left
}

func TestAForeignExpiryAboveMaxTTLGivesTwoHoldersAfterALossOfData(t *testing.T) {
	if left := afterRestart(t, func(ms *redlocktest.Masters) *redlock.Client { return ms.Open(nil) }); left <= 0 {
		t.Errorf("with default options redlock gets the lock %v after the end of redsync's, want before: the document warns of that", -left)
	}
	open := func(ms *redlocktest.Masters) *redlock.Client {
		c, err := openBesideRedsync(ms.Pools())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if left := afterRestart(t, open); left > 0 {
		t.Errorf("with the MaxTTL of the document redlock gets the lock %v before the end of redsync's", left)
	}
}

// hot returns how often each side has a lock that both want all the time, within 5 s: replicas with redlock together, and
// one with redsync. A replica pauses after each unlock for up to the given time.
func hot(t *testing.T, replicas int, pause time.Duration) (ours, theirs int) {
	const hold = 20 * time.Millisecond
	bubbletest.Test(t, func(t *testing.T) {
		ms := redlocktest.StartN(t, 3)
		near := ms.WithDelays(250*time.Microsecond, 250*time.Microsecond, 250*time.Microsecond)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var mu sync.Mutex // guards what follows
		inside := false
		work := func(n *int) {
			mu.Lock()
			if inside {
				t.Error("two hold the lock")
			}
			inside = true
			*n++
			mu.Unlock()
			time.Sleep(hold)
			mu.Lock()
			inside = false
			mu.Unlock()
		}
		rest := func() { time.Sleep(rand.N(pause + 1)) }
		var all sync.WaitGroup
		for range replicas {
			lock := near.Open(nil).Locker("hot")
			all.Go(func() {
				for lock.LockContext(ctx) == nil {
					work(&ours)
					lock.Unlock()
					rest()
				}
			})
		}
		rs := redsyncOn(near)
		all.Go(func() {
			for ctx.Err() == nil {
				mutex := rs.NewMutex("hot")
				if mutex.LockContext(ctx) != nil {
					continue // it has tried 32 times
				}
				work(&theirs)
				mutex.Unlock()
				rest()
			}
		})
		all.Wait()
	})
	return ours, theirs
}

// TestARedsyncThatPausesLetsRedlockIn has the figures of the document in its log. Exclusion holds in each scene. How often
// redsync gets the lock beside several replicas with redlock is chance, so the test demands nothing of it.
func TestARedsyncThatPausesLetsRedlockIn(t *testing.T) {
	for _, pause := range []time.Duration{0, 100 * time.Millisecond} {
		for _, replicas := range []int{1, 4} {
			ours, theirs := hot(t, replicas, pause)
			t.Logf("pauses up to %v: %d with redlock together %d times, one with redsync %d times", pause, replicas, ours, theirs)
			if pause > 0 && ours < 5 {
				t.Errorf("with redlock only %d times", ours)
			}
		}
	}
}
