package redisconn

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gomodule/redigo/redis"
)

// FuzzBounded checks Bounded by what redigo reads through it:
//   - a stream costs no more memory than a bound plus a multiple of its length;
//   - what is read is what redigo reads without Bounded;
//   - a stream that announces little is refused nothing.
func FuzzBounded(f *testing.F) {
	for _, text := range []string{
		"+OK\r\n:1\r\n$-1\r\n$3\r\nabc\r\n*2\r\n:1\r\n*1\r\n$0\r\n\r\n",
		"$1048577\r\n", "$99999999999999999999\r\n", "*4097\r\n", "*1000000000000000000\r\n",
		"$-2\r\n", "*-2\r\n", "$\r\n", "*\r\n", "$5\n", "$5\r\r\n", "\r\n", "\n", "$+5\r\nabcde\r\n",
		"*2\r\n*2\r\n*2\r\n:1\r\n:2\r\n:3\r\n:4\r\n",
		strings.Repeat("*4096\r\n", 1000), strings.Repeat("*1000000\r\n", 3), strings.Repeat("*1\r\n", 3000) + ":1\r\n",
		// The length overflows in redigo, which reads 5; the first 23 digits are 999999.
		"$0000000000000000099999910304043921567645701\r\nabcde\r\n*9000000\r\n",
		"+" + strings.Repeat("a", 5000) + "\r\n:1\r\n", strings.Repeat("-ERR ", 2000),
	} {
		f.Add([]byte(text), false)
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, pieces bool) {
		before := allocated()
		got, err := replies(Bounded(streamOf(text, pieces)), len(text))
		if used, most := allocated()-before, uint64(16<<20+256*len(text)); used > most {
			t.Fatalf("reading %d bytes has allocated %d bytes, want at most %d", len(text), used, most)
		}
		// A malformed reply may be refused as too large, since it is refused in any case. Redigo
		// alone must not be given what was refused for its size.
		if err == ErrTooLarge && small(text) {
			if _, plain := replies(streamOf(text, false), len(text)); plain == io.EOF {
				t.Errorf("%.200q was refused, which announces nothing large", text)
			}
		}
		if plain, _ := replies(streamOf(text, false), len(got)); fmt.Sprint(plain) != fmt.Sprint(got) {
			t.Errorf("%.200q: read as %.200q, want %.200q", text, got, plain)
		}
	})
}

func streamOf(text []byte, pieces bool) net.Conn {
	var r io.Reader = bytes.NewReader(text)
	if pieces {
		r = iotest.OneByteReader(r)
	}
	return streamConn{r: r}
}

// replies returns up to most of the replies that redigo reads, and its error, if any.
func replies(conn net.Conn, most int) (all []string, err error) {
	c := redis.NewConn(conn, 0, 0)
	for range most {
		reply, err := ReceiveWithin(c, time.Minute)
		if err != nil && !IsReply(err) {
			return all, err
		}
		all = append(all, show(reply)+fmt.Sprint(err))
	}
	return all, nil
}

// small reports whether no number of text has more than three digits, and no line is long.
// Such a text announces at most 999 elements of 999 bytes in each of its arrays.
func small(text []byte) bool {
	digits, line := 0, 0
	for _, c := range text {
		if line++; c == '\n' {
			line = 0
		}
		if digits++; c < '0' || c > '9' {
			digits = 0
		}
		if digits > 3 || line > 1000 {
			return false
		}
	}
	return bytes.Count(text, []byte("*")) <= 4
}

// allocated returns how many bytes the process has allocated since it began.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
