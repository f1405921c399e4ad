package contract_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestATokenNamesItsOwner(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		opts redlock.Options
		want string // after the random part
	}{
		{"default", redlock.Options{}, fmt.Sprintf("@%s/%d", host, os.Getpid())},
		{"chosen", redlock.Options{Owner: "billing@eu-1:worker/7"}, "@billing@eu-1:worker/7"},
		{"the longest", redlock.Options{Owner: strings.Repeat("x", 128)}, "@" + strings.Repeat("x", 128)},
		{"disabled", redlock.Options{DisableOwner: true}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				l := connected(t, ms, &row.opts).Locker("a")
				l.Lock()
				token := l.Lease().Token()
				if len(token) < 27 || token[27:] != row.want {
					t.Errorf("Token = %q, want 27 random bytes and %q", token, row.want)
				}
				synctest.Wait() // for the masters that the quorum did not need
				for i, value := range ms.Get("a") {
					if value != token {
						t.Errorf("master %d has %q under the key, want the token, %q", i, value, token)
					}
				}
				l.Unlock()
				wantFree(t, ms, "a")
			})
		})
	}
}

func TestAnOwnerThatCannotBeIsAnErrorThatNamesTheField(t *testing.T) {
	for _, row := range []struct {
		name string
		opts redlock.Options
		want string
	}{
		{"too long", redlock.Options{Owner: strings.Repeat("x", 129)}, "Options.Owner is 129 bytes long, the limit is 128"},
		{"a space", redlock.Options{Owner: "web 1"}, `Options.Owner is "web 1", want printable ASCII`},
		{"a line break", redlock.Options{Owner: "web\n1"}, `Options.Owner is "web\n1", want printable ASCII`},
		{"not ASCII", redlock.Options{Owner: "büro"}, "Options.Owner is \"büro\", want printable ASCII"},
		{"disabled", redlock.Options{Owner: "web-1", DisableOwner: true}, `Options.Owner is "web-1", but DisableOwner is set`},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := redlock.New([]*redis.Pool{somePool()}, &row.opts)
			if err == nil {
				c.Close()
			}
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("New = %v, want %q", err, row.want)
			}
		})
	}
}

// ownerOf returns the owner that an error of an acquisition names.
func ownerOf(err error) string {
	var quorum *redlock.QuorumError
	if !errors.As(err, &quorum) {
		return "no QuorumError"
	}
	return quorum.Owner
}

// peeks returns how often a master was asked who holds a lock. A client that connects asks for the record in the same way.
func peeks(ms *redlocktest.Masters) (n int) {
	for _, command := range ms.Master(0).Commands() {
		if strings.HasPrefix(command, "GETRANGE ") && !strings.HasPrefix(command, "GETRANGE redlock:incarnation ") {
			n++
		}
	}
	return n
}

func TestAWaitNamesTheHolder(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		var traced atomic.Value
		opts := log.seldom()
		opts.Trace = &redlock.Trace{AttemptDone: func(_ context.Context, info redlock.AttemptInfo) { traced.Store(ownerOf(info.Err)) }}
		holder, waiter := connected(t, ms, &redlock.Options{Owner: "web-1/11"}), connected(t, ms, opts)
		l := holder.Locker("a")
		l.Lock()
		synctest.Wait()     // all masters have granted it
		ms.Master(4).Stop() // the others are a quorum
		locked := make(chan struct{})
		go func() {
			waiter.Locker("a").Lock()
			close(locked)
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		err := ms.Open(nil).Locker("a").LockContext(ctx)
		if ownerOf(err) != "web-1/11" || !errors.Is(err, redlock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) || !strings.HasSuffix(err.Error(), "); the holder is web-1/11)") {
			t.Errorf("LockContext = %v, want that web-1/11 holds the lock", err)
		}
		if got := traced.Load(); got != "web-1/11" {
			t.Errorf("Trace.AttemptDone names the owner %v, want web-1/11", got)
		}
		log.Want(t, 1, "still waiting for locks", "names=a waited=1s", "holders=web-1/11")
		// The answers to polls say so.
		if n := peeks(ms); n > 0 {
			t.Errorf("a master was asked %d times in 3.5 s for the owner, want that no claim asks", n)
		}
		l.Unlock()
		<-locked
	})
}

func TestAWaitNamesTheReaders(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		var readers []*redlock.RWLocker
		for _, opts := range []*redlock.Options{{Owner: "web-2"}, {Owner: "web-1"}, {DisableOwner: true}} {
			l := connected(t, ms, opts).RWLocker("a")
			l.RLock()
			l.RLock()
			readers = append(readers, l)
		}
		locked := make(chan struct{})
		waiter := connected(t, ms, log.seldom())
		go func() {
			waiter.RWLocker("a").Lock()
			close(locked)
		}()
		const want = "; held by 3 readers (web-1, web-2 and 1 more))"
		lockers := []*redlock.Locker{connected(t, ms, nil).Locker("a"), connected(t, ms, nil).RWLocker("a").Locker()}
		for _, l := range lockers {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			err := l.LockContext(ctx)
			cancel()
			q := (*redlock.QuorumError)(nil)
			if !errors.As(err, &q) || !strings.HasSuffix(err.Error(), want) || !slices.Equal(q.Readers, []string{"", "web-1", "web-2"}) || q.Owner != "" {
				t.Errorf("LockContext = %v, want that three readers hold the lock", err)
			}
		}
		log.Want(t, 1, "still waiting for locks", "names=a", `holders="3 readers (web-1, web-2 and 1 more)"`)
		for _, l := range readers[1:] {
			l.RUnlock()
			l.RUnlock()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := lockers[0].LockContext(ctx); err == nil || !strings.HasSuffix(err.Error(), "; held by 1 reader (web-2))") {
			t.Errorf("LockContext = %v, want that web-2 reads", err)
		}
		if err := readers[0].Locker().TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) || err.Error() != "redlock: lock is held by readers of this Client" {
			t.Errorf("TryLockContext of a Client whose goroutines read = %v", err)
		}
		readers[0].RUnlock()
		readers[0].RUnlock()
		<-locked
		ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := lockers[0].LockContext(ctx); err == nil || strings.Contains(err.Error(), "held by 1") || !strings.Contains(err.Error(), "the holder is ") {
			t.Errorf("LockContext = %v, want that a writer holds the lock", err)
		}
	})
}

