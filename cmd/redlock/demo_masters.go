package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/alicebob/miniredis/v2"

	"github.com/redlock-go/redlock/internal/masterurl"
)

// embeddedMasters is how many masters the demo brings along. Two of five may be missing.
const embeddedMasters = 5

// demoMasters are the masters of a demo. One of them, the victim, is taken away half way.
type demoMasters struct {
	urls  []string // what the workers open; may hold passwords, never printed
	names []string // the masters' addresses
	kind  string   // "embedded" or "given"

	take  func() // takes the victim away; nil if every master is needed for a majority
	fate  string // what take does, for the reader
	close func() // ends what the demo has started
}

// openDemoMasters returns the given masters, or starts embedded ones if none is given.
func openDemoMasters(given []master) (*demoMasters, error) {
	if len(given) == 0 {
		return startEmbedded()
	}
	return useServers(given)
}

// startEmbedded starts masters in this process. Nobody holds a lock on them, so they are
// adopted.
func startEmbedded() (*demoMasters, error) {
	var servers []*miniredis.Miniredis
	m := &demoMasters{kind: "embedded", close: func() {
		for _, s := range servers {
			s.Close() // which may have been closed before
		}
	}}
	for range embeddedMasters {
		s := miniredis.NewMiniRedis()
		if err := s.Start(); err != nil {
			m.close()
			return nil, fmt.Errorf("starting an embedded master: %w", err)
		}
		s.ClockTTL(true) // else the lock of a killed worker would never run out
		servers = append(servers, s)
		m.urls, m.names = append(m.urls, s.Addr()), append(m.names, s.Addr())
	}
	masters, err := parseMasters("the embedded masters", strings.Join(m.urls, ","))
	if err != nil {
		m.close()
		return nil, err
	}
	for _, one := range masters {
		if err := adopt(context.Background(), one); err != nil {
			m.close()
			return nil, fmt.Errorf("adopting an embedded master: %w", err)
		}
	}
	victim := len(servers) / 2
	m.take = servers[victim].Close
	m.fate = fmt.Sprintf("master %d of %d (%s) is stopped", victim+1, len(servers), m.names[victim])
	return m, nil
}

// useServers uses servers that belong to somebody: it neither stops nor adopts them. The
// workers reach the victim through a relay in this process, which is cut.
func useServers(given []master) (*demoMasters, error) {
	ctx, cut := context.WithCancel(context.Background())
	m := &demoMasters{kind: "given", urls: rawURLs(given), close: cut}
	for _, one := range given {
		m.names = append(m.names, one.Address())
	}
	if len(given) < 3 {
		return m, nil
	}
	victim := len(given) / 2
	address, err := relay(ctx, given[victim].URL)
	if err != nil {
		cut()
		return nil, fmt.Errorf("starting a relay: %w", err)
	}
	m.urls[victim] = given[victim].At(address)
	m.take = cut
	m.fate = fmt.Sprintf("master %d of %d (%s) is cut off", victim+1, len(given), m.names[victim])
	return m, nil
}

// relay passes the connections to the address that it returns on to a master, until ctx
// ends. It speaks TLS with the master if the URL says so, and plain text with its clients,
// which are on this machine.
func relay(ctx context.Context, to masterurl.URL) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go pass(ctx, near, to)
		}
	}()
	return l.Addr().String(), nil
}

// pass copies between near and the master, both ways, until either side or ctx ends.
func pass(ctx context.Context, near net.Conn, to masterurl.URL) {
	defer near.Close()
	far, err := to.Connect(ctx, nil)
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
