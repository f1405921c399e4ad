package contract_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// nearDifferent returns three connected Clients. The first is near masters 1 and 2, the second near 3 and 4,
// and the third near 5. Each is far from the other masters.
func nearDifferent(ms *redlocktest.Masters, far time.Duration) []*redlock.Client {
	const near = 100 * time.Microsecond
	var all []*redlock.Client
	for _, mine := range [][]int{{0, 1}, {2, 3}, {4}} {
		delays := slices.Repeat([]time.Duration{far}, 5)
		for _, i := range mine {
			delays[i] = near
		}
		all = append(all, ms.WithDelays(delays...).Open(nil))
	}
	time.Sleep(3 * time.Second) // connected, with an estimate of the distances
	return all
}

// firstOf locks name with all Clients at once, and returns the time until the first of them had the lock. It
// returns when all of them have had it.
func firstOf(clients []*redlock.Client, name string) time.Duration {
	began := time.Now()
	entered := make(chan time.Duration, len(clients))
	for _, c := range clients {
		go func() {
			l := c.Locker(name)
			l.Lock()
			entered <- time.Since(began)
			l.Unlock()
		}()
	}
	first := <-entered
	for range len(clients) - 1 {
		<-entered
	}
	return first
}

// Each contender is near masters that are far from the others, so each gets some votes first. A lock that is
// free, or becomes free because its holder crashed, must not stay free for long. Clients that sleep for the
// same time would split the votes again and again.
func TestContendersNearDifferentMastersSoonAcquireAFreeLock(t *testing.T) {
	const names = 3
	for _, far := range []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond} {
		t.Run(far.String(), func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				clients := nearDifferent(ms, far)
				var free, expired []time.Duration
				for i := range names {
					free = append(free, firstOf(clients, fmt.Sprintf("free %d", i)))

					crashed := fmt.Sprintf("crashed %d", i)
					for m := range 5 {
						ms.Master(m).Set(crashed, "token of a crashed holder", time.Second)
					}
					expired = append(expired, firstOf(clients, crashed)-time.Second)
				}
				slices.Sort(free)
				slices.Sort(expired)
				t.Logf("free: median %v, longest %v; expired: median %v, longest %v", free[names/2], free[names-1], expired[names/2], expired[names-1])
				if limit := 150*time.Millisecond + 3*far; free[names/2] > limit || expired[names/2] > limit {
					t.Errorf("in the median a free lock was had after %v, an expired one after %v, want at most %v", free[names/2], expired[names/2], limit)
				}
				if limit := 800 * time.Millisecond; free[names-1] > limit || expired[names-1] > limit {
					t.Errorf("a free lock was had after %v, an expired one after %v, want at most %v", free[names-1], expired[names-1], limit)
				}
			})
		})
	}
}
