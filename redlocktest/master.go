package redlocktest

import (
	"bufio"
	"context"
	"fmt"
	"io"
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

// Master is one embedded Redis master. Its methods may be called by several
// goroutines at once, and while any fault is on.
//
// Faults that are switched on stay on, across Stop and Start too, until they
// are switched off; only a Freeze ends with the process that it froze.
type Master struct {
	name  string               // immutable
	mini  *miniredis.Miniredis // immutable; the memory of all this master's lives
	delay atomic.Int64         // nanoseconds, see Delay
	life  chan struct{}        // one slot, taken by whoever starts or stops

	mu     sync.Mutex             // guards what follows; never held while waiting, and miniredis is not called under it
	srv    *server.Server         // nil while stopped
	links  map[string]*link       // connections by id, until they end
	peers  map[*server.Peer]*link // the same, by what miniredis calls them
	nextID int                    // the next link's id
	frozen chan struct{}          // not nil while frozen, closed at the thaw
	hung   chan struct{}          // not nil while dials hang, closed when they go on
	fail   string                 // see Fail
	lose   map[string]int         // see LoseReply: how many, by command
	drop   map[string]int         // see DropRequest: how many, by command
	count  map[string]int         // executed so far, by command
	log    []string               // executed so far
}

// link is one client's connection as its master sees it.
type link struct {
	id   string        // immutable
	conn *conn         // the master's end; immutable
	dead chan struct{} // closed, under Master.mu, when the connection is cut
}

func newMaster(name string) *Master {
	m := &Master{
		name:  name,
		mini:  miniredis.NewMiniRedis(),
		life:  make(chan struct{}, 1),
		links: map[string]*link{},
		peers: map[*server.Peer]*link{},
		lose:  map[string]int{},
		drop:  map[string]int{},
		count: map[string]int{},
	}
	m.mini.ClockTTL(true)
	return m
}

// Name returns the master's name, "master 1" for the first.
func (m *Master) Name() string { return m.name }

// Stop kills the master: its connections are cut, requests that it has not
// executed are lost, and dials are refused with an error that is
// [syscall.ECONNREFUSED]. A frozen master can be stopped. When Stop returns,
// nothing is executed any more. Its memory stays, and can be looked at. Stopping
// a stopped master does nothing.
func (m *Master) Stop() {
	m.life <- struct{}{}
	defer func() { <-m.life }()
	m.mu.Lock()
	running := m.srv != nil
	m.srv = nil // no dial adds a connection from here on
	m.cutLocked()
	m.thawLocked()
	m.mu.Unlock()
	if running {
		m.mini.Close() // waits for every connection's goroutine
	}
}

// Start starts the master again with the keys it had, as one that lost nothing
// from its disk; those whose time ran out in between are gone. Scripts are
// gone, too, since Redis does not persist them. For a crash without persistence
// call [Master.Stop], [Master.Forget], Start. Starting a running master does
// nothing.
func (m *Master) Start() {
	if err := m.start(); err != nil {
		panic("redlocktest: bug: " + err.Error()) // the only way to fail is to listen
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
	// miniredis ends its blocking commands by this context and never makes
	// another: without that, a BLPOP of the second life would not block.
	m.mini.Ctx, m.mini.CtxCancel = context.WithCancel(context.Background())
	// Dialling is how miniredis starts without a listener.
	c, err := m.mini.Dial()
	if err != nil {
		return err
	}
	c.Close()
	srv := m.mini.Server()
	srv.SetPreHook(m.hook) // of the new server: a hook does not outlive its server
	flushScripts(srv)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.srv = srv
	return nil
}

// Adopt declares that nobody holds a lock on the master, so that its votes count
// at once, as Start does in the beginning. Without it a master that has forgotten
// is in quarantine for Options.MaxTTL and 2 s.
func (m *Master) Adopt() {
	now := time.Now()
	known := incarnation.Adopted(now)
	m.Set(incarnation.Key, known.Record.Text, known.Expiry().Sub(now))
}

// Forget empties the master's memory, of all keys and scripts, running or
// stopped. Its votes do not count then until Options.MaxTTL and 2 s have passed,
// or it is adopted.
func (m *Master) Forget() {
	m.mini.FlushAll()
	m.mu.Lock()
	srv := m.srv
	m.mu.Unlock()
	if srv != nil { // else start does it
		flushScripts(srv)
	}
}

// flushScripts forgets the scripts, in the one way that miniredis offers. The
// hook lets it pass, since its peer is no client's.
func flushScripts(srv *server.Server) {
	srv.Dispatch(server.NewPeer(bufio.NewWriter(io.Discard)), []string{"SCRIPT", "FLUSH"})
}

// dial connects to the master; it is the pools' DialContext.
func (m *Master) dial(ctx context.Context) (redis.Conn, error) {
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
		return nil, fmt.Errorf("redlocktest: dial %s: %w", m.name, syscall.ECONNREFUSED)
	}
	return redis.NewConn(m.connectLocked(), 0, 0), nil
}

// Get returns the key's value, and reports whether the key exists and is
// a string. Looking needs no connection: it works whatever faults are on.
func (m *Master) Get(key string) (string, bool) {
	value, err := m.mini.Get(key)
	return value, err == nil
}

// TTL returns how long the key will live, 0 if for ever or if it does not exist.
func (m *Master) TTL(key string) time.Duration { return m.mini.TTL(key) }

// Set stores a string under key, whatever was there, as somebody else's client
// would. It lives for ttl; 0 or less means for ever.
func (m *Master) Set(key, value string, ttl time.Duration) {
	m.mini.Del(key) // miniredis refuses to replace another type
	if err := m.mini.Set(key, value); err != nil {
		panic("redlocktest: bug: " + err.Error())
	}
	if ttl > 0 {
		m.mini.SetTTL(key, ttl)
	}
}

// Del deletes the key and reports whether it existed.
func (m *Master) Del(key string) bool { return m.mini.Del(key) }

// Keys returns all keys, sorted, but for the record of the master's restarts.
func (m *Master) Keys() []string {
	return slices.DeleteFunc(m.mini.Keys(), func(key string) bool { return key == incarnation.Key })
}

// Count returns how many commands of this name, in whatever case, the master
// has executed for clients since the beginning, over all its lives. Commands
// that a script calls do not count, nor do those that a fault kept from being
// executed.
func (m *Master) Count(command string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count[strings.ToUpper(command)]
}

// Commands returns the commands that Count counts, in the order in which their
// execution began, such as "SET stock token NX PX 10000": the name in upper
// case, arguments that are empty or have blanks or unprintable characters quoted as in Go.
func (m *Master) Commands() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.log)
}
