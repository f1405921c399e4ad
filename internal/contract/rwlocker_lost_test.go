package contract_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

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
