// Package master speaks to one Redis master.
//
// All commands of a Client to a master travel on one ordered, pipelined
// connection, borrowed from the master's redigo pool. Order is what makes the
// lock's clean-up simple: a release that is asked for after its SET arrives
// after it, so it can never miss the key that it undoes. A release which the
// master has not answered is owed, and sent again on the next connection.
//
// The package knows Redis and nothing of quorums.
//
// # Concurrency
//
// A Master has one supervisor goroutine, which dials, and one writer and one
// reader while a connection stands; likewise a listener for wake-ups. Callers only append to a queue: they never
// wait for the network here. No mutex is held across I/O or a callback.
package master

import (
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/clock"
)

// Queue bounds: commands are refused while limit of them and owed releases are
// outstanding, but not the release of a SET that was let in: it has its place
// since then. So the queue is bounded by twice the limit and the locks held.
const limit = 1 << 14

// Heartbeat is how often an idle connection is tried, and owed releases that
// were answered by an error are asked again.
const heartbeat = time.Second

// A State is what a master is good for.
type State uint8

const (
	// Connecting: the first connection is under way. It ends in one of the others.
	Connecting State = iota
	// Up: commands are sent. It ends in Down when the connection fails, in
	// Refused, or in Quarantined.
	Up
	// Quarantined: the server may have forgotten locks, so its votes do not count.
	// It is sent no acquisitions, whose keys would only stand in the way of a true
	// holder's heals; everything else is sent. It ends in Up, by time, or as Up
	// does.
	Quarantined
	// Down: commands fail at once, releases are owed. It ends in Up or Refused.
	Down
	// Refused: the server answers, and must not vote. Otherwise it is like Down.
	Refused
)

func (s State) String() string {
	switch s {
	case Connecting:
		return "connecting"
	case Up:
		return "up"
	case Quarantined:
		return "quarantined"
	case Down:
		return "down"
	case Refused:
		return "refused"
	}
	panic("redlock: bug: unknown state of a master")
}

// A Status is a master's state and the reason for it.
type Status struct {
	State State         // what it is good for
	Since time.Time     // since when
	Until time.Time     // when a quarantine ends
	Err   error         // why it is down, quarantined or refused
	RTT   time.Duration // of the last reply; 0 before the first
	// WakeErr says why this master wakes nobody of ours; nil if it does, or is not
	// asked to.
	WakeErr error
	// GuardErr says why a restart of this master may go unnoticed; nil if it will
	// not, or the guard is off.
	GuardErr error
}

// Config is what a Master is made of. ID and Woken, Quarantine and
// Clock may be left out.
type Config struct {
	Pool        *redis.Pool   // where connections come from
	Index       int           // its place in the list, below MaxMasters
	NodeTimeout time.Duration // how long a healthy master may take to answer
	DialTimeout time.Duration // bounds connecting, and how late a reply may be
	// Servers is shared by the Client's masters.
	Servers *Servers
	// Quarantine is for how long a server's memory must have been known before its
	// votes count; 0 turns the restart guard off. Clock is for the guard.
	Quarantine time.Duration
	Clock      clock.Clock
	// ID is the client's, by which masters wake it; empty for no wake-ups.
	ID string
	// Woken is told that a lock became free, and of the token that held it. It
	// must not block.
	Woken func(master int, key, token string)
	// Redial makes a fresh schedule of waits between dials.
	Redial func() interface{ NextBackOff() time.Duration }
	// Changed is told of each new state, and of wake-ups failing or working again,
	// by one goroutine at a time, in order. It must not block.
	Changed func(before State, now Status)
}

// A Master is a Client's side of one Redis master. Its methods are safe for
// concurrent use.
type Master struct {
	cfg     Config        // immutable
	wake    chan struct{} // cap 1: the queue has something for the writer
	due     chan struct{} // cap 1: a reply is due, for the reader
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when supervisor and listener have ended

	mu     sync.Mutex // guards what follows
	status Status
	closed bool
	queue  []item  // not yet handed to the writer
	spare  []item  // the queue's other buffer
	plan   plan    // the writer's scratch
	flight flight  // handed to the writer, not yet answered
	owed   []*debt // releases to send again
	// Until then a connection that we have lost may still speak: see echoes.
	haunted   time.Time
	listening bool      // the subscription stands
	deaf      time.Time // since when it cannot be had; zero: it stands
	guard     guard
	news      []change // that Changed has not been told of
	telling   bool     // somebody is telling it

	last peer // the last connection as the server knew it; the supervisor's own
}

