package contract_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// A lockerContext is a Locker, or the writers' side of an RWLocker.
type lockerContext interface {
	LockContext(context.Context) error
	Unlock()
}

// turnsOf has each of these acquire and release its lock in a loop, and returns how often each had it.
func turnsOf(t *testing.T, last, held time.Duration, lockers ...lockerContext) []int {
	ctx, cancel := context.WithTimeout(t.Context(), last)
	defer cancel()
	turns := make([]int, len(lockers))
	var wg sync.WaitGroup
	for i, l := range lockers {
		wg.Go(func() {
			for l.LockContext(ctx) == nil {
				turns[i]++
				time.Sleep(held)
				l.Unlock()
			}
		})
	}
	wg.Wait()
	return turns
}

// A client that cannot be granted the lock is woken, and needs a round trip to come. Near ones must not take the lock
// until then, however far away it is.
func TestAClientFarAwayThatIsWokenGetsItsTurns(t *testing.T) {
	for _, row := range []struct {
		name   string
		locker func(c *redlock.Client) lockerContext
	}{
		{"without renewal", func(c *redlock.Client) lockerContext {
			l, err := c.NewLocker("a", &redlock.LockOptions{RenewEvery: -1})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}},
		{"a set", func(c *redlock.Client) lockerContext { return c.Locker("a", "b") }},
		{"a writer", func(c *redlock.Client) lockerContext { return c.RWLocker("a").Locker() }},
	} {
		for _, far := range []time.Duration{200 * time.Millisecond, 700 * time.Millisecond} {
			t.Run(row.name+", "+far.String(), func(t *testing.T) {
				bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
					near, away := ms.WithDelays(time.Millisecond, time.Millisecond, time.Millisecond), ms.WithDelays(far/2, far/2, far/2)
					opts := &redlock.Options{NodeTimeout: 2 * time.Second, DialTimeout: 10 * time.Second}
					lockers := []lockerContext{row.locker(away.Open(opts)), row.locker(near.Open(nil)), row.locker(near.Open(nil))}
					time.Sleep(8 * time.Second)
					last := 10 * time.Second
					turns := turnsOf(t, last, 50*time.Millisecond, lockers...)
					t.Logf("turns %d", turns)
					// Its way to the masters and back for the wake-up, and that of its release, block all.
					if want := int(last / (6*far + time.Second)); turns[0] < want {
						t.Errorf("the client at %v has had the lock %d times in %v, want %d at least", far, turns[0], last, want)
					}
				})
			})
		}
	}
}
