package main

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// A mode is what a link does to the bytes of one direction.
type mode int

const (
	passes mode = iota // it delivers them
	holds              // it keeps them, and delivers them when it passes again
	loses              // it drops them, and resets the connection when the fault ends
)

// A way is one direction of a link.
type way struct {
	mode    mode
	latency time.Duration
	jitter  time.Duration // the most that is added at random to the latency of a piece
}

// A link is the network between one client and one master: a proxy that the client dials instead
// of the master. A fault of a link affects one client only.
type link struct {
	listener net.Listener
	target   string // immutable; the master's address
	keeps    bool   // it keeps an idle connection whose server has ended; immutable

	done sync.WaitGroup

	mu       sync.Mutex // guards what follows
	rng      *rand.Rand
	up, down way           // to the master, and from it
	changed  chan struct{} // closed when up or down change
	conns    map[*conn]bool
	shut     bool
}

// newLink starts a link on a free loopback port. up and down are its latencies.
func newLink(target string, up, down way, keeps bool, rng *rand.Rand) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{
		listener: l, target: target, keeps: keeps, rng: rng, up: up, down: down,
		changed: make(chan struct{}), conns: make(map[*conn]bool),
	}
	k.done.Go(k.accept)
	return k, nil
}

func (k *link) addr() string { return k.listener.Addr().String() }

func (k *link) accept() {
	for {
		client, err := k.listener.Accept()
		if err != nil {
			return
		}
		c := newConn(k, client.(*net.TCPConn))
		k.mu.Lock()
		shut := k.shut
		if !shut {
			k.conns[c] = true
		}
		k.mu.Unlock()
		if shut {
			c.cut()
			continue
		}
		k.done.Go(c.run)
	}
}

// change changes both directions.
func (k *link) change(f func(up, down *way)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(&k.up, &k.down)
	close(k.changed)
	k.changed = make(chan struct{})
}

// look returns the state of a direction, the delay of a piece that is sent now, and a channel that
// is closed when the state changes.
func (k *link) look(up bool) (way, time.Duration, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.down
	if up {
		w = k.up
	}
	delay := w.latency
	if w.jitter > 0 {
		delay += time.Duration(k.rng.Int64N(int64(w.jitter)))
	}
	return w, delay, k.changed
}

// each calls f for each connection that stands.
func (k *link) each(f func(*conn)) {
	k.mu.Lock()
	conns := make([]*conn, 0, len(k.conns))
	for c := range k.conns {
		conns = append(conns, c)
	}
	k.mu.Unlock()
	for _, c := range conns {
		f(c)
	}
}

// reset resets all connections.
func (k *link) reset() { k.each((*conn).cut) }

// silence makes all connections half-open: they drop everything, and neither side is told.
func (k *link) silence() { k.each(func(c *conn) { c.silent.Store(true) }) }

// mend lets the link pass again, and resets the connections that have lost bytes.
func (k *link) mend() {
	k.change(func(up, down *way) { up.mode, down.mode = passes, passes })
	k.each(func(c *conn) {
		if c.up.holed.Load() || c.down.holed.Load() {
			c.cut()
		}
	})
}

func (k *link) forget(c *conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, c)
}

func (k *link) close() {
	k.listener.Close()
	k.mu.Lock()
	k.shut = true
	k.mu.Unlock()
	k.reset()
	k.done.Wait()
}
