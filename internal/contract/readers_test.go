package contract_test

//lint:file-ignore SA2001 it is the locking that is tested

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
		if strings.Contains(command, " "+key+" ") && strings.Contains(command, "readers register ") {
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
		for range 2 { // the first of them acquires the lease
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

// A client may let go of its RWLockers while it holds a lost lease.
func TestAReadLeaseThatWasLostIsUnlockedByAnotherRWLocker(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		lease := func() *redlock.Lease {
			l := c.RWLocker("stock")
			l.RLock()
			return l.RLocker().Lease()
		}()
		for i := range 3 {
			ms.Master(i).Forget()
		}
		<-lease.Done()
		lease = nil
		for range 3 {
			time.Sleep(time.Minute)
			runtime.GC()
		}
		c.RWLocker("stock").RUnlock()
		locktest.Pass(c.Locker("stock"))
	})
}

// A writer may recall readers that were about to acquire a lease, and have given up since.
func TestARecallOfReadersThatGaveUpDoesNotShutLaterOnesOut(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).RWLocker("a")
		for i := range ms.Len() {
			ms.Master(i).Set("a", "held", time.Minute)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() { gaveUp <- l.RLockContext(ctx) }()
		time.Sleep(time.Second)
		waiting := queueOf(t, ms, 0, "redlock:rqueue:a")
		if len(waiting) != 1 {
			t.Fatalf("the queue of readers has %q, want one", waiting)
		}
		reader, _, _ := strings.Cut(waiting[0], " ")
		publish(t, ms, 0, "redlock:wake:"+reader, readersMark+" a")
		cancel()
		<-gaveUp
		free(ms, "a")
		l.RLock()
		if l.TryRLock() {
			l.RUnlock()
		} else {
			t.Error("no second reader enters, although no writer waits")
		}
		l.RUnlock()
	})
}

// What an earlier reader has found out says nothing about the lock an hour later.
func TestAReaderIsNotToldWhyAnEarlierOneFailed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		w, r := connected(t, ms, nil).Locker("stock"), connected(t, ms, nil).RWLocker("stock")
		try := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			return r.RLocker().LockContext(ctx)
		}
		w.Lock()
		if err := try(); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("beside a holder: %v, want ErrHeld", err)
		}
		w.Unlock()
		time.Sleep(time.Hour)
		for i := range ms.Len() {
			ms.Master(i).Freeze()
		}
		if err := try(); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redlock.ErrHeld) {
			t.Errorf("an hour later, beside masters that hang: %v, want the deadline, and not ErrHeld", err)
		}
	})
}

// A reader that waits for another one of its process to acquire the lease waits as long as that one does.
func TestAReaderThatWaitsBehindAnotherIsLogged(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log locktest.Log
		w, r := connected(t, ms, nil).Locker("stock"), connected(t, ms, log.Options()).RWLocker("stock")
		w.Lock()
		ctx, cancel := context.WithCancel(t.Context())
		leads := make(chan error, 1)
		go func() { leads <- r.RLocker().LockContext(ctx) }() // its caller is told by an error
		synctest.Wait()
		in := make(chan struct{})
		go func() {
			r.RLock()
			close(in)
		}()
		time.Sleep(3 * time.Second)
		log.Want(t, 1, "stock", "held")
		cancel()
		<-leads
		w.Unlock()
		<-in
	})
}

// The first attempt of a reader that has waited for another one to acquire the lease begins when it is made.
func TestAReaderThatWaitedBehindAnotherHasTheWholeValidity(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		w, r := connected(t, ms, nil).Locker("stock"), connected(t, ms, nil).RWLocker("stock")
		w.Lock()
		ctx, cancel := context.WithCancel(t.Context())
		leads := make(chan error, 1)
		go func() { leads <- r.RLocker().LockContext(ctx) }()
		synctest.Wait()
		in := locktest.Enter(r.RLocker())
		time.Sleep(6 * time.Second)
		w.Unlock()
		cancel()
		<-leads
		<-in
		// The lock is granted to the second one, for a second.
		if left := time.Until(r.RLocker().Lease().Until()); left < 900*time.Millisecond {
			t.Errorf("the lease is valid for %v, want almost a second", left)
		}
		time.Sleep(500 * time.Millisecond) // it is renewed
		if left := time.Until(r.RLocker().Lease().Until()); left < 9*time.Second {
			t.Errorf("the lease is valid for %v after its first renewal, want almost 10s", left)
		}
		r.RUnlock()
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
		if err := l.RLocker().UnlockContext(t.Context()); !errors.Is(err, redlock.ErrNotHeld) {
			t.Errorf("UnlockContext: %v, want ErrNotHeld", err)
		}
		locktest.Pass(l.RLocker()) // the lock can still be used
		panics("Unlock", "redlock: unlock of unlocked Locker", l.Unlock)
		panics("RLock of a zero RWLocker", "zero Locker", new(redlock.RWLocker).RLock)
	})
}

