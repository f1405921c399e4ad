package redlock_test

import (
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
