package contract_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/redlocktest"
)

// Whoever waits in another process is granted the lock when its last holder leaves: that takes one round trip, whichever sides they are of.
// L is a Locker, W the writer's and R the reader's side of an RWLocker.
func TestWhoeverWaitsHasTheLockARoundTripAfterItsHoldersLeave(t *testing.T) {
	const trip = 20 * time.Millisecond
	for _, test := range []struct{ name, hold, wait string }{
		{"locker to locker", "L", "L"},
		{"writer to writer", "W", "W"},
		{"writer to reader", "W", "R"},
		{"writer to three readers", "W", "RRR"},
		{"writer to eight readers", "W", "RRRRRRRR"},
		{"locker to two readers", "L", "RR"},
		{"reader to writer", "R", "W"},
		{"two readers to writer", "RR", "W"},
		{"reader to locker", "R", "L"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var trips []float64
			rounds := 5
			if len(test.wait) == 1 {
				rounds = 21 // one release in twelve may leave the lock open, which takes a round trip more: it is not half of so many
			}
			for i := range rounds {
				wait := time.Duration(113 + 331*i%1200)
				bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
					side := func(of rune) sync.Locker {
						c := openAt(ms, trip/2, nil)
						switch of {
						case 'W':
							return c.RWLocker("stock").Locker()
						case 'R':
							return c.RWLocker("stock").RLocker()
						}
						return c.Locker("stock")
					}
					var held []sync.Locker
					for _, of := range test.hold {
						l := side(of)
						l.Lock()
						held = append(held, l)
					}
					var mu sync.Mutex
					var in []time.Time
					var all sync.WaitGroup
					for i, of := range test.wait {
						l := side(of)
						all.Go(func() {
							time.Sleep(time.Duration(i) * 7 * time.Millisecond)
							l.Lock()
							mu.Lock()
							in = append(in, time.Now())
							mu.Unlock()
							time.Sleep(time.Second)
							l.Unlock()
						})
					}
					time.Sleep(wait * time.Millisecond)
					out := time.Now()
					for _, l := range held {
						l.Unlock()
					}
					all.Wait()
					for _, at := range in {
						trips = append(trips, float64(at.Sub(out))/float64(trip))
					}
				})
			}
			slices.Sort(trips)
			median := trips[len(trips)/2]
			t.Logf("%.2f to %.2f round trips, median %.2f", trips[0], trips[len(trips)-1], median)
			if median > 1.2 {
				t.Errorf("the median of %d is %.2f round trips, want 1.2 at most: %.2f", len(trips), median, trips)
			}
		})
	}
}

// Forty readers wait in forty processes. They poll less the more they are, and enter together.
func TestACrowdOfReadersPollsSeldomAndEntersTogether(t *testing.T) {
	const readers, trip = 40, 2 * time.Millisecond
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		writer := openAt(ms, trip/2, nil).RWLocker("stock")
		writer.Lock()
		var in, leave sync.WaitGroup
		var all sync.WaitGroup
		leave.Add(1)
		for i := range readers {
			l := openAt(ms, trip/2, nil).RWLocker("stock")
			in.Add(1)
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				l.RLock()
				in.Done()
				leave.Wait()
				l.RUnlock()
			})
		}
		sent := func() (n int) {
			for _, command := range ms.Master(0).Commands() {
				if strings.HasPrefix(command, "EVALSHA") {
					n++
				}
			}
			return n
		}
		time.Sleep(2 * time.Second)
		before := sent()
		time.Sleep(3 * time.Second)
		if n := (sent() - before) / 3; n > 160 { // forty that poll ten times a second would send 400
			t.Errorf("a master is sent %d calls a second while %d readers wait, want 160 at most", n, readers)
		}
		before = sent()
		out := time.Now()
		writer.Unlock()
		in.Wait()
		if took := time.Since(out); took > 4*trip {
			t.Errorf("the last reader entered after %v, want %v at most: the far ones ask once for how long they have the lock", took, 4*trip)
		}
		time.Sleep(20 * trip)
		if n := sent() - before; n > 3*readers {
			t.Errorf("a master was sent %d calls in the turn of %d readers, want 3 for each at most", n, readers)
		}
		leave.Done()
		all.Wait()
	})
}
