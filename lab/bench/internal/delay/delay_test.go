package delay

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// echo starts a server that sends everything back, until the test ends.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func relay(t *testing.T) *Relay {
	t.Helper()
	r, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func dial(t *testing.T, r *Relay, target string, delay time.Duration) net.Conn {
	t.Helper()
	addr, err := r.Forward(target, delay)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

func TestRoundTripTakesTwiceTheDelay(t *testing.T) {
	target, r := echo(t), relay(t)
	for _, delay := range []time.Duration{0, 300 * time.Microsecond, 5 * time.Millisecond} {
		c := dial(t, r, target, delay)
		lines := bufio.NewReader(c)
		for i := range 5 {
			began := time.Now()
			fmt.Fprintf(c, "line %d\n", i)
			got, err := lines.ReadString('\n')
			if want := fmt.Sprintf("line %d\n", i); err != nil || got != want {
				t.Fatalf("delay %v: got %q, %v, want %q", delay, got, err, want)
			}
			if took := time.Since(began); took < 2*delay {
				t.Errorf("delay %v: a round trip took %v", delay, took)
			}
		}
	}
}

// What was sent first arrives first, also beside connections with other delays.
func TestDelayedBytesKeepTheirOrder(t *testing.T) {
	target, r := echo(t), relay(t)
	delays := []time.Duration{2 * time.Millisecond, 0, time.Millisecond}
	const lines = 500
	errs := make(chan error)
	for _, delay := range delays {
		c := dial(t, r, target, delay)
		go func() {
			for i := range lines {
				fmt.Fprintf(c, "%d\n", i)
			}
		}()
		go func() {
			in := bufio.NewReader(c)
			for i := range lines {
				if got, err := in.ReadString('\n'); err != nil || got != fmt.Sprintf("%d\n", i) {
					errs <- fmt.Errorf("delay %v: line %d is %q, %v", delay, i, got, err)
					return
				}
			}
			errs <- nil
		}()
	}
	for range delays {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestClosingArrivesBehindWhatWasSent(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := dial(t, relay(t), l.Addr().String(), 5*time.Millisecond)
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	fmt.Fprint(c, "last words")
	c.Close()
	server.SetDeadline(time.Now().Add(10 * time.Second))
	if got, err := io.ReadAll(server); err != nil || string(got) != "last words" {
		t.Errorf("ReadAll = %q, %v, want all that was sent", got, err)
	}
}

func TestARefusedTargetClosesTheConnection(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // nobody listens there any more
	c := dial(t, relay(t), l.Addr().String(), 0)
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("Read = nil, want an error")
	}
}
