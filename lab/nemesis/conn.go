package main

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A conn is a client's connection through a link, together with the connection to the server that
// it is forwarded to.
type conn struct {
	link   *link        // immutable
	client *net.TCPConn // immutable
	silent atomic.Bool  // it is half-open: see link.silence
	up     flow
	down   flow
	gone   chan struct{} // closed when it has been cut
	once   sync.Once     // closes gone

	mu         sync.Mutex // guards what follows
	server     *net.TCPConn
	replaced   chan struct{} // closed when server changes
	asked      counter       // commands of the client
	answered   counter       // replies of the server
	subscribed bool          // a new server process would not know the subscription
	left       bool          // the client has closed
}

// A flow is one direction of a conn.
type flow struct {
	holed atomic.Bool // bytes were dropped, so later bytes must not arrive either
}

func newConn(k *link, client *net.TCPConn) *conn {
	return &conn{link: k, client: client, gone: make(chan struct{}), replaced: make(chan struct{})}
}

// run carries bytes both ways until the connection ends.
func (c *conn) run() {
	defer c.link.forget(c)
	defer c.cut()
	server, err := dialTCP(c.link.target)
	if err != nil {
		return
	}
	c.lead(server)
	var ways sync.WaitGroup
	ways.Go(c.carryUp)
	ways.Go(func() { c.carryDown(server) })
	ways.Wait()
}

func dialTCP(addr string) (*net.TCPConn, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
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

// lead forwards the connection to server from now on.
func (c *conn) lead(server *net.TCPConn) {
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
}

// A piece is the result of one read.
type piece struct {
	data []byte
	at   time.Time
}

// pieces reads from a connection until it ends. The channel has each piece with its time.
func (c *conn) pieces(from *net.TCPConn, note func([]byte)) <-chan piece {
	ch := make(chan piece, 256)
	c.link.done.Go(func() {
		defer close(ch)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if n > 0 {
				note(buf[:n])
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

func (c *conn) noteAsked(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked.feed(p)
	c.subscribed = c.subscribed || bytes.Contains(p, []byte("SUBSCRIBE"))
}

func (c *conn) noteAnswered(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered.feed(p)
}

// send writes to the server. If the link keeps connections, it waits for the server's next process
// when the write fails.
func (c *conn) send(data []byte) bool {
	for {
		c.mu.Lock()
		server, replaced := c.server, c.replaced
		c.mu.Unlock()
		if _, err := server.Write(data); err == nil {
			return true
		} else if !c.link.keeps {
			return false
		}
		select {
		case <-replaced:
		case <-c.gone:
			return false
		}
	}
}

// carryDown forwards what the server sends. When the server's connection ends, carryDown connects to
// the server's next process, if keeps allows it.
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

// keeps reports whether the client's connection survives the end of the server's: the link keeps
// connections, the client waits for no reply, and it has no subscription.
func (c *conn) keeps() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link.keeps && !c.subscribed && !c.left && c.asked.values == c.answered.values
}

// keepMost is how long a connection without a server is kept.
const keepMost = 5 * time.Second

// redial dials the server until it answers. It returns nil if it does not within keepMost.
func (c *conn) redial() *net.TCPConn {
	for end := time.Now().Add(keepMost); time.Now().Before(end); {
		if server, err := dialTCP(c.link.target); err == nil {
			c.lead(server)
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

// await waits until a piece is due, and reports whether it is to be delivered. If the link loses a
// piece, it also loses everything behind it in the same direction.
func (c *conn) await(p piece, up bool) bool {
	f := &c.down
	if up {
		f = &c.up
	}
	_, delay, _ := c.link.look(up)
	for {
		w, _, changed := c.link.look(up)
		if w.mode == loses {
			f.holed.Store(true)
		}
		if c.silent.Load() || f.holed.Load() {
			return false
		}
		var due <-chan time.Time
		if w.mode == passes {
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
