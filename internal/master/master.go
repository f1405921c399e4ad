// Package master sends commands to one Redis master and delivers the answers.
//
// All commands of a Client to a master travel on one pipelined connection, which is borrowed from the
// master's redigo pool. The order of the connection makes a lock's clean-up simple: a release that is
// asked for after its SET arrives after it, so it cannot miss the key. A release that the master has not
// answered is owed, and sent again on the next connection.
//
// The package knows Redis, and nothing of quorums.
//
//   - What the Client says and is told: config.go. What users are told: status.go.
//   - What is sent and answered: package wire.
//   - Whether votes count: package guard, and held.go.
//   - The commands of a master: outbox.go, sent.go and batch.go. One connection: link.go sends, receive.go receives; heart.go does what is due once
//     a second.
//   - Connecting: dial.go, and supervise.go with rights.go and database.go.
//   - Messages, and grants among them: wake.go and grant.go.
//   - Clients with other lists of masters: lists.go.
//
// # Concurrency
//
// A Master has a supervisor goroutine, which dials, and a writer and a reader while there is a
// connection. Unless the client is Deaf, it has a subscriber, which has a connection of its own. The masters of a Client share a timer, the Heart.
// Callers only append to a queue: they never wait for the network here.
//
// A goroutine may take Guard.mu when it has Master.mu, and Master.mu when it has Servers.declaring. No mutex is held during I/O, Answered, or a
// call of the Listener.
package master

import (
	"errors"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/wire"
)

// limit is how many commands may be queued, in flight or owed before others are refused. The release of
// a SET that was let in is never refused, so the bound is twice the limit plus the locks held.
const limit = 1 << 14

// heartbeat is how often an idle connection is checked, and how long a release that was answered by an
// error waits before it is sent again.
const heartbeat = guard.Heartbeat

// Errors of answers.
var (
	ErrClosed   = errors.New("client closed")
	errReleased = errors.New("given up before it was sent")
	errFull     = errors.New("too many commands are waiting for this master")
)

// A Master is a Client's side of one Redis master. Its methods are safe for concurrent use.
type Master struct {
	cfg     Config        // immutable
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when supervisor and subscriber have ended
	began   time.Time     // immutable
	guard   *guard.Guard  // immutable
	ripe    *time.Timer   // immutable; runs while the master is quarantined, and may end that

	pingOften chan struct{} // cap 1: Listener.Waiting may report true; received by the subscriber
	hurry     chan struct{} // cap 1: Hurry was called; received by the supervisor's dialer

	mu           sync.Mutex // guards what follows
	status       Status
	closed       bool
	closedAt     time.Time // when Close was called; may be read without mu once closing is closed
	outbox       outbox
	noSlots      error         // why it gives no permits; nil: it does
	noRight      error         // why the user may set no key under the prefix; nil: it may
	run          string        // the run_id of the last connection's server; "": it does not tell
	links        int           // how many connections there were
	contact      int           // see Contact
	subscription *subscription // nil: there is none at the server of the last connection
	deaf         time.Time     // since when there is no subscription; zero: there is one
	listsAsked   int           // the last period of asking for the lists of other clients: see askListsLocked
	listsNone    bool          // its last answer to that found none
	told         Status        // the last of news, now or before
	news         []Status      // not yet reported to Changed
	reported     State         // the last that was reported
	reporting    bool          // a goroutine reports news

	noted bool      // the server may have a note that this client waits; the writer's
	held  []verdict // votes, in the order of their answers, until a probe confirms them; the reader's, or the supervisor's when it has ended

	timed     time.Time // when the commands were written whose first answer was the last round trip
	roundTrip roundTrip // its methods need mu
}

// Start returns a Master that connects in the background.
func Start(cfg Config) *Master {
	m := &Master{
		cfg:     cfg,
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		began:   time.Now(),

		pingOften: make(chan struct{}, 1),
		hurry:     make(chan struct{}, 1),

		status: Status{State: Connecting, Since: time.Now()},
		outbox: outbox{index: cfg.Index, wake: make(chan struct{}, 1)},
	}
	if cfg.Heart == nil {
		m.cfg.Heart = new(Heart)
	}
	m.ripe = time.AfterFunc(time.Hour, func() { m.update(m.endQuarantineLocked) })
	m.ripe.Stop() // until the master is quarantined
	m.guard = cfg.Servers.Guard(cfg.Index, m)
	shared := cfg.Pool.ActiveCount() > 0
	var all sync.WaitGroup
	all.Go(func() { m.supervise(shared) })
	if cfg.ID != "" && !cfg.Deaf {
		all.Go(m.subscribe)
	}
	go func() {
		all.Wait()
		close(m.done)
	}()
	return m
}

