package realtest_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

func TestAMissingRightIsNotLoggedAsDown(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	for _, row := range []struct {
		name  string
		rules []any
		why   string
	}{
		{"of the connection's first command", []any{"+@all", "-script", "~*"}, "SCRIPT LOAD: NOPERM"},
		{"of the guard's key", []any{"+@all", "~a"}, "it cannot keep the record of its restarts"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var urls []string
			for _, s := range servers {
				do(t, s, "ACL", "DELUSER", "shop")
				urls = append(urls, as(t, s, "shop", row.rules...))
			}
			var log locktest.Log
			open(t, log.Options(), urls...)
			eventually(t, "a line of the log", func() bool { return log.String() != "" })
			log.Want(t, 1)
			log.Want(t, 1, "level=WARN", "masters deny the user a right", row.why, "NOPERM")
		})
	}
}

func TestRefusedServersAreLoggedInOneLine(t *testing.T) {
	t.Parallel()
	servers := redisserver.StartTB(t, 3, "--maxmemory", "10mb", "--maxmemory-policy", "allkeys-lru")
	var log locktest.Log
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.Addr())
	}
	open(t, log.Options(), urls...)
	eventually(t, "a line of the log", func() bool { return log.String() != "" })
	log.Want(t, 1)
	log.Want(t, 1, "level=WARN", "masters must not vote", strings.Join(urls, ", "), "maxmemory-policy")
}

// TestDeniedAccessIsNotLoggedAsDown has three masters deny access in one way.
func TestDeniedAccessIsNotLoggedAsDown(t *testing.T) {
	t.Parallel()
	pair, roots := certificate(t)
	for _, row := range []struct {
		name  string
		url   string // %s is host:port
		roots bool   // the certificate is trusted
		want  string
		why   string
	}{
		{"no password", "rediss://%s", true, "masters require a password", "NOAUTH"},
		{"wrong password", "rediss://shop:wr0ng@%s", true, "masters reject the user or the password", "WRONGPASS"},
		{"a certificate that is not trusted", "rediss://shop:s3cr3t@%s", false, "TLS with masters fails", "its certificate is signed by an unknown authority"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var urls []string
			for range 3 {
				m := miniredis.NewMiniRedis()
				if err := m.StartTLS(&tls.Config{Certificates: []tls.Certificate{pair}}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(m.Close)
				m.RequireUserAuth("shop", "s3cr3t")
				urls = append(urls, fmt.Sprintf(row.url, net.JoinHostPort("localhost", m.Port())))
			}
			var log locktest.Log
			opts := log.Options()
			if opts.TLSConfig = new(tls.Config); row.roots {
				opts.TLSConfig.RootCAs = roots
			}
			open(t, opts, urls...)
			eventually(t, "a line of the log", func() bool { return log.String() != "" })
			log.Want(t, 1)
			log.Want(t, 1, "level=WARN", row.want, row.why)
		})
	}
}
