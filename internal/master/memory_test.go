package master

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/fakeserver"
	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/wire"
)

// A memory is a fake server with the data and the clock that the guard asks for.
type memory struct {
	fake

	mu      sync.Mutex                // guards the fields below
	hook    func(cmd []string) string // see before
	run     string                    // run_id; "" hides it
	version string
	role    string
	keeps   bool // it keeps scripts when it restarts
	evicted int
	room    string // what INFO says of maxmemory
	record  string
	expiry  int64 // of the record, in ms
	scripts map[string]bool
	multi   map[int][][]string // the commands between MULTI and EXEC, by connection
	off     time.Duration      // how far its clock is ahead
	looks   int                // the number of inspections that it has answered
	doubted int                // the number of the last connection whose probes are odd
	late    string             // the command whose reply is late
	back    time.Duration      // how late
}

func newMemory(i int) *memory {
	v := &memory{run: fmt.Sprintf("%040d", i), version: "7.2.4", role: "master", scripts: make(map[string]bool), multi: make(map[int][][]string)}
	v.Handle = v.answer
	v.set(recordOf(v.run, time.Now().Add(-24*time.Hour), minute, " 0"))
	return v
}

// minute is the MaxTTL with which a quarantine lasts a minute.
const minute = time.Minute - incarnation.Margin

// recordOf returns the text of a record of database 0, which counts no evictions unless more, what follows the MaxTTL, begins with their
// number.
func recordOf(run string, since time.Time, maxTTL time.Duration, more string) string {
	if more == "" || strings.HasPrefix(more, " adopted") {
		more = " -" + more
	}
	return fmt.Sprintf("%s %d 0 %d%s", run, since.UnixMicro(), maxTTL.Milliseconds(), more)
}

// set writes a record, with the expiry that the script gives it. "" deletes it.
func (v *memory) set(record string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.setLocked(record)
}

func (v *memory) setLocked(record string) {
	v.record = record
	if r, ok := incarnation.Parse(record); ok {
		v.expiry = incarnation.Know(incarnation.Inspection{Record: r}).Expiry().UnixMilli()
	}
}

func (v *memory) get() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.record
}

// before makes the server call f before each command. If f returns a text, that is the reply.
func (v *memory) before(f func(cmd []string) string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hook = f
}

// step sets the clock.
func (v *memory) step(by time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.off += by
}

// restart replaces the process, while the connections stay.
func (v *memory) restart() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.run = strings.Repeat("f", 40)
	if !v.keeps {
		clear(v.scripts)
	}
}

// delay makes the replies to a command late.
func (v *memory) delay(name string, by time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.late, v.back = name, by
}

// become sets the role of the server: master or slave.
func (v *memory) become(role string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.role = role
}

// expire makes the record expire 5 s later.
func (v *memory) expire() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.expiry += 5000
}

// doubt makes the next probe of each connection odd, as if the record had been lost for a moment.
func (v *memory) doubt() {
	n := v.Connections()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.doubted = n
}

func (v *memory) flushScripts() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.scripts)
}

func (v *memory) answer(conn int, cmd []string) string {
	if cmd[0] == "EVALSHA" && len(cmd) == 4 && cmd[3] == incarnation.Key {
		cmd = []string{"PROBE", cmd[1]}
	} else if cmd[0] == "EVALSHA" && len(cmd) == 5 && cmd[3] == incarnation.Key {
		cmd = []string{"PROBE", cmd[1], cmd[4]}
	}
	v.mu.Lock()
	hook := v.hook
	v.mu.Unlock()
	if hook != nil {
		if reply := hook(cmd); reply != "" {
			return reply
		}
	}
	reply, back := v.queueOrExecute(conn, cmd)
	time.Sleep(back)
	return reply
}

// queueOrExecute returns the reply, and how long it takes to arrive.
func (v *memory) queueOrExecute(conn int, cmd []string) (reply string, back time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if cmd[0] == v.late {
		back = v.back
	}
	return v.queueLocked(conn, cmd), back
}

