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

// requestBuffer is how many bytes of requests a connection takes before a write blocks. A kernel takes megabytes; less lets a test meet a full
// socket without sending megabytes.
const requestBuffer = 64 << 10

// conn is one end of an in-memory connection. Unlike net.Pipe's ends it is
// buffered, which is what makes it behave like a socket: a client may write
// a long pipeline before it reads a reply, what it wrote reaches the master
// although it closes, and no master is stuck, holding its lock, in a PUBLISH to
// a subscriber that does not read.
type conn struct {
	in, out *stream // immutable
	name    addr    // immutable
}

var _ net.Conn = (*conn)(nil)

// newConn returns both ends of a connection. A request arrives delay after it
// was written, in nanoseconds at that moment.
func newConn(name string, delay *atomic.Int64) (client, server *conn) {
	up := &stream{limit: requestBuffer, delay: delay, changed: make(chan struct{})}
	down := &stream{changed: make(chan struct{})}
	return &conn{in: down, out: up, name: addr(name)}, &conn{in: up, out: down, name: addr(name)}
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close lets the other end read what was written, then the end of file.
func (c *conn) Close() error {
	c.out.finish(io.EOF)
	c.in.abandon()
	return nil
}

// cut breaks the connection, called on the server's end: requests that were
// not read yet are lost; the client reads the replies that were written, then
// a reset.
func (c *conn) cut() {
	c.out.finish(syscall.ECONNRESET)
	c.in.abandon()
}

func (c *conn) LocalAddr() net.Addr  { return c.name }
func (c *conn) RemoteAddr() net.Addr { return c.name }

func (c *conn) SetDeadline(t time.Time) error {
	c.in.setReadBy(t)
	c.out.setWriteBy(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error  { c.in.setReadBy(t); return nil }
func (c *conn) SetWriteDeadline(t time.Time) error { c.out.setWriteBy(t); return nil }

// addr is the address of both ends of a connection: the master's name.
type addr string

func (addr) Network() string  { return "redlocktest" }
func (a addr) String() string { return string(a) }

// stream is one direction of a connection.
type stream struct {
	limit int           // bytes that may wait, 0 for no limit; immutable
	delay *atomic.Int64 // nanoseconds from a write to its arrival, nil for none; immutable

	mu      sync.Mutex // guards what follows; never held while waiting
	chunks  []chunk    // written and not yet read, oldest first
	size    int        // bytes in chunks
	end     error      // once set, nothing more is written, and it is read behind the chunks
	gone    bool       // the reader has closed
	swallow func()     // if set: the next write is lost, and this is called for it
	readBy  time.Time  // the reader's deadline, zero for none
	writeBy time.Time  // the writer's deadline, zero for none
	changed chan struct{}
}

// chunk is what one write added.
type chunk struct {
	data []byte
	due  time.Time // when it arrives, zero for at once
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

// readLocked reads what has arrived. If that is nothing, it returns the time at
// which to look again, unless something changes before; zero for never.
func (s *stream) readLocked(p []byte) (n int, until time.Time, err error) {
	now := time.Now()
	switch {
	case s.gone:
		return 0, until, net.ErrClosed
	case passed(s.readBy, now):
		// Before the data, as a socket does it: a deadline in the past is how
		// a reader is stopped, also one that is behind.
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

// writeLocked takes as much of p as there is room for.
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
	var due time.Time
	if s.delay != nil {
		if d := s.delay.Load(); d > 0 {
			due = now.Add(time.Duration(d))
		}
	}
	s.appendLocked(chunk{data: bytes.Clone(p), due: due}) // a copy: the caller will reuse p
	return len(p), nil
}

func (s *stream) appendLocked(c chunk) {
	s.chunks = append(s.chunks, c)
	s.size += len(c.data)
	s.changedLocked()
}

// prepend adds data that arrives at once, whatever the delay. It is called
// before anybody else knows the stream.
func (s *stream) prepend(data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appendLocked(chunk{data: data})
}

// finish ends the stream: err is read behind what was written. The first one counts.
func (s *stream) finish(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == nil {
		s.end = err
		s.changedLocked()
	}
}

// abandon drops what was not read; nobody will read it.
func (s *stream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone, s.chunks, s.size = true, nil, 0
	s.changedLocked()
}

// loseNext makes the next write disappear and lost be called for it.
func (s *stream) loseNext(lost func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swallow = lost
}

func (s *stream) setReadBy(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readBy = t
	s.changedLocked()
}

func (s *stream) setWriteBy(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeBy = t
	s.changedLocked()
}

// changedLocked wakes those who wait for a change. Each of them looks again.
func (s *stream) changedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait returns when changed is closed, or at until unless that is zero. It is
// a durable block for synctest, which a sync.Cond would be too, but that knows
// no deadlines.
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

// earliest returns the earlier of two times, of which zero means never.
func earliest(a, b time.Time) time.Time {
	if b.IsZero() || (!a.IsZero() && a.Before(b)) {
		return a
	}
	return b
}
