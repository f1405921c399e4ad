package realtest_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// refusals are the ways in which a server refuses writes while it answers everything else.
var refusals = []struct {
	name       string
	begin, end func(t *testing.T, s *redisserver.Server)
	want       string // what the library says
}{
	{"its memory is full", func(t *testing.T, s *redisserver.Server) { do(t, s, "CONFIG", "SET", "maxmemory", "500kb") },
		func(t *testing.T, s *redisserver.Server) { do(t, s, "CONFIG", "SET", "maxmemory", "100mb") }, "OOM: its memory is full"},
	{"it cannot save its data", func(t *testing.T, s *redisserver.Server) {
		if err := os.MkdirAll(filepath.Join(s.Dir(), "dump.rdb", "x"), 0o700); err != nil { // no file can have this name
			t.Fatal(err)
		}
		do(t, s, "CONFIG", "SET", "save", "3600 1000000")
		do(t, s, "BGSAVE")
	}, func(t *testing.T, s *redisserver.Server) {
		if err := os.RemoveAll(filepath.Join(s.Dir(), "dump.rdb")); err != nil {
			t.Fatal(err)
		}
		do(t, s, "BGSAVE")
	}, "MISCONF: it cannot save its data"},
	{"it lacks a replica", func(t *testing.T, s *redisserver.Server) { do(t, s, "CONFIG", "SET", "min-replicas-to-write", "1") },
		func(t *testing.T, s *redisserver.Server) { do(t, s, "CONFIG", "SET", "min-replicas-to-write", "0") }, "NOREPLICAS: it has too few replicas"},
}

func TestAMasterThatRefusesWritesIsUnwritableUntilItAcceptsThemAgain(t *testing.T) {
	for _, unguarded := range []bool{false, true} {
		for _, row := range refusals {
			t.Run(row.name+map[bool]string{true: ", without the restart guard"}[unguarded], func(t *testing.T) {
				t.Parallel()
				servers := redisserver.AdoptedTB(t, 3)
				var log locktest.Buffer
				opts := busy()
				opts.DisableRestartGuard = unguarded
				opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
				c := openReal(t, servers, opts)
				row.begin(t, servers[0])
				// No lock is tried: a client finds out that uses its masters rarely.
				eventually(t, "the master is unwritable", func() bool { return c.Masters()[0].State == redlock.MasterUnwritable })
				if m := c.Masters()[0]; m.Err == nil || !strings.HasPrefix(m.Err.Error(), row.want) || m.Since.IsZero() {
					t.Errorf("the error of the master is %v since %v, want one that begins with %q", m.Err, m.Since, row.want)
				}
				if err := c.Ping(t.Context()); err != nil {
					t.Errorf("Ping with one such master: %v", err)
				}
				eventually(t, "it is logged", func() bool {
					return strings.Contains(log.String(), "masters grant no locks: they refuse writes") && strings.Contains(log.String(), row.want)
				})
				row.begin(t, servers[1])
				eventually(t, "Ping says why a quorum cannot grant", func() bool {
					err := c.Ping(t.Context())
					return err != nil && strings.Contains(err.Error(), row.want)
				})
				row.end(t, servers[0])
				row.end(t, servers[1])
				eventually(t, "all masters are up", func() bool { return locktest.States(c, redlock.MasterUp) == 3 && c.Ping(t.Context()) == nil })
				eventually(t, "the end is logged", func() bool { return strings.Contains(log.String(), "masters accept writes again") })
			})
		}
	}
}

func TestAClientThatConnectsSaysThatMastersRefuseWrites(t *testing.T) {
	for _, row := range refusals {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			servers := redisserver.AdoptedTB(t, 3)
			for _, s := range servers {
				row.begin(t, s)
			}
			c := open(t, busy(), addresses(servers)...)
			eventually(t, "all masters are unwritable", func() bool { return locktest.States(c, redlock.MasterUnwritable) == 3 })
			if err := c.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("Ping = %v, want it to say %q", err, row.want)
			}
			for _, s := range servers {
				row.end(t, s)
			}
			eventually(t, "a lock is granted", func() bool { return c.Locker("a").TryLock() })
		})
	}
}

func TestPingFailsIfTheUserMayNotUseThePrefix(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	c := openAs(t, servers, "~*", "&*", "+@all")
	keys := func(patterns ...any) {
		for _, s := range servers {
			do(t, s, "ACL", append([]any{"SETUSER", "shop", "resetkeys"}, patterns...)...)
		}
	}
	keys("~shop:*", "~redlock:*")
	err := c.Ping(t.Context())
	if err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("Ping of a user with the keys shop:* and no Prefix = %v, want NOPERM", err)
	}
	keys("~*")
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("Ping of a user with all keys = %v, want nil", err)
	}
}

func TestAnIdleClientSendsOneCommandASecondToFindOutWhetherWritesAreAccepted(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 1)
	openReal(t, servers, busy())
	errorReplies := infoNumber(t, servers[0], "stats", "total_error_replies")
	sent := func() int { return calls(t, servers[0], "set") }
	from := sent()
	eventually(t, "three are sent", func() bool { return sent() >= from+3 })
	if n := infoNumber(t, servers[0], "stats", "total_error_replies"); n != errorReplies {
		t.Errorf("%d error replies, want none", n-errorReplies)
	}
	if keys, err := redis.Strings(servers[0].Do("KEYS", "redlock-rights-*")); err != nil || len(keys) > 0 {
		t.Errorf("the keys %q, %v, want none", keys, err)
	}
}
