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

// Lockers that are no writers of an RWLocker wait beside readers of other processes.
var besideReaders = []struct {
	name  string
	opts  *redlock.Options
	names []string
	busy  bool // other clients hold a name of the set most of the time, so that it acquires its names one by one
}{
	{name: "plain", names: []string{"m"}},
	{name: "without renewal", opts: &redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1}}, names: []string{"m"}},
	{name: "without wake-ups", opts: &redlock.Options{DisableWakeups: true}, names: []string{"m"}},
	{name: "set", names: []string{"a", "m"}},
	{name: "set without renewal", opts: &redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1}}, names: []string{"a", "m"}},
	{name: "set whose names are acquired one by one", names: []string{"a", "m"}, busy: true},
}

// An idle reader keeps its lease, and is in nobody's way. A busy one must leave: a Locker that waits asks it to.
func TestLockersDoNotStarveBesideReaders(t *testing.T) {
	for _, readers := range []struct {
		name       string
		goroutines int
		hold, wait time.Duration
	}{
		{"idle readers", 1, 0, 200 * time.Millisecond},
		{"busy readers", 3, 3 * time.Millisecond, 0},
	} {
		for _, test := range besideReaders {
			t.Run(readers.name+"/"+test.name, func(t *testing.T) {
				bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
					var stop atomic.Bool
					var all sync.WaitGroup
					var reads atomic.Int64
					for range 2 {
						l := connected(t, ms, nil).RWLocker("m")
						for i := range readers.goroutines {
							all.Go(func() {
								time.Sleep(time.Duration(i) * time.Millisecond)
								for !stop.Load() {
									l.RLock()
									reads.Add(1)
									time.Sleep(readers.hold)
									l.RUnlock()
									time.Sleep(readers.wait)
								}
							})
						}
					}
					if test.busy {
						for range 2 {
							l := connected(t, ms, nil).Locker("a")
							all.Go(func() {
								for !stop.Load() {
									l.Lock()
									time.Sleep(20 * time.Millisecond)
									l.Unlock()
								}
							})
						}
					}
					l := connected(t, ms, test.opts).Locker(test.names[0], test.names[1:]...)
					time.Sleep(50 * time.Millisecond)
					for range 2 {
						start := time.Now()
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						err := l.LockContext(ctx)
						cancel()
						if err != nil {
							t.Errorf("after %v: %v", time.Since(start), err)
							break
						}
						time.Sleep(time.Millisecond)
						l.Unlock()
						before := reads.Load()
						time.Sleep(30*time.Millisecond + readers.wait)
						if reads.Load() == before {
							t.Error("nobody reads, although no Locker waits")
						}
					}
					stop.Store(true)
					all.Wait()
				})
			})
		}
	}
}

func TestReadersAreNotKeptOutByLockersThatNeverStop(t *testing.T) {
	for _, test := range besideReaders {
		if test.busy {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				var stop atomic.Bool
				var all sync.WaitGroup
				for range 3 {
					l := connected(t, ms, test.opts).Locker(test.names[0], test.names[1:]...)
					for range 2 {
						all.Go(func() {
							for !stop.Load() {
								l.Lock()
								time.Sleep(5 * time.Millisecond)
								l.Unlock()
							}
						})
					}
				}
				l := connected(t, ms, nil).RWLocker("m")
				for range 8 {
					time.Sleep(3 * time.Millisecond)
					start := time.Now()
					l.RLock()
					if took := time.Since(start); took > 200*time.Millisecond {
						t.Errorf("a reader waited for %v", took)
					}
					time.Sleep(time.Millisecond)
					l.RUnlock()
				}
				stop.Store(true)
				all.Wait()
			})
		})
	}
}
