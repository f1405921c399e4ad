package realtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// rightsOfTheRule returns the commands of the rule with the least rights in docs/operations.md, which is what the doctor prints.
func rightsOfTheRule(t *testing.T) (rights []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rule := regexp.MustCompile(`(?m)^ACL SETUSER redlock reset .*$`).FindString(string(text))
	for _, word := range strings.Fields(rule) {
		if command, ok := strings.CutPrefix(word, "+"); ok {
			rights = append(rights, command)
		}
	}
	if len(rights) < 30 {
		t.Fatalf("the rule has %d commands, want all that a client sends: %s", len(rights), rule)
	}
	return rights
}

// kindsOfLocks return a lock of each kind.
var kindsOfLocks = []struct {
	name string
	of   func(c *redlock.Client, name string) taken
}{
	{"lock", func(c *redlock.Client, name string) taken { return c.Locker(name) }},
	{"fenced", func(c *redlock.Client, name string) taken {
		l, err := c.NewLocker(name, &redlock.LockOptions{Fencing: true})
		if err != nil {
			panic(err)
		}
		return l
	}},
	{"set", func(c *redlock.Client, name string) taken { return c.Locker(name, name+" 2") }},
	{"reader", func(c *redlock.Client, name string) taken { return c.RWLocker(name).RLocker() }},
	{"writer", func(c *redlock.Client, name string) taken { return c.RWLocker(name).Locker() }},
	{"permit", func(c *redlock.Client, name string) taken { return &onePermit{of: c.Semaphore(name, 1)} }},
	{"fenced permit", func(c *redlock.Client, name string) taken {
		s, err := c.NewSemaphore(name, 1, &redlock.LockOptions{Fencing: true})
		if err != nil {
			panic(err)
		}
		return &onePermit{of: s}
	}},
}

// A taken is a lock.
type taken interface {
	LockContext(context.Context) error
	UnlockContext(context.Context) error
}

// A onePermit is a permit of a semaphore as a lock.
type onePermit struct {
	of     *redlock.Semaphore
	permit *redlock.Permit
}

func (p *onePermit) LockContext(ctx context.Context) (err error) {
	p.permit, err = p.of.Acquire(ctx)
	return err
}

func (p *onePermit) UnlockContext(ctx context.Context) error { return p.permit.ReleaseContext(ctx) }

// TestEachSingleRightMissing: a client that lacks one of the least rights either takes turns with one that has all, or is refused by
// errors that name the right, or say how it is found. Nobody else is kept from the lock.
func TestEachSingleRightMissing(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	rights := rightsOfTheRule(t)
	other := openReal(t, servers, nil)
	for i, right := range rights {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			var urls []string
			user := fmt.Sprint("user", i)
			rules := []any{"SETUSER", user, "reset", "on", ">s3cr3t", "~*", "&redlock:wake:*"}
			for _, r := range rights {
				if r != right {
					rules = append(rules, "+"+r)
				}
			}
			for _, s := range servers {
				do(t, s, "ACL", rules...)
				urls = append(urls, "redis://"+user+":s3cr3t@"+s.Addr())
			}
			lacking := open(t, nil, urls...)
			eventually(t, "it is connected", func() bool { return locktest.States(lacking, redlock.MasterConnecting) == 0 })
			names := func(what string, err error) {
				if text := strings.ToLower(err.Error()); !strings.Contains(text, right) && !strings.Contains(text, strings.ReplaceAll(right, "|", " ")) &&
					!strings.Contains(text, "redlock doctor names it") {
					t.Errorf("%s: %v, want the right in it, or how to find it", what, err)
				}
			}
			if err := lacking.Ping(t.Context()); err != nil { // no master votes
				names("Ping", err)
				return
			}
			for _, kind := range kindsOfLocks {
				name := fmt.Sprintf("%d %s", i, kind.name)
				if err := turnsOf(t, kind.of(lacking, name), kind.of(other, name), kind.name); err != nil {
					names(kind.name, err)
				}
			}
		})
	}
}

// TestAWaitWithoutARightNamesItThoughTheLockIsHeld: a client may not take permits. It finds that out by its first attempt. Then somebody else has the
// permit, and goes on to have it. The error of the wait still says that a right is missing.
func TestAWaitWithoutARightNamesItThoughTheLockIsHeld(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	var urls []string
	for _, s := range servers {
		do(t, s, "ACL", "SETUSER", "few", "reset", "on", ">s3cr3t", "~*", "&*", "+@all", "-zadd")
		urls = append(urls, "redis://few:s3cr3t@"+s.Addr())
	}
	attempts := make(chan error, 100)
	lacking := open(t, &redlock.Options{Trace: &redlock.Trace{AttemptDone: func(_ context.Context, i redlock.AttemptInfo) {
		select {
		case attempts <- i.Err:
		default:
		}
	}}}, urls...)
	eventually(t, "it is connected", func() bool { return locktest.States(lacking, redlock.MasterConnecting) == 0 })
	until := func(want error) {
		t.Helper()
		for {
			select {
			case err := <-attempts:
				if errors.Is(err, want) {
					return
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("no attempt has failed with: %v", want)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waited := make(chan error, 1)
	go func() {
		_, err := lacking.Semaphore("permits", 1).Acquire(ctx)
		waited <- err
	}()
	until(redlock.ErrDenied)
	p, err := openReal(t, servers, nil).Semaphore("permits", 1).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	until(redlock.ErrHeld)
	cancel()
	if err := <-waited; !errors.Is(err, redlock.ErrDenied) {
		t.Errorf("%v, want ErrDenied", err)
	}
}

// A stay is from when until when somebody had a lock.
type stay struct{ from, to time.Time }

// turnsOf has two clients take turns. It returns the error of the first, if that is refused.
func turnsOf(t *testing.T, lacking, other taken, kind string) error {
	t.Helper()
	var lost atomic.Int32
	var mu sync.Mutex // guards stays
	var stays []stay
	enter := func(l taken, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		if err := l.LockContext(ctx); err != nil {
			return err
		}
		s := stay{from: time.Now()}
		time.Sleep(time.Millisecond)
		s.to = time.Now()
		err := l.UnlockContext(t.Context())
		if err == nil { // the lease was valid all the time
			mu.Lock()
			stays = append(stays, s)
			mu.Unlock()
		}
		if err != nil && kind == "permit" && strings.Contains(err.Error(), "doctor names it") { // a script was refused a command
			t.Errorf("a permit was granted that cannot be released: %v", err)
		}
		// A lock that is granted is valid for 400 ms at first. It is lost if the process has no processor for so long.
		if errors.Is(err, redlock.ErrLost) && lost.Add(1) <= 2 {
			return nil
		}
		return err
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := enter(other, 30*time.Second); err != nil {
				stopped <- err
				return
			}
		}
	}()
	again := func(err error) bool { // no error that tells what it lacks
		return err == nil || errors.Is(err, redlock.ErrHeld) || strings.Contains(err.Error(), "no answer") // of a busy machine
	}
	err := enter(lacking, 2*time.Second)
	for n := 0; n < 3 && again(err); n++ {
		err = enter(lacking, 30*time.Second)
	}
	close(stop)
	if failed := <-stopped; failed != nil {
		t.Errorf("%s: the client with all rights: %v", kind, failed)
	}
	slices.SortFunc(stays, func(a, b stay) int { return a.from.Compare(b.from) })
	for i, s := range stays[min(1, len(stays)):] {
		if kind != "reader" && s.from.Before(stays[i].to) {
			t.Errorf("%s: two have held it together for %v", kind, stays[i].to.Sub(s.from))
		}
	}
	return err
}
