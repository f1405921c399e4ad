package redlock_test

//lint:file-ignore SA2001 it is the locking that is tested

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

const readersMark = "redlock:readers"

// reads returns how many read votes a master was asked for.
func reads(m *redlocktest.Master, key string) (n int) {
	for _, command := range m.Commands() {
		if strings.Contains(command, " "+key+" ") && strings.Contains(command, "read ") {
			n++
		}
	}
	return n
}

func TestReadersOfSeveralProcessesShareALockThatExcludesWriters(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		inspector := connected(t, ms, nil)
		a := connected(t, ms, &redlock.Options{Owner: "a"}).RWLocker("stock")
		b := connected(t, ms, &redlock.Options{Owner: "b"}).RWLocker("stock")
		c := inspector.RWLocker("stock")
		a.RLock()
		b.RLock()
		if !b.TryRLock() {
			t.Error("a second reader of a process is refused")
		}
		if c.TryLock() {
			t.Error("a writer has the lock beside readers")
		}
		if err := c.Locker().TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("a writer beside readers: %v, want ErrHeld", err)
		}
		b.RUnlock()
		h, err := inspector.Inspect(t.Context(), "stock")
		if err != nil || !h.Held || h.Token != readersMark || !slices.Equal(h.Readers, []string{"a", "b"}) {
			t.Errorf("Inspect = %+v, %v; want the readers a and b", h, err)
		}
		b.RUnlock()
		a.RUnlock()
		c.Lock()
		if a.TryRLock() || a.TryLock() || b.TryRLock() || c.TryRLock() || c.TryLock() {
			t.Error("somebody has the lock beside a writer")
		}
		c.Unlock()
		a.RLock()
		a.RUnlock()
	})
}

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
		time.Sleep(2 * time.Second) // more than half of the validity has passed, and nobody reads
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

func TestALostReadLeaseIsLostForAllItsReaders(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).RWLocker("stock")
		l.RLock()
		l.RLock()
		lease := l.RLocker().Lease()
		done := make(chan error)
		go func() {
			done <- l.RLocker().Do(context.Background(), func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		synctest.Wait()
		for i := range 3 {
			ms.Master(i).Forget()
		}
		if err := <-done; !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Do: %v, want ErrLost", err)
		}
		if err := lease.Err(); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("the lease: %v, want ErrLost", err)
		}
		entered := make(chan struct{})
		go func() {
			l.RLock()
			close(entered)
		}()
		time.Sleep(time.Minute)
		if err := l.RLocker().UnlockContext(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("UnlockContext: %v, want ErrLost", err)
		}
		synctest.Wait()
		select {
		case <-entered:
			t.Error("a new lease began while a reader has the lost one")
		default:
		}
		l.RUnlock()
		<-entered
		if err := l.RLocker().Lease().Err(); err != nil {
			t.Errorf("the new lease: %v", err)
		}
		l.RUnlock()
	})
}

func TestAReaderThatStopsWaitingLeavesTheOthersWaiting(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		w, r := connected(t, ms, nil).RWLocker("stock"), connected(t, ms, nil).RWLocker("stock")
		w.Lock()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		for range 2 { // the first of them leads
			all.Go(func() {
				if err := r.RLocker().LockContext(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redlock.ErrHeld) {
					t.Errorf("LockContext: %v, want ErrHeld and the deadline", err)
				}
			})
			synctest.Wait()
		}
		all.Go(func() { locktest.Pass(r.RLocker()) })
		time.Sleep(200 * time.Millisecond)
		w.Unlock()
		all.Wait()
	})
}

func TestMisuseOfAnRWLockerPanics(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).RWLocker("stock")
		panics := func(what, want string, f func()) {
			t.Helper()
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, want) {
					t.Errorf("%s panics with %q, want %q", what, got, want)
				}
			}()
			f()
		}
		const unlocked = "redlock: RUnlock of unlocked RWLocker"
		panics("RUnlock without a lease", unlocked, l.RUnlock)
		locktest.Pass(l.RLocker())
		panics("RUnlock of a kept lease", unlocked, l.RUnlock)
		if err := l.RLocker().UnlockContext(t.Context()); err != redlock.ErrNotHeld {
			t.Errorf("UnlockContext: %v, want ErrNotHeld", err)
		}
		locktest.Pass(l.RLocker()) // no harm was done
		panics("Unlock", "redlock: unlock of unlocked Locker", l.Unlock)
		panics("RLock of a zero RWLocker", "zero Locker", new(redlock.RWLocker).RLock)
	})
}

func TestShutdownReleasesKeptReadLeases(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		l := c.RWLocker("stock")
		l.RLock()
		locktest.Pass(c.RWLocker("shelf").RLocker())
		go func() {
			time.Sleep(time.Second)
			l.RUnlock()
		}()
		if err := c.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := l.RLocker().LockContext(t.Context()); err != redlock.ErrClosed {
			t.Errorf("LockContext after Shutdown: %v, want ErrClosed", err)
		}
		wantFree(t, ms, "stock")
		wantFree(t, ms, "shelf")
	})
}

func TestFencesOfReadersLieBetweenThoseOfWriters(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{Fencing: true}}
		a, b := connected(t, ms, opts).RWLocker("stock"), connected(t, ms, opts).RWLocker("stock")
		fence := func(l *redlock.Locker) (f uint64) {
			l.Lock()
			defer l.Unlock()
			return l.Lease().Fence()
		}
		last := fence(a.RLocker()) // there was no writer
		for range 4 {
			if f := fence(b.Locker()); f <= last || last == 0 {
				t.Errorf("a writer after %d: %d", last, f)
			} else {
				last = f
			}
			ms.Master(0).Forget() // its number is gone
			for _, l := range []*redlock.RWLocker{a, b} {
				if f := fence(l.RLocker()); f>>10 != last>>10 {
					t.Errorf("a reader after the writer's %d: %d", last, f)
				}
			}
			time.Sleep(15 * time.Second) // the quarantine ends
		}
	})
}

func BenchmarkRLock(b *testing.B) {
	ms := redlocktest.StartN(b, 5)
	l := ms.Open(nil).RWLocker("stock")
	l.RLock()
	l.RUnlock()
	b.Run("one goroutine", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.RLock()
			l.RUnlock()
		}
	})
	b.Run("64 goroutines", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				l.RLock()
				l.RUnlock()
			}
		})
	})
	b.Run("sync.RWMutex", func(b *testing.B) {
		var l sync.RWMutex
		for b.Loop() {
			l.RLock()
			l.RUnlock()
		}
	})
}
