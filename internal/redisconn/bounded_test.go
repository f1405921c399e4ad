package redisconn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
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
	long := strings.Repeat("x", textMost)
	for _, row := range []struct {
		reply string
		want  string // what redigo returns; the text of an error begins with !
	}{
		{"+OK\r\n", "OK"},
		{":-12\r\n", "-12"},
		{"$-1\r\n", "<nil>"},
		{"$0\r\n\r\n", ""},
		{"$3\r\n$9\n\r\n", "$9\n"},
		{fmt.Sprintf("$%d\r\n%s\r\n", textMost, long), long},
		{"*2\r\n:1\r\n$2\r\n*9\r\n", "[1 *9]"},
		{"*-1\r\n", "<nil>"},
		{"+" + strings.Repeat("$99999999999", 10) + "\r\n", strings.Repeat("$99999999999", 10)},
		{fmt.Sprintf("$%d\r\n", textMost+1), "!" + ErrTooLarge.Error()},
		{"$100000000000\r\n", "!" + ErrTooLarge.Error()},
		{"$1000000000000000000000000000000\r\n", "!" + ErrTooLarge.Error()},
		{"*100000000000\r\n", "!" + ErrTooLarge.Error()},
		// Redigo's sum of these digits overflows to 5; the first 23 of them are 999999.
		{"$0000000000000000099999910304043921567645701\r\nabcde\r\n*9000000\r\n", "!" + ErrTooLarge.Error()},
		{"+" + long + "x\r\n", "!" + ErrTooLarge.Error()},
		// The lengths are within bounds, their sum is not.
		{fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$1\r\n", textMost, long), "!" + ErrTooLarge.Error()},
		{"*2\r\n+" + long[textMost/2:] + "\r\n+" + long[textMost/2:] + "\r\n", "!" + ErrTooLarge.Error()},
		{fmt.Sprintf("*%d\r\n", elementsMost+1), "!" + ErrTooLarge.Error()},
		{strings.Repeat("*4096\r\n:1\r\n", 100), "!" + ErrTooLarge.Error()},
		{strings.Repeat("*30000\r\n", 3), "!" + ErrTooLarge.Error()},
		{"*2\r\n" + strings.Repeat("*3\r\n", 1<<15) + ":1\r\n", "!" + ErrTooLarge.Error()},
		{strings.Repeat("*1\r\n", depthMost) + ":7\r\n", strings.Repeat("[", depthMost) + "7" + strings.Repeat("]", depthMost)},
		{strings.Repeat("*1\r\n", depthMost+1) + ":7\r\n", "!" + ErrTooLarge.Error()},
		{"*2\r\n" + strings.Repeat("*1\r\n", depthMost) + ":7\r\n", "!" + ErrTooLarge.Error()},
		{"*2\r\n*0\r\n$10000000000\r\n", "!" + ErrTooLarge.Error()},
		{"*3\r\n*2\r\n:1\r\n*0\r\n*-1\r\n*1\r\n*1\r\n$-1\r\n", "[[1 []] <nil> [[<nil>]]]"},
		{"*1\r\n*1\r\n$10000000000\r\n", "!" + ErrTooLarge.Error()},
	} {
		for name, reader := range map[string]func(io.Reader) io.Reader{
			"whole":     func(r io.Reader) io.Reader { return r },
			"in pieces": iotest.OneByteReader,
		} {
			if name == "in pieces" && len(row.reply) > 1000 {
				continue
			}
			// The replies before and after it must be read correctly.
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

// The bounds apply to each reply, not to the sum of all.
func TestTheBoundsApplyToEachReply(t *testing.T) {
	list := "*3\r\n*" + strconv.Itoa(elementsMost-3) + "\r\n" + strings.Repeat("$-1\r\n", elementsMost-3) + "$2\r\nab\r\n*-1\r\n"
	text := fmt.Sprintf("$%d\r\n%s\r\n", textMost, strings.Repeat("x", textMost))
	conn := redis.NewConn(Bounded(streamConn{r: strings.NewReader(strings.Repeat(list+text+"*0\r\n-ERR\r\n", 3) + strings.Repeat("*0\r\n", 20))}), 0, 0)
	for i := range 32 {
		reply, err := conn.Receive()
		switch {
		case i >= 12:
			if parts, isList := reply.([]any); !isList || len(parts) != 0 || err != nil {
				t.Fatalf("reply %d = %v, %v, want an empty list", i, reply, err)
			}
		case i%4 == 0:
			if parts, _ := reply.([]any); len(parts) != 3 || err != nil {
				t.Fatalf("reply %d = %T of %d, %v, want a list of 3", i, reply, len(parts), err)
			}
		case i%4 == 1:
			if s, _ := reply.([]byte); len(s) != textMost || err != nil {
				t.Fatalf("reply %d = %T of %d, %v, want a string of %d", i, reply, len(s), err, textMost)
			}
		case i%4 == 3:
			if err != redis.Error("ERR") {
				t.Fatalf("reply %d = %v, want the error ERR", i, err)
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
