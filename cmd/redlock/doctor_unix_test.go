//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/proxy"
	"github.com/redlock-go/redlock/internal/redisserver"
)

func TestDoctorSaysWhatIsWrongWithEachMaster(t *testing.T) {
	t.Parallel()
	servers := redisserver.StartTB(t, 5, "--requirepass", "s3kret", "--masterauth", "s3kret")
	up, killed, frozen, replica, evicting := servers[0], servers[1], servers[2], servers[3], servers[4]
	noPassword := redisserver.StartTB(t, 1, "--requirepass", "s3kret")[0].Addr()
	host, port, _ := net.SplitHostPort(up.Addr())
	if err := killed.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := frozen.Freeze(); err != nil {
		t.Fatal(err)
	}
	if _, err := replica.Do("REPLICAOF", host, port); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]any{{"SET", "maxmemory", "100mb"}, {"SET", "maxmemory-policy", "allkeys-lru"}} {
		if _, err := evicting.Do("CONFIG", args...); err != nil {
			t.Fatal(err)
		}
	}
	again := net.JoinHostPort("localhost", port)
	list := "127.0.0.1:1," + noPassword
	for _, addr := range []string{up.Addr(), killed.Addr(), frozen.Addr(), replica.Addr(), evicting.Addr(), again} {
		list += ",redis://:s3kret@" + addr
	}
	out := runDoctor(t, exitNoQuorum, list, "--adopt", "--force")
	wantRow(t, out, "127.0.0.1:1", "no", "-", "not reachable: connection refused")
	wantRow(t, out, noPassword, "no", "-", "access denied: NOAUTH Authentication required")
	wantRow(t, out, up.Addr(), "yes", "master", "adopted")
	wantRow(t, out, killed.Addr(), "no", "-", "not reachable: ")
	wantRow(t, out, frozen.Addr(), "no", "-", "not reachable: no answer within "+doctorPatience.String())
	wantRow(t, out, replica.Addr(), "no", "replica", "must not vote: it is a replica")
	wantRow(t, out, evicting.Addr(), "no", "master", "must not vote: its maxmemory-policy, allkeys-lru")
	wantRow(t, out, again, "no", "master", "must not vote: it is the same server as "+up.Addr())
	want(t, out, up.Addr()+": adopted\n", replica.Addr()+": not adopted: must not vote: it is a replica", killed.Addr()+": not adopted: not reachable",
		again+": not adopted: must not vote: it is the same server", "\n1 of 8 masters can vote now; a lock needs 5.\nNo lock can be acquired")
	if n, err := evicting.Do("EXISTS", incarnation.Key); n != int64(0) {
		t.Errorf("EXISTS of the record = %v, %v, want 0: a master that must not vote was adopted", n, err)
	}
}

func TestDoctorDetectsARestartAndKeepsDatabasesApart(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "r") // t.TempDir's may be too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "r")
	s := redisserver.StartTB(t, 1, "--appendonly", "yes", "--appendfsync", "always", "--unixsocket", socket)[0]
	one, two := "unix://"+socket+"?db=1", "redis://"+s.Addr()+"/2"
	runDoctor(t, exitOK, one, "--adopt", "--single")
	wantRow(t, runDoctor(t, exitOK, one), socket, "yes", "master", "adopted")
	wantRow(t, runDoctor(t, exitNoQuorum, two), s.Addr(), "not yet", "master", "no record")
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	wantRow(t, runDoctor(t, exitNoQuorum, one), socket, "not yet", "master",
		"its record is not valid: it was restarted, or another server has taken its place")
	client, err := redlock.Open([]string{one}, &redlock.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	until(t, func() bool { return client.Masters()[0].State == redlock.MasterQuarantined })
	votes, _, why := row(t, runDoctor(t, exitNoQuorum, one, "--max-ttl", "1h"), socket)
	if !strings.HasPrefix(votes, "in 1h0m") && !strings.HasPrefix(votes, "in 59m") || !strings.HasPrefix(why[0], "known for ") {
		t.Errorf("after a client's look: %q, %q, want it known since then", votes, why)
	}
}

