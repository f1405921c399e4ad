package simulation

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

// onLink runs a test with a master, a link to it that takes 10 ms there and 20 ms back, and
// a connection.
func onLink(t *testing.T, f func(m *redlocktest.Master, l *link, say func(command, want string, took time.Duration))) {
	bubbletest.Test(t, func(t *testing.T) {
		m := redlocktest.StartN(t, 1).Master(0)
		r := route{delay: [2]time.Duration{10 * time.Millisecond, 20 * time.Millisecond}}
		l := newLink(m, r, rand.New(rand.NewPCG(1, 2)))
		defer l.shutdown()
		c, err := l.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f(m, l, func(command, want string, took time.Duration) {
			t.Helper()
			start := time.Now()
			if _, err := io.WriteString(c, request(command)); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
				t.Fatalf("the answer to %s is %q, %v, want %q", command, got, err, want)
			}
			if d := time.Since(start).Round(time.Microsecond); d != took {
				t.Errorf("%s took %v, want %v", command, d, took)
			}
		})
	})
}

// request returns a command as it travels.
func request(command string) string {
	words := strings.Fields(command)
	s := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		s += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	return s
}

func TestALinkTakesItsTimeEachWay(t *testing.T) {
	onLink(t, func(_ *redlocktest.Master, l *link, say func(string, string, time.Duration)) {
		say("PING", "+PONG\r\n", 30*time.Millisecond)
		l.setSlow(5 * time.Millisecond)
		say("PING", "+PONG\r\n", 40*time.Millisecond)
	})
}

func TestABlockedLinkKeepsWhatIsSent(t *testing.T) {
	for _, d := range []direction{toMaster, toClient} {
		onLink(t, func(m *redlocktest.Master, l *link, say func(string, string, time.Duration)) {
			l.block(d)
			time.AfterFunc(time.Second, func() {
				if executed := m.Count("SET"); executed != int(d) {
					t.Errorf("direction %d is blocked, and the master has executed %d commands", d, executed)
				}
				l.unblock(d)
			})
			after := []time.Duration{30 * time.Millisecond, 20 * time.Millisecond}[d]
			say("SET a b", "+OK\r\n", time.Second+after)
		})
	}
}

func TestAConnectionThatBreaksStillDeliversWhatWasSent(t *testing.T) {
	onLink(t, func(m *redlocktest.Master, l *link, _ func(string, string, time.Duration)) {
		c := l.conns[0]
		io.WriteString(c, request("SET a b"))
		l.reset(time.Second)
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a connection that is broken can be read")
		}
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("a connection that is broken can be written")
		}
		time.Sleep(900 * time.Millisecond)
		if m.Count("SET") != 0 {
			t.Error("the request arrived early")
		}
		time.Sleep(200 * time.Millisecond)
		if m.Count("SET") != 1 {
			t.Error("the request on its way has not arrived")
		}
	})
}

func TestALostMachineIsSilent(t *testing.T) {
	for _, silent := range []bool{true, false} {
		onLink(t, func(m *redlocktest.Master, l *link, say func(string, string, time.Duration)) {
			say("SUBSCRIBE a", "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", 30*time.Millisecond)
			l.crash(silent)
			time.Sleep(time.Second)
			c, err := m.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			io.WriteString(c, request("PUBLISH a b"))
			want := ":0\r\n"
			if silent {
				want = ":1\r\n"
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); string(got) != want {
				t.Errorf("silent %v: subscribers %q, %v, want %q", silent, got, err, want)
			}
		})
	}
}