// With Keep, writers hold a tenure that goroutines enter, as readers do.
func TestARUnlockTooManyDoesNotUnlockTheWriter(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{Keep: time.Minute}}
		l := connected(t, ms, opts).RWLocker("stock")
		locktest.Pass(l.Locker()) // it is kept from now on
		l.Lock()
		if s := l.RLocker().Lease(); s != nil {
			t.Error("while a writer holds the lock, the readers' side has its Lease")
		}
		if err := l.RLocker().UnlockContext(t.Context()); !errors.Is(err, redlock.ErrNotHeld) {
			t.Errorf("UnlockContext of the readers' side: %v, want ErrNotHeld", err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("RUnlock while a writer holds the lock: no panic")
				}
			}()
			l.RUnlock()
		}()
		if l.TryLock() {
			t.Error("a second writer has the lock")
		}
		if err := l.Locker().UnlockContext(t.Context()); err != nil {
			t.Errorf("UnlockContext of the writer: %v", err)
		}
		locktest.Pass(l.Locker())
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
			ms.Master(0).Forget() // its fence is lost
			for _, l := range []*redlock.RWLocker{a, b} {
				if f := fence(l.RLocker()); f < last { // it is above the writer's if an attempt has raised a master further
					t.Errorf("a reader after %d: %d", last, f)
				} else {
					last = f
				}
			}
			time.Sleep(15 * time.Second) // the quarantine ends
		}
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

// A lossScene is a way in which a Client loses the lease of its readers.
type lossScene struct {
	name  string
	begin func(ms *redlocktest.Masters, asleep *atomic.Int64)
	end   func(ms *redlocktest.Masters)
	all   bool // all leases of the Client are lost
	// late: the lease is lost at the end of its validity. Without readers, it would be released before. So a reader
	// leaves shortly before that.
	late bool
}

var lossScenes = []lossScene{
	{
		name:  "the process was stopped for 1.5 TTL",
		begin: func(_ *redlocktest.Masters, asleep *atomic.Int64) { asleep.Add(int64(3 * time.Second)) },
		end:   func(*redlocktest.Masters) {},
		all:   true,
	},
	{
		name: "three of five masters are frozen",
		begin: func(ms *redlocktest.Masters, _ *atomic.Int64) {
			for i := range 3 {
				ms.Master(i).Freeze()
			}
		},
		end: func(ms *redlocktest.Masters) {
			for i := range 3 {
				ms.Master(i).Thaw()
			}
		},
		all:  true,
		late: true,
	},
	{
		name: "the keys are deleted",
		begin: func(ms *redlocktest.Masters, _ *atomic.Int64) {
			for i := range ms.Len() {
				ms.Master(i).Del("stock")
			}
		},
		end: func(*redlocktest.Masters) {},
	},
}

// TestALostReadLeaseStopsNothingElse loses a read lease that is kept without readers, and one with readers inside.
// All else of the Client goes on, and the name can be locked again when the readers have left.
func TestALostReadLeaseStopsNothingElse(t *testing.T) {
	for _, scene := range lossScenes {
		for readers := range 3 {
			t.Run(fmt.Sprintf("%s/%d readers inside", scene.name, readers), func(t *testing.T) {
				bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) { loseReaders(t, ms, scene, readers) })
			})
		}
	}
}

func loseReaders(t *testing.T, ms *redlocktest.Masters, scene lossScene, readers int) {
	const ttl = 2 * time.Second
	var asleep atomic.Int64
	opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: ttl}, DisableRestartGuard: true} // it notices the pause
	locktest.SetClocks(opts, func() (wall, slept time.Duration) { return 0, time.Duration(asleep.Load()) })
	c := connected(t, ms, opts)
	other := c.Locker("other")
	other.Lock()
	l := c.RWLocker("stock")
	l.RLock()
	lease := l.RLocker().Lease()
	l.RUnlock()
	locktest.Pass(l.RLocker()) // the lease is to be renewed
	for range readers {
		l.RLock()
	}
	if readers > 0 && l.RLocker().Lease() != lease {
		t.Fatal("the readers do not share the lease that was kept")
	}

	late := scene.late && readers == 0
	if late {
		l.RLock()
	}
	scene.begin(ms, &asleep)
	if late {
		time.Sleep(time.Until(lease.Until()) - 10*time.Millisecond)
		l.RUnlock()
	}
	wantLostSoon(t, "the readers' lease", lease)
	if scene.all {
		wantLostSoon(t, "the lease of another lock", other.Lease())
	}
	scene.end(ms)
	synctest.Wait()
	time.Sleep(3 * ttl)
	if !scene.all {
		if err := other.Lease().Err(); err != nil {
			t.Errorf("another lease of the Client is not renewed: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), ttl)
	defer cancel()
	third := c.Locker("third")
	if err := third.LockContext(ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * ttl)
	if err := third.UnlockContext(t.Context()); err != nil {
		t.Errorf("a lease that began after the loss is not renewed: %v", err)
	}

	for i := range readers {
		if l.TryLock() {
			t.Fatalf("a writer enters while %d readers have not left", readers-i)
		}
		if err := l.RLocker().UnlockContext(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("a reader's UnlockContext = %v, want ErrLost", err)
		}
	}
	for _, side := range []*redlock.Locker{l.Locker(), l.RLocker(), l.Locker()} {
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		defer cancel()
		if err := side.LockContext(ctx); err != nil {
			t.Fatalf("when the readers have left: %v", err)
		}
		side.Unlock()
	}
	other.Unlock()
}

// wantLostSoon waits until Done of a lease is closed, and checks that it was lost.
func wantLostSoon(t *testing.T, what string, s *redlock.Lease) {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(time.Until(s.Until()) + 2*time.Second):
		t.Fatalf("Done of %s is open", what)
	}
	if err := s.Err(); !errors.Is(err, redlock.ErrLost) {
		t.Errorf("Err of %s = %v, want ErrLost", what, err)
	}
}

// holdings are the leases that goroutines hold at this moment, with how many goroutines hold each.
type holdings struct {
	*testing.T
	mu      sync.Mutex // guards what follows
	readers map[*redlock.Lease]int
	writers map[*redlock.Lease]int
	entered map[string]int // how many times each side was entered
}

func (h *holdings) enter(side string, of map[*redlock.Lease]int, s *redlock.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of[s]++
	h.entered[side]++
	h.checkLocked()
}

func (h *holdings) leave(of map[*redlock.Lease]int, s *redlock.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checkLocked()
	if of[s]--; of[s] == 0 {
		delete(of, s)
	}
}

// enough reports whether both sides were entered often.
func (h *holdings) enough() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.entered["read"] >= 30 && h.entered["write"] >= 3
}

