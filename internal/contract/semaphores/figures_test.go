package semaphores_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAFreePermitTakesThreeRoundTripsAtMostInNinetyNineOfAHundred(t *testing.T) {
	const oneWay, times = 2 * time.Millisecond, 20
	var took []time.Duration
	for _, limit := range []int{1, 4, 64, 1000} {
		bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
			holder, s := openAt(ms, oneWay, nil).Semaphore("a", limit), openAt(ms, oneWay, nil).Semaphore("a", limit)
			held := 0
			for _, want := range []int{0, limit / 2, limit - 1} {
				for held < want {
					n := min(want-held, 128)
					acquire(t, holder, n)
					held += n
				}
				for range times {
					began := time.Now()
					p := acquire(t, s, 1)
					took = append(took, time.Since(began))
					p.Release()
					time.Sleep(4 * oneWay)
				}
			}
		})
	}
	slices.Sort(took)
	sum := time.Duration(0)
	for _, d := range took {
		sum += d
	}
	mean, most := sum/time.Duration(len(took)), took[len(took)*99/100]
	t.Logf("%d acquisitions: %v on average, %v in 99 %%; a round trip takes %v", len(took), mean, most, 2*oneWay)
	if mean > 2*oneWay*11/10 || most > 3*2*oneWay {
		t.Errorf("a free permit takes %v on average and %v in 99 %%, want 1.1 and 3 round trips of %v at most", mean, most, 2*oneWay)
	}
}

// at1ms opens clients whose round trip takes 1 ms.
func at1ms(ms *redlocktest.Masters, n int) (clients []*redlock.Client) {
	for range n {
		clients = append(clients, openAt(ms, 500*time.Microsecond, nil))
	}
	return clients
}

// wantFull has clients of at1ms acquire permits of a semaphore, hold them for 1 ms, and release them. It fails t unless they have share of the
// ideal throughput at least, and each of them as many turns as the others: by Jain's index, jain at least. The beginning does not count: all
// clients begin at one moment, so that the votes are split for some time. The worst of some beginnings counts. The nightly job
// repeats the tests.
func wantFull(t *testing.T, clients []*redlock.Client, limit, beginnings int, share, jain float64, when string) {
	t.Helper()
	const turnsEach, cycle = 10, 2 * time.Millisecond
	var sems []*redlock.Semaphore
	for _, c := range clients {
		sems = append(sems, c.Semaphore("a", limit))
	}
	acquire(t, sems[0], 1).Release() // loads the script
	beginning := 100*time.Millisecond + 150*time.Millisecond/time.Duration(limit)
	lasting := time.Duration(turnsEach*len(sems)/min(len(sems), limit)) * cycle
	var shares, indexes []float64
	for range beginnings {
		time.Sleep(time.Second)
		var sum, squares float64
		for _, n := range rotate(t, sems, time.Millisecond, beginning, lasting) {
			sum += float64(n)
			squares += float64(n) * float64(n)
		}
		shares = append(shares, sum/float64(turnsEach*len(sems)))
		indexes = append(indexes, sum*sum/(float64(len(sems))*squares))
	}
	t.Logf("%d clients, limit %d, %s: %.3f of the ideal, Jain %.4f", len(sems), limit, when, shares, indexes)
	slices.Sort(shares)
	slices.Sort(indexes)
	if got, fair := shares[0], indexes[0]; got < share || fair < jain {
		t.Errorf("%d clients, limit %d, %s: %.3f of the ideal, Jain %.4f, want %.2f and %.2f", len(sems), limit, when, got, fair, share, jain)
	}
	time.Sleep(time.Second)
}

func TestManyClientsUseASemaphoreToTheFullAndInEqualTurns(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		clients := at1ms(ms, 32)
		wantFull(t, clients, 1, 1, 0.95, 0.99, "all masters up")
		wantFull(t, clients, 4, 2, 0.95, 0.99, "all masters up")
		wantFull(t, clients, 16, 2, 0.95, 0.99, "all masters up")
		wantFull(t, clients, 64, 1, 0.95, 0.99, "all masters up")
	})
}

