package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/alicebob/miniredis/v2"

	"github.com/redlock-go/redlock/internal/farexpiry"
)

// embeddedMasters is how many masters the demo brings along. Two of five may be missing.
const embeddedMasters = 5

// demoMasters are the masters of a demo. One of them, the victim, is taken away half way.
type demoMasters struct {
	urls  []string // what the workers open; may hold passwords, never printed
	names []string // the masters' addresses
	kind  string   // "embedded" or "given"

	take func() // takes the victim away; nil if every master is needed for a majority
	fate string // what take does, for the reader
}

// openDemoMasters returns the given masters, or starts embedded ones if none is given. What it starts ends with ctx.
func openDemoMasters(ctx context.Context, given []master) (m *demoMasters, err error) {
	if len(given) == 0 {
		m, err = startEmbedded(ctx)
	} else {
		m, err = useServers(ctx, given)
	}
	if err != nil {
		return nil, err
	}
	n := len(m.urls)
	m.fate = fmt.Sprintf("master %d of %d (%s) %s", n/2+1, n, m.names[n/2], m.fate)
	return m, nil
}

// startEmbedded starts masters in this process. Nobody holds a lock on them, so they are adopted.
func startEmbedded(ctx context.Context) (*demoMasters, error) {
	m := &demoMasters{kind: "embedded", fate: "is stopped"}
	for i := range embeddedMasters {
		s := miniredis.NewMiniRedis()
		if err := s.Start(); err != nil {
			return nil, fmt.Errorf("starting an embedded master: %w", err)
		}
		farexpiry.Help(s)
		context.AfterFunc(ctx, s.Close) // the victim is closed twice, which does no harm
		s.ClockTTL(true)                // else the lock of a killed worker would never run out
		one, err := parseMasters("an embedded master", s.Addr())
		if err == nil {
			err = adopt(ctx, one[0], 0, embeddedMasters)
		}
		if err != nil {
			return nil, fmt.Errorf("adopting an embedded master: %w", err)
		}
		m.urls, m.names = append(m.urls, s.Addr()), append(m.names, s.Addr())
		if i == embeddedMasters/2 {
			m.take = s.Close
		}
	}
	return m, nil
}

// useServers uses servers that belong to somebody: it neither stops nor adopts them. The workers reach the victim
// through a relay in this process, which is cut.
func useServers(ctx context.Context, given []master) (*demoMasters, error) {
	m := &demoMasters{kind: "given", fate: "is cut off", urls: rawURLs(given), names: addresses(given)}
	if len(given) < 3 {
		return m, nil
	}
	victim := len(given) / 2
	address, cut, err := relay(ctx, given[victim])
	if err != nil {
		return nil, fmt.Errorf("starting a relay: %w", err)
	}
	m.urls[victim], m.take = given[victim].At(address), cut
	return m, nil
}

// relay passes the connections to the address that it returns on to a master, until cut is called or ctx ends. It
// speaks TLS with the master if the URL says so, and plain text with its clients, which are on this machine.
func relay(ctx context.Context, to master) (address string, cut func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, cut = context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { l.Close() })
	go func() {
		for near, err := l.Accept(); err == nil; near, err = l.Accept() {
			go pass(ctx, near, to)
		}
	}()
	return l.Addr().String(), cut, nil
}

// pass copies between near and the master, both ways, until either side or ctx ends.
func pass(ctx context.Context, near net.Conn, to master) {
	defer near.Close()
	far, err := to.Connect(ctx)
	if err != nil {
		return
	}
	defer far.Close()
	defer context.AfterFunc(ctx, func() {
		near.Close()
		far.Close()
	})()
	go func() {
		io.Copy(far, near)
		far.Close()
	}()
	io.Copy(near, far)
}

// relayed reports whether a process that has only the URL needs a relay: one at a socket, or with TLS, whose settings may
// come from flags.
func (m master) relayed() bool { return m.TLS() || strings.HasPrefix(m.Address(), "/") }
