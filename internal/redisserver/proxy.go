package redisserver

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Proxy stands between clients and a server, and simulates the network:
//   - Hold and Release deliver late what clients sent, even if the client has closed its connection
//     meanwhile, like a network with a long queue. The first piece that a client sent is delivered, and
//     the rest is lost.
//   - Keep and Aim simulate a proxy that hides from its clients that the server has ended, or is another
//     one.
//   - Delay simulates a long distance.
type Proxy struct {
	listener net.Listener
	done     sync.WaitGroup
	delay    atomic.Int64 // in nanoseconds, in each direction

	mu     sync.Mutex // guards the fields below
	target string
	keeps  bool
	held   chan struct{}
	open   map[net.Conn]bool
	relays map[*relay]bool
	shut   bool
}

// ProxyTB starts a Proxy for the server at addr, on a free loopback port. The Proxy is closed when the test
// of tb ends.
func ProxyTB(tb testing.TB, addr string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{listener: l, target: addr, open: make(map[net.Conn]bool), relays: make(map[*relay]bool)}
	p.done.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Addr returns the address that clients dial.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Hold holds back what the present connections send from now on. Later connections are not held.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// Delay makes everything that is sent from now on arrive d later, in both directions. So a round trip takes 2
// d more. Connecting is not delayed.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Release delivers the first piece that each held connection has sent, and then cuts the connection.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// Keep makes the proxy keep its clients' connections when their server ends, from now on. When the client
// sends again, the proxy dials its target until the target answers. Requests that the server had not answered
// are lost.
func (p *Proxy) Keep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keeps = true
}

// Aim makes the proxy forward to addr from now on: new connections, and connections that are kept. Other
// connections stay with their server.
func (p *Proxy) Aim(addr string) {
	p.mu.Lock()
	p.target = addr
	var kept []*relay
	if p.keeps {
		for r := range p.relays {
			kept = append(kept, r)
		}
	}
	p.mu.Unlock()
	for _, r := range kept {
		r.leave()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		// Connections that are made after Hold pass.
		r := &relay{proxy: p, client: &delayedConn{Conn: client, delay: &p.delay}, passes: p.held != nil}
		p.relays[r] = true
		p.mu.Unlock()
		if !p.note(client) || r.dial() != nil {
			r.close()
			continue
		}
		p.done.Go(r.up)
	}
}

// note records a connection, so that it is closed at the end. It returns false if the Proxy is closed already.
func (p *Proxy) note(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = true
	return !p.shut
}

func (p *Proxy) isShut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shut
}

func (p *Proxy) close() {
	p.Release()
	p.listener.Close()
	p.mu.Lock()
	p.shut = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.done.Wait()
}

// A relay is one client's connection, together with the connection to its present server.
type relay struct {
	proxy  *Proxy       // immutable
	client *delayedConn // immutable
	passes bool         // it is never held; immutable

	mu     sync.Mutex   // guards server
	server *delayedConn // nil: it has ended, and a new one must be dialled
}

// dial connects to the target.
func (r *relay) dial() error {
	p := r.proxy
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	conn, err := net.Dial("tcp", target)
	if err != nil {
		return err
	}
	if !p.note(conn) {
		conn.Close()
		return net.ErrClosed
	}
	server := &delayedConn{Conn: conn, delay: &p.delay}
	r.mu.Lock()
	r.server = server
	r.mu.Unlock()
	p.done.Go(func() { r.down(server) })
	return nil
}

// lead returns the connection to the server, and dials a new one if there is none. It returns nil if the
// relay has ended.
func (r *relay) lead() *delayedConn {
	for {
		r.mu.Lock()
		server := r.server
		r.mu.Unlock()
		if server != nil {
			return server
		}
		if r.dial() != nil {
			if r.proxy.isShut() {
				return nil
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// up forwards what the client sends, including what arrives after the client has closed.
func (r *relay) up() {
	p := r.proxy
	defer r.close()
	defer r.flush()
	buf := make([]byte, 1<<20)
	for {
		n, err := r.client.Read(buf)
		if n > 0 {
			p.mu.Lock()
			held := p.held
			p.mu.Unlock()
			late := held != nil && !r.passes
			if late {
				<-held
			}
			if !r.send(buf[:n]) || late {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// flush waits until what the client has sent has been written to the server.
func (r *relay) flush() {
	r.mu.Lock()
	server := r.server
	r.mu.Unlock()
	if server != nil {
		server.flush()
	}
}

// send forwards data of the client to the server, and reports whether the relay can go on.
func (r *relay) send(data []byte) bool {
	for {
		server := r.lead()
		if server == nil {
			return false
		}
		if _, err := server.Write(data); err == nil {
			return true
		} else if r.lost(server) {
			return false
		}
	}
}

// down forwards what the server sends on one connection.
func (r *relay) down(server *delayedConn) {
	buf := make([]byte, 1<<20)
	for {
		n, err := server.Read(buf)
		if n > 0 {
			if _, err := r.client.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if r.lost(server) {
				r.client.flush()
				r.client.Close()
			}
			return
		}
	}
}

// lost records that a connection to the server has ended, and reports whether the client's connection must
// end too.
func (r *relay) lost(server *delayedConn) bool {
	p := r.proxy
	p.mu.Lock()
	keeps := p.keeps && !p.shut
	p.mu.Unlock()
	if !keeps {
		return true
	}
	server.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server == server {
		r.server = nil
	}
	return false
}

// leave closes the connection to the server.
func (r *relay) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server != nil {
		r.server.Close()
		r.server = nil
	}
}

// close closes both connections.
func (r *relay) close() {
	r.client.Close()
	r.leave()
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	delete(r.proxy.relays, r)
}