// checkLocked fails the test if a writer's valid lease is not the only valid one.
func (h *holdings) checkLocked() {
	valid := func(of map[*redlock.Lease]int) (n int) {
		for s := range of {
			if s.Valid() {
				n++
			}
		}
		return n
	}
	if r, w := valid(h.readers), valid(h.writers); w > 1 || w == 1 && r > 0 {
		h.Errorf("%d writers and %d leases of readers are valid at one moment", w, r)
	}
}

// use locks both sides over and over until ctx ends.
func (h *holdings) use(ctx context.Context, l *redlock.RWLocker, random *rand.Rand) {
	for ctx.Err() == nil {
		side, locker, of := "read", l.RLocker(), h.readers
		if random.IntN(6) == 0 {
			side, locker, of = "write", l.Locker(), h.writers
		}
		patience := time.Duration(random.IntN(3000)) * time.Millisecond
		wait, cancel := context.WithTimeout(ctx, patience)
		err := locker.LockContext(wait)
		cancel()
		if err == nil {
			s := locker.Lease()
			h.enter(side, of, s)
			time.Sleep(time.Duration(random.ExpFloat64() * float64(20*time.Millisecond)))
			if random.IntN(40) == 0 {
				time.Sleep(4 * time.Second) // long enough to be renewed, or lost
			}
			h.leave(of, s)
			locker.UnlockContext(ctx)
		}
		time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
	}
}

// hurt makes one or two masters fail at a time, until ctx ends. Then it makes all masters work again.
func hurt(ctx context.Context, ms *redlocktest.Masters, random *rand.Rand) {
	for ctx.Err() == nil {
		m := ms.Master(random.IntN(ms.Len()))
		pause := time.Duration(random.IntN(1500)) * time.Millisecond
		switch random.IntN(6) {
		case 0:
			m.Freeze()
			time.Sleep(pause)
			m.Thaw()
		case 1:
			m.Forget()
		case 2:
			m.Cut()
		case 3:
			m.LoseReply("EVALSHA")
		case 4:
			m.DropRequest("SET")
		case 5:
			m.Stop()
			time.Sleep(pause)
			m.Start()
		}
		time.Sleep(pause)
	}
}

func TestNoWriterHoldsBesideOthersWhateverFails(t *testing.T) {
	for seed := range uint64(1) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: 2 * time.Second}, MaxTTL: 2 * time.Second}
				h := &holdings{T: t, readers: make(map[*redlock.Lease]int), writers: make(map[*redlock.Lease]int), entered: make(map[string]int)}
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				var all sync.WaitGroup
				for i := range uint64(4) {
					far := time.Duration(i) * time.Millisecond
					l := ms.WithDelays(far, 0, far/2, 2*far, 0).Open(opts).RWLocker("stock")
					for j := range uint64(2) {
						all.Go(func() { h.use(ctx, l, rand.New(rand.NewPCG(seed, 10*i+j))) })
					}
				}
				all.Go(func() { hurt(ctx, ms, rand.New(rand.NewPCG(seed, 99))) })
				all.Go(func() {
					for time.Sleep(8 * time.Second); !h.enough() && ctx.Err() == nil; {
						time.Sleep(time.Second)
					}
					stop()
				})
				all.Wait()
				if !h.enough() {
					t.Errorf("entered %v times, want more", h.entered)
				}
				t.Log("entered:", h.entered)
				time.Sleep(10 * time.Second) // quarantines end
				wantFree(t, ms, "stock")
				l := connected(t, ms, opts).RWLocker("stock")
				locktest.Pass(l)
				locktest.Pass(l.RLocker())
			})
		})
	}
}
