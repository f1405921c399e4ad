package contract_test

//lint:file-ignore SA2001 it is the locking that is tested

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAKeptReadLeaseNeedsNoNetwork(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		l := c.RWLocker("stock")
		for range 100 {
			l.RLock()
			l.RUnlock()
		}
		time.Sleep(4 * time.Second)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { locktest.Pass(l.RLocker()) })
		}
		all.Wait()
		if n := reads(ms.Master(0), "stock"); n != 1 {
			t.Errorf("a master was asked %d times, want once", n)
		}
		if got := holders(ms, "stock"); len(got) != 5 || got[0] != readersMark {
			t.Errorf("the masters hold %q, want the readers' mark", got)
		}
		time.Sleep(10 * time.Second) // it was renewed twice, and nobody has read since the second time
		wantFree(t, ms, "stock")
		l.RLock()
		l.RUnlock()
		time.Sleep(6 * time.Second) // it was entered only by the goroutine that has acquired it
		wantFree(t, ms, "stock")
		l.RLock()
		time.Sleep(time.Minute) // while a goroutine reads, the lease is renewed
		if err := l.RLocker().Lease().Err(); err != nil {
			t.Errorf("after a minute: %v", err)
		}
		l.RUnlock()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantFree(t, ms, "stock")
	})
}

func TestAReadLeaseThatIsUsedNowAndThenIsRenewed(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).RWLocker("stock")
		for range 100 {
			locktest.Pass(l.RLocker())
			time.Sleep(3 * time.Second)
		}
		if n := reads(ms.Master(0), "stock"); n != 1 {
			t.Errorf("a master was asked %d times in 5 minutes, want once", n)
		}
	})
}

// The race detector finds what readers read of the lease while it is renewed.
func TestReadersEnterALeaseThatIsBeingRenewed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, short()).RWLocker("stock")
		l.RLock()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 500 {
					locktest.Pass(l.RLocker())
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		all.Wait()
		l.RUnlock()
	})
}

func TestWithoutHandoverNoReadLeaseIsKept(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{Handover: -1}}).RWLocker("stock")
		l.RLock()
		l.RLock()
		l.RUnlock()
		synctest.Wait()
		if got := holders(ms, "stock"); len(got) != 3 {
			t.Errorf("while a goroutine reads, %d masters know", len(got))
		}
		l.RUnlock()
		wantFree(t, ms, "stock")
	})
}

// A writer in another process must not wait for a lease that nobody uses.
func TestAWriterTakesAKeptReadLease(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, nil).RWLocker("stock"), connected(t, ms, nil).RWLocker("stock")
		locktest.Pass(a.RLocker())
		start := time.Now()
		locktest.Pass(b)
		if took := time.Since(start); took > 50*time.Millisecond {
			t.Errorf("Lock took %v", took)
		}
		synctest.Wait() // a message that asks the readers to leave may still be on its way
		locktest.Pass(a.RLocker())
		if b.TryLock() {
			t.Error("the first TryLock succeeds, although a reader's lease is kept")
			b.Unlock()
		}
		synctest.Wait()
		if !b.TryLock() {
			t.Fatal("the second TryLock fails")
		}
		b.Unlock()
		// In the same process.
		locktest.Pass(a.RLocker())
		if !a.TryLock() {
			t.Fatal("TryLock fails because of its own process's kept lease")
		}
		a.Unlock()
		locktest.Pass(a.RLocker())
		locktest.Pass(a)
	})
}

// A clock shows that the machine slept, and no timer has fired yet.
func TestAKeptReadLeaseIsNotEnteredAfterASuspend(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		for _, row := range []struct {
			name         string
			wall, asleep time.Duration
		}{
			{"asleep", 0, 5 * time.Second},
			{"wall", 5 * time.Second, 0},
		} {
			var slept atomic.Bool
			opts := &redlock.Options{DisableRestartGuard: true}
			locktest.SetClocks(opts, func() (wall, asleep time.Duration) {
				if slept.Load() {
					return row.wall, row.asleep
				}
				return 0, 0
			})
			l := connected(t, ms, opts).RWLocker(row.name)
			locktest.Pass(l.RLocker())
			locktest.Pass(l.RLocker())
			slept.Store(true)
			l.RLock()
			synctest.Wait() // a quorum of masters was enough
			if n := reads(ms.Master(0), row.name); n != 2 {
				t.Errorf("%s: a master was asked %d times, want twice", row.name, n)
			}
			l.RUnlock()
		}
	})
}

// A goroutine could be stopped between the clocks and its entry, and enter a lease that has ended. If it is inside
// already, the lease is not released, and the clocks are those of its entry.
func TestAReaderIsInsideBeforeTheClocksAreRead(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var l *redlock.RWLocker
		var enters, read, outside atomic.Bool
		opts := &redlock.Options{DisableRestartGuard: true}
		locktest.SetClocks(opts, func() (wall, asleep time.Duration) {
			if enters.Load() {
				read.Store(true)
				if l.RLocker().Lease() == nil {
					outside.Store(true)
				}
			}
			return 0, 0
		})
		l = connected(t, ms, opts).RWLocker("stock")
		locktest.Pass(l.RLocker()) // the lease is kept
		synctest.Wait()
		enters.Store(true)
		l.RLock()
		enters.Store(false)
		if !read.Load() || outside.Load() {
			t.Errorf("the clocks were read: %v, before the reader was inside: %v; want true, false", read.Load(), outside.Load())
		}
		l.RUnlock()
	})
}

// BenchmarkRLock measures a read lock and unlock with a kept lease, beside sync.RWMutex.
func BenchmarkRLock(b *testing.B) {
	l := redlocktest.StartN(b, 5).Open(nil).RWLocker("stock")
	locktest.Pass(l.RLocker())
	for _, row := range []struct {
		name string
		lock func()
	}{
		{"RWLocker", func() { l.RLock(); l.RUnlock() }},
		{"RLocker", func() { l.RLocker().Lock(); l.RLocker().Unlock() }},
		{"sync.RWMutex", func() { mutex.RLock(); mutex.RUnlock() }},
	} {
		b.Run(row.name+"/one goroutine", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				row.lock()
			}
		})
		b.Run(row.name+"/64 goroutines", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(max(64/runtime.GOMAXPROCS(0), 1))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					row.lock()
				}
			})
		})
	}
}

var mutex sync.RWMutex
