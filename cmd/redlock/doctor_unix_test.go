//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/redisserver"
)

func TestDoctorTellsWhatIsWrongWithEachMaster(t *testing.T) {
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
	out := doctor(t, exitNoQuorum, list, "--adopt")
	wantRow(t, out, "127.0.0.1:1", "no", "-", "not reachable: ")
	wantRow(t, out, noPassword, "no", "-", "does not let us in: NOAUTH")
	wantRow(t, out, up.Addr(), "yes", "master", "adopted")
	wantRow(t, out, killed.Addr(), "no", "-", "not reachable: ")
	wantRow(t, out, frozen.Addr(), "no", "-", "not reachable: no answer within 1s")
	wantRow(t, out, replica.Addr(), "no", "replica", "must not vote: it is a replica")
	wantRow(t, out, evicting.Addr(), "no", "master", "must not vote: its maxmemory-policy, allkeys-lru")
	wantRow(t, out, again, "no", "master", "must not vote: it is the same server as "+up.Addr())
	want(t, out, up.Addr()+": adopted\n", replica.Addr()+": not adopted: it is a replica", killed.Addr()+": not adopted: ",
		again+": not adopted: it is the same server", "\n1 of 8 masters may vote at once; a lock needs 5: there is none to be had")
	if n, err := evicting.Do("EXISTS", incarnation.Key); n != int64(0) {
		t.Errorf("EXISTS of the record = %v, %v, want 0: a master that must not vote was adopted", n, err)
	}
}

func TestDoctorTellsARestartAndTheDatabase(t *testing.T) {
	dir, err := os.MkdirTemp("", "r") // t.TempDir's may be too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "r")
	s := redisserver.StartTB(t, 1, "--appendonly", "yes", "--appendfsync", "always", "--unixsocket", socket)[0]
	one, two := "unix://"+socket+"?db=1", "redis://"+s.Addr()+"/2"
	doctor(t, exitOK, one, "--adopt")
	wantRow(t, doctor(t, exitOK, one), socket, "yes", "master", "adopted")
	wantRow(t, doctor(t, exitNoQuorum, two), s.Addr(), "not yet", "master", "no record")
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	wantRow(t, doctor(t, exitNoQuorum, one), socket, "not yet", "master",
		"its record does not hold: it was restarted, or another server has taken its place")
	client, err := redlock.Open([]string{one}, &redlock.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	until(t, func() bool { return client.Masters()[0].State == redlock.MasterQuarantined })
	votes, _, why := row(t, doctor(t, exitNoQuorum, one, "--max-ttl", "1h"), socket)
	if !strings.HasPrefix(votes, "in 1h0m") && !strings.HasPrefix(votes, "in 59m") || !strings.HasPrefix(why, "known since 2") {
		t.Errorf("after a client's look: %q, %q, want it known since then", votes, why)
	}
}

func TestAdoptingEndsAWait(t *testing.T) {
	var list []string
	for _, s := range redisserver.StartTB(t, 3) {
		list = append(list, s.Addr())
	}
	masters := strings.Join(list, ",")
	r := startRun(t, masters, []string{"--ttl", "1h"}, "exit", "7") // whose quarantine is longer than any test
	until(t, func() bool {
		return !strings.Contains(doctor(t, exitNoQuorum, masters, "--max-ttl", "1h"), "no record")
	})
	doctor(t, exitOK, masters, "--max-ttl", "1h", "--adopt")
	r.wantEnd(7)
}
