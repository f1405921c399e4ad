package contract_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/fakeserver"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// The first tests are about hostile wake-ups: every user who may publish on a master can send any message to a
// waiting Client.

// waiting makes a Client wait for the lock "a", which another client holds. It returns the Client, the
// channel of its wake-ups, and a channel that reports when it has the lock.
func waiting(t *testing.T, ms *redlocktest.Masters) (c *redlock.Client, channel string, in <-chan time.Time) {
	t.Helper()
	opts := lazy()
	opts.LockOptions.Handover = -1
	c = connected(t, ms, opts)
	for i := range ms.Len() {
		ms.Master(i).Set("a", "held", time.Minute)
	}
	in = locktest.Enter(c.Locker("a"))
	queued(t, ms, "a", 1)
	return c, "redlock:wake:" + clientOf(queueHead(t, ms, "a")), in
}

// publish sends messages on one master, from one connection.
func publish(t *testing.T, ms *redlocktest.Masters, master int, channel string, messages ...string) {
	t.Helper()
	conn := ms.Pools()[master].Get()
	defer conn.Close()
	for _, message := range messages {
		if n, err := conn.Do("PUBLISH", channel, message); err != nil || n.(int64) != 1 {
			t.Fatalf("PUBLISH %.40q on master %d = %v, %v", message, master+1, n, err)
		}
	}
	synctest.Wait()
}

// commands returns how many commands for locks all masters have executed.
func commands(ms *redlocktest.Masters) (n int) {
	for i := range ms.Len() {
		n += ms.Master(i).Count("SET") + ms.Master(i).Count("EVALSHA")
	}
	return n
}

// dropped returns how many wake-ups of a master a Client has ignored.
func dropped(c *redlock.Client, master int) uint64 { return c.Masters()[master].WakesDropped }

func TestIllFormedWakeUpsAreDroppedAndCounted(t *testing.T) {
	long := strings.Repeat("x", 64<<10+1)
	for _, row := range []struct{ name, message string }{
		{"no token", " a"},
		{"no key", "token "},
		{"no space", "token"},
		{"nothing", ""},
		{"a space", " "},
		{"a long token", long + " a"},
		{"a long key", "token " + long},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				c, channel, in := waiting(t, ms)
				before := commands(ms)
				for range 3 {
					publish(t, ms, 0, channel, row.message, row.message)
				}
				time.Sleep(4 * time.Millisecond)
				synctest.Wait()
				if n := commands(ms) - before; n != 0 {
					t.Errorf("the masters were sent %d commands, want none", n)
				}
				if n, other := dropped(c, 0), dropped(c, 1); n != 6 || other != 0 {
					t.Errorf("%d and %d messages were dropped, want 6 of the first master", n, other)
				}
				for i := range 5 { // the Client still listens
					ms.Master(i).Del("a")
					publish(t, ms, i, channel, "held a")
				}
				<-in
			})
		})
	}
}

// A quorum of wake-ups means messages from a quorum of masters, not a number of messages.
func TestWakeUpsAreCountedByMaster(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		_, channel, in := waiting(t, ms)
		before := commands(ms)
		publish(t, ms, 0, channel, "token a", "token a", "token a", "token a")
		if n := commands(ms) - before; n != 0 {
			t.Errorf("four messages of one master caused %d commands at once, want none", n)
		}
		publish(t, ms, 1, channel, "token a")
		if n := commands(ms) - before; n == 0 {
			t.Error("a message of a second master did not wake the waiter")
		}
		publish(t, ms, 2, channel, "token a")
		before = commands(ms)
		for range 10 {
			publish(t, ms, 2, channel, "token a", "token a")
		}
		if n := commands(ms) - before; n != 0 {
			t.Errorf("when a quorum had told, the same message of one master caused %d commands, want none", n)
		}
		free(ms, "a")
		<-in
	})
}

// If readers leave together, another one of them is the last at each master.
func TestWakeUpsWithSeveralTokensWakeTheWaiterSoon(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		_, channel, in := waiting(t, ms)
		for range 3 {
			publish(t, ms, 0, channel, "early a")
			publish(t, ms, 1, channel, "early a") // wakes it, and it finds the lock held
			before := ms.Master(0).Count("EVALSHA")
			for i := range 5 {
				publish(t, ms, i, channel, fmt.Sprint("other", i, " a"))
			}
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			if n := ms.Master(0).Count("EVALSHA") - before; n != 1 {
				t.Errorf("messages with five tokens woke the waiter %d times within 10 ms, want once", n)
			}
			time.Sleep(time.Second)
		}
		free(ms, "a")
		<-in
	})
}

