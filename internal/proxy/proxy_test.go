package proxy

import (
	"bufio"
	"fmt"
	"io"
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

func start(t *testing.T, target string, w Way, keeps Keeping) *Proxy {
	t.Helper()
	k, err := New(target, w, w, keeps, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// A peer is a client's connection.
type peer struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func dial(t *testing.T, k *Proxy) *peer {
	t.Helper()
	c, err := net.Dial("tcp", k.Addr())
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

func TestAProxyDeliversAfterItsLatency(t *testing.T) {
	e := startEcho(t, "127.0.0.1:0")
	p := dial(t, start(t, e.Addr().String(), Way{Latency: 30 * time.Millisecond, Jitter: time.Millisecond}, KeepsNone))
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

// Clients of RESP3 are proxied, too. Each type of reply may be the first that a server sends.
func TestEveryTypeOfReplyMayBeTheFirst(t *testing.T) {
	e := startEcho(t, "127.0.0.1:0")
	for _, first := range []string{"+OK", "-ERR", ":1", "_", "#t", ",1.5", "(1", "!0", "=0", "%0", "~0", ">0", "|0"} {
		p := dial(t, start(t, e.Addr().String(), Way{}, KeepsNone))
		p.say(first)
		p.want(first)
	}
}

func TestWhatIsHeldArrivesLater(t *testing.T) {
	for _, test := range []struct {
		name     string
		up, down Mode
	}{
		{"requests", Holds, Passes},
		{"replies", Passes, Holds},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := startEcho(t, "127.0.0.1:0")
			k := start(t, e.Addr().String(), Way{}, KeepsNone)
			p := dial(t, k)
			k.Change(func(up, down *Way) { up.Mode, down.Mode = test.up, test.down })
			p.say("+a")
			p.wantNothing()
			if test.up == Passes {
				e.want(t, "+a")
			} else {
				e.wantNothing(t)
			}
			k.Mend()
			p.want("+a")
		})
	}
}

func TestWhatIsHeldArrivesAlsoFromAClientThatHasClosed(t *testing.T) {
	e := startEcho(t, "127.0.0.1:0")
	k := start(t, e.Addr().String(), Way{}, KeepsNone)
	p := dial(t, k)
	k.Change(func(up, _ *Way) { up.Mode = Holds })
	p.say("+a")
	p.Close()
	e.wantNothing(t)
	k.Mend()
	e.want(t, "+a")
}

func TestAConnectionThatHasLostSomethingEndsWithTheFault(t *testing.T) {
	for _, test := range []struct {
		name     string
		up, down Mode
	}{
		{"requests", Loses, Passes},
		{"replies", Passes, Loses},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := startEcho(t, "127.0.0.1:0")
			k := start(t, e.Addr().String(), Way{}, KeepsNone)
			p, other := dial(t, k), dial(t, k)
			k.Change(func(up, down *Way) { up.Mode, down.Mode = test.up, test.down })
			p.say("+a")
			if test.up == Loses {
				e.wantNothing(t)
			} else {
				e.want(t, "+a")
			}
			p.wantNothing()
			k.Mend()
			p.wantEnd()
			other.say("+b")
			other.want("+b")
		})
	}
}

func TestAHalfOpenConnectionIsSilentForEver(t *testing.T) {
	e := startEcho(t, "127.0.0.1:0")
	k := start(t, e.Addr().String(), Way{}, KeepsNone)
	p := dial(t, k)
	p.say("+a")
	p.want("+a")
	e.want(t, "+a")
	k.Silence()
	p.say("+b")
	p.wantNothing()
	e.wantNothing(t)
	k.Mend()
	p.wantNothing()
	later := dial(t, k)
	later.say("+c")
	later.want("+c")
}

func TestAResetEndsWhatStands(t *testing.T) {
	e := startEcho(t, "127.0.0.1:0")
	k := start(t, e.Addr().String(), Way{}, KeepsNone)
	p := dial(t, k)
	p.say("+a")
	p.want("+a")
	k.Reset()
	p.wantEnd()
}

func TestAnIdleConnectionIsKeptWhenItsServerEnds(t *testing.T) {
	for _, test := range []struct {
		name  string
		keeps Keeping
		say   string
		kept  bool
	}{
		{"idle", KeepsIdle, "+a", true},
		{"not by this proxy", KeepsNone, "+a", false},
		{"subscribed", KeepsIdle, "+SUBSCRIBE", false},
		{"in RESP3", KeepsIdle, "+HELLO", false},
		{"subscribed, by a proxy that keeps all", KeepsAll, "+SUBSCRIBE", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := startEcho(t, "127.0.0.1:0")
			addr := e.Addr().String()
			k := start(t, addr, Way{}, test.keeps)
			p := dial(t, k)
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
	for _, sent := range []string{"", "$1", "$3\r\nab", "*2\r\n+a\r\n"} { // nothing, or a part of the reply
		testAwaitsAReply(t, sent)
	}
}

func testAwaitsAReply(t *testing.T, sent string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := dial(t, start(t, l.Addr().String(), Way{}, KeepsIdle))
	p.say("+a")
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, sent)
	c.Close()
	p.SetReadDeadline(time.Now().Add(patience))
	if got, err := io.ReadAll(p.in); os.IsTimeout(err) {
		t.Errorf("after %q of a reply: the client got %q, %v, want the end of the connection", sent, got, err)
	}
}

func TestConnectionsFollowTheTargetIfTheProxyKeepsThem(t *testing.T) {
	for _, keeps := range []Keeping{KeepsNone, KeepsAll} {
		former, next := startEcho(t, "127.0.0.1:0"), startEcho(t, "127.0.0.1:0")
		k := start(t, former.Addr().String(), Way{}, keeps)
		p := dial(t, k)
		p.say("+a")
		p.want("+a")
		former.want(t, "+a")
		k.Aim(next.Addr().String())
		p.say("+b")
		if keeps == KeepsAll {
			next.want(t, "+b")
		} else {
			former.want(t, "+b")
		}
		later := dial(t, k)
		later.say("+c")
		next.want(t, "+c")
	}
}

func TestAHoldDelaysThePresentConnections(t *testing.T) {
	e := startEcho(t, "127.0.0.1:0")
	k := start(t, e.Addr().String(), Way{}, KeepsNone)
	p := dial(t, k)
	p.say("+a")
	p.want("+a")
	e.want(t, "+a")
	k.Hold()
	p.say("+b")
	p.Close() // what was sent before must still arrive
	later := dial(t, k)
	later.say("+c")
	e.want(t, "+c")
	e.wantNothing(t)
	k.Mend()
	e.want(t, "+b")
}

// What is sent with a shorter delay must not overtake what was sent before.
func TestAProxyKeepsTheOrder(t *testing.T) {
	e := startEcho(t, "127.0.0.1:0")
	k := start(t, e.Addr().String(), Way{Latency: 30 * time.Millisecond}, KeepsNone)
	p := dial(t, k)
	for i := range 20 {
		p.say(fmt.Sprint("+", i))
		if i == 10 {
			k.Delay(0)
		}
	}
	for i := range 20 {
		p.want(fmt.Sprint("+", i))
	}
}
