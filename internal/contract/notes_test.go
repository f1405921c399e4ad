package contract_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// notes returns the keys at a master that say of clients that they wait.
func notes(m *redlocktest.Master) (keys []string) {
	for _, key := range m.Keys() {
		if strings.HasPrefix(key, "redlock:waiter:") {
			keys = append(keys, key)
		}
	}
	return keys
}

// Jobs that a scheduler starts at one moment wait for each other, and end.
func TestClientsThatHaveClosedLeaveNoNotes(t *testing.T) {
	for name, lock := range map[string]func(t *testing.T, c *redlock.Client) (unlock func()){
		"a lock": func(_ *testing.T, c *redlock.Client) func() {
			l := c.Locker("a")
			l.Lock()
			return l.Unlock
		},
		"a permit": func(t *testing.T, c *redlock.Client) func() { return acquire(t, c.Semaphore("a", 1), 1).Release },
	} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			var all sync.WaitGroup
			for range 60 {
				all.Go(func() {
					c := ms.Open(nil)
					unlock := lock(t, c)
					time.Sleep(10 * time.Millisecond)
					unlock()
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(150 * time.Millisecond)
			if n := len(notes(ms.Master(0))); n < 10 {
				t.Errorf("%s: %d clients have a note while they wait: nothing is tested", name, n)
			}
			all.Wait()
			for i := range 3 {
				if left := notes(ms.Master(i)); len(left) > 0 {
					t.Errorf("%s: master %d keeps %d notes, want none: %q is one", name, i, len(left), left[0])
				}
			}
		})
	}
}

// A process that was killed cannot delete its notes. Here it is stopped for ever, with its connections, and nobody looks at the queue.
func TestTheNoteOfAClientThatIsGoneExpiresWithinSeconds(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var running locktest.Tap
		c := locktest.Stoppable(t, ms, &running)
		hold(ms, "a", 0, 1, 2)
		in := locktest.Enter(c.Locker("a"))
		time.Sleep(2 * time.Second)
		open := running.Shut(t)
		if n := len(notes(ms.Master(0))); n != 1 {
			t.Fatalf("%d clients have a note, want 1: nothing is tested", n)
		}
		time.Sleep(12 * time.Second)
		if left := notes(ms.Master(0)); len(left) > 0 {
			t.Errorf("the note lives for %v, want some seconds", ms.Master(0).TTL(left[0]))
		}
		open()
		time.Sleep(time.Second)
		if n := len(notes(ms.Master(0))); n != 1 {
			t.Errorf("%d clients have a note when the client runs again, want 1", n)
		}
		for i := range 3 {
			ms.Master(i).Del("a")
		}
		<-in
	})
}

// Those that are far from the head of the queue poll seldom: some of these once in several seconds.
func TestAClientThatWaitsLongKeepsItsNote(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const clients = 60
		hold(ms, "a", 0, 1, 2)
		var all []*redlock.Client
		for range clients {
			c := connected(t, ms, nil)
			locktest.Enter(c.Locker("a"))
			all = append(all, c)
		}
		time.Sleep(10 * time.Second)
		for range 120 {
			time.Sleep(time.Second)
			for i := range 3 {
				if n := len(notes(ms.Master(i))); n != clients {
					t.Fatalf("master %d has notes of %d clients, want those of all %d that wait", i, n, clients)
				}
			}
		}
		for _, c := range all {
			c.Close()
		}
	})
}

// A note that has expired does not say any more that its client is silent. So one of those that are stopped is granted the lock, in vain,
// and the next poll of another passes it on to one that runs.
func TestClientsThatWereStoppedForLongDelayTheLockOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var running locktest.Tap
		hold(ms, "a", 0, 1, 2)
		for range 10 {
			locktest.Enter(locktest.Stoppable(t, ms, &running).Locker("a"))
		}
		time.Sleep(2 * time.Second)
		open := running.Shut(t)
		var in []<-chan time.Time
		var lockers []*redlock.Locker
		for range 3 {
			l := connected(t, ms, nil).Locker("a")
			lockers, in = append(lockers, l), append(in, locktest.Enter(l))
		}
		time.Sleep(time.Minute)
		began := time.Now()
		for i := range 3 {
			ms.Master(i).Del("a")
		}
		for range lockers {
			select {
			case <-in[0]:
				lockers[0].Unlock()
			case <-in[1]:
				lockers[1].Unlock()
			case <-in[2]:
				lockers[2].Unlock()
			}
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("three clients that run had the lock within %v behind ten that were stopped, want a second or two", took)
		}
		open()
		synctest.Wait()
	})
}
