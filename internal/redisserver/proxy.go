package redisserver

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy stands between clients and a server and plays the network: it can
// hold back what clients send and deliver it later, also when the client has
// closed its connection meanwhile, as a network with a long queue does.
// What the client sent first is delivered so; the rest is lost. It can also play a
// proxy that hides from its clients that the server has ended, or is another.
type Proxy struct {
	listener net.Listener
	done     sync.WaitGroup

	mu     sync.Mutex // guards what follows
	target string
	keeps  bool
	held   chan struct{}
	open   map[net.Conn]bool
	relays map[*relay]bool
	shut   bool
}

// ProxyTB starts a Proxy before addr on a free loopback port, until tb ends.
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

// Hold keeps back what the connections that exist send from now on; later
// connections pass.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// Release delivers the first piece that each held connection was to send, and
// cuts it there.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// Keep has the proxy keep its clients' connections, from now on, when their server
// ends: it dials its target, until that answers, with the next that the client
// sends. What the server had not answered is lost.
func (p *Proxy) Keep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keeps = true
}

// Aim has the proxy lead to addr from now on: new connections, and those that it
// keeps. Those that it does not keep still lead to where they led.
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
		r := &relay{proxy: p, client: client, passes: p.held != nil} // made while others are held: it is not one of them
		p.relays[r] = true
		p.mu.Unlock()
		if !p.note(client) || r.dial() != nil {
			r.close()
			continue
		}
		p.done.Go(r.up)
	}
}

// note notes a connection, to be closed in the end, and reports whether that has
// not come.
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

// A relay is one client's connection, and the server's to which it leads now.
type relay struct {
	proxy  *Proxy   // immutable
	client net.Conn // immutable
	passes bool     // it is not to be held; immutable

	mu     sync.Mutex // guards what follows
	server net.Conn   // nil if it has ended, and another is to be dialled
}

// dial connects to the target.
func (r *relay) dial() error {
	p := r.proxy
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return err
	}
	if !p.note(server) {
		server.Close()
		return net.ErrClosed
	}
	r.mu.Lock()
	r.server = server
	r.mu.Unlock()
	p.done.Go(func() { r.down(server) })
	return nil
}

// lead returns the server's connection, which it makes again if need be; nil at the
// end.
func (r *relay) lead() net.Conn {
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

// up forwards what the client sends. That arrives even after it has closed.
func (r *relay) up() {
	p := r.proxy
	defer r.close()
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

// send sends to the server what the client has sent, and reports whether that can
// go on.
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

// down forwards what a server's connection sends.
func (r *relay) down(server net.Conn) {
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
				r.client.Close()
			}
			return
		}
	}
}

// lost takes note that a server's connection has ended, and reports whether the
// client's is to end with it.
func (r *relay) lost(server net.Conn) bool {
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

// leave leaves the server.
func (r *relay) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server != nil {
		r.server.Close()
		r.server = nil
	}
}

// close closes both ends.
func (r *relay) close() {
	r.client.Close()
	r.leave()
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	delete(r.proxy.relays, r)
}
