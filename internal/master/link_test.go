package master

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/wire"
)

func TestARetiredConnectionFailsItsCommandsAndTheNextOneServes(t *testing.T) {
	for _, row := range []struct {
		name  string
		reply string
		want  string
		after time.Duration
	}{
		{"a reply of another type", ":7\r\n", "unexpected reply of type int64 to acquire", 0},
		{"a batch's reply to a single command", "*1\r\n:1\r\n", "unexpected reply of type []interface {}", 0},
		{"no protocol at all", "HTTP/1.1 400 Bad Request\r\n", "connection lost: redigo: ", 0},
		{"an array larger than memory", "*1000000000000000000\r\n", "a reply too large to read", 0},
		{"two of them", "*1000000000000000000\r\n*1000000000000000000\r\n", "a reply too large to read", 0},
		{"a string that never ends", "$900\r\nabc", "connection retired: a reply is overdue", time.Second},
		{"no reply", silence, "connection retired: a reply is overdue", time.Second},
		{"half a reply", "+O", "connection retired: a reply is overdue", time.Second},
		{"the end of the connection", hangUp, "connection lost: ", 0},
		{"a full socket", stall, "connection retired: a reply is overdue", time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			once := true
			handle := func(conn int, cmd []string) string {
				switch {
				case conn > 1 || once && cmd[0] != "SET":
					return ok(conn, cmd)
				case once:
					once = false
					return row.reply
				}
				return silence // otherwise the rest would complete the wrong reply
			}
			run(t, handle, func(t *testing.T, m *Master, server *fake) {
				var set, release answers
				c := claimOf("a")
				start := time.Now()
				if err := m.Ask(wire.Set, c, &set); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // the SET is on its way
				// Commands that follow never block, even if nobody reads.
				for i := range 1000 {
					m.Ask(wire.Set, claimOf(fmt.Sprint("other", i)), &answers{})
				}
				told := 0
				if m.Ask(wire.Release, c, &release) == nil {
					told = 1
				}
				time.Sleep(2 * time.Second)
				if len(set.get()) != 1 {
					t.Fatalf("the SET was answered %v, want once", set.get())
				}
				if took := set.first.Sub(start); took != row.after {
					t.Errorf("answered after %v, want %v", took, row.after)
				}
				if err := set.get()[0].Err; err == nil || !strings.Contains(err.Error(), row.want) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the SET's answer is %v, want %q", err, row.want)
				}
				time.Sleep(5 * time.Second)
				if got := m.Status(); got.State != Up {
					t.Errorf("the master is %v: %v, want up again", got.State, got.Err)
				}
				if got := release.get(); len(got) != told || told == 1 && got[0].Err == nil {
					t.Errorf("the release was answered %v, want an error, now or at once", got)
				}
				if got := server.Seen("2: EVALSHA"); len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), "token of a") {
					t.Errorf("on the second connection: %q, want the release that was owed", got)
				}
			})
		})
	}
}

// slowToTell returns from a failed Receive late, so that the writer hears first of the connection that redigo has closed.
type slowToTell struct{ redis.ConnWithTimeout }

func (c slowToTell) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := c.ConnWithTimeout.ReceiveWithTimeout(timeout)
	if err != nil {
		time.Sleep(time.Millisecond)
	}
	return reply, err
}

func TestAWriterThatIsStuckDoesNotHideWhyItsConnectionEnded(t *testing.T) {
	handle := func(conn int, cmd []string) string {
		if conn == 1 && cmd[0] == "SET" {
			return stall
		}
		return ok(conn, cmd)
	}
	pool := func() *redis.Pool {
		pool := (&fake{Handle: handle}).Pool()
		dial := pool.DialContext
		pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
			conn, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			return slowToTell{conn.(redis.ConnWithTimeout)}, nil
		}
		return pool
	}
	runOn(t, pool, func(t *testing.T, m *Master) {
		var set answers
		if err := m.Ask(wire.Set, claimOf("a"), &set); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i := range 1000 {
			m.Ask(wire.Set, claimOf(fmt.Sprint("other", i)), &answers{})
		}
		time.Sleep(2 * time.Second)
		const want = "connection retired: a reply is overdue"
		if got := set.get(); len(got) != 1 || got[0].Err == nil || got[0].Err.Error() != want {
			t.Errorf("the SET was answered %v, want once, by %q", got, want)
		}
	})
}

func TestAServerWhoseFirstRepliesAreGarbageIsDown(t *testing.T) {
	for _, reply := range []string{"*1000000000000000000\r\n", ":1\r\n", "HTTP/1.1 400\r\n", silence, hangUp, "-NOPERM no scripts for you\r\n"} {
		run(t, func(int, []string) string { return reply }, func(t *testing.T, m *Master, server *fake) {
			time.Sleep(10 * time.Second)
			if got := m.Status(); got.State != Down || got.Err == nil {
				t.Errorf("after %q the master is %v (%v), want down with a reason", reply, got.State, got.Err)
			}
			if err := m.Ask(wire.Set, claimOf("a"), nil); err == nil {
				t.Error("a SET was taken by a master that is down")
			}
		})
	}
}

