package master

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A fake is a server that answers as a test wants. Its connections are
// net.Pipes: what it does not read, nobody can write.
type fake struct {
	handle func(conn int, cmd []string) string // the raw reply; see the constants

	mu    sync.Mutex
	conns int
	log   []string // "connection: command", in order
}

// Instead of a reply.
const (
	silence = ""      // none
	hangUp  = "close" // the connection is closed
	stall   = "stall" // nothing is read any more
)

// ok answers what a healthy server would, to locks that are always free.
func ok(_ int, cmd []string) string {
	switch cmd[0] {
	case "SET":
		return "+OK\r\n"
	case "PING":
		return "+PONG\r\n"
	case "EVALSHA":
		n, _ := strconv.Atoi(cmd[2])
		if n == 1 {
			return ":1\r\n"
		}
		return fmt.Sprintf("*%d\r\n", n) + strings.Repeat(":1\r\n", n)
	case "SCRIPT":
		return "$3\r\nabc\r\n"
	case "CLIENT":
		return ":1\r\n"
	}
	return "-ERR unknown command\r\n"
}

func (f *fake) pool() *redis.Pool {
	return &redis.Pool{DialContext: func(context.Context) (redis.Conn, error) {
		client, server := net.Pipe()
		f.mu.Lock()
		f.conns++
		n := f.conns
		f.mu.Unlock()
		go f.serve(n, server)
		return redis.NewConn(client, 0, 0), nil
	}}
}

func (f *fake) serve(n int, conn net.Conn) {
	defer conn.Close()
	replies := make(chan string, 1<<16) // a reply that nobody reads does not keep us from reading
	defer close(replies)
	go func() {
		for r := range replies {
			if _, err := io.WriteString(conn, r); err != nil {
				conn.Close()
			}
		}
	}()
	for r := bufio.NewReader(conn); ; {
		cmd, err := readCommand(r)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.log = append(f.log, fmt.Sprintf("%d: %s", n, strings.Join(cmd, " ")))
		f.mu.Unlock()
		switch reply := f.handle(n, cmd); reply {
		case hangUp:
			return
		case stall:
			time.Sleep(time.Hour)
			return
		case silence:
		default:
			replies <- reply
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	cmd := make([]string, n)
	for i := range cmd {
		size, err := number()
		if err != nil {
			return nil, err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(r, arg); err != nil {
			return nil, err
		}
		cmd[i] = string(arg[:size])
	}
	return cmd, err
}

// seen returns the commands that contain word, as logged.
func (f *fake) seen(word string) (found []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, line := range f.log {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return found
}

// answers collects what an asker is told.
type answers struct {
	mu    sync.Mutex
	all   []Answer
	first time.Time
}

func (a *answers) Answered(_ int, answer Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all = append(a.all, answer); len(a.all) == 1 {
		a.first = time.Now()
	}
}

func (a *answers) get() []Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Answer(nil), a.all...)
}

// run starts a Master on a fake, in a bubble, and closes it at the end.
func run(t *testing.T, handle func(int, []string) string, f func(t *testing.T, m *Master, server *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := &fake{handle: handle}
		m := Start(Config{
			Pool:        server.pool(),
			Servers:     NewServers([]string{"it"}),
			NodeTimeout: 50 * time.Millisecond,
			DialTimeout: time.Second,
			Redial:      func() interface{ NextBackOff() time.Duration } { return every(100 * time.Millisecond) },
			Changed:     func(State, Status) {},
		})
		synctest.Wait()
		f(t, m, server)
		m.Close()
		<-m.Done()
		time.Sleep(2 * time.Hour) // servers that stall end by then
	})
}

type every time.Duration

func (e every) NextBackOff() time.Duration { return time.Duration(e) }

func claimOf(name string) *Claim { return NewClaim(name, "token of "+name, time.Hour, 0) }

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
		{"a string that never ends", "$900000000\r\nabc", "connection retired: a reply is overdue", time.Second},
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
				return silence // or the rest would complete what was wrong
			}
			run(t, handle, func(t *testing.T, m *Master, server *fake) {
				var set, release answers
				c := claimOf("a")
				start := time.Now()
				if err := m.Ask(Set, c, &set); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // the SET is on its way
				// Whatever follows is never stuck, though nobody may be reading.
				for i := range 1000 {
					m.Ask(Set, claimOf(fmt.Sprint("other", i)), &answers{})
				}
				told := 0
				if m.Ask(Release, c, &release) == nil {
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
				if got := server.seen("2: EVALSHA"); len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), "token of a") {
					t.Errorf("on the second connection: %q, want the release that was owed", got)
				}
			})
		})
	}
}

