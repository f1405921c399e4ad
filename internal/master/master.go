// Package master sends commands to one Redis master and delivers the answers.
//
// All commands of a Client to a master travel on one pipelined connection, which is borrowed from the
// master's redigo pool. The order of the connection makes a lock's clean-up simple: a release that is
// asked for after its SET arrives after it, so it cannot miss the key. A release that the master has not
// answered is owed, and sent again on the next connection.
//
// The package knows Redis, and nothing of quorums.
//
//   - What is sent and answered: package wire.
//   - Whether votes count: package guard, and held.go.
//   - The commands of a master: outbox.go, sent.go and batch.go. One connection: link.go sends, receive.go receives.
//   - Connecting: dial.go, and supervise.go with rights.go, load.go and database.go.
//   - Messages, and grants among them: wake.go and grant.go.
//   - Clients with other lists of masters: lists.go.
//
// # Concurrency
//
// A Master has a supervisor goroutine, which dials, and a writer and a reader while there is a
// connection. Unless the client is Deaf, it has a subscriber, which has a connection of its own. Callers only append to
// a queue: they never wait for the network here.
//
// A goroutine may take Guard.mu when it has Master.mu, and Master.mu when it has Servers.declaring. No mutex is held during I/O, Answered, or a call of the Listener.
package master

import (
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/wire"
)

// limit is how many commands may be queued, in flight or owed before others are refused. The release of
// a SET that was let in is never refused, so the bound is twice the limit plus the locks held.
const limit = 1 << 14

// heartbeat is how often an idle connection is checked, and how long a release that was answered by an
// error waits before it is sent again.
const heartbeat = time.Second

// A State says what a master can be used for. Package redlock exports the same numbers.
type State uint8

const (
	// Connecting: the first connection is under way. Next: any other state.
	Connecting State = iota
	// Up: commands are sent. Next: Down or Refused, when the connection ends.
	Up
	// Down: commands fail at once, and releases are owed. Next: Up, Quarantined or Refused.
	Down
	// Refused is like Down, but the server answers and may not vote.
	Refused
	// Quarantined: the server may have lost locks, so its votes do not count. Acquisitions are not sent:
	// their keys would only prevent the heals of a holder. All other commands are sent. Next: Up, when
	// the time is over, or as after Up.
	Quarantined
)

func (s State) String() string {
	return [...]string{"connecting", "up", "down", "refused", "quarantined"}[s]
}

// A Status is a master's state and the reason for it.
type Status struct {
	State State         // what the master can be used for
	Since time.Time     // when the state began
	Until time.Time     // when a quarantine ends
	Err   error         // why it is down, quarantined or refused
	RTT   time.Duration // of the last reply; 0 before the first
	// WakeErr says why this master cannot tell this client of grants; nil if it can, or need not.
	WakeErr error
	// WriteErr says why the server refuses writes, and so grants no locks; nil if it does not, or if that is not known.
	WriteErr error
	// WriteSince is when WriteErr became nil or not nil.
	WriteSince time.Time
	// WakesDropped counts the messages that were ignored: malformed, or not expected.
	WakesDropped uint64
	// MaxTTL is the MaxTTL in the master's record; 0 if it is not known.
	MaxTTL time.Duration
	// GuardErr says why a restart of this master may remain unnoticed; nil if it cannot, or the guard is
	// off.
	GuardErr error
	// ListErr says that other clients of this master have another number of masters; nil if none was found. It is as old as
	// the last answer, also while the master is down.
	ListErr error
}

// Config configures a Master. ID and Sample are optional.
type Config struct {
	Pool        *redis.Pool    // where connections come from
	Index       int            // the master's position in the list, below MaxMasters
	NodeTimeout time.Duration  // how long a healthy master may take to answer
	DialTimeout time.Duration  // bounds connecting, and how late a reply may be
	Servers     *guard.Servers // shared by the Client's masters
	Listener    Listener       // the Client; its masters may share it
	// ID identifies the client in queues and to the masters' messages. Empty: the client uses neither.
	ID string
	// Deaf says that this client opens no subscription, so that no master can tell it anything.
	Deaf bool
	// Sample is a key that a lock could have and none has. The user's rights are tried on it, and whether the
	// server accepts writes. Empty: they are not tried.
	Sample string
}

// A Listener is what a Master knows of its Client. It is told what the server says, and answers what the Client waits for. Its methods must not
// block, but for Raising. They may be called from several goroutines at a time, and without any mutex of the Master. The integer is Config.Index.
//
// The methods that return expected take well-formed messages. They report whether this Client may have been sent the message: every
// client that may publish on the channel can name any key.
type Listener interface {
	// Changed is called after each change of the state, and of whether WakeErr, WriteErr or ListErr is nil. The calls are
	// in order, one at a time.
	Changed(master int, before State, now Status)
	// Up is called when the master has come up, ahead of Changed, and when a subscription begins: from then on a claim can be in its queue.
	Up(master int)

	// Freed takes the message that the release of a token has left a key free.
	Freed(master int, key, token string) (expected bool)
	// Granted takes a grant.
	Granted(master int, g Grant) (expected bool)
	// Near takes the message that a claim has become near. released is the claim if it was released; else nil.
	Near(master int, key, token string) (released *SentClaim, expected bool)
	// Recalled takes a recall: another client wants the lock of key, which this client may keep with this token.
	Recalled(master int, key, token string) (expected bool)
	// Value takes a value.
	Value(master int, v wire.Value) (expected bool)

	// Waiting reports whether a claim of this client is near at a master, so that a grant may come soon. Such a grant counts from
	// since on, at the earliest.
	Waiting(master int) (since time.Time, near bool)
	// Calm reports whether this client holds no lock, and waits far from the heads of all queues. Then its polls, which have probes, are its
	// heartbeats.
	Calm() bool
	// Patience returns how long it takes at most until a claim that is near is sent again, and how much longer while none is.
	Patience() (near, far time.Duration)

	// Raising is called before this client's MaxTTL replaces a smaller one in the master's record; 0 if there was none. It
	// must not block for long.
	Raising(before, now time.Duration)
	// Redial returns a new schedule of waits between dials.
	Redial() Schedule
}