func TestAFullQueueRefusesSetsAndNeverTheirReleases(t *testing.T) {
	handle := func(conn int, cmd []string) string {
		if conn == 1 && (cmd[0] == "SET" || cmd[0] == "EVALSHA") { // a release's reply would pass for a SET's
			return silence
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		var in, out []*SentClaim
		for i := range 2 * limit {
			c := claimOf(fmt.Sprint(i))
			if m.Ask(wire.Set, c, nil) == nil {
				in = append(in, c)
			} else {
				out = append(out, c)
			}
		}
		if len(in) != limit {
			t.Errorf("%d SETs were taken, want %d", len(in), limit)
		}
		for _, c := range in {
			if err := m.Ask(wire.Release, c, nil); err != nil {
				t.Fatalf("the release of a SET that was taken: %v", err)
			}
		}
		for _, c := range out {
			if err := m.Ask(wire.Release, c, nil); err == nil {
				t.Fatal("the release of a SET that was refused was taken: nothing bounds the queue")
			}
		}
		time.Sleep(20 * time.Second)
		released := 0
		for _, line := range server.Seen("2: EVALSHA") {
			released += strings.Count(line, "token of ")
		}
		if released != limit {
			t.Errorf("%d releases reached the second connection, want %d", released, limit)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.outbox.owed) != 0 || len(m.outbox.queue) != 0 || m.outbox.flight.Len() != 0 {
			t.Errorf("owed %d, queued %d, in flight %d, want nothing left", len(m.outbox.owed), len(m.outbox.queue), m.outbox.flight.Len())
		}
	})
}

func TestCloseWaitsForQueuedCommands(t *testing.T) {
	handle := func(conn int, cmd []string) string {
		time.Sleep(10 * time.Millisecond)
		return ok(conn, cmd)
	}
	bubbletest.Test(t, func(t *testing.T) {
		server := &fake{Handle: handle}
		m := Start(Config{
			Pool: server.Pool(), Servers: alone(0), NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
			Listener: client{every: time.Second},
		})
		time.Sleep(time.Second)
		var got answers
		for i := range 20 {
			m.Ask(wire.Release, claimOf(fmt.Sprint(i)), &got)
			m.Ask(wire.Set, claimOf(fmt.Sprint("s", i)), &got)
		}
		m.Close()
		if err := m.Ask(wire.Set, claimOf("late"), nil); err != ErrClosed {
			t.Errorf("Ask after Close = %v, want ErrClosed", err)
		}
		<-m.Done()
		for _, a := range got.get() {
			if a.Err != nil || a.Outcome != wire.Granted {
				t.Errorf("a command that was asked before Close was answered %v", a)
			}
		}
		if n := len(got.get()); n != 40 {
			t.Errorf("%d of 40 commands were answered", n)
		}
	})
}

func TestAnOldConnectionIsKilledOnlyInTheSameProcess(t *testing.T) {
	for _, row := range []struct {
		name  string
		runs  []string // the run_id, by connection
		kills int
	}{
		{"the same", []string{"x", "x"}, 1},
		{"restarted: the id may be somebody else's by now", []string{"x", "y"}, 0},
		{"unknown", []string{"", ""}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			handle := func(conn int, cmd []string) string {
				switch {
				case cmd[0] == "INFO" && row.runs[min(conn, 2)-1] != "":
					text := "# Server\r\nrun_id:" + row.runs[min(conn, 2)-1] + "\r\n"
					return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
				case cmd[0] == "CLIENT" && cmd[1] == "ID":
					return fmt.Sprintf(":%d\r\n", 40+conn)
				case cmd[0] == "SET" && conn == 1:
					return hangUp
				}
				return ok(conn, cmd)
			}
			run(t, handle, func(t *testing.T, m *Master, server *fake) {
				c := claimOf("a")
				m.Ask(wire.Set, c, nil)
				m.Ask(wire.Release, c, nil)
				time.Sleep(20 * time.Second)
				if got := server.Seen("CLIENT KILL ID 41"); len(got) != row.kills {
					t.Errorf("killed: %q, want %d", got, row.kills)
				}
				if got := server.Seen("EVALSHA"); len(got) == 0 {
					t.Error("the release was not sent")
				}
			})
		})
	}
}

