package redlocktest_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func openURLs(t *testing.T, urls []string) *redlock.Client {
	t.Helper()
	c, err := redlock.Open(urls, &redlock.Options{
		NodeTimeout: 4 * time.Second, // of a busy machine
		Logger:      slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestURLsLeadToTheMastersWithTheirFaults(t *testing.T) {
	masters := redlocktest.StartN(t, 3)
	urls := masters.URLs()
	a, b := openURLs(t, urls), openURLs(t, urls)
	l := a.Locker("stock")
	l.Lock()
	if got := strings.Join(masters.Get("stock"), " "); !strings.Contains(got, l.Lease().Token()) {
		t.Errorf("the masters have %q, want the token", got)
	}
	if err := b.Locker("stock").TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
		t.Errorf("the second client: %v, want ErrHeld", err)
	}
	if err := l.UnlockContext(t.Context()); err != nil {
		t.Error(err)
	}

	masters.Master(0).Freeze()
	err := b.Locker("stock").Do(t.Context(), func(context.Context) error { return nil })
	if err != nil {
		t.Errorf("with a frozen master: %v", err)
	}
	masters.Master(1).Stop()
	err = b.Locker("other").TryLockContext(t.Context())
	if quorum := new(redlock.QuorumError); !errors.As(err, &quorum) || errors.Is(err, redlock.ErrHeld) {
		t.Errorf("with a frozen and a stopped master: %v, want that there is no quorum", err)
	}
	masters.Master(1).Adopt() // else its quarantine would take 12 s
	masters.Master(1).Start()
	if err := b.Locker("other").LockContext(t.Context()); err != nil {
		t.Errorf("with a master that is back: %v", err)
	}
}

func TestEachCallReturnsOtherURLs(t *testing.T) {
	masters := redlocktest.StartN(t, 1)
	if a, b := masters.URLs()[0], masters.URLs()[0]; a == b {
		t.Errorf("twice %s", a)
	}
}

func TestURLsEndWithTheTest(t *testing.T) {
	before := runtime.NumGoroutine()
	var url string
	t.Run("inside", func(t *testing.T) {
		masters := redlocktest.StartN(t, 1)
		url = masters.URLs()[0]
		openURLs(t, []string{url}).Locker("a").Lock()
		masters.Master(0).Freeze()
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "redis://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
		for range 64 { // more than is buffered on the way
			if _, err := conn.Write([]byte(strings.Repeat("x", 1<<10))); err != nil {
				t.Fatal(err)
			}
		}
	})
	if conn, err := net.Dial("tcp", strings.TrimPrefix(url, "redis://")); err == nil {
		conn.Close()
		t.Error("the port is still open")
	}
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	buf := make([]byte, 1<<16)
	t.Errorf("%d goroutines, want %d:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
}
