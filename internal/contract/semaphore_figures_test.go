package contract_test

import (
	"slices"
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
// ideal throughput at least, and each of them as many turns as the others: by Jain's index, jain at least. The first 250 ms do not count: all
// clients begin at one moment, so that the votes are split for some time.
func wantFull(t *testing.T, clients []*redlock.Client, limit int, share, jain float64, when string) {
	t.Helper()
	const turnsEach, cycle = 10, 2 * time.Millisecond
	var sems []*redlock.Semaphore
	for _, c := range clients {
		sems = append(sems, c.Semaphore("a", limit))
	}
	acquire(t, sems[0], 1).Release() // loads the script
	time.Sleep(time.Second)
	lasting := time.Duration(turnsEach*len(sems)/min(len(sems), limit)) * cycle
	var sum, squares float64
	for _, n := range rotate(t, sems, time.Millisecond, 250*time.Millisecond, lasting) {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	got, fair := sum/float64(turnsEach*len(sems)), sum*sum/(float64(len(sems))*squares)
	t.Logf("%d clients, limit %d, %s: %.3f of the ideal, Jain %.4f", len(sems), limit, when, got, fair)
	if got < share || fair < jain {
		t.Errorf("%d clients, limit %d, %s: %.3f of the ideal, Jain %.4f, want %.2f and %.2f", len(sems), limit, when, got, fair, share, jain)
	}
	time.Sleep(time.Second)
}

func TestManyClientsUseASemaphoreToTheFullAndInEqualTurns(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		clients := at1ms(ms, 32)
		wantFull(t, clients, 4, 0.95, 0.99, "all masters up")
	})
}

// While clients find out that masters are frozen, which takes some seconds, their rounds wait for these.
func TestASemaphoreIsUsedToTheFullWithoutAMinority(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		clients := at1ms(ms, 8)
		ms.Master(0).Stop()
		ms.Master(1).Stop()
		time.Sleep(time.Second)
		wantFull(t, clients, 4, 0.9, 0.9, "two masters dead")
		startAdopted(ms, 0, 1)
		time.Sleep(10 * time.Second)
		for i := range 2 {
			ms.Master(i).Freeze()
			defer ms.Master(i).Thaw()
		}
		time.Sleep(20 * time.Second)
		wantFull(t, clients, 4, 0.9, 0.9, "two masters frozen")
	})
}
