package contract_test

import (
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// Clients that are granted the lock and clients that are woken, as all older ones are, exclude each other. Both kinds
// get their turns.
func TestClientsThatAreGrantedTheLockAndClientsThatAreWokenTakeTurns(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const each, way, turns = 2, time.Millisecond, 200
		far := ms.WithDelays(way, way, way)
		var mu sync.Mutex // guards what follows
		var inside int
		var got [2]int
		stop := make(chan struct{})
		var all sync.WaitGroup
		for kind := range got {
			opts := &redlock.Options{}
			if kind == 1 {
				opts.LockOptions.RenewEvery = -1 // it is woken, and never granted the lock
			}
			for range each {
				l := far.Open(opts).Locker("a")
				all.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						l.Lock()
						mu.Lock()
						if inside++; inside > 1 {
							t.Error("two clients have the lock")
						}
						got[kind]++
						if got[0]+got[1] == turns {
							close(stop)
						}
						mu.Unlock()
						time.Sleep(time.Millisecond)
						mu.Lock()
						inside--
						mu.Unlock()
						l.Unlock()
					}
				})
			}
		}
		began := time.Now()
		all.Wait()
		t.Logf("%v turns of those that are granted the lock and of those that are woken in %v", got, time.Since(began))
		for kind, n := range got {
			if n < turns/10 {
				t.Errorf("clients of kind %d got %d of %d turns, want at least a tenth", kind, n, turns)
			}
		}
	})
}
