package master

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gomodule/redigo/redis"
)

// streamConn reads from a Reader, as a connection.
type streamConn struct {
	net.Conn
	r io.Reader
}

func (c streamConn) Read(p []byte) (int, error)      { return c.r.Read(p) }
func (c streamConn) Write(p []byte) (int, error)     { return len(p), nil }
func (c streamConn) Close() error                    { return nil }
func (c streamConn) SetReadDeadline(time.Time) error { return nil }

func TestRepliesThatAnnounceTooMuchAreRefused(t *testing.T) {
	long := strings.Repeat("x", bulkMost)
	for _, row := range []struct {
		reply string
		want  string // what redigo makes of it; an error's text begins with !
	}{
		{"+OK\r\n", "OK"},
		{":-12\r\n", "-12"},
		{"$-1\r\n", "<nil>"},
		{"$0\r\n\r\n", ""},
		{"$3\r\n$9\n\r\n", "$9\n"},
		{fmt.Sprintf("$%d\r\n%s\r\n", bulkMost, long), long},
		{"*2\r\n:1\r\n$2\r\n*9\r\n", "[1 *9]"},
		{"*-1\r\n", "<nil>"},
		{"+" + strings.Repeat("$99999999999", 10) + "\r\n", strings.Repeat("$99999999999", 10)},
		{fmt.Sprintf("$%d\r\n", bulkMost+1), "!" + errTooLarge.Error()},
		{"$100000000000\r\n", "!" + errTooLarge.Error()},
		{"$1000000000000000000000000000000\r\n", "!" + errTooLarge.Error()},
		{"*100000000000\r\n", "!" + errTooLarge.Error()},
		{"*1\r\n*1\r\n$10000000000\r\n", "!" + errTooLarge.Error()},
	} {
		for name, reader := range map[string]func(io.Reader) io.Reader{
			"whole":     func(r io.Reader) io.Reader { return r },
			"in pieces": iotest.OneByteReader,
		} {
			if name == "in pieces" && len(row.reply) > 1000 {
				continue
			}
			// A reply before and one after must be found where they are.
			text := "$5\r\n\r\n*\r\n\r\n" + row.reply + "+after\r\n"
			conn := redis.NewConn(Bounded(streamConn{r: reader(strings.NewReader(text))}), 0, 0)
			if first, err := redis.String(conn.Receive()); first != "\r\n*\r\n" || err != nil {
				if !strings.HasPrefix(row.want, "!") { // both may come in one read
					t.Fatalf("before: %q, %v", first, err)
				}
				continue
			}
			reply, err := conn.Receive()
			got := show(reply)
			if err != nil {
				got = "!" + err.Error()
			}
			if got != row.want {
				t.Errorf("%.40q, %s: %.60q, want %.60q", row.reply, name, got, row.want)
			}
			if after, err := redis.String(conn.Receive()); row.want[:min(1, len(row.want))] != "!" && (after != "after" || err != nil) {
				t.Errorf("after %.40q: %q, %v", row.reply, after, err)
			}
		}
	}
}

func show(reply any) string {
	switch r := reply.(type) {
	case []byte:
		return string(r)
	case []any:
		var parts []string
		for _, part := range r {
			parts = append(parts, show(part))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(reply)
}

func TestATimeOutOfReadingHoldsFromTheNextReadOn(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	conn := Bounded(ours)
	defer conn.Close()
	go theirs.Write([]byte("+OK\r\n+OK\r\n"))
	p := make([]byte, 5)
	for _, row := range []struct {
		name     string
		deadline time.Time
		want     error
	}{
		{"in time", time.Now().Add(time.Minute), nil},
		{"too late", time.Now().Add(-time.Second), os.ErrDeadlineExceeded},
		{"again, not set anew", time.Time{}, os.ErrDeadlineExceeded},
		{"given time again", time.Now().Add(time.Minute), nil},
	} {
		if !row.deadline.IsZero() {
			conn.SetReadDeadline(row.deadline)
		}
		if _, err := conn.Read(p); !errors.Is(err, row.want) {
			t.Errorf("%s: Read = %v, want %v", row.name, err, row.want)
		}
	}
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	conn.SetDeadline(time.Now().Add(-time.Second))
	if _, err := conn.Read(p); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read = %v after a later SetDeadline, want a time-out", err)
	}
}
