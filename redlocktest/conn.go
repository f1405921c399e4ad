package redlocktest

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// requestBuffer is how many bytes of requests a connection buffers before a write blocks. A kernel buffers
// megabytes. With a smaller buffer a test can fill a connection without sending megabytes.
const requestBuffer = 64 << 10

// conn is one end of an in-memory connection. It behaves like a socket because, unlike an end of net.Pipe, it
// is buffered:
//   - A client may write a long pipeline before it reads a reply.
//   - What a client wrote reaches the master even if the client then closes the connection.
//   - A PUBLISH to a subscriber that does not read does not block the master, which holds its mutex then.
type conn struct {
	in, out *stream // immutable
	name    addr    // immutable
}

var _ net.Conn = (*conn)(nil)

// newConn returns both ends of a connection. A request arrives lag plus delay after it was written. Delay is
// in nanoseconds and is read when the request is written. A reply arrives lag after it was written.
func newConn(name string, delay *atomic.Int64, lag time.Duration) (client, server *conn) {
	up := &stream{limit: requestBuffer, delay: delay, lag: lag, changed: make(chan struct{})}
	down := &stream{lag: lag, changed: make(chan struct{})}
	return &conn{in: down, out: up, name: addr(name)}, &conn{in: up, out: down, name: addr(name)}
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close lets the other end read what was written, followed by io.EOF.
func (c *conn) Close() error {
	c.out.finish(io.EOF)
	c.in.abandon()
	return nil
}

// cut breaks the connection. It is called on the server's end. Requests that were not read yet are lost. The
// client reads the replies that were written, followed by ECONNRESET.
func (c *conn) cut() {
	c.out.finish(syscall.ECONNRESET)
	c.in.abandon()
}

func (c *conn) LocalAddr() net.Addr  { return c.name }
func (c *conn) RemoteAddr() net.Addr { return c.name }

func (c *conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error  { return c.in.setDeadline(&c.in.readBy, t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.out.setDeadline(&c.out.writeBy, t) }

// addr is the address of both ends of a connection: the master's name.
type addr string

func (addr) Network() string  { return "redlocktest" }
func (a addr) String() string { return string(a) }

// stream is one direction of a connection.
type stream struct {
	limit int           // size of the buffer in bytes; zero: no limit; immutable
	delay *atomic.Int64 // nanoseconds from a write to its arrival; nil: none; immutable
	lag   time.Duration // an additional delay of this connection; immutable

	mu      sync.Mutex // guards the fields below; never held while waiting
	chunks  []chunk    // written and not yet read, oldest first
	size    int        // bytes in chunks
	end     error      // if set: writes fail, and reads return it after the chunks
	gone    bool       // the reader has closed
	swallow func()     // if set: the next write is discarded, and this function is called
	readBy  time.Time  // the reader's deadline; zero: none
	writeBy time.Time  // the writer's deadline; zero: none
	changed chan struct{}
}

// chunk is what one write added.
type chunk struct {
	data []byte
	due  time.Time // when it arrives; zero: at once
}

func (s *stream) read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		n, until, err := s.readLocked(p)
		changed := s.changed
		s.mu.Unlock()
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		wait(changed, until)
	}
}

// readLocked reads what has arrived. If nothing has, it returns the time at which the caller should try
// again, unless changed is closed before. A zero time means to wait for changed only.
func (s *stream) readLocked(p []byte) (n int, until time.Time, err error) {
	now := time.Now()
	switch {
	case s.gone:
		return 0, until, net.ErrClosed
	case passed(s.readBy, now):
		// The deadline is checked before the data, as a socket does it. A deadline in the past stops a
		// reader even if data is left to read.
		return 0, until, os.ErrDeadlineExceeded
	case len(s.chunks) == 0:
		return 0, s.readBy, s.end
	case s.chunks[0].due.After(now):
		return 0, earliest(s.chunks[0].due, s.readBy), nil
	}
	first := &s.chunks[0]
	n = copy(p, first.data)
	first.data = first.data[n:]
	if len(first.data) == 0 {
		s.chunks = s.chunks[1:]
	}
	s.size -= n
	s.changedLocked()
	return n, until, nil
}

func (s *stream) write(p []byte) (int, error) {
	written := 0
	for {
		s.mu.Lock()
		if lose := s.swallow; lose != nil {
			s.swallow = nil
			s.mu.Unlock()
			lose()
			return len(p), nil
		}
		n, err := s.writeLocked(p[written:])
		changed, until := s.changed, s.writeBy
		s.mu.Unlock()
		written += n
		if written == len(p) || err != nil {
			return written, err
		}
		wait(changed, until)
	}
}

// writeLocked appends as much of p as fits in the buffer, and returns how much that was.
func (s *stream) writeLocked(p []byte) (int, error) {
	now := time.Now()
	switch {
	case s.gone:
		return 0, syscall.EPIPE
	case s.end != nil:
		return 0, net.ErrClosed
	case passed(s.writeBy, now):
		return 0, os.ErrDeadlineExceeded
	}
	if s.limit > 0 {
		p = p[:min(len(p), s.limit-s.size)]
	}
	if len(p) == 0 {
		return 0, nil
	}
	lag := max(s.lag, 0)
	if s.delay != nil {
		lag += time.Duration(max(s.delay.Load(), 0))
	}
	var due time.Time
	if lag > 0 {
		due = now.Add(lag)
	}
	s.appendLocked(chunk{data: bytes.Clone(p), due: due}) // a copy: the caller will reuse p
	return len(p), nil
}

func (s *stream) appendLocked(c chunk) {
	s.chunks = append(s.chunks, c)
	s.size += len(c.data)
	s.changedLocked()
}

// prepend adds data that arrives at once, whatever the delay. It must be called before anything else uses the
// stream.
func (s *stream) prepend(data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appendLocked(chunk{data: data})
}

// finish ends the stream: reads return err after what was written. Only the first call has an effect.
func (s *stream) finish(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == nil {
		s.end = err
		s.changedLocked()
	}
}

// abandon discards what was not read. It is called when the reader closes.
func (s *stream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone, s.chunks, s.size = true, nil, 0
	s.changedLocked()
}

// loseNext discards the next write, and calls lost instead.
func (s *stream) loseNext(lost func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swallow = lost
}

// setDeadline sets one of the two deadlines.
func (s *stream) setDeadline(which *time.Time, t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	*which = t
	s.changedLocked()
	return nil
}

// changedLocked wakes the goroutines that wait for a change. Each of them checks the stream again.
func (s *stream) changedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait returns when changed is closed, or at the time until, unless that is zero. In a synctest bubble it
// blocks durably. A sync.Cond would do so too, but has no deadlines.
func wait(changed <-chan struct{}, until time.Time) {
	if until.IsZero() {
		<-changed
		return
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

func passed(deadline, now time.Time) bool {
	return !deadline.IsZero() && !deadline.After(now)
}

// earliest returns the earlier of two times. A zero time means never.
func earliest(a, b time.Time) time.Time {
	if b.IsZero() || (!a.IsZero() && a.Before(b)) {
		return a
	}
	return b
}