// At each moment some permits are on their way back, from clients at three places. So the masters see them become free in different
// orders. Each claim prefers the slot that its client had last. Otherwise, where permits are held for 10 to 20 ms, the semaphore is used to .53, and some wait
// for 180 ms.
func TestASemaphoreIsUsedToTheFullAtUnequalDistances(t *testing.T) {
	for _, held := range []time.Duration{time.Millisecond, 10 * time.Millisecond} { // to twice as long
		bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
			const limit, n, lasting = 16, 32, time.Second / 2
			cycle := held*3/2 + 8*time.Millisecond // with a round trip of 8 ms
			distances := []time.Duration{time.Millisecond, time.Millisecond, 4 * time.Millisecond, 4 * time.Millisecond, 8 * time.Millisecond}
			var all sync.WaitGroup
			var turns, longest atomic.Int64
			from := time.Now().Add(3 * time.Second / 2)
			until := from.Add(lasting)
			for i := range n {
				at := 2 * (i % 3)
				s := ms.WithDelays(slices.Concat(distances[at:], distances[:at])...).Open(nil).Semaphore("a", limit)
				all.Go(func() {
					time.Sleep(time.Second)
					for time.Now().Before(until) {
						began := time.Now()
						p := acquire(t, s, 1)
						waited := time.Since(began)
						time.Sleep(held + rand.N(held))
						p.Release()
						if now := time.Now(); now.After(from) && !now.After(until) {
							turns.Add(1)
							for old := longest.Load(); int64(waited) > old && !longest.CompareAndSwap(old, int64(waited)); old = longest.Load() {
							}
						}
					}
				})
			}
			all.Wait()
			share := float64(turns.Load()) * float64(cycle) / float64(lasting) / limit
			t.Logf("held for %v to %v: %.3f of the ideal, longest wait %v", held, 2*held, share, time.Duration(longest.Load()))
			if longest := time.Duration(longest.Load()); share < 0.9 || longest > 4*cycle {
				t.Errorf("held for %v to %v: %.3f of the ideal, longest wait %v, want 0.9 at least and %v at most", held, 2*held, share, longest, 4*cycle)
			}
		})
	}
}

// The slot that a claim prefers is held for long, and each of the other slots goes from one client that prefers it to another one. So the
// claim is passed, but not for long: others come back as soon as they have left, and have waited for less than half as long.
func TestAClaimIsNotPassedForLong(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var sems []*redlock.Semaphore
		for _, c := range at1ms(ms, 7) {
			sems = append(sems, c.Semaphore("a", 3))
		}
		first, others := acquire(t, sems[0], 1), acquire(t, sems[1], 2)
		if err := first.ReleaseContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		acquire(t, sems[2], 1)
		if err := others.ReleaseContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() { rotate(t, sems[3:], 5*time.Millisecond, 0, 2*time.Second) })
		time.Sleep(time.Second)
		began := time.Now()
		acquire(t, sems[0], 1)
		if took := time.Since(began); took > 150*time.Millisecond {
			t.Errorf("the claim has waited for %v", took)
		} else {
			t.Logf("the claim has waited for %v", took)
		}
		all.Wait()
	})
}

// While clients find out that masters are frozen, which takes some seconds, their rounds wait for these.
func TestASemaphoreIsUsedToTheFullWithoutAMinority(t *testing.T) {
	for _, n := range []int{1, 2} {
		bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
			clients := at1ms(ms, 8)
			for i := range n {
				ms.Master(i).Stop()
			}
			time.Sleep(time.Second)
			wantFull(t, clients, 4, 3, 0.9, 0.9, fmt.Sprint(n, " dead"))
			for i := range n {
				startAdopted(ms, i)
			}
			time.Sleep(10 * time.Second)
			for i := range n {
				ms.Master(i).Freeze()
				defer ms.Master(i).Thaw()
			}
			time.Sleep(20 * time.Second)
			wantFull(t, clients, 4, 3, 0.9, 0.9, fmt.Sprint(n, " frozen"))
		})
	}
}
