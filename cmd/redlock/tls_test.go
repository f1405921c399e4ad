package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// certificateFiles writes a certificate for localhost, which is its own authority, and its key.
func certificateFiles(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", pkcs8)
}

// encrypted returns the port of a listener that serves TLS in front of a server, for clients that have the
// certificate.
func encrypted(t *testing.T, s *redisserver.Server, cert, key string) (port string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(text)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert})
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
				to, err := net.Dial("tcp", s.Addr())
				if err != nil {
					return
				}
				defer to.Close()
				go io.Copy(to, conn)
				io.Copy(conn, to)
			}()
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

func TestTheFlagsForTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificateFiles(t)
	var urls []string
	for _, s := range redisserver.AdoptedTB(t, 3) {
		urls = append(urls, "rediss://localhost:"+encrypted(t, s, cert, key))
	}
	masters := strings.Join(urls, ",")
	all := []string{"--masters", masters, "--ca", cert, "--cert", cert, "--key", key}
	out, _ := runCommandLine(t, exitOK, "", append([]string{"status"}, append(all, "stock")...)...)
	want(t, out, "0 of 3")
	startRun(t, masters, []string{"--ca", cert, "--cert", cert, "--key", key}, "exit", "3").wantEnd(3)
	startRun(t, masters, []string{"--insecure", "--cert", cert, "--key", key}, "exit", "4").wantEnd(4)
	out, _ = runCommandLine(t, exitOK, "", append([]string{"verify", "--for", "1s", "--history", filepath.Join(t.TempDir(), "h")}, all...)...)
	want(t, out, "3 masters, 6 processes", "two holders: 0")
	for _, tt := range []struct {
		name  string
		flags []string
		want  string
	}{
		{"no authority", []string{"--cert", cert, "--key", key}, "its certificate is signed by an unknown authority (trust the authority: Options.TLSConfig, --ca FILE, or SSL_CERT_FILE)"},
		{"no certificate", []string{"--ca", cert}, "it wants a client's certificate (use Options.TLSConfig, or --cert FILE and --key FILE)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, _ := runCommandLine(t, exitNoQuorum, "", append([]string{"status", "--masters", masters}, tt.flags...)...)
			want(t, out, "not reachable: "+tt.want)
		})
	}
}
