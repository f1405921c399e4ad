package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// A mistake is a URL that leads to no usable master.
type mistake struct {
	name, url     string
	cause, remedy string
}

func TestMistakesAboutARedisServerHaveOneCauseAndOneRemedyEverywhere(t *testing.T) {
	t.Parallel()
	saysTheSameEverywhere(t, mistakesWithRedis(t))
}

func TestMistakesAboutAnAddressHaveOneCauseAndOneRemedyEverywhere(t *testing.T) {
	t.Parallel()
	saysTheSameEverywhere(t, mistakesWithoutRedis(t))
}

// saysTheSameEverywhere fails t unless the library, in an error, in Masters and in the log, and the commands say the same of each mistake.
func saysTheSameEverywhere(t *testing.T, all []mistake) {
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			whole := m.cause + " (" + m.remedy + ")"
			var log locktest.Log
			c, err := redlock.Open([]string{m.url}, &redlock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), DialTimeout: 15 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			want(t, c.Locker("a").TryLockContext(ctx).Error(), whole)
			want(t, c.Masters()[0].Err.Error(), whole)
			for ctx.Err() == nil && !strings.Contains(log.String(), "why=") {
				time.Sleep(10 * time.Millisecond)
			}
			want(t, strings.ReplaceAll(log.String(), `\"`, `"`), whole)
			_, errOut := runCommandLine(t, exitNoQuorum, "", "run", "--masters", m.url, "--wait", "0", "a", "--", "true")
			want(t, errOut, whole)
			for _, args := range [][]string{{"status", "--masters", m.url}, {"status", "--masters", m.url, "a"}} {
				out, errOut := runCommandLine(t, exitNoQuorum, "", args...)
				want(t, unfolded(out+errOut), whole)
			}
			want(t, unfolded(runDoctor(t, exitNoQuorum, m.url)), m.cause+" "+m.remedy)
		})
	}
}

func mistakesWithRedis(t *testing.T) []mistake {
	secret := redisserver.StartTB(t, 1, "--requirepass", "s3kret")[0]
	plain := redisserver.StartTB(t, 1)[0]
	full := redisserver.StartTB(t, 1, "--maxclients", "1")[0]
	other, err := redis.Dial("tcp", full.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	return []mistake{
		{"no password", secret.Addr(), "NOAUTH Authentication required", "use a URL with the password, such as redis://user:password@host:port or redis://:password@host:port"},
		{"a wrong password", "redis://:wrong@" + secret.Addr(), "WRONGPASS invalid username-password pair or user is disabled", "the user or the password in the URL is wrong"},
		{"a password too many", "redis://:s3kret@" + plain.Addr(), "ERR AUTH was called without any password configured", "use a URL without a password, or set requirepass on the server"},
		{"a wrong database", "redis://" + plain.Addr() + "/99", "ERR DB index is out of range", "the database in the URL must be below the server's number of databases, which is 16 by default"},
		{"TLS to a plain port", "rediss://" + plain.Addr(), "it does not speak TLS", "use redis://, or the server's port for TLS"},
		{"no connection left", full.Addr(), "ERR max number of clients reached", "raise maxclients of the server, or close connections of other programs"},
	}
}

func mistakesWithoutRedis(t *testing.T) []mistake {
	web := httptest.NewServer(nil)
	t.Cleanup(web.Close)
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	loading := says(t, "-LOADING Redis is loading the dataset in memory\r\n")
	protected := says(t, "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user.\r\n")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	isHTTP := `it does not speak the Redis protocol: it answers "HTTP/1.1 400 Bad Request"`
	return []mistake{
		{"protected mode", protected, "DENIED: it is in protected mode, and accepts connections from its own machine only", "set a password on the server, requirepass, and use it in the URL"},
		{"loading", loading, "LOADING Redis is loading the dataset in memory", "wait until it has read its data"},
		{"a web server", web.Listener.Addr().String(), isHTTP, "is this the port of a Redis server?"},
		{"a TLS port without TLS", tlsPort(t, secure.TLS), "it speaks TLS only", "use rediss://"},
		{"an unknown authority", "rediss://" + secure.Listener.Addr().String(), "its certificate is signed by an unknown authority", "trust the authority: Options.TLSConfig, --ca FILE, or SSL_CERT_FILE"},
		{"nobody listens", "127.0.0.1:1", "connection refused", "no server listens at this address"},
		{"no socket", "unix://" + file + "2", "there is no such socket", "check the path, and unixsocket of the server"},
		{"a file that is no socket", "unix://" + file, "connection refused", "no server listens at this socket"},
	}
}

// says returns the address of a server that says a line to each connection, and closes it.
func says(t *testing.T, line string) string {
	return listener(t, func(conn net.Conn) {
		io.WriteString(conn, line)
		conn.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, conn)
	})
}

// tlsPort returns the address of a server that closes connections on which no TLS handshake begins, without an answer, as Redis does.
func tlsPort(t *testing.T, config *tls.Config) string {
	return listener(t, func(conn net.Conn) {
		first := make([]byte, 1)
		if _, err := conn.Read(first); err == nil && first[0] == 22 {
			tls.Server(&pushedBack{conn, io.MultiReader(bytes.NewReader(first), conn)}, config).Handshake()
		}
	})
}

// A pushedBack is a connection of which something was read before.
type pushedBack struct {
	net.Conn
	r io.Reader
}

func (p *pushedBack) Read(b []byte) (int, error) { return p.r.Read(b) }

// listener serves connections until the test ends.
func listener(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}
