package contract_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// One of three masters is down, and another has a key that nobody releases. Each waiting client has at most one
// vote. By their tokens, they give up in favour of that key, or keep their votes.
func TestAKeyThatNobodyReleasesDoesNotKeepClaimsBusy(t *testing.T) {
	for _, row := range []struct {
		token   string
		waiters int
	}{{"!", 1}, {"~", 1}, {"!", 4}, {"~", 4}} {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				const lasts = 5 * time.Second
				results := make(chan error)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second+lasts)
				defer cancel()
				for range row.waiters {
					l := connected(t, ms, nil).Locker("a")
					go func() {
						time.Sleep(time.Second)
						results <- l.LockContext(ctx)
					}()
				}
				ms.Master(2).Stop()
				ms.Master(1).Set("a", row.token+" nobody's", 0)
				time.Sleep(time.Second)
				before := ms.Master(0).Count("EVALSHA")
				for range row.waiters {
					if err := <-results; err == nil {
						t.Fatal("locked, want no quorum")
					}
				}
				synctest.Wait()
				most := 50 * row.waiters * int(lasts/time.Second)
				if n := ms.Master(0).Count("EVALSHA") - before; n > most {
					t.Errorf("%d waiting clients have sent %d commands in %v, want %d at most", row.waiters, n, lasts, most)
				}
			})
		})
	}
}

func TestAWaitForALockWhoseFenceIsFarAheadSaysSo(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, locktest.Fenced(nil)).Locker("a")
		for i := range 3 {
			ms.Master(i).Set(fenceKey, fmt.Sprint(locktest.Ticks(time.Now().Add(farAhead))), time.Hour)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		const want = "its fence for this name is 9599h"
		if err := l.LockContext(ctx); err == nil || strings.Count(err.Error(), want) != 1 {
			t.Errorf("LockContext = %v, want %s", err, want)
		}
		wantFree(t, ms, "a")
	})
}

// A short lease could not be renewed in time, or would never be long enough to count.
func TestAWaitWhoseMastersAreTooFarForAGrantGetsTheLock(t *testing.T) {
	for _, oneWay := range []time.Duration{240 * time.Millisecond, 270 * time.Millisecond} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			far := ms.WithDelays(oneWay, oneWay, oneWay)
			opts := &redlock.Options{NodeTimeout: 700 * time.Millisecond, DialTimeout: 10 * time.Second, LockOptions: redlock.LockOptions{TTL: time.Second}}
			a, b := far.Open(opts).Locker("a"), far.Open(opts).Locker("a")
			time.Sleep(20 * time.Second)
			take(a)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			go func() {
				time.Sleep(800 * time.Millisecond)
				a.Unlock()
			}()
			if err := b.LockContext(ctx); err != nil {
				t.Errorf("%v away: %v", oneWay, err)
				return
			}
			if left := time.Until(b.Lease().Until()); left < 300*time.Millisecond {
				t.Errorf("%v away: the lease is valid for %v, want what the TTL leaves after a round trip", oneWay, left)
			}
			b.Unlock()
		})
	}
}