func (v *memory) queueLocked(conn int, cmd []string) string {
	queued, queues := v.multi[conn]
	switch {
	case cmd[0] == "MULTI":
		v.multi[conn] = nil
		return "+OK\r\n"
	case cmd[0] == "EXEC":
		delete(v.multi, conn)
		reply := fmt.Sprintf("*%d\r\n", len(queued))
		for _, cmd := range queued {
			reply += v.executeLocked(conn, cmd)
		}
		return reply
	case queues:
		v.multi[conn] = append(queued, cmd)
		return "+QUEUED\r\n"
	}
	return v.executeLocked(conn, cmd)
}

func (v *memory) executeLocked(conn int, cmd []string) string {
	now := time.Now().Add(v.off)
	switch what := strings.Join(cmd[:min(2, len(cmd))], " "); {
	case what == "SCRIPT LOAD":
		v.scripts[redis.NewScript(-1, cmd[2]).Hash()] = true
		return fakeserver.Bulk(redis.NewScript(-1, cmd[2]).Hash())
	case what == "SCRIPT EXISTS":
		reply := fmt.Sprintf("*%d\r\n", len(cmd)-2)
		for _, sha := range cmd[2:] {
			n := 0
			if v.scripts[sha] {
				n = 1
			}
			reply += fmt.Sprintf(":%d\r\n", n)
		}
		return reply
	case cmd[0] == "GETRANGE":
		return fakeserver.Bulk(v.record)
	case cmd[0] == "INFO" && v.run != "":
		return fakeserver.Bulk("redis_version:" + v.version + "\r\nrun_id:" + v.run + "\r\nrole:" + v.role + "\r\n" + v.room)
	case what == "CLIENT INFO":
		return fakeserver.Bulk("id=1 db=0")
	case cmd[0] == "PROBE" && !v.scripts[cmd[1]]:
		return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
	case cmd[0] == "PROBE" && (v.record == "" || conn <= v.doubted):
		return ":-2\r\n"
	case cmd[0] == "PROBE" && len(cmd) == 3 && v.hasEvictedLocked():
		return ":-3\r\n"
	case cmd[0] == "PROBE":
		return ":" + strconv.FormatInt(v.expiry-now.UnixMilli(), 10) + "\r\n"
	case cmd[0] == "EVALSHA" && cmd[3] == incarnation.Key && !v.scripts[cmd[1]]:
		return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
	case cmd[0] == "EVALSHA" && cmd[3] == incarnation.Key && v.role == "master":
		declared, _ := strconv.Atoi(cmd[7])
		return v.lookLocked(now, cmd[6], time.Duration(declared)*time.Millisecond)
	case cmd[0] == "EVALSHA" && cmd[2] != "1" && v.role != "master":
		n, _ := strconv.Atoi(cmd[2])
		return fmt.Sprintf("*%d\r\n", n) + strings.Repeat(readOnly, n)
	case (cmd[0] == "SET" || cmd[0] == "EVALSHA") && v.role != "master":
		return readOnly
	}
	return ok(conn, cmd)
}

// hasEvictedLocked reports whether keys were evicted since the record was written, if it tells.
func (v *memory) hasEvictedLocked() bool {
	r, _ := incarnation.Parse(v.record)
	return r.CountsEvictions() && r.Evicted != strconv.Itoa(v.evicted)
}

// fills sets what INFO says of the memory, and how many keys were evicted.
func (v *memory) fills(used, limit int, policy string, evicted int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.room = fmt.Sprintf("used_memory:%d\r\nmaxmemory:%d\r\nmaxmemory_policy:%s\r\n", used, limit, policy)
	v.evicted = evicted
}