// A change is what Changed is told.
type change struct {
	before State
	now    Status
}

// Start returns a Master that connects in the background.
func Start(cfg Config) *Master {
	m := &Master{
		cfg:     cfg,
		wake:    make(chan struct{}, 1),
		due:     make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		status:  Status{State: Connecting, Since: time.Now()},
	}
	cfg.Servers.join(m)
	var all sync.WaitGroup
	all.Go(m.supervise)
	if cfg.ID != "" {
		all.Go(m.listen)
	}
	go func() {
		all.Wait()
		close(m.done)
	}()
	return m
}

// Status returns the master's present state.
func (m *Master) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

// Connecting reports whether the first connection is still under way.
func (m *Master) Connecting() bool { return m.Status().State == Connecting }

// Listening reports whether the master can wake this client.
func (m *Master) Listening() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listening
}

// Ask sends a command, in the order of the calls, and has asker, which may be
// nil, told the answer. It returns an error instead if the command cannot be
// sent: if the master is down or its queue full, or if it is quarantined and the
// command would acquire a lock, or ask whether that may be. A release that cannot
// be sent is owed, if the claim's token may stand here.
func (m *Master) Ask(kind Kind, claim *Claim, asker Asker) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if kind.releases() {
		mark(&claim.released, m.cfg.Index)
	}
	if err := m.admitLocked(kind, claim); err != nil {
		if kind.releases() && claim.mayStandAt(m.cfg.Index) && !m.closed {
			m.owed = append(m.owed, &debt{kind: kind, claim: claim})
		}
		return err
	}
	if kind.sets() {
		mark(&claim.admitted, m.cfg.Index)
	}
	m.pushLocked(item{kind: kind, claim: claim, asker: asker})
	return nil
}

func (m *Master) admitLocked(kind Kind, claim *Claim) error {
	switch {
	case m.closed:
		return ErrClosed
	case m.status.State == Down || m.status.State == Refused:
		return m.status.Err
	case m.status.State == Quarantined && (kind.acquires() || kind == Ping):
		return m.status.Err
	case len(m.queue)+m.flight.len()+len(m.owed) < limit:
		return nil
	case !kind.releases() || !has(&claim.admitted, m.cfg.Index):
		return errFull
	}
	return nil
}

func (m *Master) pushLocked(it item) {
	m.queue = append(m.queue, it)
	if len(m.queue) == 1 {
		poke(m.wake)
	}
}

// Close stops the master. What has been asked is still sent and waited for,
// until a reply is overdue by DialTimeout; what is owed is dropped. Done is
// closed at the end.
func (m *Master) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		close(m.closing)
	}
}

// Done is closed when every goroutine of the master has ended.
func (m *Master) Done() <-chan struct{} { return m.done }

// become ends a connection's state, Up or Quarantined, and lets go of what cannot
// be answered any more, before it tells anybody. Only the supervisor calls it.
func (m *Master) become(s State, err error) {
	m.mu.Lock()
	m.setLocked(s, err, time.Time{})
	m.mu.Unlock()
	m.abandon(err)
	m.tell()
}

// setLocked changes the state; tell is to be called when the mutex is given up.
func (m *Master) setLocked(s State, err error, until time.Time) {
	before := m.status.State
	if before != s {
		m.status.State, m.status.Since = s, time.Now()
	}
	m.status.Err, m.status.Until = err, until
	if before != s {
		m.news = append(m.news, change{before, m.status})
	}
}

// tell tells of changes, unless somebody is doing so, who then goes on: whoever is
// told may be slow.
func (m *Master) tell() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.telling {
		return
	}
	m.telling = true
	for len(m.news) > 0 {
		n := m.news[0]
		m.news = m.news[1:]
		m.mu.Unlock()
		m.cfg.Changed(n.before, n.now)
		m.mu.Lock()
	}
	m.telling = false
}
