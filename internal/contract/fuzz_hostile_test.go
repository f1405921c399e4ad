package contract_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/fakeserver"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/redlocktest"
)

// A liar stands between one Client and an embedded master. It forwards commands, and replaces some replies by
// lies.
type liar struct {
	fakeserver.Server
	master *redis.Pool
	about  string // the command whose replies it replaces; "" for every one, "acquire" and "probe" for scripts
	lies   *fakeserver.Lies
	pushes string // what the subscriber receives

	mu sync.Mutex // guards up
	up map[int]redis.Conn
}

// newLiar returns a liar. The upper half of when selects the commands whose replies are replaced. The lower
// half is how many of these commands get their true reply first.
func newLiar(master *redis.Pool, lies, pushes []byte, when uint8) *liar {
	about := []string{"", "SET", "EVALSHA", "probe", "SCRIPT", "EXEC", "INFO", "PING", "CLIENT", "acquire"}
	l := &liar{
		master: master, about: about[int(when/16)%len(about)], lies: fakeserver.NewLies(int(when%16), lies),
		pushes: string(pushes), up: make(map[int]redis.Conn),
	}
	l.Handle, l.Closed = l.answer, func(conn int) { l.connection(conn).Close() }
	return l
}

// connection returns the connection to the master that belongs to a connection of the Client.
func (l *liar) connection(n int) redis.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up[n] == nil {
		l.up[n] = l.master.Get()
	}
	return l.up[n]
}

func (l *liar) answer(conn int, cmd []string) string {
	if cmd[0] == "SUBSCRIBE" {
		return fakeserver.Encode([]any{[]byte("subscribe"), []byte(cmd[1]), int64(1)}) + l.pushes
	}
	reply, err := l.connection(conn).Do(cmd[0], redis.Args{}.AddFlat(cmd[1:])...)
	if err != nil {
		reply = redis.Error(err.Error())
	}
	truth := fakeserver.Encode(reply)
	if l.about == "" || l.about == cmd[0] || l.about == "acquire" && acquires(cmd) || l.about == "probe" && probes(cmd) {
		return l.lies.Replace(truth)
	}
	return truth
}

// acquires reports whether a command is a script that acquires a lock.
func acquires(cmd []string) bool {
	return len(cmd) > 5 && strings.HasPrefix(cmd[5], "acquire ")
}

// probes reports whether a command is the restart guard's probe.
func probes(cmd []string) bool { return (len(cmd) == 4 || len(cmd) == 5) && cmd[3] == incarnation.Key }

// FuzzClient runs a Client on three masters, one or two of which are liars. No reply of a liar may crash the
// Client or block it for ever. With one liar, the Client must still be able to lock, and no two Clients may
// hold a lock at once.
func FuzzClient(f *testing.F) {
	const push = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n"
	for i, lies := range []string{
		"", "-ERR \x1b[31m\r\n", ":7\r\n", "*0\r\n", "*-1\r\n", "close\x00close\x00silence", ":-9000000000000000000\r\n",
		":-9223372036854775808\r\n", "*2\r\n:1\r\n:9007199254740993\r\n", "*2\r\n:1\r\n:9223372036854775807\r\n",
		"*2\r\n:-2\r\n:9223372036854775807\r\n\x00*2\r\n:-2\r\n:9223372036854775807\r\n", "*2\r\n:1\r\n:-9223372036854775808\r\n",
		"+OK\r\n\x00+OK\r\n\x00+OK\r\n", "-NOSCRIPT x\r\n\x00-NOSCRIPT x\r\n", "-READONLY x\r\n", "*1\r\n:1\r\n\x00:1\r\n",
		"$7\r\nrun_id:\r\n", "*4096\r\n*4096\r\n*4096\r\n*4096\r\n", "+OK", "\r\n",
	} {
		f.Add([]byte(lies), []byte(push+"$3\r\nt a\r\n"), uint8(i%10*16), i%2 == 0, i%4 == 3)
		f.Add([]byte(lies), []byte(""), uint8(32+i%4), true, false) // lies about the scripts
	}
	for _, pushes := range []string{"$1\r\na\r\n" + push + "$1\r\na\r\n", "$2\r\n a\r\n", "$2\r\na \r\n" + push + "*0\r\n"} {
		f.Add([]byte("silence"), []byte(push+pushes), uint8(35), true, false)
	}
	f.Add([]byte(""), []byte("*1\r\n:1\r\n"), uint8(0), false, false)
	// Every reply has a fence far ahead.
	f.Add([]byte(strings.Repeat("*2\r\n:1\r\n:9007199254740993\r\n\x00", 500)), []byte(""), uint8(9*16), true, false)
	f.Fuzz(func(t *testing.T, lies, pushes []byte, when uint8, fencing, two bool) {
		bubbletest.Test(t, func(t *testing.T) {
			ms := redlocktest.StartN(t, 3)
			opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: 2 * time.Second, Fencing: fencing}, MaxTTL: 2 * time.Second}
			pools, direct := ms.Pools(), ms.Pools()
			for i := range pools[:1+map[bool]int{true: 1}[two]] {
				pools[i] = newLiar(direct[i], lies, pushes, when).Pool()
			}
			for i := range ms.Len() {
				ms.Master(i).Delay(time.Duration(i) * 2 * time.Millisecond) // the liar answers first
			}
			fooled, err := redlock.New(pools, opts)
			if err != nil {
				t.Fatal(err)
			}
			other := ms.Open(opts)
			defer func() {
				if err := fooled.Close(); err != nil {
					t.Errorf("Close = %v", err)
				}
			}()
			synctest.Wait()
			if two {
				anything(t, fooled)
			} else {
				share(t, fooled, other)
			}
		})
	})
}

