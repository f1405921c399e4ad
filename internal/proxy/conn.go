package proxy

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/redisconn"
)

// A conn is a client's connection, together with the connection to the server that it is forwarded to.
type conn struct {
	proxy  *Proxy       // immutable
	client *net.TCPConn // immutable
	silent atomic.Bool  // it is half-open: see Proxy.Silence
	held   atomic.Bool  // what the client sends is held back: see Proxy.Hold
	up     flow
	down   flow
	gone   chan struct{} // closed when it has been cut
	once   sync.Once     // closes gone

	mu       sync.Mutex // guards what follows
	server   *net.TCPConn
	replaced chan struct{} // closed when server changes
	awaited  int           // commands of the client whose replies have not arrived
	bound    bool          // a new server would not know its subscription, or that it speaks RESP3
	left     bool          // the client has closed
}

// A flow is one direction of a conn.
type flow struct {
	holed atomic.Bool // bytes were dropped, so later bytes must not arrive either
}

func newConn(p *Proxy, client *net.TCPConn) *conn {
	return &conn{proxy: p, client: client, gone: make(chan struct{}), replaced: make(chan struct{})}
}

// run carries bytes both ways until the connection ends.
func (c *conn) run() {
	defer c.proxy.forget(c)
	defer c.cut()
	server, err := c.dial()
	if err != nil {
		return
	}
	var ways sync.WaitGroup
	ways.Go(c.carryUp)
	ways.Go(func() { c.carryDown(server) })
	ways.Wait()
}

// dial connects to the server, and forwards the connection there from now on.
func (c *conn) dial() (*net.TCPConn, error) {
	target, _ := c.proxy.aim()
	to, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil {
		return nil, err
	}
	server := to.(*net.TCPConn)
	c.mu.Lock()
	c.server = server
	close(c.replaced)
	c.replaced = make(chan struct{})
	c.mu.Unlock()
	select {
	case <-c.gone:
		server.Close()
	default:
	}
	return server, nil
}

// cut resets both ends.
func (c *conn) cut() {
	c.once.Do(func() { close(c.gone) })
	c.client.SetLinger(0)
	c.client.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		c.server.SetLinger(0)
		c.server.Close()
	}
}

// leave ends the connection to the server.
func (c *conn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		c.server.Close()
	}
}

// A piece is the result of one read.
type piece struct {
	data []byte
	at   time.Time
}

// pieces reads from a connection until it ends. The channel has each piece with its time. note is called for each
// piece before that, with the number of commands or replies that end in it.
func (c *conn) pieces(from net.Conn, note func(data []byte, ends int)) <-chan piece {
	ch := make(chan piece, 256)
	c.proxy.done.Go(func() {
		defer close(ch)
		for in := redisconn.Bounded(from); ; {
			buf, before := make([]byte, 16<<10), in.Complete()
			n, err := in.Read(buf)
			if n > 0 {
				note(buf[:n], in.Complete()-before)
				select {
				case ch <- piece{buf[:n], time.Now()}:
				case <-c.gone:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	return ch
}

// carryUp forwards what the client sends. Bytes that were sent before the client closed its
// connection still arrive, as in a network with a long queue.
func (c *conn) carryUp() {
	for p := range c.pieces(c.client, c.noteAsked) {
		if c.await(p, true) && !c.send(p.data) {
			c.cut()
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = true
	c.server.CloseWrite() // the server closes when it has read all
}

func (c *conn) noteAsked(data []byte, ends int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaited += ends
	c.bound = c.bound || bytes.Contains(data, []byte("SUBSCRIBE")) || bytes.Contains(data, []byte("HELLO"))
}

func (c *conn) noteAnswered(_ []byte, ends int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaited -= ends
}

// send writes to the server. If the Proxy keeps connections, send waits for the next server when the write fails.
func (c *conn) send(data []byte) bool {
	for {
		c.mu.Lock()
		server, replaced := c.server, c.replaced
		c.mu.Unlock()
		if _, err := server.Write(data); err == nil {
			return true
		} else if _, keeps := c.proxy.aim(); keeps == KeepsNone {
			return false
		}
		select {
		case <-replaced:
		case <-c.gone:
			return false
		}
	}
}

// carryDown forwards what the server sends. When the server's connection ends, carryDown connects to the next server,
// if keeps allows it.
func (c *conn) carryDown(server *net.TCPConn) {
	for {
		for p := range c.pieces(server, c.noteAnswered) {
			if c.await(p, false) {
				c.client.Write(p.data) // fails if the client has closed; its requests still pass
			}
		}
		if !c.keeps() {
			break
		}
		if server = c.redial(); server == nil {
			break
		}
	}
	c.cut()
}

// keeps reports whether the client's connection survives the end of the server's.
func (c *conn) keeps() bool {
	_, keeps := c.proxy.aim()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch keeps {
	case KeepsAll:
		return !c.left
	case KeepsIdle:
		return !c.left && !c.bound && c.awaited == 0
	}
	return false
}

// keepMost is how long a connection without a server is kept.
const keepMost = 5 * time.Second

// redial dials the server until it answers. It returns nil if it does not within keepMost.
func (c *conn) redial() *net.TCPConn {
	for end := time.Now().Add(keepMost); time.Now().Before(end); {
		if server, err := c.dial(); err == nil {
			return server
		}
		select {
		case <-c.gone:
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// await waits until a piece is due, and reports whether it is to be delivered. If the Proxy loses a
// piece, it also loses everything behind it in the same direction.
func (c *conn) await(p piece, up bool) bool {
	f := &c.down
	if up {
		f = &c.up
	}
	_, delay, _ := c.proxy.look(up)
	for {
		w, _, changed := c.proxy.look(up)
		if w.Mode == Loses {
			f.holed.Store(true)
		}
		if c.silent.Load() || f.holed.Load() {
			return false
		}
		var due <-chan time.Time
		if w.Mode == Passes && !(up && c.held.Load()) {
			wait := time.Until(p.at.Add(delay))
			if wait <= 0 {
				return true
			}
			due = time.After(wait)
		}
		select {
		case <-due:
			return true
		case <-changed:
		case <-c.gone:
			return false
		}
	}
}
