package redlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestALockIsOneTokenAtAllMasters(t *testing.T) {
	locktest.Bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := locktest.Connected(t, ms, &redlock.Options{Prefix: "shop:"}).Locker("stock")
		if l.Name() != "stock" || l.Lease() != nil {
			t.Errorf("Name, Lease = %q, %v before locking, want stock, nil", l.Name(), l.Lease())
		}
		l.Lock()
		synctest.Wait()
		s := l.Lease()
		if want := slices.Repeat([]string{s.Token()}, 5); !slices.Equal(ms.Get("shop:stock"), want) {
			t.Errorf("the masters hold %q, want the token everywhere", ms.Get("shop:stock"))
		}
		if len(s.Token()) < 27 { // 20 bytes in base64
			t.Errorf("the token %q is too short for 20 random bytes", s.Token())
		}
		l.Unlock()
		locktest.WantFree(t, ms, "shop:stock")
		if l.Lease() != nil {
			t.Error("Lease is not nil after the unlock")
		}
	})
}

func TestEveryAcquisitionHasItsOwnToken(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := locktest.Connected(t, ms, nil).Locker("a")
		seen := make(map[string]bool)
		for range 100 {
			l.Lock()
			seen[l.Lease().Token()] = true
			l.Unlock()
		}
		if len(seen) != 100 {
			t.Errorf("100 acquisitions had %d tokens", len(seen))
		}
	})
}

func TestLockersOfOneNameExcludeEachOther(t *testing.T) {
	locktest.Bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		here, there := locktest.Connected(t, ms, nil), locktest.Connected(t, ms, nil)
		first := here.Locker("a")
		first.Lock()
		for _, other := range []*redlock.Locker{first, here.Locker("a"), there.Locker("a")} {
			if other.TryLock() {
				t.Error("TryLock of a held lock succeeded")
			}
			if err := other.TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("TryLockContext of a held lock = %v, want ErrHeld", err)
			}
		}
		if b := there.Locker("b"); !b.TryLock() {
			t.Error("a lock of another name is not free")
		} else {
			b.Unlock()
		}
		first.Unlock()
		synctest.Wait() // the masters have answered
		if second := there.Locker("a"); !second.TryLock() {
			t.Error("TryLock of a released lock failed")
		} else {
			second.Unlock()
		}
	})
}

func TestLockWaitsUntilTheLockIsReleased(t *testing.T) {
	locktest.Bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := locktest.Connected(t, ms, nil).Locker("a"), locktest.Connected(t, ms, nil).Locker("a")
		a.Lock()
		start := time.Now()
		go func() {
			time.Sleep(3 * time.Second)
			a.Unlock()
		}()
		b.Lock()
		waited := time.Since(start)
		b.Unlock()
		if waited < 3*time.Second || waited > 3*time.Second+500*time.Millisecond {
			t.Errorf("Lock waited for %v, want 3s and one step of the schedule at most", waited)
		}
	})
}

func TestAGoroutineMayUnlockWhatAnotherLocked(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := locktest.Connected(t, ms, nil).Locker("a")
		l.Lock()
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Unlock()
		}()
		<-done
		locktest.WantFree(t, ms, "a")
	})
}

func TestGoroutinesLockInTheOrderOfTheirCalls(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := locktest.Connected(t, ms, nil).Locker("a")
		l.Lock()
		var order []int
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				l.Lock()
				defer l.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
		}
		if n := locktest.Sets(ms.Master(0), "a"); n != 1 {
			t.Errorf("%d SETs were sent while goroutines waited at the gate, want the holder's 1", n)
		}
		l.Unlock()
		wg.Wait()
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(order, want) {
			t.Errorf("order = %v, want %v", order, want)
		}
	})
}

// TestALockerIsASyncLocker runs typical uses of a sync.Mutex outside of a bubble: many goroutines with one
// Locker, and a sync.Cond with a Locker.
func TestALockerIsASyncLocker(t *testing.T) {
	l := redlocktest.StartN(t, 3).Open(nil).Locker("a")
	const producers, items = 8, 10
	cond := sync.NewCond(l)
	var queue, inside, consumed int
	critical := func() {
		if inside++; inside != 1 {
			t.Error("two goroutines are inside")
		}
		inside--
	}
	var wg sync.WaitGroup
	for range producers {
		wg.Go(func() {
			for range items {
				l.Lock()
				critical()
				queue++
				l.Unlock()
				cond.Signal()
			}
		})
		wg.Go(func() {
			for range items {
				cond.L.Lock()
				for queue == 0 {
					cond.Wait()
				}
				critical()
				queue--
				consumed++
				cond.L.Unlock()
			}
		})
	}
	wg.Wait()
	if consumed != producers*items || queue != 0 {
		t.Errorf("consumed %d, %d are left, want %d and none", consumed, queue, producers*items)
	}
}

func TestClientsOfManyProcessesLoseNoUpdate(t *testing.T) {
	locktest.Bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		counter := 0
		var wg sync.WaitGroup
		for p := range 6 {
			c := ms.Open(nil)
			for range 3 {
				wg.Go(func() {
					l := c.Locker("counter")
					for range 10 {
						l.Lock()
						read := counter
						time.Sleep(time.Duration(p+1) * time.Millisecond)
						counter = read + 1
						l.Unlock()
					}
				})
			}
		}
		wg.Wait()
		if counter != 6*3*10 {
			t.Errorf("counter = %d, want %d", counter, 6*3*10)
		}
		locktest.WantFree(t, ms, "counter")
	})
}

func TestOneNameIsOneKeyWhateverItContains(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := locktest.Connected(t, ms, nil)
		for _, name := range []string{"with space", "line\r\nbreak", "\x00\xff", strings.Repeat("long", 4000), "{tag}", "日本"} {
			l := c.Locker(name)
			l.Lock()
			synctest.Wait()
			if got := len(locktest.Holders(ms, name)); got != 3 {
				t.Errorf("%.20q stands at %d masters, want 3", name, got)
			}
			l.Unlock()
			locktest.WantFree(t, ms, name)
		}
	})
}

func TestAKeyOfAnotherTypeIsNotALockAndStays(t *testing.T) {
	locktest.Bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := locktest.Connected(t, ms, nil)
		for i := range 3 {
			conn, err := ms.Pools()[i].GetContext(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Do("HSET", "a", "f", "v"); err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
		if err := c.Locker("a").TryLockContext(t.Context()); !errors.Is(err, redlock.ErrNotALock) || errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryLockContext = %v, want ErrNotALock, and not ErrHeld", err)
		}
		time.Sleep(time.Minute)
		if got := ms.Master(0).Keys(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("keys = %q, want the hash still there", got)
		}
	})
}