// share makes two Clients take turns with one lock.
func share(t *testing.T, fooled, other *redlock.Client) {
	a, b := fooled.Locker("a"), other.Locker("a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := a.LockContext(ctx); err != nil {
		t.Fatalf("the fooled client's LockContext = %v, although two masters of three are honest", err)
	}
	if err := b.TryLockContext(ctx); err == nil {
		t.Fatalf("two hold the lock: the first is valid: %v", a.Lease().Valid())
	}
	time.Sleep(3 * time.Second) // longer than the TTL
	if err := a.Lease().Err(); err != nil {
		t.Errorf("the lease is over: %v, although two masters of three are honest", err)
	}
	fence := a.Lease().Fence()
	if err := a.UnlockContext(ctx); err != nil {
		t.Errorf("UnlockContext = %v, although two masters of three are honest", err)
	}
	if err := b.LockContext(ctx); err != nil {
		t.Fatalf("the other client's LockContext = %v", err)
	}
	if f := b.Lease().Fence(); f < fence {
		t.Errorf("the fences are %d and then %d", fence, f)
	}
	entered := make(chan error)
	go func() { entered <- a.LockContext(ctx) }()
	time.Sleep(time.Second)
	select {
	case err := <-entered:
		t.Fatalf("LockContext = %v while the other holds the lock", err)
	default:
	}
	if err := b.UnlockContext(ctx); err != nil {
		t.Errorf("the other client's UnlockContext = %v", err)
	}
	if err := <-entered; err != nil {
		t.Fatalf("the waiting client's LockContext = %v", err)
	}
	if err := a.UnlockContext(ctx); err != nil {
		t.Errorf("UnlockContext after the wait = %v", err)
	}
}

// anything uses a Client without an honest quorum.
func anything(t *testing.T, fooled *redlock.Client) {
	l := fooled.Locker("a")
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		began := time.Now()
		err := l.LockContext(ctx)
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("LockContext took %v, want at most its context's 5s and a round", took)
		}
		printable(t, err)
		if err == nil {
			time.Sleep(time.Second)
			printable(t, l.Lease().Err())
			err := l.UnlockContext(ctx)
			printable(t, err)
			if errors.Is(err, redlock.ErrNotHeld) {
				t.Errorf("UnlockContext of a held lock = %v", err)
			}
		}
		printable(t, fooled.Ping(ctx))
		for _, m := range fooled.Masters() {
			printable(t, m.Err)
			printable(t, m.WakeErr)
			printable(t, m.GuardErr)
		}
		cancel()
	}
}

// printable fails t if the text of an error could control a terminal.
func printable(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.ContainsFunc(err.Error(), unicode.IsControl) {
		t.Errorf("the error %q, want one printable line", err)
	}
}
