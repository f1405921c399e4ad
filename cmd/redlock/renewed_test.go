package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// A long run outlives its password. Each new connection uses the one that the file has at that time.
func TestAPasswordIsReadAgainAtEachDial(t *testing.T) {
	t.Parallel()
	s := miniredis.RunT(t)
	file := filepath.Join(t.TempDir(), "masters")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.RequireAuth("first")
	write("redis://:first@" + s.Addr() + "\n")
	masters, err := (&mastersGiven{Source: "--masters", List: "@" + file}).read()
	if err != nil {
		t.Fatal(err)
	}
	dial := func() error {
		conn, err := pools(masters)[0].DialContext(t.Context())
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := dial(); err != nil {
		t.Fatal(err)
	}
	for _, unusable := range []string{"", "redis://[", "redis://:other@127.0.0.1:1"} { // as while it is written
		write(unusable)
		if err := dial(); err != nil {
			t.Errorf("with the file %q: %v, want the password that was read first", unusable, err)
		}
	}
	s.RequireAuth("second")
	if dial() == nil {
		t.Error("the server accepts the first password still")
	}
	write("# renewed\nredis://:second@" + s.Addr() + "\n")
	if err := dial(); err != nil {
		t.Errorf("with the second password in the file: %v", err)
	}
}

// A certificate is replaced before it expires. New connections use the new one.
func TestCertificatesAreReadAgainAtEachDial(t *testing.T) {
	t.Parallel()
	cert, key := certificateFiles(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	shown := make(chan []byte, 1)
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			c := conn.(*tls.Conn)
			if c.Handshake() == nil {
				shown <- c.ConnectionState().PeerCertificates[0].Raw
			}
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	given := &mastersGiven{Source: "--masters", List: "rediss://localhost:" + port, CA: cert, Cert: filepath.Join(t.TempDir(), "cert"), Key: filepath.Join(t.TempDir(), "key")}
	var masters []master
	for i := range 2 {
		newCert, newKey := certificateFiles(t)
		copyFile(t, newCert, given.Cert)
		copyFile(t, newKey, given.Key)
		if i == 0 {
			if masters, err = given.read(); err != nil {
				t.Fatal(err)
			}
		}
		want, err := tls.LoadX509KeyPair(newCert, newKey)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := masters[0].Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := <-shown; !bytes.Equal(got, want.Certificate[0]) {
			t.Errorf("connection %d has another certificate than the files", i+1)
		}
		conn.Close()
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A pipe, such as that of <(command) in a shell, has its text once.
func TestAPipeIsReadOnce(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	io.WriteString(w, "redis://:pw@127.0.0.1:1\n")
	w.Close()
	given := &mastersGiven{Source: "--masters", List: fmt.Sprintf("@/dev/fd/%d", r.Fd())}
	masters, err := given.read()
	if err != nil {
		t.Skip("this system has no files for open pipes: ", err)
	}
	if given.rereadable() || masters[0].now().raw != masters[0].raw {
		t.Error("a pipe is read again")
	}
}