func TestAServerWhoseGreetingIsGarbageIsDown(t *testing.T) {
	for _, reply := range []string{"*1000000000000000000\r\n", ":1\r\n", "HTTP/1.1 400\r\n", silence, hangUp, "-NOPERM no scripts for you\r\n"} {
		run(t, func(int, []string) string { return reply }, func(t *testing.T, m *Master, server *fake) {
			time.Sleep(10 * time.Second)
			if got := m.Status(); got.State != Down || got.Err == nil {
				t.Errorf("after %q the master is %v (%v), want down with a reason", reply, got.State, got.Err)
			}
			if err := m.Ask(Set, claimOf("a"), nil); err == nil {
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
		var in, out []*Claim
		for i := range 2 * limit {
			c := claimOf(fmt.Sprint(i))
			if m.Ask(Set, c, nil) == nil {
				in = append(in, c)
			} else {
				out = append(out, c)
			}
		}
		if len(in) != limit {
			t.Errorf("%d SETs were taken, want %d", len(in), limit)
		}
		for _, c := range in {
			if err := m.Ask(Release, c, nil); err != nil {
				t.Fatalf("the release of a SET that was taken: %v", err)
			}
		}
		for _, c := range out {
			if err := m.Ask(Release, c, nil); err == nil {
				t.Fatal("the release of a SET that was refused was taken: nothing bounds the queue")
			}
		}
		time.Sleep(20 * time.Second)
		released := 0
		for _, line := range server.seen("2: EVALSHA") {
			released += strings.Count(line, "token of ")
		}
		// Each is repeated after 1, 3 and 10 s: this server cannot kill connections.
		if released != 4*limit {
			t.Errorf("%d releases reached the second connection, want four times %d", released, limit)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.owed) != 0 || len(m.queue) != 0 || m.flight.len() != 0 {
			t.Errorf("owed %d, queued %d, in flight %d, want nothing left", len(m.owed), len(m.queue), m.flight.len())
		}
	})
}

func TestABadMemberDoesNotHarmItsBatch(t *testing.T) {
	handle := func(conn int, cmd []string) string {
		if cmd[0] == "EVALSHA" && strings.Contains(strings.Join(cmd, " "), " bad ") {
			return "-NOPERM this user has no permissions to access one of the keys\r\n"
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		names := []string{"a", "b", "bad", "c", "d"}
		got := make([]answers, len(names))
		for i, name := range names {
			m.Ask(Renew, claimOf(name), &got[i]) // no yielding between: they share a flush
		}
		synctest.Wait()
		for i, name := range names {
			a := got[i].get()
			if len(a) != 1 || (a[0].Err != nil) != (name == "bad") || a[0].Err == nil && a[0].Value != 1 {
				t.Errorf("%s was answered %v", name, a)
			}
		}
	})
}

func TestEveryMemberHasItsOwnAnswer(t *testing.T) {
	handle := func(conn int, cmd []string) string {
		if cmd[0] == "EVALSHA" {
			return map[string]string{
				"4": "*4\r\n:1\r\n:0\r\n:-1\r\n-OOM command not allowed\r\n",
			}[cmd[2]]
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		got := make([]answers, 4)
		m.mu.Lock() // all in one flush
		for i := range got {
			m.pushLocked(item{kind: Renew, claim: claimOf(fmt.Sprint(i)), asker: &got[i]})
		}
		m.mu.Unlock()
		synctest.Wait()
		for i, want := range []string{"1 <nil>", "0 <nil>", "-1 <nil>", "0 OOM command not allowed"} {
			a := got[i].get()
			if len(a) != 1 || fmt.Sprint(a[0].Value, " ", a[0].Err) != want {
				t.Errorf("member %d was answered %v, want %s", i, a, want)
			}
		}
	})
}

func TestFlushedScriptsAreLoadedOnceForABatch(t *testing.T) {
	flushed := false
	handle := func(conn int, cmd []string) string {
		switch {
		case cmd[0] == "SCRIPT":
			flushed = false
		case cmd[0] == "EVALSHA" && flushed:
			return "-NOSCRIPT No matching script.\r\n"
		}
		return ok(conn, cmd)
	}
	run(t, handle, func(t *testing.T, m *Master, server *fake) {
		got := make([]answers, 3)
		flushed = true
		before := len(server.seen("SCRIPT LOAD"))
		m.mu.Lock()
		for i := range got {
			m.pushLocked(item{kind: Renew, claim: claimOf(fmt.Sprint(i)), asker: &got[i]})
		}
		m.mu.Unlock()
		synctest.Wait()
		if loads := len(server.seen("SCRIPT LOAD")) - before; loads != 1 {
			t.Errorf("the script was loaded %d times, want once", loads)
		}
		if calls := server.seen("EVALSHA"); len(calls) != 2 {
			t.Errorf("%d script calls, want the one that failed and one more", len(calls))
		}
		for i := range got {
			if a := got[i].get(); len(a) != 1 || a[0].Err != nil || a[0].Value != 1 {
				t.Errorf("member %d was answered %v", i, a)
			}
		}
	})
}

// What was in a batch that failed is sent again alone, but not behind its release:
// that has been answered, so nobody would ever take the key away.
func TestNothingThatSetsAKeyIsSentAgainBehindItsRelease(t *testing.T) {
	for _, kind := range []Kind{Set, Acquire, Heal} {
		for _, answer := range []string{"-ERR a member\r\n", "-NOSCRIPT no such script\r\n"} {
			var failed atomic.Bool
			handle := func(conn int, cmd []string) string {
				if cmd[0] == "EVALSHA" && !failed.Swap(true) {
					time.Sleep(200 * time.Millisecond)
					return answer
				}
				return ok(conn, cmd)
			}
			run(t, handle, func(t *testing.T, m *Master, server *fake) {
				one, other := claimOf("a"), claimOf("b")
				one.Propose(1)
				other.Propose(1)
				var told answers
				m.mu.Lock() // so that they share a batch
				for _, it := range []item{{kind: kind, claim: one, asker: &told}, {kind: kind, claim: other}} {
					mark(&it.claim.admitted, 0)
					m.pushLocked(it)
				}
				m.mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				m.Ask(Undo, one, nil) // nobody waits any more
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if all := told.get(); len(all) != 1 || all[0].Err == nil {
					t.Errorf("%v, %q: the asker is told %+v, want the error", kind, answer, all)
				}
				last := ""
				for _, command := range server.seen("token of a") {
					last = command
				}
				if !strings.Contains(last, "undo") {
					t.Errorf("%v, %q: the last of it is %q, want the release", kind, answer, last)
				}
				if n := len(server.seen("token of b")); n != 2 {
					t.Errorf("%v, %q: the other was sent %d times, want it to be sent again", kind, answer, n)
				}
			})
		}
	}
}

func TestCloseDrainsWhatWasAsked(t *testing.T) {
	handle := func(conn int, cmd []string) string {
		time.Sleep(10 * time.Millisecond)
		return ok(conn, cmd)
	}
	synctest.Test(t, func(t *testing.T) {
		server := &fake{handle: handle}
		m := Start(Config{
			Pool: server.pool(), Servers: NewServers([]string{"it"}), NodeTimeout: 50 * time.Millisecond, DialTimeout: time.Second,
			Redial:  func() interface{ NextBackOff() time.Duration } { return every(time.Second) },
			Changed: func(State, Status) {},
		})
		time.Sleep(time.Second)
		var got answers
		for i := range 20 {
			m.Ask(Release, claimOf(fmt.Sprint(i)), &got)
			m.Ask(Set, claimOf(fmt.Sprint("s", i)), &got)
		}
		m.Close()
		if err := m.Ask(Set, claimOf("late"), nil); err != ErrClosed {
			t.Errorf("Ask after Close = %v, want ErrClosed", err)
		}
		<-m.Done()
		for _, a := range got.get() {
			if a.Err != nil || a.Value != 1 {
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
		runs  []string // run_id by connection
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
				m.Ask(Set, c, nil)
				m.Ask(Release, c, nil)
				time.Sleep(20 * time.Second)
				if got := server.seen("CLIENT KILL ID 41"); len(got) != row.kills {
					t.Errorf("killed: %q, want %d", got, row.kills)
				}
				if got := server.seen("EVALSHA"); len(got) == 0 {
					t.Error("the release was not sent")
				}
			})
		})
	}
}