func free(ms *redlocktest.Masters, key string) {
	for i := range ms.Len() {
		ms.Master(i).Del(key)
	}
}

// Many messages of one master must cause only few rounds, and must not keep the messages of other masters
// from being counted.
func TestWakeUpsOfAMasterThatFloodsAWaiterAreLimited(t *testing.T) {
	for _, masters := range []int{3, 5} {
		t.Run(fmt.Sprint(masters), func(t *testing.T) {
			bubble(t, masters, func(t *testing.T, ms *redlocktest.Masters) {
				_, channel, in := waiting(t, ms)
				// One call is part of each question for the owner, as is the only GETRANGE.
				attempts := func() int { return ms.Master(1).Count("EVALSHA") - ms.Master(1).Count("GETRANGE") }
				before := attempts()
				const flood = 500 * time.Millisecond
				for range flood / (500 * time.Microsecond) {
					publish(t, ms, 0, channel, fmt.Sprint("token", time.Now().UnixNano(), " a"))
					time.Sleep(500 * time.Microsecond)
				}
				if n := attempts() - before; n == 0 || n > int(flood/(10*time.Millisecond))+1 {
					t.Errorf("the flood woke the waiter %d times, want now and then: at most each 10 ms", n)
				}
				free(ms, "a")
				released := time.Now()
				for i := 1; i < masters; i++ {
					publish(t, ms, 0, channel, fmt.Sprint("other", i, " a"))
					publish(t, ms, i, channel, "held a")
				}
				if took := (<-in).Sub(released); took != 0 {
					t.Errorf("the waiter entered %v after a quorum of the other masters woke it, want at once", took)
				}
			})
		})
	}
}

// A grant that does not count is followed by a poll, since the lock may have been granted all the same.
func TestPollsAfterGrantsOfAnUnknownMemoryAreLimited(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		_, channel, in := waiting(t, ms)
		token := strings.Fields(queueHead(t, ms, "a"))[1]
		polls := func() int { return ms.Master(1).Count("EVALSHA") - ms.Master(1).Count("GETRANGE") }
		before := polls()
		const flood = 500 * time.Millisecond
		for range flood / (500 * time.Microsecond) {
			publish(t, ms, 0, channel, fmt.Sprint("+ ", token, " ", strings.Repeat("0", 40), " -2 0 a"))
			time.Sleep(500 * time.Microsecond)
		}
		if n := polls() - before; n == 0 || n > int(flood/(10*time.Millisecond))+1 {
			t.Errorf("the flood of one master had another one polled %d times, want now and then: at most each 10 ms", n)
		}
		free(ms, "a")
		<-in
	})
}

// A publisher must not make the Client act on a key of the publisher's choice.
func TestAWakeUpForAKeyThatTheClientNeverQueuedForStartsNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c, channel, in := waiting(t, ms)
		conn := ms.Pools()[0].Get()
		defer conn.Close()
		for _, key := range []string{"victim", "redlock:incarnation", "redlock:queue:victim"} {
			if _, err := conn.Do("ZADD", "redlock:queue:"+key, 1, "somebody"); err != nil {
				t.Fatal(err)
			}
		}
		before := commands(ms)
		for _, key := range []string{"victim", "redlock:incarnation", "redlock:queue:victim", "with a space", "\x1b[2J"} {
			publish(t, ms, 0, channel, "token "+key)
		}
		if n := commands(ms) - before; n != 0 {
			t.Errorf("the masters were sent %d commands, want none", n)
		}
		if n := len(queue(t, ms, 0, "victim")); n != 1 {
			t.Errorf("the queue of another key has %d members, want the 1 that was there", n)
		}
		if n := dropped(c, 0); n != 5 {
			t.Errorf("%d messages were dropped, want 5", n)
		}
		free(ms, "a")
		<-in
	})
}