func TestAdoptingByForceEndsTheWaitOfAClient(t *testing.T) {
	t.Parallel()
	var list []string
	for _, s := range redisserver.StartTB(t, 3) {
		list = append(list, s.Addr())
	}
	masters := strings.Join(list, ",")
	r := startRun(t, masters, []string{"--ttl", "1h", "--raise-max-ttl"}, "exit", "7") // with it, the quarantine is longer than any test
	until(t, func() bool {
		return !strings.Contains(runDoctor(t, exitNoQuorum, masters, "--max-ttl", "1h"), "no record")
	})
	want(t, runDoctor(t, exitFailure, masters, "--max-ttl", "1h", "--adopt"), "connected clients that may hold locks: 1\n")
	runDoctor(t, exitOK, masters, "--max-ttl", "1h", "--adopt", "--force")
	r.wantEnd(7)
}

func TestDoctorShowsAndAppliesTheLargestMaxTTLThatAClientHasDeclared(t *testing.T) {
	t.Parallel()
	servers := redisserver.StartTB(t, 3)
	masters := listOf(servers)
	c := openQuietly(t, servers[0].Addr(), redlock.Options{MaxTTL: time.Hour})
	until(t, func() bool { return c.Masters()[0].State == redlock.MasterQuarantined })
	c.Close()
	out := runDoctor(t, exitNoQuorum, masters)
	if n := strings.Count(out, "    MaxTTL 1h0m, "); n != 1 { // only the first master's record has it
		t.Errorf("%d masters show a MaxTTL of an hour, want 1:\n%s", n, out)
	}
	votes, _, _ := row(t, out, servers[0].Addr())
	if !strings.HasPrefix(votes, "in 1h0m") && !strings.HasPrefix(votes, "in 59m") {
		t.Errorf("the first master votes %q, want it in an hour", votes)
	}
	want(t, out, "Locks have to wait 1h0m2s, ", "(MaxTTL is 1h0m0s)")
	want(t, runDoctor(t, exitFailure, masters, "--adopt"), servers[0].Addr()+": its memory is known for ", ": locks from before may last ")
}

func TestDoctorMeasuresRoundTripsToMastersFarAway(t *testing.T) {
	t.Parallel()
	var list []string
	var far []*proxy.Proxy
	for _, s := range redisserver.AdoptedTB(t, 3) {
		p := proxy.TB(t, s.Addr())
		p.Delay(30 * time.Millisecond) // each way
		list, far = append(list, p.Addr()), append(far, p)
	}
	masters := strings.Join(list, ",")
	until(t, func() bool { // on a busy machine, a round trip takes so long that doctor says something else of it
		out := runDoctor(t, exitOK, masters)
		want(t, out, "    adopted ", "A round trip to the farthest master")
		return strings.Contains(unfolded(out), ", so the automatic NodeTimeout is ")
	})
	want(t, runDoctor(t, exitNoQuorum, masters, "--node-timeout", "50ms"), "longer than NodeTimeout, 50ms: no lock can be acquired.")
	// A client agrees, once it is connected.
	c := openQuietly(t, masters, redlock.Options{NodeTimeout: 50 * time.Millisecond})
	until(t, func() bool {
		return !slices.ContainsFunc(c.Masters(), func(m redlock.MasterStatus) bool { return m.State != redlock.MasterUp })
	})
	// Its replies are held back. On a busy machine, 50 ms may end after replies that take 60.
	replies := func(mode proxy.Mode) {
		for _, p := range far {
			p.Change(func(_, down *proxy.Way) { down.Mode = mode })
		}
	}
	replies(proxy.Holds)
	if err := c.Locker("other").TryLockContext(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("TryLockContext = %v, want that no master answers in time", err)
	}
	replies(proxy.Passes)
	startRun(t, masters, []string{"--wait", "0", "--node-timeout", "2s"}, "exit", "3").wantEnd(3)
}
