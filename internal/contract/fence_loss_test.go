package contract_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAHealRaisesTheFence(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, locktest.Fenced(nil)).Locker("a")
		l.Lock()
		synctest.Wait()
		n, _ := number(l.Lease().Fence())
		for _, key := range []string{"a", "redlock:fence:a"} {
			ms.Master(0).Del(key)
			ms.Master(1).Del(key)
		}
		ms.Master(1).Set("redlock:fence:a", fmt.Sprint(n+5), time.Hour) // given to another client, whose acquisition failed
		time.Sleep(5 * time.Second)
		if token, _ := ms.Master(0).Get("a"); token != l.Lease().Token() {
			t.Errorf("master 1 holds %q, want it healed", token)
		}
		if got := fenceAt(t, ms.Master(0), "a"); got != n {
			t.Errorf("master 1's fence is %d after the heal, want %d", got, n)
		}
		if got := fenceAt(t, ms.Master(1), "a"); got != n+5 {
			t.Errorf("master 2's fence is %d after the heal, want it left at %d", got, n+5)
		}
		l.Unlock()
	})
}

func TestFencesRiseThroughLossesOfAllMemory(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, locktest.Fenced(nil)).Locker("a"), connected(t, ms, locktest.Fenced(nil)).Locker("a")
		last := uint64(0)
		for range 8 {
			for _, l := range []*redlock.Locker{a, b} {
				l.Lock()
				if f := l.Lease().Fence(); f <= last {
					t.Fatalf("fence %d after %d", f, last)
				} else {
					last = f
				}
				l.Unlock()
			}
			for i := range 3 { // the next lock is acquired after the quarantine
				ms.Master(i).Stop()
				ms.Master(i).Forget()
				ms.Master(i).Start()
			}
		}
	})
}

// If keys are lost, two clients may hold the lock at once. Then only the fences distinguish them: no two may
// have the same fence, and each fence must be above all fences given before its acquisition began.
func TestFencesAreDistinctThoughKeysVanish(t *testing.T) {
	const clients, turns = 4, 75
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var mu sync.Mutex
		highest, seen := uint64(0), make(map[uint64]int)
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(rand.N(300 * time.Microsecond)):
					ms.Master(rand.N(3)).Del("a")
				}
			}
		}()
		for i := range 3 {
			ms.Master(i).Delay(time.Duration(50+10*i) * time.Microsecond)
		}
		var all sync.WaitGroup
		for i := range clients {
			l := ms.Open(locktest.Fenced(nil)).Locker("a")
			all.Go(func() {
				for range turns {
					mu.Lock()
					before := highest
					mu.Unlock()
					if l.TryLockContext(t.Context()) != nil {
						time.Sleep(rand.N(time.Millisecond))
						continue
					}
					f := l.Lease().Fence()
					mu.Lock()
					if other, twice := seen[f]; twice || f <= before {
						t.Errorf("client %d has fence %d, which client %d had (%t), after %d", i, f, other, twice, before)
					}
					seen[f], highest = i, max(highest, f)
					mu.Unlock()
					time.Sleep(rand.N(500 * time.Microsecond))
					l.UnlockContext(t.Context())
				}
			})
		}
		all.Wait()
		close(done)
		if len(seen) < turns/4 {
			t.Errorf("only %d acquisitions succeeded", len(seen))
		}
	})
}

func TestOnlyAFenceBoundsHandovers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{Handover: time.Hour}})
		var mu sync.Mutex
		turns := make(map[string]int) // by token
		var all sync.WaitGroup
		for range 10 {
			l := c.Locker("a")
			all.Go(func() {
				for range 1000 {
					l.Lock()
					mu.Lock()
					turns[l.Lease().Token()]++
					mu.Unlock()
					l.Unlock()
				}
			})
		}
		all.Wait()
		if most := slices.Max(slices.Collect(maps.Values(turns))); most < 3000 {
			t.Errorf("a lease travelled %d times at most, want no bound but time", most)
		}
	})
}