func TestAKeyIsAtMost64KiB(t *testing.T) {
	name := strings.Repeat("n", 64<<10)
	bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		if _, err := c.NewLocker(name, nil); err != nil {
			t.Errorf("NewLocker of 64 KiB = %v", err)
		}
		const want = "Options.Prefix and name, is 65537 bytes long, the limit is 65536"
		if _, err := c.NewLocker(name+"n", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewLocker of 64 KiB and one byte = %.200v, want %q", err, want)
		}
		prefixed := connected(t, ms, &redlock.Options{Prefix: "p"})
		if _, err := prefixed.NewLocker(name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewLocker of 64 KiB with a prefix of one byte = %.200v, want %q", err, want)
		}
		if _, err := redlock.New(ms.Pools(), &redlock.Options{Prefix: name}); err == nil || !strings.Contains(err.Error(), "Options.Prefix is 65536 bytes long") {
			t.Errorf("New with a prefix of 64 KiB = %.200v, want an error", err)
		}
	})
}

// boundedPool returns a pool as the documentation of New recommends it.
func boundedPool(addr string) *redis.Pool {
	return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", addr, redis.DialContextFunc(
			func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return redlock.BoundReplies(conn), nil
			}))
	}}
}

func TestRepliesThatWouldTakeAllMemoryAreRefused(t *testing.T) {
	for _, row := range []struct{ name, answer string }{
		{"nested arrays", strings.Repeat("*4096\r\n", 1<<11)}, // 128 MiB; of 1 MB of this, 10 GB
		{"deep arrays", strings.Repeat("*1\r\n", 1<<18)},
		{"many strings", "*4096\r\n" + strings.Repeat("$524288\r\n"+strings.Repeat("x", 1<<19)+"\r\n", 64)},
		{"a long line", "+" + strings.Repeat("x", 1<<25)},
	} {
		for _, made := range []string{"Open", "New with BoundReplies"} {
			t.Run(row.name+" to "+made, func(t *testing.T) {
				server := &fakeserver.Server{Handle: func(int, []string) string { return row.answer }}
				addr := server.ListenTB(t)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				opts := &redlock.Options{DialTimeout: 10 * time.Second}
				open := func() (*redlock.Client, error) { return redlock.Open([]string{addr}, opts) }
				if made != "Open" {
					open = func() (*redlock.Client, error) { return redlock.New([]*redis.Pool{boundedPool(addr)}, opts) }
				}
				c, err := open()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := c.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "a reply too large to read") {
					t.Errorf("Ping = %.200v, want it to say that a reply is too large", err)
				}
				runtime.ReadMemStats(&after)
				// A client connects again until Ping has its answer.
				if mib, n := int(after.TotalAlloc-before.TotalAlloc)>>20, server.Connections(); mib > 8*n {
					t.Errorf("%d MiB were allocated for %d connections, want at most 8 for each", mib, n)
				}
			})
		}
	}
}

// A refusal contains the remaining time of the key that exists.
func TestARefusalWhoseTimeIsOutOfRangeCausesNoBusyLoop(t *testing.T) {
	for _, left := range []string{"-9000000000000000000", "-9223372036854775808", "-9223372036856", "-1", "-2", "-3"} {
		t.Run(left, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				var attempts atomic.Int64
				s := fakeserver.Server{Handle: func(_ int, cmd []string) string {
					time.Sleep(time.Millisecond)
					switch cmd[0] {
					case "SCRIPT":
						return "$3\r\nabc\r\n"
					case "SET":
						attempts.Add(1)
						return "$-1\r\n"
					case "GET":
						return "$-1\r\n"
					case "PEXPIRE", "DEL":
						return ":0\r\n"
					case "EVALSHA":
						if strings.HasPrefix(cmd[5], "again") || strings.HasPrefix(cmd[5], "register") {
							attempts.Add(1)
							return "*5\r\n:" + left + "\r\n:0\r\n$1\r\nx\r\n:0\r\n:0\r\n"
						}
						return ":0\r\n"
					case "PING":
						return "+PONG\r\n"
					}
					return "-ERR unknown command\r\n"
				}}
				c, err := redlock.New([]*redis.Pool{s.Pool()}, &redlock.Options{DisableRestartGuard: true, DisableWakeups: true})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if err := c.Locker("a").LockContext(ctx); !errors.Is(err, redlock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("LockContext = %v, want it to be held until the deadline", err)
				}
				most := int64(100) // by its own schedule, with steps of 250 ms
				if left == "-2" || left == "-3" {
					most = 3000 // the master says that the key is free in a moment
				}
				if n := attempts.Load(); n < 20 || n > most {
					t.Errorf("%d attempts in 10 s, want %d at most", n, most)
				}
			})
		})
	}
}

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
