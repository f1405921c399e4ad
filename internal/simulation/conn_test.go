package simulation

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// A conn is the process's end of a connection over a link. The link's mutex guards it.
type conn struct {
	link *link // immutable

	server    net.Conn // the connection to the master behind the link; changes when a subscription is left behind
	subscribe []byte   // the command by which the client has subscribed; nil: it has not

	queues  [2]queue // by direction
	ended   error    // read behind what has arrived; nil while the master's end is open
	broken  error    // if set, every Read and Write fails with it at once
	closed  bool     // nothing more is sent; the master sees the end behind what was sent
	silent  bool     // the master does not see the end
	readBy  time.Time
	changed chan struct{}
}

// A queue holds the chunks under way in one direction, oldest first.
type queue struct {
	chunks []chunk
	last   time.Time // when the newest arrives
}

// A chunk is what one write added.
type chunk struct {
	data []byte
	due  time.Time
}

// push adds data that arrives at due, but not before what was pushed earlier.
func (q *queue) push(data []byte, due time.Time) {
	if due.Before(q.last) {
		due = q.last
	}
	q.last = due
	q.chunks = append(q.chunks, chunk{data, due})
}

// notBefore postpones what would arrive before t.
func (q *queue) notBefore(t time.Time) {
	for i := range q.chunks {
		if q.chunks[i].due.Before(t) {
			q.chunks[i].due = t
		}
	}
	if len(q.chunks) > 0 && q.last.Before(t) {
		q.last = t
	}
}

// postpone makes everything arrive later by late, counted from now if it is due already.
func (q *queue) postpone(now time.Time, late time.Duration) {
	q.notBefore(now)
	for i := range q.chunks {
		q.chunks[i].due = q.chunks[i].due.Add(late)
	}
}

// keepOnTheWay drops the data that a blocked link has kept.
func (q *queue) keepOnTheWay(now time.Time) {
	for i := range q.chunks {
		if q.chunks[i].due.After(now) {
			q.chunks = q.chunks[i:]
			return
		}
	}
	q.chunks = nil
}

var _ net.Conn = (*conn)(nil)

func (c *conn) changedLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *conn) Write(p []byte) (int, error) {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.broken != nil:
		return 0, c.broken
	case c.closed:
		return 0, net.ErrClosed
	}
	data := bytes.Clone(p)
	for _, command := range l.denied {
		data = bytes.ReplaceAll(data, []byte("\r\n"+command+"\r\n"), []byte("\r\n"+strings.Repeat("X", len(command))+"\r\n"))
	}
	if bytes.Contains(data, []byte("\r\nSUBSCRIBE\r\n")) {
		c.subscribe = data
	}
	c.queues[toMaster].push(data, time.Now().Add(l.travelLocked(toMaster)))
	c.changedLocked()
	return len(p), nil
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		c.link.mu.Lock()
		n, until, err := c.readLocked(p)
		changed := c.changed
		c.link.mu.Unlock()
		if n > 0 || err != nil {
			return n, err
		}
		await(changed, nil, until)
	}
}

// readLocked reads what has arrived. If that is nothing it returns when to look again, unless
// something changes; zero for never.
func (c *conn) readLocked(p []byte) (n int, until time.Time, err error) {
	now := time.Now()
	q := &c.queues[toClient]
	switch {
	case c.broken != nil:
		return 0, until, c.broken
	case c.closed:
		return 0, until, net.ErrClosed
	case !c.readBy.IsZero() && !c.readBy.After(now):
		return 0, until, os.ErrDeadlineExceeded
	case c.link.blocked[toClient] > 0:
		return 0, c.readBy, nil
	case len(q.chunks) == 0:
		return 0, c.readBy, c.ended
	case q.chunks[0].due.After(now):
		if due := q.chunks[0].due; c.readBy.IsZero() || due.Before(c.readBy) {
			return 0, due, nil
		}
		return 0, c.readBy, nil
	}
	first := &q.chunks[0]
	n = copy(p, first.data)
	if first.data = first.data[n:]; len(first.data) == 0 {
		q.chunks = q.chunks[1:]
	}
	return n, until, nil
}

// Close sends what was written, and then the end of the connection.
func (c *conn) Close() error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.closed = true
	c.changedLocked()
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.readBy = t
	c.changedLocked()
	return nil
}

// SetDeadline sets the deadline of reads: a Write never blocks.
func (c *conn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
func (c *conn) LocalAddr() net.Addr              { return c.server.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr             { return c.server.RemoteAddr() }

// send carries requests to the master until the connection ends.
func (c *conn) send() {
	for {
		data, more := c.nextRequest()
		c.link.mu.Lock()
		server := c.server
		c.link.mu.Unlock()
		if !more {
			server.Close()
			return
		}
		if _, err := server.Write(data); err != nil {
			c.link.mu.Lock()
			same := server == c.server
			c.link.mu.Unlock()
			server.Close()
			if same {
				return
			}
		}
	}
}

// leaveBehind moves the subscription to another server, as if it had been there before: the master's address leads
// elsewhere now, and the server that was there lives on.
func (c *conn) leaveBehind(server net.Conn) error {
	c.link.mu.Lock()
	command := c.subscribe
	c.link.mu.Unlock()
	if _, err := server.Write(command); err != nil {
		return err
	}
	channel := command[bytes.LastIndexByte(command[:len(command)-2], '\n')+1 : len(command)-2]
	reply := fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(channel), channel)
	if _, err := io.ReadFull(server, make([]byte, len(reply))); err != nil {
		return err
	}
	c.link.mu.Lock()
	c.server = server
	c.link.mu.Unlock()
	go c.fetch()
	return nil
}

// nextRequest waits for the next request to arrive at the master. It reports false at the end.
func (c *conn) nextRequest() ([]byte, bool) {
	l := c.link
	for {
		l.mu.Lock()
		q, changed, until := &c.queues[toMaster], c.changed, time.Time{}
		switch now := time.Now(); {
		case len(q.chunks) == 0 && c.closed && !c.silent:
			l.mu.Unlock()
			return nil, false
		case len(q.chunks) == 0 || l.blocked[toMaster] > 0:
		case q.chunks[0].due.After(now):
			until = q.chunks[0].due
		default:
			data := q.chunks[0].data
			q.chunks = q.chunks[1:]
			l.mu.Unlock()
			return data, true
		}
		l.mu.Unlock()
		await(changed, nil, until)
	}
}

// fetch takes replies from the master until the connection ends.
func (c *conn) fetch() {
	l := c.link
	l.mu.Lock()
	server := c.server
	l.mu.Unlock()
	for {
		buf := make([]byte, 4096)
		n, err := server.Read(buf)
		l.mu.Lock()
		if server != c.server {
			l.mu.Unlock()
			return
		}
		if n > 0 {
			c.queues[toClient].push(buf[:n], time.Now().Add(l.travelLocked(toClient)))
		}
		if err != nil {
			c.ended = err
		}
		c.changedLocked()
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}
