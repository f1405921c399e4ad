package realtest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/proxy"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// These tests run the restart guard on real servers. Where a test does not wait for a quarantine, it is that of
// the default MaxTTL, 12 s.

// This is the example of the algorithm's specification: client 1 holds A, B and C of five masters, C restarts
// without its memory, and client 2 acquires C, D and E.
func TestAMasterThatRestartsWithoutItsMemoryMakesNoSecondHolder(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		before  bool // client 2 was connected before the restart
		disable bool
		two     bool // whether there are two holders
	}{
		{name: "without the guard, client 2 was there before", before: true, disable: true, two: true},
		{name: "without the guard, client 2 comes later", disable: true, two: true},
		{name: "client 2 was there before", before: true},
		{name: "client 2 comes later"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			servers := redisserver.AdoptedTB(t, 5)
			opts := patient()
			opts.DisableRestartGuard = row.disable
			one := openReal(t, servers, opts)
			first := one.Locker("a")
			var second *redlock.Client
			if row.before {
				second = openReal(t, servers, opts)
				eventually(t, "client 2 is connected", func() bool { return locktest.States(second, redlock.MasterUp) == 5 })
			}
			for _, s := range servers[3:] { // so that client 1 gets A, B and C alone
				do(t, s, "SET", "a", "somebody else's")
				do(t, s, "CONFIG", "SET", "slowlog-max-len", 10_000)
				do(t, s, "CONFIG", "SET", "slowlog-log-slower-than", 0) // it lists all commands: a count would be one of heartbeats, too
			}
			if err := first.TryLockContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, s := range servers[3:] {
				eventually(t, "client 1 is refused there", func() bool {
					return regexp.MustCompile(`\[SET a \S+ NX `).MatchString(fmt.Sprintf("%s", do(t, s, "SLOWLOG", "GET", 10_000)))
				})
				do(t, s, "CONFIG", "SET", "slowlog-log-slower-than", -1)
				do(t, s, "DEL", "a")
			}
			if err := servers[2].Restart(); err != nil {
				t.Fatal(err)
			}
			if !row.before {
				second = open(t, opts, addresses(servers)...)
			}
			l, locked := second.Locker("a"), false
			eventually(t, "client 2 has the lock, or knows better", func() bool {
				locked = locked || l.TryLock()
				return locked || locktest.States(second, redlock.MasterQuarantined) == 1
			})
			locked = locked || l.TryLock()
			if !first.Lease().Valid() {
				t.Fatalf("client 1 has lost its lease: %v", first.Lease().Err())
			}
			if locked != row.two {
				t.Fatalf("client 2 has the lock: %v, want %v; its masters: %v", locked, row.two, second.Masters())
			}
			if row.two {
				return
			}
			// The key is gone at C, and at D and E, where the test has deleted the other's.
			eventually(t, "client 1 is connected to C again", func() bool {
				return locktest.States(one, redlock.MasterQuarantined) == 1 && locktest.States(one, redlock.MasterUp) == 4
			})
			if err := first.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrLost) {
				t.Errorf("UnlockContext = %v, want ErrLost: no quorum has the key", err)
			}
			if err := l.LockContext(t.Context()); err != nil {
				t.Errorf("client 2 does not get the lock from the other four: %v", err)
			}
		})
	}
}

// A forgetting is a way in which a master loses data.
type forgetting struct {
	name     string
	args     []string // of the server
	keeps    bool     // the clients' connections stay, as behind a proxy
	database int      // of the clients
	forget   func(t *testing.T, s *redisserver.Server, p *proxy.Proxy)
	keptKey  bool   // nothing is lost, but no client can know that
	why      string // the reason that a client gives
}

const (
	absent    = "it has no memory of redlock"
	restarted = "it was restarted, or another server has taken its place"
	swapped   = "its databases were swapped"
	known     = "its memory is known for "
)

func restart(t *testing.T, s *redisserver.Server, p *proxy.Proxy) {
	t.Helper()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	p.Aim(s.Addr())
}

// forgetBy returns a forgetting by a command.
func forgetBy(command string, args ...any) func(*testing.T, *redisserver.Server, *proxy.Proxy) {
	return func(t *testing.T, s *redisserver.Server, _ *proxy.Proxy) { do(t, s, command, args...) }
}

// promote replaces a server by its replica, which has not received the last writes.
func promote(t *testing.T, s *redisserver.Server, p *proxy.Proxy) {
	t.Helper()
	host, port, _ := strings.Cut(s.Addr(), ":")
	do(t, s, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	do(t, s, "DEL", "a")
	replica := redisserver.StartTB(t, 1)[0]
	do(t, replica, "REPLICAOF", host, port)
	eventually(t, "the replica has the record", func() bool { return record(t, replica) == record(t, s) })
	do(t, replica, "REPLICAOF", "NO", "ONE")
	do(t, s, "SET", "a", "token")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	p.Aim(replica.Addr())
}

// loseTail restarts a server with an append-only file that ends before the last write.
func loseTail(t *testing.T, s *redisserver.Server, p *proxy.Proxy) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Dir(), "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the append-only files: %v, %v, want one", files, err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	const last = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n"
	at := strings.LastIndex(string(text), last)
	if at < 0 || !strings.Contains(string(text[:at]), incarnation.Key) {
		t.Fatalf("the append-only file has not the record and then the key: %q", text)
	}
	if err := os.Truncate(files[0], int64(at)); err != nil {
		t.Fatal(err)
	}
	restart(t, s, p)
	if record(t, s) == "" {
		t.Fatal("the record is gone, too")
	}
}

