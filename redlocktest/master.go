package redlocktest

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/incarnation"
)

// Master is one embedded Redis master. Several goroutines may call its methods at once, and may do so while
// any fault is on.
//
// A fault stays on until it is switched off, also across Stop and Start. The exception is Freeze, which Stop
// ends.
type Master struct {
	name    string               // immutable
	mini    *miniredis.Miniredis // immutable; keeps its memory across Stop and Start
	delay   atomic.Int64         // nanoseconds, see Delay
	life    chan struct{}        // one slot, taken while starting or stopping
	began   time.Time            // when it was started, by the clock of that goroutine; immutable
	over    atomic.Bool          // whether the test that started it has ended
	scripts scripts
	seen    seen

	mu     sync.Mutex             // guards the fields below; never held while waiting or calling miniredis
	srv    *server.Server         // nil while stopped
	run    string                 // the run_id that INFO reports; each Stop replaces it
	runs   []string               // all that it had
	links  map[string]*link       // connections by id, until they end
	peers  map[*server.Peer]*link // connections by the peer that miniredis made for them
	nextID int                    // the id of the latest link
	frozen chan struct{}          // closed by Thaw; nil: not frozen
	hung   chan struct{}          // closed by ResumeDials; nil: dials do not hang
	fail   string                 // see Fail
	lose   map[string]int         // replies still to lose, by command; see LoseReply
	drop   map[string]int         // requests still to drop, by command; see DropRequest
	count  map[string]int         // commands executed so far, by name
	log    [][]string             // commands executed so far
}

// link is the master's end of one client's connection.
type link struct {
	id   string        // immutable
	conn *conn         // the master's end; immutable
	dead chan struct{} // closed, under Master.mu, when the connection is cut
	// Of the goroutine that executes its commands:
	mode     mode
	selected bool // it has sent a SELECT
	inner    bool // a command is the translation of one that the hook has let pass
}

func newMaster(name string) *Master {
	mini := miniredis.NewMiniRedis()
	m := &Master{
		name:    name,
		scripts: scripts{mini: mini, texts: map[string]string{}},
		began:   time.Now(),
		mini:    mini,
		life:    make(chan struct{}, 1),
		links:   map[string]*link{},
		peers:   map[*server.Peer]*link{},
		lose:    map[string]int{},
		drop:    map[string]int{},
		count:   map[string]int{},
	}
	m.mini.ClockTTL(true)
	m.newRunIDLocked()
	return m
}

// Name returns the master's name. The first master is "master 1".
func (m *Master) Name() string { return m.name }

// Stop kills the master. Its connections are cut, requests that it has not executed are lost, and dials fail
// with an error that matches [syscall.ECONNREFUSED]. A frozen master can be stopped, which ends the Freeze.
// After Stop has returned, no command is executed. The keys stay and can still be read by the methods of
// Master. Stopping a stopped master does nothing.
func (m *Master) Stop() {
	m.life <- struct{}{}
	defer func() { <-m.life }()
	m.mu.Lock()
	running := m.srv != nil
	m.srv = nil // no dial adds a connection from here on
	if running {
		m.newRunIDLocked()
	}
	m.cutLocked()
	m.thawLocked()
	m.mu.Unlock()
	if running {
		m.mini.Close() // waits for every connection's goroutine
	}
}

// Start starts a stopped master again with the keys it had, like a server that lost nothing on its disk. Keys
// whose time to live ended in between are gone. Scripts are gone too, since Redis does not persist them. To
// simulate a crash without persistence, call Stop, [Master.Forget] and Start. Starting a running master does
// nothing.
//
// A master that was restarted is in quarantine, even with all its keys, since nobody can prove that no write was
// lost: its votes do not count until Options.MaxTTL plus 2 s have passed. To have it vote at once, call
// [Master.Adopt] before Start.
func (m *Master) Start() {
	if err := m.start(); err != nil {
		panic("redlocktest: bug: " + err.Error()) // only listening can fail, and this does not listen
	}
}

func (m *Master) start() error {
	m.life <- struct{}{}
	defer func() { <-m.life }()
	m.mu.Lock()
	running := m.srv != nil
	m.mu.Unlock()
	if running {
		return nil
	}
	// This context ends the blocking commands of miniredis. miniredis never makes a new one: without this
	// line a BLPOP would not block after a restart.
	m.mini.Ctx, m.mini.CtxCancel = context.WithCancel(context.Background())
	// Dial makes miniredis start without a listener.
	c, err := m.mini.Dial()
	if err != nil {
		return err
	}
	c.Close()
	srv := m.mini.Server()
	srv.SetPreHook(func(p *server.Peer, command string, args ...string) bool { // each new server needs the hook again
		return m.hook(srv, p, command, args)
	})
	m.scripts.flush(srv)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.srv = srv
	return nil
}

