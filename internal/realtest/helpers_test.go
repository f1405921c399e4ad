package realtest_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// openAs returns a Client of real servers that logs in as a user with rules.
func openAs(t *testing.T, servers []*redisserver.Server, rules ...any) *redlock.Client {
	t.Helper()
	var urls []string
	for _, s := range servers {
		if _, err := s.Do("ACL", append([]any{"SETUSER", "shop", "on", ">s3cr3t"}, rules...)...); err != nil {
			t.Fatal(err)
		}
		urls = append(urls, "redis://shop:s3cr3t@"+s.Addr())
	}
	c := open(t, busy(), urls...)
	// All are connected. A user without rights on the prefix of the Client, which is empty, may have rights on names.
	if err := c.Ping(t.Context()); err != nil && !errors.Is(err, redlock.ErrDenied) {
		t.Fatal(err)
	}
	return c
}

// nodeTimeout is for tests that expect answers. A server on a busy machine may answer later than the default
// allows.
const nodeTimeout = 4 * time.Second

// dialTimeout is for tests that need the first connection. On a busy machine a connection with TLS and logging
// in may take longer than the default allows.
const dialTimeout = 10 * time.Second

// busy returns the default options, except for the time-outs.
func busy() *redlock.Options {
	return &redlock.Options{NodeTimeout: nodeTimeout, DialTimeout: dialTimeout}
}

// dialling returns opts with dialTimeout, unless they have a DialTimeout. nil stands for busy.
func dialling(opts *redlock.Options) *redlock.Options {
	if opts == nil {
		return busy()
	}
	all := *opts
	if all.DialTimeout == 0 {
		all.DialTimeout = dialTimeout
	}
	return &all
}

// fenced returns options with fencing.
func fenced() *redlock.Options {
	opts := locktest.Fenced(nil)
	opts.NodeTimeout = nodeTimeout
	return opts
}

// open returns a Client that is closed at the end of the test. It does not wait for the masters. nil stands
// for busy.
func open(t *testing.T, opts *redlock.Options, urls ...string) *redlock.Client {
	t.Helper()
	c, err := redlock.Open(urls, dialling(opts))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// openReal returns a Client that is connected to real servers, a quorum of which may vote. nil stands for busy.
func openReal(tb testing.TB, servers []*redisserver.Server, opts *redlock.Options) *redlock.Client {
	tb.Helper()
	c, err := redlock.Open(addresses(servers), dialling(opts))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	eventually(tb, "it is connected", func() bool { return locktest.States(c, redlock.MasterConnecting) == 0 })
	// The time-outs of some options are short.
	eventually(tb, "a quorum answers", func() bool { return c.Ping(context.Background()) == nil })
	return c
}

func addresses(servers []*redisserver.Server) []string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return all
}

// patient returns options for tests in which a vote must not get lost because the
// machine is busy, and leases are not renewed.
func patient() *redlock.Options {
	return &redlock.Options{LockOptions: redlock.LockOptions{TTL: 10 * time.Second, RenewEvery: -1}, NodeTimeout: nodeTimeout}
}

// eventually waits until ok returns true. It fails tb after a time that no healthy machine needs.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	tb.Fatalf("it never came about that %s", what)
}

// lockRenewed locks l, whose TTL is the default, until a lease has been renewed once, so that it is valid for seconds. A lock that is
// granted is valid for 400 ms at first. On a busy machine it may be lost before its first renewal.
func lockRenewed(ctx context.Context, l *redlock.Locker) error {
	for {
		if err := l.LockContext(ctx); err != nil {
			return err
		}
		for lease := l.Lease(); lease.Valid(); time.Sleep(time.Millisecond) {
			if time.Until(lease.Until()) > 5*time.Second {
				return nil
			}
		}
		l.Unlock()
	}
}

// wantQuarantined fails t unless the only master of c is quarantined before it grants a lock, for the reason why. On a busy machine,
// c may have connected again by the end. Then it knows only for how long the memory is known.
func wantQuarantined(t *testing.T, c *redlock.Client, why string) {
	t.Helper()
	var err error
	eventually(t, "the master is quarantined", func() bool {
		if err = c.Locker("b").TryLockContext(t.Context()); err == nil {
			t.Fatal("a lock is granted")
		}
		return locktest.States(c, redlock.MasterQuarantined) == 1
	})
	if err = c.Locker("b").TryLockContext(t.Context()); err == nil || errors.Is(err, redlock.ErrHeld) ||
		!strings.Contains(err.Error(), "in quarantine until ") || !strings.Contains(err.Error(), why) && !strings.Contains(err.Error(), known) {
		t.Errorf("TryLockContext = %v, want no lock, since it is in quarantine: %s", err, why)
	}
}

// do executes a command at a server.
func do(t *testing.T, s *redisserver.Server, command string, args ...any) any {
	t.Helper()
	reply, err := s.Do(command, args...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// record returns a server's record of restarts.
func record(t *testing.T, s *redisserver.Server) string {
	t.Helper()
	text, err := redis.String(s.Do("GET", incarnation.Key))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		t.Fatal(err)
	}
	return text
}

// left returns the keys of servers, with their members if they are queues. It leaves out what stays for a time: the records of
// restarts, and what servers note about clients that wait.
func left(tb testing.TB, servers []*redisserver.Server) (keys []string) {
	tb.Helper()
	for _, s := range servers {
		all, err := redis.Strings(s.Do("KEYS", "*"))
		if err != nil {
			tb.Fatal(err)
		}
		for _, key := range all {
			if key != incarnation.Key && !strings.HasPrefix(key, "redlock:waiter:") {
				members, _ := s.Do("ZRANGE", key, 0, -1, "WITHSCORES")
				keys = append(keys, fmt.Sprintf("%s: %s %q", s.Addr(), key, members))
			}
		}
	}
	return keys
}

// wantEmpty waits until no key of a lock is left. The queue of a lock that was passed on to a client that no longer waits is
// kept for a second.
func wantEmpty(tb testing.TB, servers []*redisserver.Server) {
	tb.Helper()
	var keys []string
	defer func() {
		if len(keys) > 0 {
			tb.Logf("left: %s", keys)
		}
	}()
	eventually(tb, "no key is left", func() bool {
		keys = left(tb, servers)
		return len(keys) == 0
	})
}

// calls returns how often a server has executed a command.
func calls(tb testing.TB, s *redisserver.Server, command string) int {
	tb.Helper()
	return infoNumber(tb, s, "commandstats", "cmdstat_"+command+":calls=")
}

// connections returns how many connections a server has, including that of the test.
func connections(tb testing.TB, s *redisserver.Server) int {
	tb.Helper()
	return infoNumber(tb, s, "clients", "connected_clients:")
}

// infoNumber returns the number that follows a word in a section of INFO.
func infoNumber(tb testing.TB, s *redisserver.Server, section, word string) int {
	tb.Helper()
	info, err := redis.String(s.Do("INFO", section))
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, word)
	n, _ := strconv.Atoi(rest[:strings.IndexFunc(rest+".", func(r rune) bool { return r < '0' || r > '9' })])
	return n
}

// changes are the states of masters that a Trace receives.
type changes struct{ locktest.Buffer }

func (c *changes) trace() *redlock.Trace {
	return &redlock.Trace{MasterChanged: func(_ context.Context, s redlock.MasterStatus) {
		fmt.Fprintf(c, "\n%s is %s: %v", s.Name, s.State, s.Err)
	}}
}