// persistent makes a server write everything to its append-only file before it answers. With appendfsync everysec
// it may delay a write until the one before is synced.
var persistent = []string{"--appendonly", "yes", "--appendfsync", "no"}

var forgettings = []forgetting{
	{name: "a restart without persistence", forget: restart, why: absent},
	{name: "a restart whose append-only file has lost its end", args: persistent, forget: loseTail, why: restarted},
	{name: "a restart with all of the append-only file", args: persistent, forget: restart, keptKey: true, why: restarted},
	{name: "a restart behind a proxy that keeps connections", keeps: true, forget: restart, why: absent},
	{name: "the same, with all of the append-only file", keeps: true, args: persistent, forget: restart, keptKey: true, why: restarted},
	{name: "the same, with the end lost", keeps: true, args: persistent, forget: loseTail, why: restarted},
	{name: "the promotion of a replica", forget: promote, why: restarted},
	{name: "the promotion of a replica behind a proxy that keeps connections", keeps: true, forget: promote, why: restarted},
	{name: "FLUSHALL", forget: forgetBy("FLUSHALL"), why: absent},
	{name: "FLUSHDB", forget: forgetBy("FLUSHDB", "ASYNC"), why: absent},
	{name: "SWAPDB with an empty database", forget: forgetBy("SWAPDB", 0, 7), why: absent},
	{name: "SWAPDB of two databases with records", forget: forgetBy("SWAPDB", 0, 1), why: swapped},
	{name: "SWAPDB, seen from the other", database: 1, forget: forgetBy("SWAPDB", 1, 0), why: swapped},
	{name: "the loss of the record", forget: forgetBy("DEL", incarnation.Key), keptKey: true, why: absent},
	{name: "a record that is none", forget: forgetBy("SET", incarnation.Key, "junk"), keptKey: true, why: absent},
	{name: "a record of another type", forget: func(t *testing.T, s *redisserver.Server, _ *proxy.Proxy) {
		do(t, s, "DEL", incarnation.Key)
		do(t, s, "LPUSH", incarnation.Key, "junk")
	}, keptKey: true, why: absent},
	{name: "a record from the future", forget: func(t *testing.T, s *redisserver.Server, _ *proxy.Proxy) {
		run, _, _ := strings.Cut(record(t, s), " ")
		do(t, s, "SET", incarnation.Key, run+" 9007199254740991 0 0 -")
	}, keptKey: true, why: "its clock was set back"},
}

func TestTheVotesOfAMasterThatHasForgottenDoNotCount(t *testing.T) {
	t.Parallel()
	for _, row := range forgettings {
		for _, before := range []bool{true, false} {
			name := row.name + ", found by a new client"
			if before {
				name = row.name + ", found by a connected client"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				testForgetting(t, row, before)
			})
		}
	}
}

func testForgetting(t *testing.T, row forgetting, before bool) {
	s := redisserver.StartTB(t, 1, row.args...)[0]
	p := proxy.TB(t, s.Addr())
	if row.keeps {
		p.KeepAll()
	}
	url := "redis://" + p.Addr() + []string{"/0", "/1"}[row.database]
	for _, database := range []int{0, 1} {
		conn, err := redis.Dial("tcp", s.Addr(), redis.DialDatabase(database))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := incarnation.Adopt(conn, 0, 0); err != nil {
			t.Fatal(err)
		}
		if database == row.database { // another client's lock
			if _, err := conn.Do("SET", "a", "token"); err != nil {
				t.Fatal(err)
			}
		}
		conn.Close()
	}
	if before {
		var log changes
		opts := patient()
		opts.Trace = log.trace()
		c := open(t, opts, url)
		defer c.Close() // while the server still runs, since Close would wait for it
		// On a busy machine its first connection may be reset.
		eventually(t, "the client is connected", func() bool { return c.Locker("free").TryLock() })
		row.forget(t, s, p)
		wantQuarantined(t, c, row.why)
		// The subscription may be the first to notice: the new server does not know that it is one.
		if row.keeps && !strings.Contains(log.String(), "down: it may have forgotten locks: ") && !strings.Contains(log.String(), "down: unexpected reply") {
			t.Errorf("the client says:%s\nwant it to have ended its connection, since a probe was odd", log.String())
		}
	} else {
		row.forget(t, s, p)
		wantQuarantined(t, open(t, patient(), url), row.why)
	}
	// A client that connects now finds it out, too.
	wantQuarantined(t, open(t, patient(), url), known)
	conn, err := redis.Dial("tcp", p.Addr(), redis.DialDatabase(row.database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := redis.Int(conn.Do("EXISTS", "a")); err != nil || (n == 1) != row.keptKey {
		t.Errorf("the key is there %d times (%v), want the test to be of a loss: %v", n, err, !row.keptKey)
	}
	eventually(t, "what was granted and did not count is undone", func() bool {
		n, err := redis.Int(conn.Do("EXISTS", "b"))
		return err == nil && n == 0
	})
}

func TestAnAlmostValidRecordIsReplaced(t *testing.T) {
	t.Parallel()
	s := redisserver.AdoptedTB(t, 1)[0]
	run, _, _ := strings.Cut(record(t, s), " ")
	for _, text := range []string{" 1 0 x y", " 1 0 ADOPTED", " 1 0 ", " 1 0\nfoo", " 1 0 adopted since"} {
		do(t, s, "SET", incarnation.Key, run+text)
		c := open(t, patient(), s.Addr())
		wantQuarantined(t, c, absent)
		c.Close() // otherwise it may replace the next record before the next client has seen it
	}
}