// Adopt declares that no client holds a lock on the master, so that its votes count at once. [Start] does
// this for new masters. Without it, a master that was restarted or has lost its memory is in quarantine for
// Options.MaxTTL plus 2 s. A stopped master can be adopted too, before it is started again.
func (m *Master) Adopt() {
	m.mu.Lock()
	run := m.run
	m.mu.Unlock()
	now := time.Now()
	known := incarnation.Adopted(now, run)
	m.Set(incarnation.Key, known.Record.Text, known.Expiry().Sub(now))
}

// Forget deletes all keys and scripts of the master, whether it is running or stopped. After that its votes
// do not count until Options.MaxTTL plus 2 s have passed, or until [Master.Adopt] is called.
func (m *Master) Forget() {
	m.seen.change(m.mini.FlushAll)
	m.mu.Lock()
	srv := m.srv
	m.mu.Unlock()
	if srv != nil { // otherwise start flushes the scripts
		m.scripts.flush(srv)
	}
}

// Dial returns a new connection to the master. It is for tests that put a network of their own between a
// client and its masters: such a test calls Dial in the DialContext of a redigo pool for redlock.New. Dial
// fails if the master is stopped, or when ctx ends while dials hang. The caller must close the connection
// before the test that started the master ends.
func (m *Master) Dial(ctx context.Context) (net.Conn, error) { return m.dialLagged(ctx, 0) }

// dial connects to the master over a network that delays requests and replies by lag. It is the DialContext
// of the pools.
func (m *Master) dial(ctx context.Context, lag time.Duration) (redis.Conn, error) {
	c, err := m.dialLagged(ctx, lag)
	if err != nil {
		return nil, err
	}
	return redis.NewConn(c, 0, 0), nil
}

func (m *Master) dialLagged(ctx context.Context, lag time.Duration) (net.Conn, error) {
	if m.isElsewhere() {
		panic(errElsewhere) // after an error the client would only dial again
	}
	if lag > 0 {
		t := time.NewTimer(2 * lag)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done(): // the loop below returns the error
		}
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("redlocktest: dial %s: %w", m.name, err)
		}
		m.mu.Lock()
		hung := m.hung
		if hung == nil {
			break
		}
		m.mu.Unlock()
		select {
		case <-hung:
		case <-ctx.Done():
		}
	}
	defer m.mu.Unlock()
	if m.srv == nil {
		return nil, &net.OpError{Op: "dial", Net: "redlocktest", Addr: addr(m.name), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	return m.connectLocked(lag), nil
}

const errElsewhere = "redlocktest: the masters were started outside of the synctest bubble in which they are used, " +
	"where time would stand still: call Start in the bubble, with the bubble's own *testing.T"

// isElsewhere reports whether the caller is in a synctest bubble in which the master was not started. The
// clock of a bubble begins in the year 2000, so it shows a time long before began.
func (m *Master) isElsewhere() bool { return time.Until(m.began) > 365*24*time.Hour }

// inBubble reports whether the master was started in a synctest bubble.
func (m *Master) inBubble() bool { return m.began.Year() < 2020 }

// Get returns the value of key, and reports whether the key exists and is a string. If not, the value is "".
// Get uses no connection, so it works while any fault is on.
func (m *Master) Get(key string) (string, bool) {
	value, err := m.mini.Get(key)
	return value, err == nil
}

// TTL returns how much longer the key will live. It returns 0 if the key does not exist or does not expire.
func (m *Master) TTL(key string) time.Duration { return m.mini.TTL(key) }

// Set stores a string under key, as another client would. It replaces any earlier value, of whatever type.
// The key expires after ttl. Zero or less means that it does not expire.
func (m *Master) Set(key, value string, ttl time.Duration) {
	m.seen.change(func() {
		m.mini.Del(key) // miniredis refuses to replace another type
		if err := m.mini.Set(key, value); err != nil {
			panic("redlocktest: bug: " + err.Error())
		}
		if ttl > 0 {
			m.mini.SetTTL(key, ttl)
		}
	})
}

// Del deletes the key and reports whether it existed.
func (m *Master) Del(key string) bool {
	var existed bool
	m.seen.change(func() { existed = m.mini.Del(key) })
	return existed
}

// Keys returns all keys, sorted, except for the record of the master's restarts.
func (m *Master) Keys() []string {
	return slices.DeleteFunc(m.mini.Keys(), func(key string) bool { return key == incarnation.Key })
}

// Count returns how many commands with this name, in upper or lower case, the master has executed for clients
// since the test started it. Stop and Start do not reset the count. Commands that a script calls are not
// counted, nor are those that a fault kept from being executed. The restart guard's probe, a script call behind every
// vote, is counted as PROBE.
func (m *Master) Count(command string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count[strings.ToUpper(command)]
}

// Commands returns the commands that Count counts, in the order in which their execution began, such as "SET
// stock token NX PX 10000". The name is in upper case. Arguments that are empty, or contain blanks or
// unprintable characters, are quoted as in Go.
func (m *Master) Commands() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	lines := make([]string, len(m.log))
	for i, command := range m.log {
		lines[i] = line(command)
	}
	return lines
}
