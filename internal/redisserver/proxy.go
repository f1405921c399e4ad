package redisserver

import (
	"net"
	"sync"
	"testing"
)

// A Proxy stands between clients and a server and plays the network: it can
// hold back what clients send and deliver it later, also when the client has
// closed its connection meanwhile, as a network with a long queue does.
// What the client sent first is delivered so; the rest is lost.
type Proxy struct {
	listener net.Listener
	target   string
	done     sync.WaitGroup

	mu   sync.Mutex // guards what follows
	held chan struct{}
	open map[net.Conn]bool
	shut bool
}

// ProxyTB starts a Proxy before addr on a free loopback port, until tb ends.
func ProxyTB(tb testing.TB, addr string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{listener: l, target: addr, open: make(map[net.Conn]bool)}
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

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil || !p.keep(client, server) {
			client.Close()
			continue
		}
		p.mu.Lock()
		passes := p.held != nil // made while others are held: it is not one of them
		p.mu.Unlock()
		p.done.Go(func() {
			// What the client has sent arrives even after it has closed.
			p.forward(server, client, passes)
			server.Close()
		})
		p.done.Go(func() {
			p.forward(client, server, true)
			client.Close()
		})
	}
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.open[c] = true
	}
	return !p.shut
}

func (p *Proxy) forward(to, from net.Conn, passes bool) {
	buf := make([]byte, 1<<20)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.mu.Lock()
			held := p.held
			p.mu.Unlock()
			late := held != nil && !passes
			if late {
				<-held
			}
			if _, err := to.Write(buf[:n]); err != nil || late {
				return
			}
		}
		if err != nil {
			return
		}
	}
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
