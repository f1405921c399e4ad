package redisserver

import (
	"net"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/programs"
)

// StartTB starts n servers for a test, as Start does, and stops them when the test ends. Without a redis-server it skips the
// test: see package programs.
//
// The servers are not adopted: see AdoptedTB.
func StartTB(tb testing.TB, n int, args ...string) []*Server {
	tb.Helper()
	servers := make([]*Server, n)
	for i := range servers {
		s, err := tryTB(tb, args...)
		if err != nil {
			tb.Fatal(err)
		}
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

// TLSTB starts a server as StartTB does. It also listens on a free port of 127.0.0.1 with TLS. The args must name its
// certificate, key and authority. If the redis-server is built without TLS, TLSTB skips the test.
func TLSTB(tb testing.TB, args ...string) (s *Server, port string) {
	tb.Helper()
	for range 10 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		l.Close()
		s, err = tryTB(tb, append([]string{"--tls-port", port}, args...)...)
		switch {
		case err == nil:
			return s, port
		case strings.Contains(err.Error(), errPortTaken.Error()): // by another process, since it was found free
		case strings.Contains(err.Error(), "tls"):
			programs.Missing(tb, "TLS in Redis")
		default:
			tb.Fatal(err)
		}
	}
	tb.Fatal("no port for TLS stays free")
	return nil, ""
}

// tryTB starts a server that is stopped when the test ends.
func tryTB(tb testing.TB, args ...string) (*Server, error) {
	tb.Helper()
	programs.Need(tb, "redis-server")
	s, err := Start(args...)
	if err == nil {
		tb.Cleanup(s.Stop)
	}
	return s, err
}
