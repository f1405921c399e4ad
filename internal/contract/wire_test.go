package contract_test

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
	"github.com/redlock-go/redlock/internal/wiredoc"
	"github.com/redlock-go/redlock/redlocktest"
)

// TestTheWireDocumentHolds runs the examples of docs/protocol.md on a server.
func TestTheWireDocumentHolds(t *testing.T) {
	document, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	server := redisserver.StartTB(t, 1)[0]
	r := wiredoc.Runner{
		Root:     "../..",
		Dial:     func() (redis.Conn, error) { return redis.Dial("tcp", server.Addr()) },
		Patience: 10 * time.Second,
	}
	commands, err := r.Run(string(document))
	if err != nil {
		t.Fatal(err)
	}
	if commands < 50 {
		t.Errorf("the document has %d commands, want at least 50: its notation was misread", commands)
	}
}

// plainly sends a command of the plain algorithm to all masters, and returns how many granted it.
func plainly(t *testing.T, pools []*redis.Pool, command string, args ...any) (granted int) {
	t.Helper()
	for _, p := range pools {
		conn := p.Get()
		reply, err := conn.Do(command, args...)
		conn.Close()
		if err != nil {
			t.Fatal(err)
		}
		if reply == "OK" || reply == int64(1) {
			granted++
		}
	}
	return granted
}

// compareAndDelete is the release script of the algorithm's specification.
const compareAndDelete = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

func TestThePlainAlgorithmAndRedlockExcludeEachOther(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		pools := ms.Pools()
		acquire := func() int { return plainly(t, pools, "SET", "stock", "plain", "NX", "PX", 10000) }
		release := func() int { return plainly(t, pools, "EVAL", compareAndDelete, 1, "stock", "plain") }
		for name, opts := range map[string]*redlock.Options{
			"plain":  nil,
			"fenced": {LockOptions: redlock.LockOptions{Fencing: true}},
		} {
			l := connected(t, ms, opts).Locker("stock")
			if got := acquire(); got != 5 {
				t.Fatalf("%s: %d masters granted the free lock, want 5", name, got)
			}
			if err := l.TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("%s: TryLockContext = %v while the plain client holds the lock, want ErrHeld", name, err)
			}
			if got := release(); got != 5 {
				t.Errorf("%s: %d masters released the lock, want 5", name, got)
			}
			if err := l.LockContext(t.Context()); err != nil {
				t.Fatalf("%s: LockContext = %v when the plain client has released", name, err)
			}
			synctest.Wait()
			if got := acquire(); got != 0 {
				t.Errorf("%s: %d masters granted a lock that redlock holds", name, got)
			}
			if got := release(); got != 0 {
				t.Errorf("%s: %d masters released redlock's lock by another token", name, got)
			}
			time.Sleep(15 * time.Second) // longer than the TTL: the lease is renewed
			if got := acquire(); got != 0 {
				t.Errorf("%s: %d masters granted a lock that redlock has renewed", name, got)
			}
			if err := l.UnlockContext(t.Context()); err != nil {
				t.Errorf("%s: UnlockContext = %v", name, err)
			}
			wantFree(t, ms, "stock")
			if got := acquire(); got != 5 {
				t.Errorf("%s: %d masters granted the lock that redlock has released, want 5", name, got)
			}
			// The lock expires, since the plain algorithm does not renew it.
			if err := l.LockContext(t.Context()); err != nil {
				t.Errorf("%s: LockContext = %v when the plain client's lock has expired", name, err)
			}
			l.Unlock()
			wantFree(t, ms, "stock")
		}
	})
}