// lookLocked inspects the record as incarnation.lua does.
func (v *memory) lookLocked(now time.Time, stale string, declared time.Duration) string {
	v.looks++
	r, parsed := incarnation.Parse(v.record)
	run, why := v.run, ""
	if run == "" {
		run = incarnation.Unknown
	}
	switch {
	case !parsed:
		why = "absent"
	case v.run != "" && r.Run != v.run:
		why = "restart"
	case v.record == stale:
		why = "stale"
	case v.hasEvictedLocked():
		why = "evicted"
	case r.Since.After(now):
		why = "clock"
	}
	maxTTL, more := max(r.MaxTTL, declared), " "+r.Evicted
	if r.Adopted {
		more += " adopted"
	}
	if r.Masters > 0 {
		more += " " + strconv.Itoa(r.Masters)
	}
	if why != "" {
		r.Run, r.Since, more = run, now, " "+strconv.Itoa(v.evicted)
	}
	v.setLocked(recordOf(r.Run, r.Since, maxTTL, more))
	return "*4\r\n" + fakeserver.Bulk(v.record) + ":" + strconv.FormatInt(now.UnixMicro(), 10) + "\r\n" + fakeserver.Bulk(why) + fakeserver.Bulk(run)
}

// readOnly is the answer of a replica to a command that writes.
const readOnly = "-READONLY You can't write against a read only replica.\r\n"

// guarded runs f in a bubble with n servers and the masters of a client. Votes count after a quarantine of a
// minute.
func guarded(t *testing.T, n int, f func(t *testing.T, masters []*Master, servers []*memory)) {
	t.Helper()
	guardedBy(t, n, clock.System, f)
}

// guardedBy is guarded, of a client with its own clock.
func guardedBy(t *testing.T, n int, clock clock.Clock, f func(t *testing.T, masters []*Master, servers []*memory)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		names := make([]string, n)
		for i := range names {
			names[i] = strconv.Itoa(i)
		}
		all := guard.NewServers(guard.Settings{Names: names, MaxTTL: minute, Clock: clock})
		var masters []*Master
		var servers []*memory
		for i := range n {
			v := newMemory(i)
			servers = append(servers, v)
			masters = append(masters, Start(Config{
				Pool:        v.Pool(),
				Index:       i,
				Servers:     all,
				NodeTimeout: 50 * time.Millisecond,
				DialTimeout: time.Second,
				Listener:    client{every: 100 * time.Millisecond},
			}))
		}
		synctest.Wait()
		for i, m := range masters {
			if s := m.Status(); s.State != Up {
				t.Fatalf("master %d is %v: %v", i, s.State, s.Err)
			}
		}
		defer func() { // also if the test has failed
			for _, m := range masters {
				m.Close()
				<-m.Done()
			}
			time.Sleep(2 * time.Hour) // servers that stall end by then
		}()
		f(t, masters, servers)
	})
}

// vote asks for a lock, and returns the answer.
func vote(t *testing.T, m *Master) wire.Answer {
	t.Helper()
	var got answers
	if err := m.Ask(wire.Set, claimOf("a"), &got); err != nil {
		return wire.Answer{Err: err}
	}
	time.Sleep(2 * time.Second)
	synctest.Wait() // what the hooks of the servers wrote can be read without a mutex
	if len(got.get()) != 1 {
		t.Fatalf("a SET was answered %v, want once", got.get())
	}
	return got.get()[0]
}

func wantState(t *testing.T, m *Master, want State, why string) {
	t.Helper()
	if s := m.Status(); s.State != want || why != "" && (s.Err == nil || !strings.Contains(s.Err.Error(), why)) {
		t.Errorf("the master is %v: %v, want %v: %s", s.State, s.Err, want, why)
	}
}

// on returns a function for before, which calls f at the first command of a name after on was called.
func on(name string, f func()) func([]string) string {
	var once sync.Once
	return func(cmd []string) string {
		if cmd[0] == name {
			once.Do(f)
		}
		return ""
	}
}
