package master

import (
	"net"
	"strconv"
	"time"
)

// What a reply may announce. The largest that we ask for is INFO's, a few
// kilobytes; a batch has 128 members.
const (
	bulkMost  = 1 << 20
	arrayMost = 1 << 12
)

// Bounded returns conn, whose reading fails at a reply that announces more than
// any of ours has. Redigo makes room for what is announced before it has come: a
// broken server could have the process killed for want of memory.
func Bounded(conn net.Conn) net.Conn { return &bounded{Conn: conn} }

// A bounded connection follows the protocol just so far that it knows where a
// length stands. It is read by one goroutine at a time, as connections are, and
// that alone sets the time-out of reading.
type bounded struct {
	net.Conn
	skip     int       // bytes left of a string
	line     []byte    // the beginning of the line that is being read
	deadline time.Time // of reading
	moved    bool      // the deadline is not set yet
}

// SetReadDeadline sets the time-out of the reads that follow, not of one under
// way. Redigo sets it for each reply, of which most lie in its buffer already: it
// costs a lock in the runtime, so it waits until there is something to read.
func (b *bounded) SetReadDeadline(t time.Time) error {
	b.deadline, b.moved = t, true
	return nil
}

func (b *bounded) SetDeadline(t time.Time) error {
	b.moved = false
	return b.Conn.SetDeadline(t)
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.moved {
		b.moved = false
		if err := b.Conn.SetReadDeadline(b.deadline); err != nil {
			return 0, err
		}
	}
	n, err := b.Conn.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		if b.skip > 0 {
			k := min(b.skip, len(rest))
			b.skip -= k
			rest = rest[k:]
			continue
		}
		c := rest[0]
		rest = rest[1:]
		if c != '\n' {
			if len(b.line) < lengthMost {
				b.line = append(b.line, c)
			}
			continue
		}
		if !b.allow() {
			return 0, errTooLarge
		}
		b.line = b.line[:0]
	}
	return n, err
}

// lengthMost is as much of a line as a length needs.
const lengthMost = 24

// allow looks at a line that is complete, and reports whether what it announces
// is within bounds.
func (b *bounded) allow() bool {
	if len(b.line) < 2 || b.line[0] != '$' && b.line[0] != '*' {
		return true
	}
	digits := b.line[1:]
	if last := len(digits) - 1; digits[last] == '\r' {
		digits = digits[:last]
	}
	n, err := strconv.Atoi(string(digits))
	switch {
	case err != nil:
		return false // no length, or one of more digits than there is memory
	case b.line[0] == '*':
		return n <= arrayMost
	case n >= 0:
		b.skip = n + 2 // with its line end
	}
	return n <= bulkMost
}
