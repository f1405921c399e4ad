package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"
)

// patience bounds what has to come; short is how long something is waited for that
// must not.
const (
	patience = 10 * time.Second
	short    = 50 * time.Millisecond
)

// An echo is a server that says what it was sent, line by line, as a status reply. It
// also tells what it got.
type echo struct {
	net.Listener
	got chan string
}

func startEcho(t *testing.T, addr string) *echo {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{l, make(chan string, 100)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() {
				defer c.Close()
				for in := bufio.NewScanner(c); in.Scan(); {
					e.got <- in.Text()
					fmt.Fprintf(c, "%s\r\n", in.Text())
				}
			}()
		}
	}()
	return e
}

// want waits until the server has got a line.
func (e *echo) want(t *testing.T, line string) {
	t.Helper()
	select {
	case got := <-e.got:
		if got != line {
			t.Errorf("the server got %q, want %q", got, line)
		}
	case <-time.After(patience):
		t.Errorf("the server has not got %q", line)
	}
}

func (e *echo) wantNothing(t *testing.T) {
	t.Helper()
	select {
	case got := <-e.got:
		t.Errorf("the server got %q, want nothing", got)
	case <-time.After(short):
	}
}

func testLink(t *testing.T, target string, w way, keeps bool) *link {
	t.Helper()
	k, err := newLink(target, w, w, keeps, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.close)
	return k
}

// A peer is a client's connection.
type peer struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func dialLink(t *testing.T, k *link) *peer {
	t.Helper()
	c, err := net.Dial("tcp", k.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &peer{c, t, bufio.NewReader(c)}
}

func (p *peer) say(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p, "%s\r\n", line); err != nil {
		p.t.Error(err)
	}
}

func (p *peer) want(line string) {
	p.t.Helper()
	p.SetReadDeadline(time.Now().Add(patience))
	if got, err := p.in.ReadString('\n'); err != nil || got != line+"\r\n" {
		p.t.Errorf("the client got %q, %v, want %q", got, err, line)
	}
}

func (p *peer) wantNothing() {
	p.t.Helper()
	p.SetReadDeadline(time.Now().Add(short))
	if got, err := p.in.ReadString('\n'); !os.IsTimeout(err) {
		p.t.Errorf("the client got %q, %v, want nothing", got, err)
	}
}

func (p *peer) wantEnd() {
	p.t.Helper()
	p.SetReadDeadline(time.Now().Add(patience))
	if got, err := io.ReadAll(p.in); os.IsTimeout(err) || len(got) > 0 {
		p.t.Errorf("the client got %q, %v, want the end of the connection", got, err)
	}
}

func TestALinkDeliversAfterItsLatency(t *testing.T) {
	e := startEcho(t, "127.0.0.1:0")
	p := dialLink(t, testLink(t, e.Addr().String(), way{latency: 30 * time.Millisecond, jitter: time.Millisecond}, false))
	before := time.Now()
	for i := range 3 {
		p.say(fmt.Sprint("+", i))
	}
	for i := range 3 {
		p.want(fmt.Sprint("+", i))
	}
	if took := time.Since(before); took < 60*time.Millisecond {
		t.Errorf("there and back took %v, want 60ms at least", took)
	}
}

func TestWhatIsHeldArrivesLater(t *testing.T) {
	for _, test := range []struct {
		name     string
		up, down mode
	}{
		{"requests", holds, passes},
		{"replies", passes, holds},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := startEcho(t, "127.0.0.1:0")
			k := testLink(t, e.Addr().String(), way{}, false)
			p := dialLink(t, k)
			k.change(func(up, down *way) { up.mode, down.mode = test.up, test.down })
			p.say("+a")
			p.wantNothing()
			if test.up == passes {
				e.want(t, "+a")
			} else {
				e.wantNothing(t)
			}
			k.mend()
			p.want("+a")
		})
	}
}