func TestAHolderWithoutAnOwnerIsNotNamed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		hold(ms, "a", 0, 1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := connected(t, ms, nil).Locker("a").LockContext(ctx)
		if ownerOf(err) != "" || !errors.Is(err, redlock.ErrHeld) || strings.Contains(err.Error(), "the holder is") {
			t.Errorf("LockContext = %v, want no owner", err)
		}
	})
}

// When another client holds the lock, the error must not name an owner who has released it.
func TestAnOwnerIsForgottenWhenTheHolderChanges(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		for _, want := range []string{"web-1", "", "web-2"} {
			for i := range 3 {
				token := "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT"
				if want != "" {
					token += "@" + want
				}
				ms.Master(i).Set("a", token, time.Hour)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			if err := c.Locker("a").LockContext(ctx); ownerOf(err) != want {
				t.Errorf("LockContext = %v, want the owner %q", err, want)
			}
			cancel()
		}
		time.Sleep(3 * time.Second)
		for i := range 3 {
			ms.Master(i).Set("a", "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT", time.Hour)
		}
		if err := c.Locker("a").TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) || ownerOf(err) != "" {
			t.Errorf("TryLockContext = %v, want no owner", err)
		}
	})
}

func TestShortWaitsDoNotAskForTheOwner(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		holder, waiter := connected(t, ms, nil), connected(t, ms, nil)
		l, next := holder.Locker("a"), waiter.Locker("a")
		for range 20 {
			l.Lock()
			if next.TryLock() {
				t.Fatal("TryLock has taken a lock that is held")
			}
			locked := make(chan struct{})
			go func() {
				next.Lock()
				close(locked)
			}()
			time.Sleep(90 * time.Millisecond)
			l.Unlock()
			<-locked
			next.Unlock()
		}
		if n := peeks(ms); n != 0 {
			t.Errorf("a master was asked %d times for an owner, want never", n)
		}
	})
}

func TestOneLineNamesAllHolders(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		waiter := connected(t, ms, log.seldom())
		var holders []*redlock.Locker
		for _, owner := range []string{"web-1", "web-2"} {
			for _, name := range []string{"a", "b"} {
				l := connected(t, ms, &redlock.Options{Owner: owner}).Locker(owner + name)
				take(l)
				holders = append(holders, l)
				go locktest.Pass(waiter.Locker(owner + name))
			}
		}
		time.Sleep(5 * time.Second)
		log.Want(t, 1, "still waiting for locks", `names="web-1a, web-1b, web-2a, web-2b"`, `holders="web-1, web-2"`)
		for _, l := range holders {
			l.Unlock()
		}
		time.Sleep(10 * time.Second)
	})
}

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

func TestInspectNamesReadersWhoWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		as := func(owner string) *redlock.RWLocker {
			return connected(t, ms, &redlock.Options{Owner: owner}).RWLocker("stock")
		}
		l := as("web-1/11").Locker()
		l.Lock()
		go locktest.Pass(as("web-2/22").RLocker())
		time.Sleep(time.Second)
		go locktest.Pass(as("web-3/33").Locker())
		time.Sleep(time.Second)
		h := locktest.Inspected(t, connected(t, ms, nil), "stock")
		var waiters []string
		for _, w := range h.Waiters {
			waiters = append(waiters, fmt.Sprint(w.Owner, " ", time.Since(w.Since).Round(time.Second), " ", w.Reads))
		}
		if want := []string{"web-2/22 2s true", "web-3/33 1s false"}; h.Waiting != 2 || !slices.Equal(waiters, want) {
			t.Errorf("%d wait, %v, want 2, %v", h.Waiting, waiters, want)
		}
		l.Unlock()
		time.Sleep(time.Second)
	})
}

// The masters do not know whether the lock is kept. Its token says that it may be.
func TestInspectSaysThatALockMayBeKept(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := keeping(time.Hour)
		opts.Owner = "web-1/11"
		a, viewer := connected(t, ms, opts).Locker("stock"), connected(t, ms, nil)
		check := func(when string, want bool) {
			t.Helper()
			synctest.Wait()
			if h := locktest.Inspected(t, viewer, "stock"); !h.Held || h.Owner != "web-1/11" || h.MayBeKept != want {
				t.Errorf("%s: Held = %t, Owner = %q, MayBeKept = %t, want %t", when, h.Held, h.Owner, h.MayBeKept, want)
			}
		}
		a.Lock()
		check("while a goroutine holds it", true)
		a.Unlock()
		check("while it is kept", true)
		locktest.Pass(viewer.Locker("stock")) // recalls it
		a.Lock()
		check("after another client has wanted it", false)
		a.Unlock()
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