// Listening reports whether the master can tell this client of grants.
func (m *Master) Listening() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.subscription != nil
}

// Ask sends a command, after those that were asked for before. The answer goes to asker, which may be
// nil. Ask returns an error, and asker gets no answer, if the command cannot be sent:
//
//   - the master is down or refused, or the Master is closed;
//   - the master is quarantined, and the command is an acquisition or a Ping;
//   - the queue is full, and the command is not the release of a SET that was let in;
//   - the command sets the key, and a release of the claim was asked for before.
//
// A release that cannot be sent is owed, if the master may hold the token.
func (m *Master) Ask(r wire.Request, claim *SentClaim, asker Asker) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.askLocked(r, claim, asker)
}

// Hurry shortens the pause before the next dial of a Master that is down to NodeTimeout. Each call shortens one pause. Without it,
// dials of a master that stays down are up to one and a half seconds apart: too long for a lease that ends before.
func (m *Master) Hurry() { poke(m.hurry) }

// Contact returns a number that stays the same for as long as the connection for commands and the subscription last. It is 0 if
// there is no subscription although the client uses them.
func (m *Master) Contact() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.contactLocked()
}

func (m *Master) contactLocked() int {
	if m.cfg.ID != "" && !m.cfg.Deaf && m.subscription == nil {
		return 0
	}
	return m.contact
}

// Publish sends a value to those who wait for the key of the claim. sure says that the holder is sure of this master: see wire.Value. It does
// not count if Contact returns another number by now. Nobody needs the answer.
func (m *Master) Publish(value []byte, sure bool, contact int, claim *SentClaim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sure = sure && contact != 0 && m.contactLocked() == contact
	m.askLocked(wire.PublishScript, nil, nil)
	m.askLocked(claim.Publishing(value, sure), claim, nil)
}

func (m *Master) askLocked(r wire.Request, claim *SentClaim, asker Asker) error {
	kind := r.Kind()
	it := newItem(r, claim, asker)
	if kind.Releases() {
		claim.released.Store(true)
	}
	if err := m.admitLocked(kind, claim); err != nil {
		if kind.Releases() && !m.closed {
			it.asker = nil
			m.outbox.owe(&it, time.Time{})
		}
		return err
	}
	if kind.Sets() {
		claim.at[m.cfg.Index].admit()
	}
	if kind == wire.Ping {
		m.tryLocked()
	}
	m.outbox.push(it)
	return nil
}

// admitLocked returns why a command cannot be sent.
func (m *Master) admitLocked(kind wire.Kind, claim *SentClaim) error {
	switch {
	case m.closed:
		return ErrClosed
	case kind.Sets() && claim.released.Load():
		return errReleased
	case m.status.State == Down || m.status.State == Refused:
		return m.status.Err
	case m.status.State == Quarantined && (kind.Acquires() || kind == wire.Ping):
		return m.status.Err
	case m.noSlots != nil && kind.Acquires() && claim.OfSlots():
		return m.noSlots
	case m.outbox.size() < limit:
		return nil
	case kind.Releases() && claim.at[m.cfg.Index] != absent:
		return nil // its place was counted when the SET was let in
	}
	return errFull
}

// calm reports whether the client is calm. Commands must reach the master for a poll to be a heartbeat, and the end of the subscription
// tells at once that the server has ended.
func (m *Master) calm() bool {
	if !m.cfg.Listener.Calm() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status.State == Up && m.subscription != nil
}

// push queues a command of the Master itself.
func (m *Master) push(it item) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outbox.push(it)
}

// finished reports whether nothing is queued or in flight after Close.
func (m *Master) finished() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed && m.outbox.idle()
}

// Close stops the master. Commands that were let in are sent, and their replies awaited for DialTimeout. Owed
// releases are dropped. Done is closed at the end.
func (m *Master) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed, m.closedAt = true, time.Now()
		close(m.closing)
		m.ripe.Stop()
		poke(m.outbox.wake)
	}
}

// leftToClose returns how much longer replies are awaited after Close, and reports whether Close was called.
func (m *Master) leftToClose(now time.Time) (left time.Duration, closed bool) {
	select {
	case <-m.closing:
		return max(m.closedAt.Add(m.cfg.DialTimeout).Sub(now), time.Nanosecond), true
	default:
		return 0, false
	}
}

// Done is closed when every goroutine of the master has ended.
func (m *Master) Done() <-chan struct{} { return m.done }
