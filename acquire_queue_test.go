package redlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
