package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// A relay passes connections on to one master until it is cut. It makes that master
// unreachable for the demo and for nobody else.
type relay struct {
	url    string // immutable; the master's URL with the relay's address in it
	target string // immutable; host:port of the master
	tls    *tls.Config
	ln     net.Listener

	wg sync.WaitGroup // the accepting goroutine and two per connection

	mu    sync.Mutex // guards conns and isCut
	conns map[net.Conn]struct{}
	isCut bool
}

// startRelay starts a relay to m, which has an addr. Towards a rediss:// master the relay
// speaks TLS itself, and its own side is plain: the certificate names the master, not
// loopback, and what passes there never leaves this machine.
func startRelay(m master) (*relay, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a relay to %s: %w", m.name, err)
	}
	r := &relay{target: m.addr, ln: ln, conns: make(map[net.Conn]struct{})}
	r.url = r.addr()
	if m.parsed != nil {
		u := *m.parsed
		if u.Scheme == "rediss" {
			r.tls = &tls.Config{ServerName: u.Hostname()}
		}
		u.Scheme, u.Host = "redis", r.addr()
		r.url = u.String()
	}
	r.wg.Go(r.accept)
	return r, nil
}

// addr returns the address at which the relay listens.
func (r *relay) addr() string { return r.ln.Addr().String() }

// cut closes every connection, refuses new ones, and waits for the relay's goroutines.
// Idempotent.
func (r *relay) cut() {
	r.mu.Lock()
	r.isCut = true // so conns only shrinks from here on
	conns := slices.Collect(maps.Keys(r.conns))
	r.mu.Unlock()
	r.ln.Close()
	for _, conn := range conns {
		conn.Close() // not under mu: TLS says goodbye first, which may take its time
	}
	r.wg.Wait()
}

// accept serves connections until the listener is closed.
func (r *relay) accept() {
	for {
		near, err := r.ln.Accept()
		if err != nil {
			return
		}
		if r.keep(near) {
			r.wg.Go(func() { r.serve(near) })
		}
	}
}

// serve dials the master and copies both ways until either side ends.
func (r *relay) serve(near net.Conn) {
	defer r.drop(near)
	far, err := r.dial()
	if err != nil || !r.keep(far) {
		return
	}
	defer r.drop(far)
	r.wg.Go(func() {
		io.Copy(far, near)
		// Half-closing would be exact, and pointless: no Redis client waits for answers
		// after it has closed.
		far.Close()
	})
	io.Copy(near, far)
}

// dial connects to the master, with a bound: cut waits for it.
func (r *relay) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if r.tls != nil {
		return (&tls.Dialer{Config: r.tls}).DialContext(ctx, "tcp", r.target)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", r.target)
}

// keep puts conn among those that cut closes. If that has happened it closes conn and
// reports false.
func (r *relay) keep(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isCut {
		conn.Close()
		return false
	}
	r.conns[conn] = struct{}{}
	return true
}

// drop closes conn and forgets it.
func (r *relay) drop(conn net.Conn) {
	conn.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, conn)
}
