//go:build linux && (amd64 || arm64)

package redisconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// connected returns the two ends of a connection.
func connected(t *testing.T, network string) (ours, theirs net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "socket")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if ours, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if theirs, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

func eachNetwork(t *testing.T, f func(t *testing.T, network string)) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) { f(t, network) })
	}
}

func TestADirectConnectionCarriesWhatIsWritten(t *testing.T) {
	eachNetwork(t, func(t *testing.T, network string) {
		ours, theirs := connected(t, network)
		direct := Direct(ours)
		if _, ok := direct.(*directConn); !ok {
			t.Fatalf("Direct(%T) = %T", ours, direct)
		}
		text := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // more than the buffers of a socket hold, so one write takes many calls
		var both sync.WaitGroup
		both.Go(func() {
			if n, err := direct.Write(text); n != len(text) || err != nil {
				t.Errorf("Write = %d, %v, want all %d bytes", n, err, len(text))
			}
		})
		both.Go(func() { // the server sends back what it receives
			io.CopyN(theirs, theirs, int64(len(text)))
			theirs.Close()
		})
		got, err := io.ReadAll(direct)
		if !bytes.Equal(got, text) || err != nil {
			t.Errorf("read %d bytes, %v, want the %d that were written", len(got), err, len(text))
		}
		both.Wait()
	})
}

// The errors of a direct connection are those of the connection below it, with the same text.
func TestADirectConnectionFailsAsPackageNetDoes(t *testing.T) {
	past := time.Unix(1, 0)
	eachNetwork(t, func(t *testing.T, network string) {
		for _, row := range []struct {
			name string
			fail func(conn, peer net.Conn) error
			want error
		}{
			{"the end of the stream", func(conn, peer net.Conn) error {
				peer.Close()
				_, err := conn.Read(make([]byte, 1))
				return err
			}, io.EOF},
			{"the read deadline", func(conn, peer net.Conn) error {
				conn.SetReadDeadline(past)
				_, err := conn.Read(make([]byte, 1))
				return err
			}, os.ErrDeadlineExceeded},
			{"the write deadline", func(conn, peer net.Conn) error {
				conn.SetWriteDeadline(past)
				_, err := conn.Write([]byte("x"))
				return err
			}, os.ErrDeadlineExceeded},
			{"a read of a closed connection", func(conn, peer net.Conn) error {
				conn.Close()
				_, err := conn.Read(make([]byte, 1))
				return err
			}, net.ErrClosed},
			{"a write to a closed connection", func(conn, peer net.Conn) error {
				conn.Close()
				_, err := conn.Write([]byte("x"))
				return err
			}, net.ErrClosed},
			{"a connection that is closed during a read", func(conn, peer net.Conn) error {
				time.AfterFunc(10*time.Millisecond, func() { conn.Close() })
				_, err := conn.Read(make([]byte, 1))
				return err
			}, net.ErrClosed},
			{"a write that the peer does not take", func(conn, peer net.Conn) error {
				conn.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
				_, err := conn.Write(make([]byte, 1<<25))
				return err
			}, os.ErrDeadlineExceeded},
			{"a write to a peer that is gone", func(conn, peer net.Conn) error {
				peer.Close()
				for range 1000 { // a socket takes what is written first
					if _, err := conn.Write([]byte("x")); err != nil {
						return err
					}
					time.Sleep(time.Millisecond)
				}
				return nil
			}, nil},
		} {
			plain, its := connected(t, network)
			want := row.fail(plain, its)
			ours, theirs := connected(t, network)
			got := row.fail(Direct(ours), theirs)
			if row.want != nil && !errors.Is(got, row.want) {
				t.Errorf("%s: %v, want %v", row.name, got, row.want)
			}
			if a, b := withoutAddresses(got, ours), withoutAddresses(want, plain); a != b {
				t.Errorf("%s: %q, package net says %q", row.name, a, b)
			}
			var timeout net.Error
			if errors.As(want, &timeout) && (!errors.As(got, &timeout) || timeout.Timeout() != IsTimeout(want)) {
				t.Errorf("%s: %v is not a time-out as %v is", row.name, got, want)
			}
		}
	})
}

func withoutAddresses(err error, conn net.Conn) string {
	if err == nil {
		return "no error"
	}
	return strings.NewReplacer(conn.LocalAddr().String(), "local", conn.RemoteAddr().String(), "remote").Replace(err.Error())
}

// A type that embeds a connection may have a Read of its own.
func TestOnlyConnectionsOfPackageNetAreReadDirectly(t *testing.T) {
	ours, _ := connected(t, "tcp")
	own := struct{ *net.TCPConn }{ours.(*net.TCPConn)}
	if got := Direct(own); got != net.Conn(own) {
		t.Errorf("Direct(%T) = %T, want the same connection", own, got)
	}
}

func TestABoundedConnectionIsReadDirectly(t *testing.T) {
	ours, _ := connected(t, "tcp")
	if b := Bounded(ours); b.Conn == ours {
		t.Errorf("Bounded reads from the %T itself", ours)
	}
}

func TestADirectConnectionAllocatesNothing(t *testing.T) {
	ours, theirs := connected(t, "tcp")
	direct := Direct(ours)
	go io.Copy(theirs, theirs)
	p := []byte("+PONG\r\n")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := direct.Write(p); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(direct, p); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("a Write and a Read allocate %v times", n)
	}
}
