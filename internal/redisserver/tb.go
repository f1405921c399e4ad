package redisserver

import (
	"os"
	"os/exec"
	"testing"
)

// Require names an environment variable. If it is "1", tests without a redis-server fail instead of being
// skipped. CI sets it.
const Require = "REDLOCK_REQUIRE_REDIS"

// StartTB starts n servers for a test, as Start does, and stops them when the test ends. If no redis-server
// is installed, it skips the test, or fails it if the environment has REDLOCK_REQUIRE_REDIS=1.
//
// The servers are not adopted: see AdoptedTB.
func StartTB(tb testing.TB, n int, args ...string) []*Server {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv(Require) == "1" {
			tb.Fatalf("no redis-server in PATH, and %s=1 forbids skipping: %v", Require, err)
		}
		tb.Skip("no redis-server in PATH: this test needs real Redis servers; install Redis to run it")
	}
	servers := make([]*Server, n)
	for i := range servers {
		s, err := Start(args...)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(s.Stop)
		servers[i] = s
	}
	return servers
}

// AdoptedTB starts servers as StartTB does, and adopts them: see Server.Adopt.
func AdoptedTB(tb testing.TB, n int, args ...string) []*Server {
	tb.Helper()
	servers := StartTB(tb, n, args...)
	for _, s := range servers {
		if err := s.Adopt(); err != nil {
			tb.Fatal(err)
		}
	}
	return servers
}
