package main

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// listOf returns what --masters takes.
func listOf(servers []*redisserver.Server) string {
	var list []string
	for _, s := range servers {
		list = append(list, s.Addr())
	}
	return strings.Join(list, ",")
}

// do sends a command to a server, which must not answer by an error.
func do(t *testing.T, s *redisserver.Server, command string, args ...any) any {
	t.Helper()
	reply, err := s.Do(command, args...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// openQuietly opens a client that logs nothing, until the test ends. Unless opts say otherwise, it has more patience
// than the default: servers on a busy machine connect and answer late.
func openQuietly(t *testing.T, masters string, opts redlock.Options) *redlock.Client {
	t.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	if opts.NodeTimeout == 0 && opts.LockOptions.TTL == 0 {
		opts.NodeTimeout = nodeTimeout
	}
	if opts.DialTimeout == 0 {
		opts.DialTimeout = 15 * time.Second
	}
	c, err := redlock.Open(strings.Split(masters, ","), &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestAdoptRefusesWhileSomebodyMayHoldALock(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		flags   []string
		arrange func(t *testing.T, servers []*redisserver.Server, masters string)
		want    string // what is printed of the first server, after its address
	}{
		{"a client is connected", nil, func(t *testing.T, servers []*redisserver.Server, masters string) {
			openQuietly(t, masters, redlock.Options{})
			until(t, func() bool { return len(listening(t, servers[0])) == 1 })
		}, "connected clients that may hold locks: 1"},
		{"a master has a lock of redlock", nil, func(t *testing.T, servers []*redisserver.Server, masters string) {
			// This client holds the lock, does not listen for wake-ups, and writes no record.
			c := openQuietly(t, masters, redlock.Options{DisableWakeups: true, DisableRestartGuard: true})
			if err := c.Locker("stock").LockContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			until(t, func() bool { return do(t, servers[0], "EXISTS", "stock") == int64(1) }) // this server may receive it last
		}, `it has what looks like a lock, "stock", which expires in `},
		{"a master has a lock of another library", nil, func(t *testing.T, servers []*redisserver.Server, _ string) {
			do(t, servers[0], "SET", "stock", "2Q==abcdefghij", "PX", 60_000)
		}, `it has what looks like a lock, "stock", which expires in `},
		{"a lock stands among much other data", nil, func(t *testing.T, servers []*redisserver.Server, _ string) {
			do(t, servers[0], "EVAL", "for i = 1, 5000 do redis.call('SET', 'user:' .. i, '{}', 'PX', 60000) end", 0)
			do(t, servers[0], "SET", "stock", "2Q==abcdefghij", "PX", 60_000)
		}, `it has what looks like a lock, "stock", which expires in `},
		{"somebody holds a permit of a semaphore", nil, func(t *testing.T, servers []*redisserver.Server, _ string) {
			do(t, servers[0], "HSET", "redlock:slots:gpus", "0", "token")
			do(t, servers[0], "ZADD", "redlock:until:gpus", time.Now().Add(time.Minute).UnixMilli(), "0")
		}, `it has what looks like a lock, "redlock:slots:gpus", which expires in `},
		{"there is any key under the prefix", []string{"--prefix", "app["}, func(t *testing.T, servers []*redisserver.Server, _ string) {
			do(t, servers[0], "SET", "app[x", "1")
		}, `it has what looks like a lock, "app[x", which does not expire`},
		{"a client was connected shortly before", nil, func(t *testing.T, servers []*redisserver.Server, masters string) {
			c := openQuietly(t, masters, redlock.Options{DisableWakeups: true})
			until(t, func() bool {
				for _, m := range c.Masters() {
					if m.State != redlock.MasterQuarantined {
						return false
					}
				}
				return true
			})
			c.Close()
		}, "its memory is known for "},
		{"a master has restarted with its data", nil, func(t *testing.T, servers []*redisserver.Server, _ string) {
			if err := servers[0].Adopt(); err != nil {
				t.Fatal(err)
			}
			if err := servers[0].Restart(); err != nil {
				t.Fatal(err)
			}
		}, "it was restarted, or another server has taken its place: locks from before may last up to 12s"},
		{"a master does not answer", nil, func(t *testing.T, servers []*redisserver.Server, _ string) {
			if err := servers[0].Kill(); err != nil {
				t.Fatal(err)
			}
		}, "cannot tell whether it holds locks: not reachable: connection refused"},
		{"SCAN is forbidden", nil, func(t *testing.T, servers []*redisserver.Server, _ string) {
			do(t, servers[0], "ACL", "SETUSER", "default", "-scan")
		}, "cannot tell whether it holds locks: SCAN: NOPERM"},
		{"PUBSUB CHANNELS is forbidden", nil, func(t *testing.T, servers []*redisserver.Server, _ string) {
			do(t, servers[0], "ACL", "SETUSER", "default", "-pubsub", "+pubsub|numsub")
		}, "cannot tell whether clients are connected: PUBSUB CHANNELS: NOPERM"},
		{"a lock whose token names its owner", nil, func(t *testing.T, servers []*redisserver.Server, _ string) {
			do(t, servers[0], "SET", "stock", "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT@"+strings.Repeat("web~1,", 21), "PX", 60_000)
		}, `it has what looks like a lock, "stock", which expires in `},
		{"values cannot be read", nil, func(t *testing.T, servers []*redisserver.Server, _ string) {
			do(t, servers[0], "SET", "stock", "2Q==abcdefghij", "PX", 60_000)
			do(t, servers[0], "ACL", "SETUSER", "default", "-getrange")
		}, "cannot tell whether it holds locks: GETRANGE: NOPERM"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			servers := redisserver.StartTB(t, 3, "--appendonly", "yes", "--appendfsync", "always")
			masters := listOf(servers)
			tt.arrange(t, servers, masters)
			out := runDoctor(t, exitFailure, masters, append(tt.flags, "--adopt")...)
			want(t, out, servers[0].Addr()+": "+tt.want)
			for _, s := range servers[1:] {
				if text, _ := s.Do("GET", incarnation.Key); strings.Contains(string(bytesOf(text)), "adopted") {
					t.Errorf("%s was adopted: %s", s.Addr(), text)
				}
			}
			out = runDoctor(t, exitOK, masters, append(tt.flags, "--adopt", "--force")...)
			want(t, out, servers[0].Addr()+": "+tt.want, "a second client can get it too", servers[1].Addr()+": adopted\n")
		})
	}
}

func bytesOf(reply any) []byte {
	b, _ := reply.([]byte)
	return b
}

// A server that replaces a master has no client and no lock, so that only the list shows what it is.
func TestAdoptRefusesTheOneNewMachineOfAList(t *testing.T) {
	t.Parallel()
	servers := redisserver.StartTB(t, 4)
	stay, gone, comes := servers[:2], servers[2], servers[3]
	for _, s := range servers[:3] {
		if err := s.Adopt(); err != nil {
			t.Fatal(err)
		}
	}
	c := openQuietly(t, listOf(servers[:3]), redlock.Options{DisableWakeups: true, MaxTTL: time.Minute,
		LockOptions: redlock.LockOptions{TTL: time.Minute, RenewEvery: -1}})
	lease := hold(t, c, "stock").Lease()
	do(t, stay[1], "DEL", "stock") // as if the quorum had been the other two
	if err := gone.Kill(); err != nil {
		t.Fatal(err)
	}
	refused := func(masters, why string, flags ...string) {
		t.Helper()
		want(t, runDoctor(t, exitFailure, masters, append(flags, "--adopt")...), why)
		if text, _ := comes.Do("GET", incarnation.Key); text != nil {
			t.Errorf("with --masters %s it has the record %s, want none", masters, text)
		}
	}
	const alone = ": this is one server only. If it replaces a master, "
	refused(comes.Addr(), comes.Addr()+alone)
	refused(comes.Addr()+",localhost"+comes.Addr()[strings.LastIndex(comes.Addr(), ":"):], comes.Addr()+alone)
	refused(stay[0].Addr()+","+stay[1].Addr()+","+comes.Addr(), `it has what looks like a lock, "stock"`)

	all := stay[0].Addr() + "," + stay[1].Addr() + "," + comes.Addr()
	next := openQuietly(t, all, redlock.Options{})
	wantQuarantine(t, next, "it has no memory of redlock")
	// If it is adopted all the same, that does not hold for clients with three masters.
	want(t, runDoctor(t, exitOK, comes.Addr(), "--adopt", "--force"), comes.Addr()+alone, comes.Addr()+": adopted\n")
	wantQuarantine(t, next, "for a list of 1, and this client has a list of 3")
	want(t, runDoctor(t, exitOK, comes.Addr()), "\n1 of 1 master can vote now")
	want(t, runDoctor(t, exitOK, all), " for a list of 1\n")
	// What it is refused for.
	runDoctor(t, exitOK, all, "--adopt", "--force")
	until(t, func() bool { return next.Locker("stock").TryLockContext(t.Context()) == nil })
	if !lease.Valid() {
		t.Error("the first lease has ended: two holders were expected")
	}
}

// wantQuarantine fails t unless nothing but the quarantine of a master, which has this reason, keeps a client from locking "stock".
func wantQuarantine(t *testing.T, c *redlock.Client, why string) {
	t.Helper()
	var err error
	until(t, func() bool {
		// An attempt may be decided by other masters before its command to one of them was sent. Its error then does not say what
		// that one would have answered, so it cannot say that the quarantine is all that is in the way.
		err = c.Locker("stock").TryLockContext(t.Context())
		return err == nil || errors.Is(err, redlock.ErrQuarantined) && strings.Contains(err.Error(), why)
	})
	if err == nil {
		t.Fatal("TryLockContext = nil, want the quarantine to prevent it")
	}
}

// Two new servers are a whole list, as far as the doctor can see. Clients that have more masters do not count the adoption.
func TestAnAdoptionDoesNotHoldForClientsWithMoreMasters(t *testing.T) {
	t.Parallel()
	servers := redisserver.StartTB(t, 5)
	stays, gone, come := servers[0], servers[1:3], servers[3:]
	for _, s := range servers[:3] {
		if err := s.Adopt(); err != nil {
			t.Fatal(err)
		}
	}
	c := openQuietly(t, listOf(servers[:3]), redlock.Options{DisableWakeups: true, MaxTTL: time.Minute,
		LockOptions: redlock.LockOptions{TTL: time.Minute, RenewEvery: -1}})
	lease := hold(t, c, "stock").Lease()
	do(t, stays, "DEL", "stock") // as if the quorum had been the other two
	for _, s := range gone {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	runDoctor(t, exitOK, listOf(come), "--adopt")
	all := stays.Addr() + "," + listOf(come)
	next := openQuietly(t, all, redlock.Options{})
	wantQuarantine(t, next, "for a list of 2, and this client has a list of 3")
	if pair := openQuietly(t, listOf(come), redlock.Options{}); pair.Ping(t.Context()) != nil {
		t.Error("clients with the two adopted masters have to wait")
	}
	// What it prevents.
	runDoctor(t, exitOK, all, "--adopt", "--force")
	until(t, func() bool { return next.Locker("stock").TryLockContext(t.Context()) == nil })
	if !lease.Valid() {
		t.Error("the first lease has ended: two holders were expected")
	}
}

// A client shows by its id how many masters it has.
func TestAdoptSaysThatClientsHaveAnotherList(t *testing.T) {
	t.Parallel()
	servers := redisserver.StartTB(t, 3)
	openQuietly(t, listOf(servers), redlock.Options{Owner: "web", MaxTTL: time.Hour}) // so that the quarantine outlasts the test
	until(t, func() bool {
		return !slices.ContainsFunc(servers, func(s *redisserver.Server) bool { return len(listening(t, s)) != 1 })
	})
	for _, tt := range []struct {
		masters, want string
		flags         []string
	}{
		{servers[2].Addr(), "  web: has 3 masters, not 1; connected to 1 of 1\n", []string{"--single"}},
		{listOf(servers[1:]), "  web: has 3 masters, not 2; connected to 2 of 2\n", nil},
		{listOf(servers[1:]) + "," + redisserver.StartTB(t, 1)[0].Addr(), "  web: connected to 2 of 3, not to ", nil},
	} {
		want(t, runDoctor(t, exitFailure, tt.masters, append(tt.flags, "--adopt")...), tt.want, "Give --masters the whole list that the clients have.\n")
	}
	for _, s := range servers {
		if text, _ := s.Do("GET", incarnation.Key); strings.Contains(string(bytesOf(text)), "adopted") {
			t.Errorf("%s was adopted: %s", s.Addr(), text)
		}
	}
	out := runDoctor(t, exitFailure, listOf(servers), "--adopt")
	if strings.Contains(out, "another list") {
		t.Errorf("the list of the client is said to be another:\n%s", out)
	}
}

// Of a list whose masters were mostly replaced, no lock from before need be on those that stay.
func TestAdoptRefusesIfMostMastersWereReplaced(t *testing.T) {
	t.Parallel()
	servers := redisserver.StartTB(t, 3)
	masters := listOf(servers)
	runDoctor(t, exitOK, masters, "--adopt")
	c := openQuietly(t, masters, redlock.Options{})
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		return c.Masters()[0].MaxTTL > 0 && c.Masters()[1].MaxTTL > 0 && c.Masters()[2].MaxTTL > 0
	})
	c.Close()
	until(t, func() bool { // its subscriptions have ended
		return !slices.ContainsFunc(servers, func(s *redisserver.Server) bool { return len(listening(t, s)) > 0 })
	})
	do(t, servers[1], "FLUSHALL")
	want(t, runDoctor(t, exitOK, masters, "--adopt"), servers[1].Addr()+": adopted\n") // two masters would have a lock
	do(t, servers[1], "FLUSHALL")
	do(t, servers[2], "FLUSHALL")
	want(t, runDoctor(t, exitFailure, masters, "--adopt"), "only 1 of 3 masters have been used: ")
	runDoctor(t, exitOK, masters, "--adopt", "--force")
}

func TestAdoptIsNotRefusedForOtherData(t *testing.T) {
	t.Parallel()
	s := redisserver.StartTB(t, 1)[0]
	for _, args := range [][]any{
		{"SET", "config", "0123456789abcdef"},                      // does not expire
		{"SET", "session", `{"user":"anna","roles":[]}`, "EX", 60}, // not a token
		{"SET", "counter", "17", "EX", 60},
		{"HSET", "hash", "field", "0123456789abcdef"},
		{"SET", "redlock:fence:stock", "29412080655459416", "EX", 60}, // redlock's, but not a lock
		{"ZADD", "redlock:queue:stock", 1, "0123456789abcdef"},
	} {
		do(t, s, args[0].(string), args[1:]...)
	}
	do(t, s, "EXPIRE", "hash", 60)
	want(t, runDoctor(t, exitOK, s.Addr(), "--adopt", "--single"), s.Addr()+": adopted\n")

	s = redisserver.StartTB(t, 1)[0]
	do(t, s, "SET", "other", "0123456789abcdef", "EX", 60)
	want(t, runDoctor(t, exitOK, s.Addr(), "--adopt", "--single", "--prefix", "app:"), s.Addr()+": adopted\n")
}

func TestTheSearchForLocksIsBounded(t *testing.T) {
	t.Parallel()
	s := redisserver.StartTB(t, 1)[0]
	do(t, s, "EVAL", "for i = 1, 5000 do redis.call('SET', 'user:' .. i, '{}') end", 0)
	m := mustParse(t, s.Addr())[0]
	conn, err := m.dial(t.Context(), doctorPatience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, prefix := range []string{"", "app:"} {
		const want = "it has more than 2000 keys, and not all were checked"
		if _, _, err := findLock(conn, prefix, 2); err == nil || err.Error() != want {
			t.Errorf("findLock in 2 pages = %v, want %q", err, want)
		}
		if key, _, err := findLock(conn, prefix, 20); key != "" || err != nil {
			t.Errorf("findLock in 20 pages = %q, %v, want no lock", key, err)
		}
	}
}

func TestAdoptDoesNothingWhereEveryVoteCounts(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	masters := listOf(servers)
	openQuietly(t, masters, redlock.Options{})
	out := runDoctor(t, exitOK, masters, "--adopt")
	for _, s := range servers {
		want(t, out, s.Addr()+": not adopted: its votes count already\n")
	}
}

// A key with control characters is quoted.
func TestAdoptQuotesKeys(t *testing.T) {
	t.Parallel()
	s := redisserver.StartTB(t, 1)[0]
	do(t, s, "SET", "a\x1b[2J", "0123456789abcdef", "EX", 60)
	out := runDoctor(t, exitFailure, s.Addr(), "--adopt", "--single")
	if strings.Contains(out, "\x1b") || !strings.Contains(out, `"a\x1b[2J"`) {
		t.Errorf("the output is %q, want the key quoted", out)
	}
}

func TestDoctorSaysWhatToDoAboutAnAddress(t *testing.T) {
	t.Parallel()
	s := redisserver.StartTB(t, 1, "--requirepass", "s3kret")[0]
	plainWeb, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plainWeb.Close()
	go func() {
		for {
			conn, err := plainWeb.Accept()
			if err != nil {
				return
			}
			go func() {
				io.WriteString(conn, "220 mail.example ESMTP\r\n")
				io.Copy(io.Discard, conn)
				conn.Close()
			}()
		}
	}()
	for _, tt := range []struct{ name, url, addr, want, advice string }{
		{"wrong password", "redis://:s3kret2@" + s.Addr(), s.Addr(), "access denied: WRONGPASS", "the user or the password in the URL is wrong"},
		{"no password", s.Addr(), s.Addr(), "access denied: NOAUTH Authentication required", "use a URL with the password, such as redis://user:password@host:port or redis://:password@host:port"},
		{"TLS asked of a plain port", "rediss://:s3kret@" + s.Addr(), s.Addr(), "not reachable: it does not speak TLS", "use redis://, or the server's port for TLS"},
		{"a mail server", plainWeb.Addr().String(), plainWeb.Addr().String(), "not reachable: it does not speak the Redis protocol: it answers \"220 mail.example ESMTP\"", "is this the port of a Redis server?"},
		{"TLS asked of a mail server", "rediss://" + plainWeb.Addr().String(), plainWeb.Addr().String(), "not reachable: it does not speak TLS", "use redis://, or the server's port for TLS"},
		{"nobody listens", "127.0.0.1:1", "127.0.0.1:1", "not reachable: connection refused", "no server listens at this address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := runDoctor(t, exitNoQuorum, tt.url)
			wantRow(t, out, tt.addr, "no", "-", tt.want)
			want(t, out, " "+tt.advice+"\n")
		})
	}
}
