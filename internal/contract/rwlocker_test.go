package contract_test

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
		locktest.Pass(l.RLocker()) // the lock can still be used
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
