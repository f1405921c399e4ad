package contract_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// A client that is woken, and whose schedule has long pauses, is not taken for one that is stopped: it has its turn
// although no release falls into the time after one of its attempts.
func TestAClientWithLongPausesTakesItsTurn(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const hold = time.Second
		rare := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1},
			NewBackOff: func() redlock.BackOff { return backoff.NewConstantBackOff(2 * hold) }})
		ctx, cancel := context.WithCancel(t.Context())
		var others sync.WaitGroup
		for range 2 {
			l := ms.Open(nil).Locker("a")
			others.Go(func() {
				for l.LockContext(ctx) == nil {
					time.Sleep(hold)
					l.Unlock()
				}
			})
		}
		time.Sleep(hold / 5) // its attempts fall between two releases
		began := time.Now()
		limited, end := context.WithTimeout(ctx, 20*hold)
		defer end()
		if err := rare.Locker("a").LockContext(limited); err != nil {
			t.Errorf("not acquired in %v: %v", time.Since(began), err)
		}
		cancel()
		others.Wait()
	})
}
