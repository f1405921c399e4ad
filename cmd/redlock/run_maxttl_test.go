package main

import (
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/redisserver"
)

func TestRunRaisesTheMastersMaxTTLOnlyIfItIsTold(t *testing.T) {
	servers, masters := embedMasters(t, 3)
	wantDeclared := func(want time.Duration) {
		t.Helper()
		for i, s := range servers {
			text, _ := s.Get(incarnation.Key)
			if r, ok := incarnation.Parse(text); !ok || r.MaxTTL != want {
				t.Errorf("master %d has the record %q, want a MaxTTL of %v", i+1, text, want)
			}
		}
	}
	startRun(t, masters, []string{"--ttl", "10m"}, "exit", "7").wantEnd(exitUsage,
		"redlock: error: --ttl is 10m0s, but the masters' MaxTTL is 10s: all clients would have to wait 10m2s whenever a majority",
		"redlock: hint: use a shorter --ttl, or --raise-max-ttl, once. redlock doctor --adopt --max-ttl lowers it")
	startRun(t, masters, []string{"--max-ttl", "20s"}, "exit", "7").wantEnd(exitUsage, "redlock: error: --max-ttl is 20s, but the masters' MaxTTL is 10s")
	wantDeclared(0)

	startRun(t, masters, []string{"--ttl", "20s", "--raise-max-ttl"}, "exit", "7").wantEnd(7,
		`this Client raises the MaxTTL of the masters`, "now=20s", "redlock doctor --adopt --max-ttl 10s")
	wantDeclared(20 * time.Second)

	again := startRun(t, masters, []string{"--ttl", "20s"}, "exit", "7")
	again.wantEnd(7)
	if again.said() != "" {
		t.Errorf("with the masters' own MaxTTL it says %q, want nothing", again.said())
	}
	startRun(t, masters, []string{"--ttl", "30s"}, "exit", "7").wantEnd(exitUsage, "the masters' MaxTTL is 20s")
	wantDeclared(20 * time.Second)

	// One master that says as much is enough; else a majority must answer.
	masters = firstDown(masters, 2)
	startRun(t, masters, []string{"--ttl", "30s", "--wait", "0"}, "exit", "7").wantEnd(exitNoQuorum,
		"redlock: error: no quorum of the masters: ", "connection refused", "Not needed with --raise-max-ttl")
	startRun(t, masters, []string{"--ttl", "20s", "--wait", "0"}, "exit", "7").wantEnd(exitNoQuorum, "a majority of the masters must answer; redlock doctor")
}

// A MaxTTL that one client has declared outlives it. Two restarts would stop all clients for so long.
func TestDoctorLowersTheMastersMaxTTL(t *testing.T) {
	servers := redisserver.AdoptedTB(t, 3)
	masters := listOf(servers)
	startRun(t, masters, []string{"--ttl", "10m", "--raise-max-ttl"}, "exit", "7").wantEnd(7)
	until(t, func() bool { // no master receives the end of the connection late
		for _, s := range servers {
			if channels, _ := do(t, s, "PUBSUB", "CHANNELS", "redlock:wake:*").([]any); len(channels) > 0 {
				return false
			}
		}
		return true
	})
	want(t, runDoctor(t, exitOK, masters), "MaxTTL 10m0s", "A client has declared a MaxTTL of 10m0s: when a majority restarts, "+
		"locks have to wait for 10m2s. If no client needs it, stop all clients, and lower it:\n  redlock doctor --adopt --max-ttl 10s\n")
	want(t, runDoctor(t, exitOK, masters, "--adopt"), servers[0].Addr()+": not adopted: its votes count already\n")

	c := openQuietly(t, masters, redlock.Options{})
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		return strings.Count(runDoctor(t, exitFailure, masters, "--adopt", "--max-ttl", "10s"), "hold locks: 1\n") == 3
	})
	out := runDoctor(t, exitOK, masters, "--adopt", "--max-ttl", "10s", "--force")
	want(t, out, ": connected clients declare the MaxTTL of 10m0s again\n")
	until(t, func() bool { return strings.Count(runDoctor(t, exitOK, masters), "MaxTTL 10m0s,") == 3 })
	c.Close()

	until(t, func() bool {
		out = unfolded(runDoctor(t, anyStatus, masters, "--adopt", "--max-ttl", "15s"))
		return strings.Count(out, ": adopted; its MaxTTL is lowered from 10m0s to 15s ") == 3
	})
	want(t, runDoctor(t, exitOK, masters, "--max-ttl", "15s"), "MaxTTL 15s")
	if out = runDoctor(t, exitOK, masters, "--max-ttl", "15s"); strings.Contains(out, "has declared") {
		t.Errorf("it warns of the MaxTTL that clients have:\n%s", out)
	}
	c = openQuietly(t, masters, redlock.Options{})
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("after that Ping = %v, want nil", err)
	}
	for _, s := range servers[:2] {
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	until(t, func() bool { return c.Masters()[0].State == redlock.MasterQuarantined })
	if m := c.Masters()[0]; time.Until(m.Until) > 17*time.Second {
		t.Errorf("the quarantine lasts for another %v, want 17s at most", time.Until(m.Until))
	}
}
