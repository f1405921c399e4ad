package contract_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// A lock passes from one process to those that wait in other processes in one round trip, whichever kind of Locker they use: one trip of
// the release, and one of the message about the grant. Now and then a release leaves the lock open, which takes two.
func TestALockPassesToOtherProcessesInOneRoundTrip(t *testing.T) {
	const trip = 20 * time.Millisecond
	for _, test := range []struct {
		name    string
		holds   string // W: a writer, R: a reader, L: a Locker, U: a Locker without renewal
		waiters string
		most    float64
	}{
		{"writer to writer", "W", "W", 1.2},
		{"reader to writer", "R", "W", 1.2},
		{"two readers to writer", "RR", "W", 1.2},
		{"reader to Locker", "R", "L", 1.2},
		{"writer to Locker", "W", "L", 1.2},
		{"Locker to writer", "L", "W", 1.2},
		{"Locker to a Locker without renewal, whose keys are extended first", "L", "U", 2.2},
	} {
		t.Run(test.name, func(t *testing.T) {
			var trips []float64
			for _, wait := range []time.Duration{1013, 1037, 1061, 1099, 1153, 1181, 1213, 1249, 1291} {
				bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
					trips = append(trips, entersAfter(t, ms, trip, test.holds, test.waiters, wait*time.Millisecond)...)
				})
			}
			slices.Sort(trips)
			if third := trips[len(trips)/3]; third > test.most { // open releases are one in eight
				t.Errorf("%.2f to %.2f round trips, a third in %.2f, want %.1f at most", trips[0], trips[len(trips)-1], third, test.most)
			}
		})
	}
}

// entersAfter returns how many round trips after the last unlock of the holders each of the waiters enters. Each of them is a process of
// its own, and the holders unlock when the first has waited for the given time.
func entersAfter(t *testing.T, ms *redlocktest.Masters, trip time.Duration, holders, waiters string, waited time.Duration) (trips []float64) {
	locker := func(kind rune) sync.Locker {
		c := openAt(ms, trip/2, nil)
		switch kind {
		case 'W':
			return c.RWLocker("stock").Locker()
		case 'R':
			return c.RWLocker("stock").RLocker()
		case 'U':
			l, err := c.NewLocker("stock", &redlock.LockOptions{RenewEvery: -1})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		return c.Locker("stock")
	}
	var held []sync.Locker
	for _, kind := range holders {
		l := locker(kind)
		l.Lock()
		held = append(held, l)
	}
	in := make(chan time.Time)
	leave := make(chan struct{})
	var all sync.WaitGroup
	for i, kind := range waiters {
		l := locker(kind)
		all.Go(func() {
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
			l.Lock()
			in <- time.Now()
			<-leave
			l.Unlock()
		})
	}
	time.Sleep(waited)
	out := time.Now()
	for _, l := range held {
		l.Unlock()
	}
	for range waiters {
		trips = append(trips, float64((<-in).Sub(out))/float64(trip))
	}
	close(leave)
	all.Wait()
	return trips
}
