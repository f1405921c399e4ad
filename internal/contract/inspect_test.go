package contract_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestInspectNamesTheHolderAndThoseWhoWait(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		as := func(owner string) *redlock.Client {
			return connected(t, ms, &redlock.Options{Prefix: "shop:", Owner: owner, LockOptions: redlock.LockOptions{Fencing: true, RenewEvery: -1}})
		}
		a, b, c, viewer := as("web-1/11"), as("web-2/22"), as("web-3/33"), as("viewer")
		if h := locktest.Inspected(t, viewer, "stock"); h.Held || h.Owner != "" || h.Token != "" || h.Masters != 0 || h.Left != 0 || h.Fence != 0 || h.Waiting != 0 || h.Need != 3 {
			t.Errorf("Inspect of a lock that nobody has used = %+v, want nothing", h)
		}
		l := a.Locker("stock")
		l.Lock()
		synctest.Wait() // Lock waits only for a quorum, and b might get the other masters
		go locktest.Pass(b.Locker("stock"))
		time.Sleep(time.Second)
		go locktest.Pass(c.Locker("stock"))
		time.Sleep(time.Second)
		h := locktest.Inspected(t, viewer, "stock")
		if h.Name != "stock" || !h.Held || h.Owner != "web-1/11" || h.Token != l.Lease().Token() || h.Masters != 5 || h.Fence != l.Lease().Fence() {
			t.Errorf("Inspect = %+v, want the lease of web-1/11 with the fence %d", h, l.Lease().Fence())
		}
		if h.Left <= 7*time.Second || h.Left > 8*time.Second {
			t.Errorf("Left = %v 2 s after a lock with a TTL of 10 s, want 8 s", h.Left)
		}
		var waiters []string
		for _, w := range h.Waiters {
			waiters = append(waiters, w.Owner+" "+time.Since(w.Since).Round(time.Second).String())
		}
		if want := []string{"web-2/22 2s", "web-3/33 1s"}; h.Waiting != 2 || !slices.Equal(waiters, want) {
			t.Errorf("%d wait, %v, want 2, %v", h.Waiting, waiters, want)
		}
		l.Unlock()
		time.Sleep(time.Second)
		if h := locktest.Inspected(t, viewer, "stock"); h.Held || h.Owner != "" || h.Waiting != 0 || h.Fence == 0 {
			t.Errorf("Inspect after all have unlocked = %+v, want a free lock with a last fence", h)
		}
	})
}

func TestInspectNeedsAQuorumAndNamesTheMastersThatDoNotAnswer(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, &redlock.Options{Owner: "web"})
		l := c.Locker("a")
		l.Lock()
		synctest.Wait()
		ms.Master(0).Stop()
		ms.Master(1).Freeze()
		h := locktest.Inspected(t, c, "a")
		if !h.Held || h.Owner != "web" || h.Masters != 3 || len(h.Errs) != 2 {
			t.Errorf("Inspect = %+v, want that 3 masters know the holder, and 2 errors", h)
		}
		for i, err := range h.Errs {
			var node *redlock.NodeError
			if !errors.As(err, &node) || node.Op != "inspect" || node.Master != c.Masters()[i].Name {
				t.Errorf("error %d = %v, want a NodeError of that master", i, err)
			}
		}
		ms.Master(2).Set("a", "another", 0)
		if h := locktest.Inspected(t, c, "a"); h.Held || h.Owner != "web" || h.Masters != 2 || h.Need != 3 {
			t.Errorf("Inspect = %+v, want 2 masters with the key, which is too few", h)
		}
		ms.Master(2).Freeze()
		h, err := c.Inspect(t.Context(), "a")
		var quorum *redlock.QuorumError
		if !errors.As(err, &quorum) || quorum.Op != "inspect" || quorum.Granted != 2 || errors.Is(err, redlock.ErrHeld) {
			t.Errorf("Inspect = %v, want a QuorumError", err)
		}
		if h.Owner != "web" || len(h.Errs) != 3 {
			t.Errorf("Inspect = %+v, want what two masters know", h)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := c.Inspect(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &quorum) {
			t.Errorf("Inspect = %v when ctx ends, want its error, and the masters'", err)
		}
		if _, err := c.Inspect(t.Context(), ""); err == nil {
			t.Error("Inspect of no name = nil, want an error")
		}
		c.Close()
		if _, err := c.Inspect(t.Context(), "a"); err != redlock.ErrClosed {
			t.Errorf("Inspect = %v on a closed Client, want ErrClosed", err)
		}
	})
}

// Text that a server stores is not trusted, since another program may have written it.
func TestInspectShowsNothingHostile(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		const random = "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT"
		for _, owner := range []string{"\x1b[2Jroot", "a\nb", strings.Repeat("x", 129), "ro\u202eot", "a b"} {
			hold(ms, "a", 0, 1, 2)
			for i := range 3 {
				ms.Master(i).Set("a", random+"@"+owner, 0)
			}
			if h := locktest.Inspected(t, c, "a"); h.Owner != "" || !h.Held || h.Left >= 0 {
				t.Errorf("Inspect = %+v, want no owner, and that the key never expires", h)
			}
		}
		for i := range 3 {
			ms.Master(i).Set("a", strings.Repeat("x", 1<<20), 0)
		}
		if h, err := c.Inspect(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "is not a lock") || h.Held {
			t.Errorf("Inspect of a long text = %+v, %v, want an error that says that it is not a lock", h, err)
		}
		for _, m := range c.Masters() {
			if m.State != redlock.MasterUp {
				t.Errorf("%s is %v, want it unharmed", m.Name, m.State)
			}
		}
	})
}
