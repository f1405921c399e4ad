package redlocktest

import (
	"io"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
)

func TestClientsAtDifferentDistancesSeeTheSameMasters(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		ms := StartN(t, 2)
		far := ms.WithDelays(10*time.Millisecond, 0).Pools()
		near := ms.Pools()
		start := time.Now()
		took := func(what string, want time.Duration) {
			t.Helper()
			if got := time.Since(start); got != want {
				t.Errorf("%s took %v, want %v", what, got, want)
			}
			start = time.Now()
		}

		c := far[0].Get()
		defer c.Close()
		took("a dial", 20*time.Millisecond)
		send(t, c, "SET", "stock", "a")
		must(t, c, "OK", "SET", "stock", "b")
		took("two commands sent together", 20*time.Millisecond)

		other := near[0].Get()
		defer other.Close()
		must(t, other, "b", "GET", "stock")
		took("a dial and a command from nearby", 0)

		d := far[1].Get()
		defer d.Close()
		must(t, d, "<nil>", "GET", "stock")
		took("a dial and a command to the master that is near", 0)

		ms.Master(0).Delay(5 * time.Millisecond)
		must(t, c, "b", "GET", "stock")
		took("a command to a delayed master", 25*time.Millisecond)
		must(t, other, "b", "GET", "stock")
		took("the same from nearby", 5*time.Millisecond)
	})
}

func TestADialFromFarAwayObeysItsContext(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		far := StartN(t, 1).WithDelays(time.Hour)
		start := time.Now()
		client := far.Open(nil)
		if err := client.Ping(t.Context()); err == nil {
			t.Error("Ping = nil over a network that takes two hours, want an error")
		}
		if got := time.Since(start); got > time.Minute {
			t.Errorf("Ping took %v, want DialTimeout at most", got)
		}
	})
}

func TestATestCanPutANetworkOfItsOwnBeforeAMaster(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		m := StartN(t, 1).Master(0)
		c, err := m.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len("+PONG\r\n"))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "+PONG\r\n" {
			t.Errorf("the master answers %q, %v, want +PONG", got, err)
		}
		m.Stop()
		if _, err := m.Dial(t.Context()); err == nil {
			t.Error("Dial of a stopped master = nil, want an error")
		}
	})
}
