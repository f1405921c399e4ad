package incarnation_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/incarnation"
)

// FuzzParse checks that Parse keeps what it accepts, and that everything derived from an
// accepted record is in range.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", " ", "  ", "-", "- 1 -", "- 1 - adopted", "- 1 - other", "ab12 1700000000000000 0 0 -",
		"ab12 1700000000000000 15 0 - adopted", "ab12 -1 0", "ab12 +1 0", "ab12 99999999999999999999 0 0 -",
		"ab12 9223372036854775807 0", "ab\n12 1 0", "ab12 1 0\x1b[31m", "ab12  1 0", "ab12 1 0 ",
		" 1 ", " 1  adopted",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, ok := incarnation.Parse(text)
		if !ok {
			if r != (incarnation.Record{}) {
				t.Errorf("Parse(%q) = %+v, want the zero Record for what is no record", text, r)
			}
			return
		}
		checkRecord(t, text, r)
		k := incarnation.Know(incarnation.Inspection{Record: r, Run: r.Run})
		if first, last := time.UnixMilli(4_102_444_800_000), time.UnixMilli(4_102_444_800_000+1<<32); k.Expiry().Before(first) || !k.Expiry().Before(last) {
			t.Errorf("the record %q expires at %v, want a moment in [%v, %v)", text, k.Expiry(), first, last)
		}
	})
}

// checkRecord fails t unless r is what text says.
func checkRecord(t *testing.T, text string, r incarnation.Record) {
	t.Helper()
	if r.Text != text {
		t.Errorf("the record of %q has the text %q", text, r.Text)
	}
	for name, field := range map[string]string{"run": r.Run, "database": r.Database} {
		if field == "" || strings.ContainsFunc(field, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
			t.Errorf("the record %q has the %s %q, want one visible word", text, name, field)
		}
	}
	if r.Since.Before(time.UnixMicro(0)) {
		t.Errorf("the record %q is from %v, before every server's clock", text, r.Since)
	}
}

// FuzzReadInspection checks that ReadInspection accepts any answer of a server: it returns an error, or an
// Inspection whose fields are in range.
func FuzzReadInspection(f *testing.F) {
	const head = "+OK\r\n+QUEUED\r\n+QUEUED\r\n"
	const holds = "*2\r\n$3\r\nabc\r\n*4\r\n$6\r\n- 1 -x\r\n:5\r\n$0\r\n\r\n$1\r\n-\r\n"
	for _, reply := range []string{
		"", head, head + "*-1\r\n", head + "*0\r\n", head + "*1\r\n:1\r\n", head + holds,
		head + "*2\r\n$3\r\nabc\r\n*4\r\n$5\r\n- 1 -\r\n:5\r\n$0\r\n\r\n$1\r\n-\r\n",
		head + "*2\r\n$3\r\nabc\r\n*4\r\n$5\r\n- 9 -\r\n:5\r\n$7\r\nrestart\r\n$4\r\nab12\r\n",
		head + "*2\r\n$3\r\nabc\r\n*4\r\n$-1\r\n:5\r\n$6\r\nabsent\r\n$-1\r\n",
		head + "*2\r\n$3\r\nabc\r\n*4\r\n*0\r\n$2\r\n-5\r\n:3\r\n*1\r\n*1\r\n:1\r\n",
		head + "*2\r\n$3\r\nabc\r\n*4\r\n$27\r\n- 9223372036854775807 - adop\r\n:-9223372036854775808\r\n$1\r\n\x1b\r\n$1\r\n\x00\r\n",
		head + "*2\r\n-ERR one\r\n-NOSCRIPT two\r\n", head + "-EXECABORT no\r\n",
		"-NOPERM a\r\n-ERR b\r\n:1\r\n*2\r\n:1\r\n:1\r\n",
	} {
		f.Add([]byte(reply))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		if announces(reply) {
			return // redigo allocates what is announced; package redisconn bounds that
		}
		conn := redis.NewConn(stream{r: bytes.NewReader(reply)}, 0, 0)
		look, err := incarnation.ReadInspection(conn.Receive)
		if err != nil {
			if look != (incarnation.Inspection{}) {
				t.Errorf("ReadInspection = %+v beside the error %v", look, err)
			}
			return
		}
		if look.Record.Text != "" {
			checkRecord(t, look.Record.Text, look.Record)
		}
		if age := look.Age(); age < 0 && look.Why == incarnation.Holds {
			t.Errorf("a record that holds has the age %v", age)
		}
		if why := look.Why.String(); why == "" || strings.ContainsFunc(why, unicode.IsControl) {
			t.Errorf("Why says %q, want printable text", why)
		}
		incarnation.Know(look).Probed(look.Now.UnixMilli())
	})
}

// stream is a connection whose server has sent what r contains.
type stream struct {
	net.Conn
	r io.Reader
}

func (s stream) Read(p []byte) (int, error)      { return s.r.Read(p) }
func (s stream) Write(p []byte) (int, error)     { return len(p), nil }
func (s stream) Close() error                    { return nil }
func (s stream) SetReadDeadline(time.Time) error { return nil }

// announces reports whether a reply announces a length of more than five digits.
func announces(reply []byte) bool {
	digits := 0
	for i, c := range reply {
		switch {
		case (c == '$' || c == '*') && (i == 0 || reply[i-1] == '\n'):
			digits = 1
		case digits > 0 && c >= '0' && c <= '9':
			if digits++; digits > 6 {
				return true
			}
		default:
			digits = 0
		}
	}
	return false
}

// FuzzDatabaseOf checks that the database is one word of CLIENT INFO's reply.
func FuzzDatabaseOf(f *testing.F) {
	for _, info := range []string{"", "id=3 db=0 cmd=client", "db=", "db=15\n", "xdb=1 db=2 db=3", "db=\x1b[31m", "name=db=7 db=1"} {
		f.Add(info)
	}
	f.Fuzz(func(t *testing.T, info string) {
		db := incarnation.DatabaseOf(info)
		if db == incarnation.Unknown {
			return
		}
		if db == "" || strings.ContainsFunc(db, func(c rune) bool { return c < '0' || c > '9' }) {
			t.Errorf("DatabaseOf(%q) = %q, want a number or Unknown", info, db)
		}
		if !strings.Contains(info, "db="+db) {
			t.Errorf("DatabaseOf(%q) = %q, which the reply does not contain", info, db)
		}
	})
}
