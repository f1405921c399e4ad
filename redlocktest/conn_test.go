package redlocktest

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

func TestASubscriberThatDoesNotReadStopsNobody(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := StartN(t, 1)
		sub, c := connect(t, ms), connect(t, ms)
		must(t, sub, "[[115 117 98 115 99 114 105 98 101] [119 97 107 101] 1]", "SUBSCRIBE", "wake")
		for range 1000 {
			must(t, c, "1", "PUBLISH", "wake", strings.Repeat("x", 1000))
		}
		sub.Close()
		eventually(t, "the subscriber is gone", func() bool {
			n, err := redis.Int(c.Do("PUBLISH", "wake", "x"))
			return err == nil && n == 0
		})
	})
}

func TestALongPipelineNeedsNoSecondGoroutine(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		c := connect(t, StartN(t, 1))
		const n = 5000
		for i := range n {
			c.Send("SET", "k", i)
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		for range n {
			if got, err := c.Receive(); got != "OK" || err != nil {
				t.Fatalf("Receive = %v, %v, want OK", got, err)
			}
		}
	})
}

func TestAConnectionObeysItsDeadlines(t *testing.T) {
	everywhere(t, func(t *testing.T, settle func()) {
		client, srv := newConn("m", nil, 0)
		failed := make(chan error)
		go func() {
			_, err := client.Read(make([]byte, 1))
			failed <- err
		}()
		settle()
		client.SetReadDeadline(time.Now().Add(-time.Second)) // stops a reader that is waiting
		if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read = %v, want the deadline", err)
		}
		client.SetDeadline(time.Time{})
		srv.Write([]byte("ab"))
		srv.Close()
		if got, err := io.ReadAll(client); string(got) != "ab" || err != nil {
			t.Errorf("ReadAll = %q, %v, want ab", got, err)
		}
		if _, err := client.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write to a closed end = %v, want EPIPE", err)
		}
	})
}

func TestTheConnectionOfAFrozenMasterFillsUp(t *testing.T) {
	everywhere(t, func(t *testing.T, _ func()) {
		ms := StartN(t, 1)
		m := ms.Master(0)
		m.Freeze()
		client := func() *conn { m.mu.Lock(); defer m.mu.Unlock(); return m.connectLocked(0) }()
		set := []byte("*3\r\n" + bulk("SET") + bulk("k") + bulk(strings.Repeat("x", 1000)))
		total := 0
		for {
			client.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) // also a busy machine makes some progress in it
			n, err := client.Write(set[total%len(set):])
			total += n
			if err != nil && n == 0 {
				if !os.IsTimeout(err) {
					t.Errorf("Write = %v, want a timeout", err)
				}
				break
			}
		}
		if total < requestBuffer || total > 2*requestBuffer {
			t.Errorf("a frozen master took %d bytes, want about %d", total, requestBuffer)
		}
		client.SetWriteDeadline(time.Time{})
		m.Thaw()
		if _, err := client.Write(set[total%len(set):]); err != nil {
			t.Errorf("Write after the thaw = %v, want nil", err)
		}
		client.Close()
		eventually(t, "all is executed", func() bool { return m.Count("SET") == total/len(set)+1 })
	})
}
