package contract_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// Clients that are granted the lock hand it to each other without a gap. Others must get their turns, too.
func TestClientsThatCannotBeGrantedGetTheirTurns(t *testing.T) {
	for _, row := range []struct {
		name string
		opts redlock.Options
		last time.Duration // how long the clients go on
		most time.Duration // the longest wait; a turn of all takes 40 ms
	}{
		{"without renewal", redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1}}, 2 * time.Second, time.Second},
		{"without wake-ups", redlock.Options{DisableWakeups: true}, 6 * time.Second, 4 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				d := time.Millisecond
				far := ms.WithDelays(d, d, d, d, d)
				var all []*redlock.Client
				for range 3 {
					all = append(all, far.Open(nil))
				}
				all = append(all, far.Open(&row.opts))
				time.Sleep(2 * time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), row.last)
				defer cancel()
				var wg sync.WaitGroup
				var turns [4]int
				var longest [4]time.Duration
				for i, c := range all {
					wg.Go(func() {
						l := c.Locker("a")
						for {
							began := time.Now()
							err := l.LockContext(ctx)
							longest[i] = max(longest[i], time.Since(began))
							if err != nil {
								return
							}
							turns[i]++
							time.Sleep(10 * time.Millisecond)
							l.Unlock()
						}
					})
				}
				wg.Wait()
				t.Logf("turns %v, longest waits %v", turns, longest)
				if longest[3] > row.most {
					t.Errorf("the client waited for up to %v, want %v at most", longest[3], row.most)
				}
			})
		})
	}
}
