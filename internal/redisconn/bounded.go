package redisconn

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Bounds of one reply, with everything in it. The longest text that this library asks for is INFO's, a
// few kilobytes, or a key in a message. The longest array is a list of clients; a batch has 128 answers
// of 2 elements each. The reply to EXEC has 2 levels.
const (
	textMost     = 1 << 20 // bytes of all strings, errors and numbers
	elementsMost = 1 << 16 // elements of all arrays
	depthMost    = 8       // levels of arrays
)

// Bounded returns a connection whose Read fails with ErrTooLarge at a reply that is larger than the
// library can need. Redigo allocates the announced size of a reply before the reply has arrived, and
// recurses for each level of arrays: a broken server could exhaust the memory or the stack. It reads and writes by Direct.
func Bounded(conn net.Conn) *BoundedConn { return &BoundedConn{Conn: Direct(conn)} }

// A BoundedConn parses the protocol as far as needed to find lengths and the ends of replies.
// One goroutine at a time reads, and only that goroutine sets the read deadline.
type BoundedConn struct {
	net.Conn
	// Unanswered returns the error to report instead of err, if the connection ends with err before the server has sent anything. Nil: err
	// itself. It must be set before the first Read.
	Unanswered func(err error) error

	answered bool // the server has sent something

	skip   int    // bytes left of the current string
	line   []byte // the beginning of the current line
	length int    // bytes of the current line so far
	values int    // replies so far, including one of whose string some bytes are left

	// The current reply:
	text     int            // bytes of strings so far, including announced ones
	elements int            // elements announced so far
	left     [depthMost]int // elements still to come, by level
	depth    int            // open arrays

	deadline time.Time // the read deadline
	moved    bool      // deadline must be set before the next Read
}

// SetReadDeadline sets the deadline of the following reads, not of one that is blocked. Redigo sets a
// deadline for each reply, though most replies are in its buffer already. Setting a deadline takes a lock
// of the runtime, so it is put off until the next Read.
func (b *BoundedConn) SetReadDeadline(t time.Time) error {
	b.deadline, b.moved = t, true
	return nil
}

// SetDeadline sets the deadlines of reads, also of one that is blocked, and of writes.
func (b *BoundedConn) SetDeadline(t time.Time) error {
	b.moved = false
	return b.Conn.SetDeadline(t)
}

// Read fails with ErrTooLarge at a reply beyond the bounds.
func (b *BoundedConn) Read(p []byte) (int, error) {
	if b.moved {
		b.moved = false
		if err := b.Conn.SetReadDeadline(b.deadline); err != nil {
			return 0, err
		}
	}
	n, err := b.Conn.Read(p)
	if !b.answered {
		if n > 0 && !strings.ContainsRune(typesOfReplies, rune(p[0])) {
			return 0, &ForeignError{firstLine(p[:n])}
		} else if n == 0 && err != nil && !IsTimeout(err) && b.Unanswered != nil {
			err = b.Unanswered(err)
		}
		b.answered = true
	}
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
			if b.length++; b.length > textMost {
				return 0, ErrTooLarge
			}
			if len(b.line) < lengthMost {
				b.line = append(b.line, c)
			}
			continue
		}
		if !b.allow() {
			return 0, ErrTooLarge
		}
		b.line, b.length = b.line[:0], 0
	}
	return n, err
}

// typesOfReplies are the bytes with which replies begin, in RESP3 as well: a proxy reads what other clients are sent. An empty line is a reply
// to redigo.
const typesOfReplies = "+-:$*" + "_#,(!=%~>|" + "\r\n"

// A ForeignError says that what a server has sent first is no reply.
type ForeignError struct {
	Line string // the beginning of it
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("it does not speak the Redis protocol: it answers %q", e.Line)
}

// TLS reports whether the server has sent an alert of TLS: it expects TLS.
func (e *ForeignError) TLS() bool { return strings.HasPrefix(e.Line, "\x15\x03") }

// firstLine returns the beginning of the first line of text.
func firstLine(text []byte) string {
	line, _, _ := strings.Cut(string(text[:min(len(text), 60)]), "\n")
	return strings.TrimSpace(line)
}

// lengthMost is how many bytes of a line are kept: more than any length within the bounds has.
const lengthMost = 24

// allow reports whether a complete line, and what it announces, is within bounds.
func (b *BoundedConn) allow() bool {
	if len(b.line) < 2 || b.line[0] != '$' && b.line[0] != '*' {
		b.text += b.length
		return b.value()
	}
	if b.length >= lengthMost {
		// Redigo sums up all digits and overflows: it may read another length than the digits kept here.
		return false
	}
	digits := b.line[1:]
	if last := len(digits) - 1; digits[last] == '\r' {
		digits = digits[:last]
	}
	n, err := strconv.Atoi(string(digits))
	switch {
	case err != nil, n > textMost:
		return false // not a length, or too large a one
	case b.line[0] == '*' && n > 0:
		return b.array(n)
	case n >= 0 && b.line[0] == '$':
		b.skip = n + 2 // with its line end
		b.text += n
	}
	return b.value()
}

// array begins an array of n elements, and reports whether it is within bounds.
func (b *BoundedConn) array(n int) bool {
	b.elements += n
	if b.depth == depthMost || b.elements > elementsMost {
		return false
	}
	b.left[b.depth] = n
	b.depth++
	return true
}

// value ends a value that is not an array, or an empty array, and the arrays whose last element it is.
// It reports whether the reply is within bounds so far.
func (b *BoundedConn) value() bool {
	if b.text > textMost {
		return false
	}
	for b.depth > 0 {
		if b.left[b.depth-1]--; b.left[b.depth-1] > 0 {
			return true
		}
		b.depth--
	}
	b.text, b.elements = 0, 0
	b.values++
	return true
}

// Complete returns how many replies have been read to their end.
func (b *BoundedConn) Complete() int {
	if b.skip > 0 && b.depth == 0 {
		return b.values - 1
	}
	return b.values
}