// The next connection has the server kill this one, so nobody else may use it.
func TestAConnectionThatEndsInAnErrorDoesNotGoBackToItsPool(t *testing.T) {
	const info = "# Server\r\nrun_id:x\r\n"
	var odd atomic.Bool
	handle := func(conn int, cmd []string) string {
		switch {
		case cmd[0] == "INFO":
			return fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
		case cmd[0] == "CLIENT" && cmd[1] == "ID":
			return fmt.Sprintf(":%d\r\n", 40+conn)
		case cmd[0] == "PING" && odd.Swap(false):
			return ":1\r\n"
		}
		return ok(conn, cmd)
	}
	bubbletest.Test(t, func(t *testing.T) {
		server := &fake{Handle: handle}
		pool := server.Pool()
		pool.MaxIdle = 5
		m := Start(Config{
			Pool: pool, Servers: alone(0), NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
			Listener: client{every: 10 * time.Second},
		})
		synctest.Wait()
		odd.Store(true)
		time.Sleep(2 * time.Second)
		if got := m.Status(); got.State != Down {
			t.Fatalf("the master is %v (%v), want down", got.State, got.Err)
		}
		if n := pool.IdleCount(); n != 0 {
			t.Errorf("the pool has %d idle connections, want none", n)
		}
		conn := pool.Get() // somebody else's
		if _, err := conn.Do("PING"); err != nil {
			t.Error(err)
		}
		time.Sleep(30 * time.Second)
		if killed := server.Seen("CLIENT KILL ID 42"); len(killed) != 0 {
			t.Errorf("%q: somebody else's connection was killed", killed)
		}
		conn.Close()
		pool.Close()
		m.Close()
		<-m.Done()
	})
}

// Each reply comes within NodeTimeout of the one before, but later and later after its command.
func TestAConnectionWhoseRepliesStayOverdueIsRetired(t *testing.T) {
	handle := func(conn int, cmd []string) string {
		if conn == 1 && cmd[0] == "SET" {
			time.Sleep(40 * time.Millisecond)
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		start := time.Now()
		var got answers
		for i := range 1000 {
			m.Ask(wire.Set, claimOf(fmt.Sprint(i)), &got)
		}
		for m.Status().State == Up && time.Since(start) < time.Minute {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(start); took < 2*time.Second || took > 2200*time.Millisecond {
			t.Errorf("the connection was retired after %v, want two times DialTimeout", took)
		}
		synctest.Wait() // the commands under way are answered by errors
		if n := len(got.get()); n != 1000 {
			t.Errorf("%d of 1000 SETs were answered", n)
		}
	})
}

// A process that has slept finds late replies in the socket. However many they are, the connection is
// healthy.
func TestLateRepliesThatHaveComeAreRead(t *testing.T) {
	run(t, ok, func(t *testing.T, m *Master, server *fake) {
		var got answers
		m.Ask(wire.Set, claimOf("first"), sleepy(5*time.Second)) // the reader sleeps
		for i := range 1000 {
			m.Ask(wire.Set, claimOf(fmt.Sprint(i)), &got)
		}
		time.Sleep(10 * time.Second)
		for i, a := range got.get() {
			if a.Err != nil {
				t.Errorf("SET %d was answered by %v, want all to be answered", i, a.Err)
				break
			}
		}
		if n, conns := len(got.get()), server.Connections(); n != 1000 || m.Status().State != Up || conns != 1 {
			t.Errorf("%d of 1000 SETs were answered, the master is %v after %d connections", n, m.Status().State, conns)
		}
	})
}

// A sleepy is an asker that blocks the goroutine which delivers its answer.
type sleepy time.Duration

func (s sleepy) Answered(int, wire.Answer) { time.Sleep(time.Duration(s)) }

// A server, or a proxy in front of it, says why it closes a connection, and the reply to the first command is the last.
func TestWhatAServerSaysBeforeItClosesAConnectionIsTheReason(t *testing.T) {
	for _, row := range []struct{ first, want string }{
		{"-ERR no backend is up\r\n", "ERR no backend is up"},
		{"-NOPERM not from here\r\n", "NOPERM not from here (redlock doctor --acl prints the rights that clients need)"},
		{"*2\r\n:1\r\n:1\r\n", "it closed the connection (is this the port of a Redis server? If it expects TLS, use rediss://)"},
	} {
		bubbletest.Test(t, func(t *testing.T) {
			server := &fake{Handle: func(_ int, cmd []string) string {
				switch cmd[0] {
				case "SCRIPT":
					return row.first
				case "GETRANGE": // the last of the first flush
					time.Sleep(10 * time.Millisecond) // the reply is written by another goroutine
					return hangUp
				}
				return silence
			}}
			m := Start(Config{
				Pool: server.Pool(), Servers: alone(0), NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
				Listener: client{every: time.Second},
			})
			time.Sleep(100 * time.Millisecond)
			if got := m.Status(); got.State != Down || got.Err.Error() != row.want {
				t.Errorf("after %q the master is %v: %v, want down: %s", row.first, got.State, got.Err, row.want)
			}
			m.Close()
			<-m.Done()
		})
	}
}
