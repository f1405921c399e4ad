package contract_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// writersWait has readers of two processes that never stop, so that a writer must ask them to leave.
func writersWait(t *testing.T, ms *redlocktest.Masters, writer sync.Locker, readers ...*redlock.RWLocker) {
	t.Helper()
	var stop atomic.Bool
	var all sync.WaitGroup
	var reading atomic.Int64
	for _, l := range readers {
		for i := range 3 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 333 * time.Microsecond)
				for !stop.Load() {
					l.RLock()
					reading.Add(1)
					time.Sleep(time.Millisecond)
					reading.Add(-1)
					l.RUnlock()
				}
			})
		}
	}
	for range 6 {
		time.Sleep(10 * time.Millisecond)
		start := time.Now()
		writer.Lock()
		if took := time.Since(start); took > time.Second {
			t.Errorf("a writer waited for %v", took)
		}
		if n := reading.Load(); n != 0 {
			t.Errorf("%d readers beside a writer", n)
		}
		time.Sleep(time.Millisecond)
		writer.Unlock()
	}
	stop.Store(true)
	all.Wait()
}

func TestAWriterIsNotKeptOutByReadersThatNeverStop(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		a, b, c := connected(t, ms, nil).RWLocker("stock"), connected(t, ms, nil).RWLocker("stock"), connected(t, ms, nil).RWLocker("stock")
		writersWait(t, ms, c, a, b)
	})
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) { // readers of the same Client
		a, b := connected(t, ms, nil).RWLocker("stock"), connected(t, ms, nil).RWLocker("stock")
		writersWait(t, ms, a, a, b)
	})
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) { // readers of the same Client, and a plain Locker
		c := connected(t, ms, nil)
		writersWait(t, ms, c.Locker("stock"), c.RWLocker("stock"))
	})
}

func TestReadersAreNotKeptOutByWritersThatNeverStop(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var stop atomic.Bool
		var all sync.WaitGroup
		for range 3 {
			l := connected(t, ms, nil).RWLocker("stock")
			for range 2 {
				all.Go(func() {
					for !stop.Load() {
						l.Lock()
						time.Sleep(time.Millisecond)
						l.Unlock()
					}
				})
			}
		}
		l := connected(t, ms, nil).RWLocker("stock")
		for range 15 {
			time.Sleep(3 * time.Millisecond)
			start := time.Now()
			l.RLock()
			if took := time.Since(start); took > time.Second {
				t.Errorf("a reader waited for %v", took)
			}
			time.Sleep(time.Millisecond)
			l.RUnlock()
		}
		stop.Store(true)
		all.Wait()
	})
}

// Writers enter in the order of their calls, and readers in each of their turns. Without turns that end early, and
// wake-ups that are not lost, some of them wait several times as long as others.
func TestWritersAndReadersAtADistanceWaitForOneTurnEach(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const writers, hold = 8, time.Millisecond
		at := func(oneWay ...time.Duration) *redlock.RWLocker {
			return ms.WithDelays(oneWay...).Open(nil).RWLocker("stock")
		}
		var stop atomic.Bool
		var all sync.WaitGroup
		var mu sync.Mutex
		longest := make(map[string]time.Duration)
		use := func(side string, l sync.Locker) {
			all.Go(func() {
				for began := time.Now(); !stop.Load(); {
					start := time.Now()
					l.Lock()
					if took := time.Since(start); start.Sub(began) > 200*time.Millisecond { // all have come
						mu.Lock()
						longest[side] = max(longest[side], took)
						mu.Unlock()
					}
					time.Sleep(hold)
					l.Unlock()
				}
			})
		}
		for range 3 {
			l := at(hold/2, hold/2, hold/2)
			for range 2 {
				use("reader", l.RLocker())
			}
		}
		for i := range writers {
			far := []time.Duration{2 * hold, 2 * hold, 2 * hold}
			far[i%3] = hold / 4
			use("writer", at(far...).Locker())
		}
		time.Sleep(700 * time.Millisecond)
		stop.Store(true)
		all.Wait()
		// A cycle of a writer and a turn takes about 12 ms.
		for side, most := range map[string]time.Duration{"writer": 200 * time.Millisecond, "reader": 50 * time.Millisecond} {
			if took := longest[side]; took > most || took == 0 {
				t.Errorf("a %s waited for %v, want %v at most", side, took, most)
			}
		}
	})
}

// Readers whose Client has no wake-ups, or whose message is lost, learn of a writer by the answer to their next renewal.
func TestReadersLearnOfAWriterFromTheirRenewal(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		deaf := connected(t, ms, &redlock.Options{DisableWakeups: true, LockOptions: redlock.LockOptions{TTL: time.Second}}).RWLocker("stock")
		var stop atomic.Bool
		var all sync.WaitGroup
		for i := range 2 { // one of them is always inside
			all.Go(func() {
				time.Sleep(time.Duration(i) * 50 * time.Millisecond)
				for !stop.Load() {
					deaf.RLock()
					time.Sleep(90 * time.Millisecond)
					deaf.RUnlock()
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		writer := connected(t, ms, nil).RWLocker("stock").Locker()
		if err := writer.LockContext(ctx); err != nil {
			t.Error(err)
		} else {
			writer.Unlock()
		}
		stop.Store(true)
		all.Wait()
	})
}

// Readers that have waited for longer than a writer are let in beside others, and are told that a writer waits.
func TestReadersThatAreLetInWhileAWriterWaitsKeepFurtherOnesOut(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		first := connected(t, ms, nil).RWLocker("stock")
		first.Lock()
		var stop atomic.Bool
		var all sync.WaitGroup
		deaf := connected(t, ms, &redlock.Options{DisableWakeups: true}).RWLocker("stock") // no message asks it to leave
		for _, hold := range []time.Duration{89, 97, 103} {                                // one of them is always inside
			all.Go(func() {
				for !stop.Load() {
					deaf.RLock()
					time.Sleep(hold * time.Millisecond)
					deaf.RUnlock()
					time.Sleep(time.Millisecond)
				}
			})
		}
		all.Go(func() { // it has a turn, in which the deaf ones come
			reader := connected(t, ms, nil).RWLocker("stock")
			reader.RLock()
			time.Sleep(time.Second)
			reader.RUnlock()
		})
		time.Sleep(500 * time.Millisecond)
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			writer := connected(t, ms, nil).RWLocker("stock").Locker()
			if err := writer.LockContext(ctx); err != nil {
				t.Error(err)
			} else {
				writer.Unlock()
			}
			stop.Store(true)
		})
		time.Sleep(500 * time.Millisecond)
		first.Unlock()
		all.Wait()
	})
}
