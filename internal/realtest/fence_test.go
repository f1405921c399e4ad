package realtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

const fenceKey = "redlock:fence:a"

func TestAFenceFarAheadOnOneRealServerStaysThere(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 5)
	poison := locktest.Ticks(time.Now().Add(400*24*time.Hour + time.Minute))
	if _, err := servers[2].Do("SET", fenceKey, poison, "PX", 60_000); err != nil {
		t.Fatal(err)
	}
	c := openReal(t, servers, fenced())
	last := uint64(0)
	for range 20 {
		l := c.Locker("a")
		l.Lock()
		if f := l.Lease().Fence(); f <= last {
			t.Errorf("fence %d after %d", f, last)
		} else {
			last = f
		}
		if err := l.UnlockContext(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for i, s := range servers {
		var n int64
		eventually(t, "the master has a fence", func() bool { // which may have received it last
			var err error
			n, err = redis.Int64(s.Do("GET", fenceKey))
			return err == nil
		})
		if ahead := time.Duration(n-locktest.Ticks(time.Now())) * 250 * time.Microsecond; (ahead > 2*time.Second) != (i == 2) {
			t.Errorf("master %d keeps a fence %v ahead of the clock, want that of the third alone far ahead", i+1, ahead)
		}
	}
	if left, err := redis.Int64(servers[2].Do("PTTL", fenceKey)); err != nil || left > 60_000 {
		t.Errorf("the fence that is far ahead lives for %d ms (%v), want no more than the 60 s that it had", left, err)
	}
	// With a second one, and a third, there is no quorum: the error says whose fence is wrong.
	for _, s := range servers[:2] {
		if _, err := s.Do("SET", fenceKey, poison, "PX", 60_000); err != nil {
			t.Fatal(err)
		}
	}
	err := c.Locker("a").TryLockContext(t.Context())
	var quorum *redlock.QuorumError
	if !errors.As(err, &quorum) || errors.Is(err, redlock.ErrHeld) {
		t.Fatalf("TryLockContext = %v, want a QuorumError", err)
	}
	var named []string
	for _, err := range quorum.Errs {
		if node := (*redlock.NodeError)(nil); errors.As(err, &node) && strings.Contains(node.Err.Error(), "its fence for this name is 9600h") {
			named = append(named, node.Master)
		}
	}
	if want := addresses(servers[:3]); !slices.Equal(named, want) {
		t.Errorf("TryLockContext = %v, want it to blame %v", err, want)
	}
}

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
				if f := l.Lease().Fence(); f <= last {
					t.Errorf("fence %d after %d", f, last)
				} else {
					last = f
				}
				mu.Unlock()
				l.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d acquisitions took one round", once, n)
}