// A Schedule returns one wait after the other. It need not be safe for concurrent use.
type Schedule interface{ NextBackOff() time.Duration }

// An Asker receives the answers to commands.
type Asker interface {
	// Answered is called once for each command that Ask has let in, by the goroutine that read the reply
	// or found that there will be none. It must not block.
	Answered(master int, a wire.Answer)
}

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

	pingOften chan struct{} // cap 1: Listener.Waiting may report true; received by the subscriber
	hurry     chan struct{} // cap 1: Hurry was called; received by the supervisor's dialer

	mu           sync.Mutex // guards what follows
	status       Status
	closed       bool
	closedAt     time.Time // when Close was called; may be read without mu once closing is closed
	outbox       outbox
	held         []verdict     // votes, in the order of their answers, until a probe confirms them
	heldSpare    []verdict     // the other buffer of held
	noSlots      error         // why it gives no permits; nil: it does
	noRight      error         // why the user may set no key under the prefix; nil: it may
	run          string        // the run_id of the last connection's server; "": it does not tell
	links        int           // how many connections there were
	contact      int           // see Contact
	subscription *subscription // nil: there is none at the server of the last connection
	deaf         time.Time     // since when there is no subscription; zero: there is one
	listsAsked   int           // the last period of asking for the lists of other clients: see askListsLocked
	listsNone    bool          // its last answer to that found none
	news         []change      // not yet reported to Changed
	reporting    bool          // a goroutine reports them

	noted bool // the server may have a note that this client waits; the writer's

	timed     time.Time // when the commands were written whose first answer was the last round trip
	roundTrip roundTrip // its methods need mu
}

// A change is one call of Changed.
type change struct {
	before State
	now    Status
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

// Status returns the master's status.
func (m *Master) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

// Connecting reports whether the first connection is still under way.
func (m *Master) Connecting() bool { return m.Status().State == Connecting }

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

// Up reports whether the votes of the master count.
func (m *Master) Up() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status.State == Up
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

// idle reports whether nothing is queued or in flight.
func (m *Master) idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.outbox.idle()
}

// Close stops the master. Commands that were let in are sent, and their replies awaited for DialTimeout. Owed
// releases are dropped. Done is closed at the end.
func (m *Master) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed, m.closedAt = true, time.Now()
		close(m.closing)
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

// guarded reports whether the restart guard is on.
func (m *Master) guarded() bool { return !m.cfg.Servers.Client.Off }

// quarantineLocked sets the state of a connected master by what the guard says.
func (m *Master) quarantineLocked() {
	if err := m.guard.Quarantine(); err != nil {
		m.setLocked(Quarantined, err, err.Until)
	} else {
		m.setLocked(Up, nil, time.Time{})
	}
}

// Prolong implements guard.Voter.
func (m *Master) Prolong() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.status.State == Up || m.status.State == Quarantined {
		m.quarantineLocked()
	}
}

// endQuarantine ends the quarantine if its time is over. It returns the end of the quarantine, or the
// zero Time.
func (m *Master) endQuarantine() (until time.Time) {
	m.update(func() {
		if m.status.State == Quarantined {
			m.quarantineLocked()
			until = m.status.Until
		}
	})
	return until
}

// update calls f, which needs the mutex, and then reports the changes of the status.
func (m *Master) update(f func()) {
	m.mu.Lock()
	f()
	m.mu.Unlock()
	m.Report()
}

// setLocked sets the state. The caller calls Report without the mutex: see update.
func (m *Master) setLocked(s State, err error, until time.Time) {
	before := m.status.State
	if before != s {
		m.status.State, m.status.Since = s, time.Now()
		m.roundTrip.up.Store(s == Up)
	}
	m.status.Err, m.status.Until = err, until
	if before != s {
		m.news = append(m.news, change{before, m.status})
	}
}

// Report reports changes of the status in order, each to one call of Changed at a time. If another
// goroutine is reporting, that one goes on with the new changes, so that Report never waits.
func (m *Master) Report() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reporting {
		return
	}
	m.reporting = true
	for len(m.news) > 0 {
		n := m.news[0]
		m.news = m.news[1:]
		m.mu.Unlock()
		if n.now.State == Up && n.before != Up {
			m.cfg.Listener.Up(m.cfg.Index)
		}
		m.cfg.Listener.Changed(m.cfg.Index, n.before, n.now)
		m.mu.Lock()
	}
	m.reporting = false
}
