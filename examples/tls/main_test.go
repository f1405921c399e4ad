package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/programs"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// Servers that speak TLS only want a client's certificate, and their user has the rights that the doctor prints.
func TestALockByTLSWithTheLeastRights(t *testing.T) {
	programs.Need(t, "redis-server")
	dir := t.TempDir()
	certificates(t, dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	acl := doctor(t, "--acl", "--prefix", "shop:")
	rule := strings.Fields(strings.Replace(acl, ">PASSWORD", ">s3kret", 1))
	var args []any
	for _, word := range rule[1:] {
		args = append(args, word)
	}
	var masters []string
	for range 3 {
		s, port := start(t, dir)
		if err := s.Adopt(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Do(rule[0], args...); err != nil {
			t.Fatal(err)
		}
		masters = append(masters, "rediss://redlock:s3kret@127.0.0.1:"+port)
	}
	if err := run(masters, file("ca.pem"), file("client.pem"), file("client-key.pem")); err != nil {
		t.Error(err)
	}
	out := doctor(t, "--prefix", "shop:", "--masters", strings.Join(masters, ","), "--ca", file("ca.pem"), "--cert", file("client.pem"), "--key", file("client-key.pem"))
	if !strings.Contains(out, "3 of 3 masters can vote now") || strings.Contains(out, "does not allow") {
		t.Errorf("the doctor says:\n%s", out)
	}
}

// start starts a server with the certificates in dir. It speaks TLS on a port of its own.
func start(t *testing.T, dir string) (s *redisserver.Server, port string) {
	t.Helper()
	file := func(name string) string { return filepath.Join(dir, name) }
	return redisserver.TLSTB(t, "--tls-cert-file", file("server.pem"), "--tls-key-file", file("server-key.pem"),
		"--tls-ca-cert-file", file("ca.pem"), "--tls-auth-clients", "yes")
}

// The commands of docs/operations.md make a service with TLS and the least rights of three new servers.
func TestTheStepsOfTheOperationsPage(t *testing.T) {
	programs.Need(t, "redis-server", "redis-cli", "bash")
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)\\*\\*Step by step\\*\\*.*?```sh\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/operations.md has no steps")
	}
	dir, bin := t.TempDir(), t.TempDir()
	certificates(t, dir)
	if out, err := programs.Command(t, "go", "build", "-o", bin, "../../cmd/redlock").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The hosts are ports of one host here.
	steps := strings.NewReplacer("-h $host -p 6379", "-h 127.0.0.1 -p $host", "$host:6379", "127.0.0.1:$host").Replace(string(block[1]))
	for i := range 3 {
		_, port := start(t, dir)
		steps = strings.Replace(steps, fmt.Sprintf("10.0.0.%d", i+1), port, 1)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := programs.CommandContext(ctx, t, "bash", "-euo", "pipefail", "-c", steps)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), `PASSWORD=s3/k&r@e t\#"%é`, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"adopted", "3 of 3 masters can vote now", "it works\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "does not allow") {
		t.Errorf("the user of the service lacks rights:\n%s", out)
	}
}

// doctor returns the output of redlock doctor.
func doctor(t *testing.T, args ...string) string {
	t.Helper()
	out, err := programs.Command(t, "go", append([]string{"run", "../../cmd/redlock", "doctor"}, args...)...).Output()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return string(out)
}

// certificates writes an authority and certificates that it has signed.
func certificates(t *testing.T, dir string) {
	t.Helper()
	write := func(name, kind string, der []byte) {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var authority *x509.Certificate
	var signer *ecdsa.PrivateKey
	for i, name := range []string{"ca", "server", "client"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: name == "ca", BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}
		parent := template
		if authority != nil {
			parent = authority
		} else {
			signer = key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		write(name+".pem", "CERTIFICATE", der)
		write(fmt.Sprintf("%s-key.pem", name), "EC PRIVATE KEY", private)
		if authority == nil {
			if authority, err = x509.ParseCertificate(der); err != nil {
				t.Fatal(err)
			}
		}
	}
}
