package contract_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// leases counts the leases that a Trace reports, as a metric would.
type leases struct {
	mu                       sync.Mutex // guards what follows
	acquired, released, lost map[string]int
}

func (l *leases) trace() *redlock.Trace {
	l.acquired, l.released, l.lost = map[string]int{}, map[string]int{}, map[string]int{}
	count := func(m map[string]int, name string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		m[name]++
	}
	return &redlock.Trace{
		Acquired: func(_ context.Context, i redlock.AcquiredInfo) { count(l.acquired, i.Name) },
		Released: func(_ context.Context, i redlock.ReleasedInfo) { count(l.released, i.Name) },
		Lost:     func(_ context.Context, i redlock.LostInfo) { count(l.lost, i.Name) },
	}
}

// want compares the counts of a name.
func (l *leases) want(t *testing.T, name string, acquired, released, lost int) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acquired[name] != acquired || l.released[name] != released || l.lost[name] != lost {
		t.Errorf("%s: %d acquired, %d released, %d lost; want %d, %d, %d",
			name, l.acquired[name], l.released[name], l.lost[name], acquired, released, lost)
	}
}

func lockAndUnlock(l sync.Locker) {
	l.Lock()
	defer l.Unlock()
}

// The number of leases held is that of Acquired less those of Released and Lost. The metrics rely on it.
func TestEachAcquiredLeaseIsReleasedOrLostOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var got leases
		c := connected(t, ms, &redlock.Options{Trace: got.trace()})
		del := func(name string) {
			for i := range ms.Len() {
				ms.Master(i).Del(name)
			}
		}

		l := c.Locker("unlocked")
		for range 3 {
			lockAndUnlock(l)
		}
		if err := l.LockContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.UnlockContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		got.want(t, "unlocked", 4, 4, 0)

		l = c.Locker("lost")
		l.Lock()
		del("lost")
		time.Sleep(5 * time.Second)
		got.want(t, "lost", 1, 0, 1)
		l.Unlock()
		got.want(t, "lost", 1, 0, 1)

		l = c.Locker("gone at unlock")
		l.Lock()
		del("gone at unlock")
		l.Unlock()
		got.want(t, "gone at unlock", 1, 1, 0)

		var all sync.WaitGroup
		for range 4 { // one acquires, three are handed the lease
			all.Go(func() {
				c.Locker("handed over").Do(t.Context(), func(context.Context) error {
					time.Sleep(time.Millisecond)
					return nil
				})
			})
		}
		all.Wait()
		got.want(t, "handed over", 1, 1, 0)

		rw := c.RWLocker("read")
		for range 1000 {
			lockAndUnlock(rw.RLocker())
		}
		got.want(t, "read", 1, 0, 0) // the lease is kept
		lockAndUnlock(rw)
		got.want(t, "read", 2, 2, 0)
	})
}

// While a set acquires its names one by one, it holds leases that no caller knows of. Neither their acquisition nor
// their loss is an event.
func TestALeaseOfOneNameOfASetIsNoEvent(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var got leases
		other := connected(t, ms, nil).Locker("b")
		other.Lock()
		set := connected(t, ms, &redlock.Options{Trace: got.trace()}).Locker("a", "b")
		locked := make(chan struct{})
		go func() {
			set.Lock()
			close(locked)
		}()
		for range 50 { // until the set has a, and waits for b
			time.Sleep(100 * time.Millisecond)
			if len(holders(ms, "a")) == ms.Len() {
				break
			}
		}
		token := ms.Get("a")
		if len(holders(ms, "a")) != ms.Len() {
			t.Fatal("the set did not acquire a alone")
		}
		for i := range ms.Len() {
			ms.Master(i).Del("a")
		}
		time.Sleep(5 * time.Second)
		if now := ms.Get("a"); now[0] == token[0] {
			t.Fatal("the lease of a was not lost")
		}
		got.want(t, "a", 0, 0, 0)
		other.Unlock()
		<-locked
		set.Unlock()
		got.want(t, "a", 0, 0, 0)
		got.want(t, "b", 0, 0, 0)
		got.want(t, "a, b", 1, 1, 0)
	})
}

func TestALockThatAPanicOfATraceGivesBackIsReleased(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var got leases
		c := connected(t, ms, &redlock.Options{Trace: redlock.JoinTraces(got.trace(), &redlock.Trace{
			LockDone: func(context.Context, redlock.LockDoneInfo) { panic("the user's") },
		})})
		func() {
			defer func() { recover() }()
			c.Locker("a").Lock()
		}()
		got.want(t, "a", 1, 1, 0)
		wantFree(t, ms, "a")
	})
}