func TestWhatIsHeldArrivesAlsoFromAClientThatHasClosed(t *testing.T) {
	e := startEcho(t, "127.0.0.1:0")
	k := testLink(t, e.Addr().String(), way{}, false)
	p := dialLink(t, k)
	k.change(func(up, _ *way) { up.mode = holds })
	p.say("+a")
	p.Close()
	e.wantNothing(t)
	k.mend()
	e.want(t, "+a")
}

func TestAConnectionThatHasLostSomethingEndsWithTheFault(t *testing.T) {
	for _, test := range []struct {
		name     string
		up, down mode
	}{
		{"requests", loses, passes},
		{"replies", passes, loses},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := startEcho(t, "127.0.0.1:0")
			k := testLink(t, e.Addr().String(), way{}, false)
			p, other := dialLink(t, k), dialLink(t, k)
			k.change(func(up, down *way) { up.mode, down.mode = test.up, test.down })
			p.say("+a")
			if test.up == loses {
				e.wantNothing(t)
			} else {
				e.want(t, "+a")
			}
			p.wantNothing()
			k.mend()
			p.wantEnd()
			other.say("+b")
			other.want("+b")
		})
	}
}

func TestAHalfOpenConnectionIsSilentForEver(t *testing.T) {
	e := startEcho(t, "127.0.0.1:0")
	k := testLink(t, e.Addr().String(), way{}, false)
	p := dialLink(t, k)
	p.say("+a")
	p.want("+a")
	e.want(t, "+a")
	k.silence()
	p.say("+b")
	p.wantNothing()
	e.wantNothing(t)
	k.mend()
	p.wantNothing()
	later := dialLink(t, k)
	later.say("+c")
	later.want("+c")
}

func TestAResetEndsWhatStands(t *testing.T) {
	e := startEcho(t, "127.0.0.1:0")
	k := testLink(t, e.Addr().String(), way{}, false)
	p := dialLink(t, k)
	p.say("+a")
	p.want("+a")
	k.reset()
	p.wantEnd()
}

func TestAnIdleConnectionIsKeptWhenItsServerEnds(t *testing.T) {
	for _, test := range []struct {
		name string
		link bool // it keeps connections
		say  string
		kept bool
	}{
		{"idle", true, "+a", true},
		{"not by this link", false, "+a", false},
		{"subscribed", true, "+SUBSCRIBE", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := startEcho(t, "127.0.0.1:0")
			addr := e.Addr().String()
			k := testLink(t, addr, way{}, test.link)
			p := dialLink(t, k)
			p.say(test.say)
			p.want(test.say)
			e.Close()
			k.each(func(c *conn) { // the server's process ends
				c.mu.Lock()
				defer c.mu.Unlock()
				c.server.CloseWrite()
			})
			if !test.kept {
				p.wantEnd()
				return
			}
			p.wantNothing()
			startEcho(t, addr)
			p.say("+b")
			p.want("+b")
		})
	}
}

func TestAConnectionThatAwaitsAReplyEndsWithItsServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := dialLink(t, testLink(t, l.Addr().String(), way{}, true))
	p.say("+a")
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	c.Close() // without an answer
	p.wantEnd()
}

func TestValuesAreCounted(t *testing.T) {
	stream := "+OK\r\n:1\r\n$3\r\nabc\r\n$-1\r\n*2\r\n$0\r\n\r\n*1\r\n:5\r\n*0\r\n*-1\r\n-ERR no\r\n" +
		">3\r\n+message\r\n$1\r\nx\r\n$1\r\ny\r\n" + "%1\r\n+k\r\n*1\r\n+v\r\n_\r\n"
	const want = 10
	for size := 1; size <= len(stream); size++ {
		var c counter
		for p := []byte(stream); len(p) > 0; {
			n := min(size, len(p))
			c.feed(p[:n])
			p = p[n:]
		}
		if c.values != want || len(c.open) != 0 {
			t.Fatalf("in pieces of %d: %d values, %v open, want %d and none", size, c.values, c.open, want)
		}
	}
}
