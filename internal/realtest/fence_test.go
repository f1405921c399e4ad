package realtest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

func TestAServerThatForbidsFencesSaysSo(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	c := openAs(t, servers, "+@all", "~a", "~redlock:queue:*", "~redlock:incarnation", "&*")
	l, err := c.NewLocker("a", &redlock.LockOptions{Fencing: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.TryLockContext(t.Context()); err == nil || errors.Is(err, redlock.ErrHeld) || !strings.Contains(err.Error(), "can't access") {
		t.Errorf("TryLockContext = %v, want it to say that fences are forbidden", err)
	}
	wantEmpty(t, servers)
	if err := c.Locker("a").TryLockContext(t.Context()); err != nil {
		t.Errorf("without fencing: %v", err)
	}
}

func TestFencesAgreeOnRealServersAmongClients(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 5)
	var all sync.WaitGroup
	var mu sync.Mutex
	last, n, once := uint64(0), 0, 0
	for range 4 {
		opts := fenced()
		opts.Trace.Acquired = func(_ context.Context, info redlock.AcquiredInfo) {
			mu.Lock()
			defer mu.Unlock()
			if n++; info.Rounds == 1 {
				once++
			}
		}
		l := openReal(t, servers, opts).Locker("a")
		all.Go(func() {
			for range 200 {
				l.Lock()
				mu.Lock()
				f := l.Lease().Fence()
				if f <= last && l.Lease().Valid() {
					t.Errorf("fence %d after %d", f, last)
				}
				last = max(last, f)
				mu.Unlock()
				l.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d acquisitions took one round", once, n)
}
