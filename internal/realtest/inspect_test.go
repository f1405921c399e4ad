package realtest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

func TestInspectOnRealServers(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	a := openReal(t, servers, &redlock.Options{Owner: "web-1", NodeTimeout: nodeTimeout})
	b := openReal(t, servers, &redlock.Options{Owner: "web-2", NodeTimeout: nodeTimeout})
	gone := openReal(t, servers, &redlock.Options{Owner: "gone", NodeTimeout: nodeTimeout})
	l := a.Locker("stock")
	l.Lock()
	waiting := func(c *redlock.Client) context.CancelFunc {
		ctx, cancel := context.WithCancel(t.Context())
		go c.Locker("stock").LockContext(ctx)
		return cancel
	}
	defer waiting(b)()
	defer waiting(gone)()
	eventually(t, "both wait", func() bool { return locktest.Inspected(t, a, "stock").Waiting == 2 })
	h := locktest.Inspected(t, b, "stock")
	if !h.Held || h.Owner != "web-1" || h.Token != l.Lease().Token() || h.Masters < h.Need || h.Left <= 0 || h.Left > 10*time.Second {
		t.Errorf("Inspect = %+v, want the lease of web-1", h)
	}
	// The entry of a client that has ended without leaving the queue stays for a while.
	for _, s := range servers {
		if _, err := s.Do("ZADD", "redlock:queue:stock", 1, "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT@crashed"); err != nil {
			t.Fatal(err)
		}
	}
	gone.Close()
	eventually(t, "only the one that still waits is listed", func() bool {
		h := locktest.Inspected(t, a, "stock")
		return h.Waiting == 1 && len(h.Waiters) == 1 && h.Waiters[0].Owner == "web-2" && time.Since(h.Waiters[0].Since) < time.Hour
	})
	for _, s := range servers {
		if _, err := s.Do("RPUSH", "list", "a"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Inspect(t.Context(), "list"); err == nil || !strings.Contains(err.Error(), "the key holds data that is not a lock") {
		t.Errorf("Inspect of a list = %v, want an error", err)
	}
	l.Unlock()
}

// The queue of a name may hold anything. A reply with long members would exceed what a connection accepts.
func TestInspectLeavesOutMembersOfAQueueThatAreLongerThanAnyID(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	connects := make(chan struct{}, 1000)
	c := openReal(t, servers, &redlock.Options{
		NodeTimeout: nodeTimeout, // the servers copy megabytes, perhaps on a busy machine
		Trace:       &redlock.Trace{MasterChanged: func(context.Context, redlock.MasterStatus) { connects <- struct{}{} }},
	})
	eventually(t, "all are up", func() bool { return locktest.Inspected(t, c, "stock").Masters == 0 && len(connects) >= 3 })
	before := len(connects)
	for _, s := range servers {
		for i := range 8 {
			if _, err := s.Do("ZADD", "redlock:queue:stock", i, strings.Repeat("x", 1<<18)+string(rune('a'+i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := openReal(t, servers, &redlock.Options{Owner: "web-2", NodeTimeout: nodeTimeout})
	l := c.Locker("stock")
	l.Lock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go w.Locker("stock").LockContext(ctx)
	eventually(t, "the client that waits is listed, and nobody else", func() bool {
		h := locktest.Inspected(t, c, "stock")
		return len(h.Waiters) == 1 && h.Waiters[0].Owner == "web-2"
	})
	if n := len(connects) - before; n != 0 {
		t.Errorf("masters changed their state %d times: a connection was lost", n)
	}
	l.Unlock()
}
