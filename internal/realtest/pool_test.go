package realtest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// certificate returns a key pair for localhost, and a pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		DNSNames:     []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

func TestTLS(t *testing.T) {
	t.Parallel()
	pair, roots := certificate(t)
	var urls []string
	for range 3 {
		m := miniredis.NewMiniRedis()
		if err := m.StartTLS(&tls.Config{Certificates: []tls.Certificate{pair}}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		m.RequireUserAuth("shop", "s3cr3t")
		urls = append(urls, "rediss://shop:s3cr3t@"+net.JoinHostPort("localhost", m.Port())+"/1")
	}
	for _, row := range []struct {
		name string
		tls  *tls.Config
		edit func(url string) string
		want string // in Ping's error; "" for none
	}{
		{name: "trusted", tls: &tls.Config{RootCAs: roots}},
		{name: "not trusted", want: "its certificate is signed by an unknown authority"},
		{name: "another name", tls: &tls.Config{RootCAs: roots, ServerName: "elsewhere"}, want: "not elsewhere"},
		{name: "no TLS", want: "it speaks TLS only",
			edit: func(url string) string { return strings.Replace(url, "rediss", "redis", 1) }},
		{name: "wrong password", tls: &tls.Config{RootCAs: roots}, want: "WRONGPASS",
			edit: func(url string) string { return strings.Replace(url, "s3cr3t", "wr0ng", 1) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			var edited []string
			for _, u := range urls {
				if row.edit != nil {
					u = row.edit(u)
				}
				edited = append(edited, u)
			}
			c, err := redlock.Open(edited, &redlock.Options{TLSConfig: row.tls, DisableRestartGuard: true, NodeTimeout: nodeTimeout, DialTimeout: dialTimeout})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if row.want == "" {
				if err := c.Ping(t.Context()); err != nil {
					t.Fatal(err)
				}
				locktest.Pass(c.Locker("a"))
				return
			}
			// On a busy machine, the trial that finds what the server speaks may be too slow at first.
			eventually(t, "Ping says: "+row.want, func() bool {
				err = c.Ping(t.Context())
				return err != nil && strings.Contains(err.Error(), row.want)
			})
			if strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("the error prints the password: %v", err)
			}
		})
	}
}

func TestUnixSocketsPasswordsAndDatabases(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "redis.sock")
	s := redisserver.AdoptedTB(t, 1, "--unixsocket", socket, "--requirepass", "s3cr3t")[0]
	c, err := redlock.Open([]string{"unix://:s3cr3t@" + socket + "?db=3"}, &redlock.Options{DisableRestartGuard: true, NodeTimeout: nodeTimeout, DialTimeout: dialTimeout})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := c.Locker("a")
	l.Lock()
	if n := infoNumber(t, s, "keyspace", "db3:keys="); n != 1 {
		t.Errorf("database 3 has %d keys, want the lock's", n)
	}
	l.Unlock()
	if name := c.Masters()[0].Name; name != socket {
		t.Errorf("the master is called %q, want its path", name)
	}
}

// A server without AUTH repeats the command's arguments in its error.
func TestAPasswordThatTheServerRepeatsIsNotShown(t *testing.T) {
	t.Parallel()
	s := redisserver.StartTB(t, 1, "--rename-command", "AUTH", "")[0]
	for _, password := range []string{"s3cr3t", strings.Repeat("s3cr3t", 50)} {
		c, err := redlock.Open([]string{"redis://:" + password + "@" + s.Addr()}, &redlock.Options{Logger: slog.New(slog.DiscardHandler), DialTimeout: dialTimeout})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		err = c.Ping(t.Context())
		if err == nil || !strings.Contains(err.Error(), "unknown command") || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("Ping = %v, want that AUTH is unknown, and no password", err)
		}
	}
}
