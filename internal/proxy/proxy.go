// Package proxy has proxies that stand between clients and a server and simulate the network, for tests and for
// `redlock verify`.
package proxy

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// A Mode is what a Proxy does to the bytes of one direction.
type Mode int

const (
	// Passes delivers them.
	Passes Mode = iota
	// Holds keeps them, and delivers them when the Proxy passes again.
	Holds
	// Loses drops them, and resets the connection when the fault ends.
	Loses
)

// A Way is one direction of a Proxy.
type Way struct {
	// Mode is what happens to the bytes.
	Mode Mode
	// Latency is how much later a piece arrives.
	Latency time.Duration
	// Jitter is the most that is added at random to the latency of a piece.
	Jitter time.Duration
}

// Keeping says which connections of clients a Proxy keeps when their server ends. It leads them to the server that
// listens at its target next.
type Keeping int

const (
	// KeepsNone ends them all.
	KeepsNone Keeping = iota
	// KeepsIdle keeps those that wait for no reply and have no subscription, as a careful proxy does.
	KeepsIdle
	// KeepsAll keeps them all. Requests that were not answered are lost.
	KeepsAll
)

// A Proxy forwards connections to a server. Connecting to it takes no time. It delivers what a client has sent, even
// if the client has closed its connection meanwhile, like a network with a long queue.
type Proxy struct {
	listener net.Listener

	done sync.WaitGroup

	mu       sync.Mutex // guards what follows
	target   string
	keeps    Keeping
	rng      *rand.Rand
	up, down Way           // to the server, and from it
	changed  chan struct{} // closed when up, down or a connection's hold change
	conns    map[*conn]bool
	shut     bool
}

// New starts a Proxy for the server at target, on a free loopback port. The seed determines the jitter.
func New(target string, up, down Way, keeps Keeping, seed uint64) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		listener: l, target: target, keeps: keeps, rng: rand.New(rand.NewPCG(seed, 0)), up: up, down: down,
		changed: make(chan struct{}), conns: make(map[*conn]bool),
	}
	p.done.Go(p.accept)
	return p, nil
}

// A test is a testing.TB. The command uses this package, and needs no package of tests.
type test interface {
	Helper()
	Fatal(args ...any)
	Cleanup(func())
}

// TB starts a Proxy that passes everything at once, until the test of tb ends.
func TB(tb test, target string) *Proxy {
	tb.Helper()
	p, err := New(target, Way{}, Way{}, KeepsNone, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// Addr returns the address that clients dial.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		c := newConn(p, client.(*net.TCPConn))
		p.mu.Lock()
		shut := p.shut
		if !shut {
			p.conns[c] = true
		}
		p.mu.Unlock()
		if shut {
			c.cut()
			continue
		}
		p.done.Go(c.run)
	}
}

// Change changes both directions.
func (p *Proxy) Change(f func(up, down *Way)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.up, &p.down)
	close(p.changed)
	p.changed = make(chan struct{})
}

// Delay sets the latency of both directions. So a round trip takes 2 d more.
func (p *Proxy) Delay(d time.Duration) {
	p.Change(func(up, down *Way) { up.Latency, down.Latency = d, d })
}

// look returns the state of a direction, the delay of a piece that is sent now, and a channel that is closed when the
// state changes.
func (p *Proxy) look(up bool) (Way, time.Duration, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.down
	if up {
		w = p.up
	}
	delay := w.Latency
	if w.Jitter > 0 {
		delay += time.Duration(p.rng.Int64N(int64(w.Jitter)))
	}
	return w, delay, p.changed
}

// each calls f for each connection that stands.
func (p *Proxy) each(f func(*conn)) {
	p.mu.Lock()
	conns := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		conns = append(conns, c)
	}
	p.mu.Unlock()
	for _, c := range conns {
		f(c)
	}
}

// Hold holds back what the present connections send from now on. Later connections pass.
func (p *Proxy) Hold() { p.each(func(c *conn) { c.held.Store(true) }) }

// Reset resets all connections.
func (p *Proxy) Reset() { p.each((*conn).cut) }

// Silence makes all connections half-open: they drop everything, and neither side is told.
func (p *Proxy) Silence() { p.each(func(c *conn) { c.silent.Store(true) }) }

// Mend lets the Proxy pass again, and resets the connections that have lost bytes.
func (p *Proxy) Mend() {
	p.each(func(c *conn) { c.held.Store(false) })
	p.Change(func(up, down *Way) { up.Mode, down.Mode = Passes, Passes })
	p.each(func(c *conn) {
		if c.up.holed.Load() || c.down.holed.Load() {
			c.cut()
		}
	})
}

// KeepAll makes the Proxy keep all connections from now on.
func (p *Proxy) KeepAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keeps = KeepsAll
}

// Aim makes the Proxy forward to addr from now on: new connections, and those that it may keep. Other connections stay
// with their server.
func (p *Proxy) Aim(addr string) {
	p.mu.Lock()
	p.target = addr
	p.mu.Unlock()
	p.each(func(c *conn) {
		if c.keeps() {
			c.leave()
		}
	})
}

// aim returns where connections lead now, and which of them are kept.
func (p *Proxy) aim() (target string, keeps Keeping) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target, p.keeps
}

func (p *Proxy) forget(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// Close resets all connections, and returns when the Proxy has ended.
func (p *Proxy) Close() {
	p.listener.Close()
	p.mu.Lock()
	p.shut = true
	p.mu.Unlock()
	p.Reset()
	p.done.Wait()
}
