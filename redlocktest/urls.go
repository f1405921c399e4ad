package redlocktest

import (
	"context"
	"io"
	"net"
	"sync"
)

// URLs returns a URL for each master, in order, for code that calls redlock.Open itself, such as a program under
// test. Each URL leads to a port of its own on the loopback interface, until the test ends. Every fault applies,
// with two differences: a dial to a stopped master succeeds, and the connection ends at once; and while dials
// hang, connections are accepted and nothing answers.
//
// Sockets do not work in a synctest bubble, so URLs fails the test there. Use [Masters.Open] or [Masters.Pools]
// in bubbles.
func (ms *Masters) URLs() []string {
	ms.tb.Helper()
	ms.mustBeHere()
	if ms.masters[0].inBubble() {
		ms.tb.Fatalf("redlocktest: URLs: sockets do not work in a synctest bubble: use Open or Pools")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	ms.tb.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	urls := make([]string, len(ms.masters))
	for i, m := range ms.masters {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			ms.tb.Fatalf("redlocktest: URLs: %v", err)
		}
		context.AfterFunc(ctx, func() { l.Close() })
		urls[i] = "redis://" + l.Addr().String()
		wg.Go(func() {
			for {
				client, err := l.Accept()
				if err != nil {
					return // closed
				}
				wg.Go(func() { ms.forward(ctx, client, i, m) })
			}
		})
	}
	return urls
}

// forward connects a client's socket with a master until either side ends, or ctx does.
func (ms *Masters) forward(ctx context.Context, client net.Conn, i int, m *Master) {
	defer client.Close()
	server, err := m.dialLagged(ctx, ms.lag(i))
	if err != nil {
		return
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { // either copy below returns then
		client.Close()
		server.Close()
	})
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		io.Copy(server, client)
		cancel()
	})
	io.Copy(client, server)
	cancel()
}
