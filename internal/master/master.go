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
	// Up: commands are sent. It ends in Down when the connection fails, or in
	// Refused.
	Up
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
	Err   error         // why it is down or refused
	RTT   time.Duration // of the last reply; 0 before the first
	// WakeErr says why this master wakes nobody of ours; nil if it does, or is not
	// asked to.
	WakeErr error
}

// Config is what a Master is made of. All fields but ID and Woken are required.
type Config struct {
	Pool        *redis.Pool   // where connections come from
	Index       int           // its place in the list, below MaxMasters
	NodeTimeout time.Duration // how long a healthy master may take to answer
	DialTimeout time.Duration // bounds connecting, and how late a reply may be
	// Servers is shared by the Client's masters.
	Servers *Servers
	// ID is the client's, by which masters wake it; empty for no wake-ups.
	ID string
	// Woken is told that a lock became free, and of the token that held it. It
	// must not block.
	Woken func(master int, key, token string)
	// Redial makes a fresh schedule of waits between dials.
	Redial func() interface{ NextBackOff() time.Duration }
	// Changed is told of each new state, and of wake-ups failing or working again.
	// It must not block.
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

	last peer // the last connection as the server knew it; the supervisor's own
}

// An item is one command on its way.
type item struct {
	kind     Kind
	claim    *Claim
	asker    Asker // nil if nobody cares for the answer
	debt     *debt // what this release pays, if it was owed
	batch    int   // how many items from here on share one script call; 0: none begins here
	alone    bool  // not to be batched: the batch that it was in was answered by an error
	reloaded bool  // sent again after the scripts were loaded again
	sent     time.Time
	// The subscription stood when it was sent: an Acquire may join the queue.
	listening bool
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
// sent: if the master is down or its queue full. A release that cannot be sent
// is owed, if the claim's token may stand here.
func (m *Master) Ask(kind Kind, claim *Claim, asker Asker) error {
	m.mu.Lock()
	defer m.mu.Unlock()
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

// become changes the state, lets go of what cannot be answered in it, and only
// then tells: whoever is told may be slow. Only the supervisor calls it.
func (m *Master) become(s State, err error) {
	m.mu.Lock()
	before := m.status.State
	if before != s {
		m.status.State, m.status.Since = s, time.Now()
	}
	m.status.Err = err
	status := m.status
	m.mu.Unlock()
	if s != Up {
		m.abandon(err)
	}
	if before != s {
		m.cfg.Changed(before, status)
	}
}

// take moves the queue into flight, arranged for sending, and returns it. The
// slice is the caller's, who is the writer, until its next take.
func (m *Master) take() []item {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	queue := m.queue
	m.queue, m.spare = m.spare[:0], queue
	items := m.plan.arrange(queue)
	clear(queue)
	for i := range items {
		items[i].sent, items[i].listening = now, m.listening
		if items[i].kind.sets() {
			mark(&items[i].claim.written, m.cfg.Index)
		}
		m.flight.push(items[i])
	}
	return items
}

// idle reports whether nothing is queued or in flight.
func (m *Master) idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queue) == 0 && m.flight.len() == 0
}

// abandon empties queue and flight when the connection is gone: releases
// become owed, everybody is told err. The state is Down by then, or the Master
// is closed, so nothing is added behind it.
func (m *Master) abandon(err error) {
	m.mu.Lock()
	lost := make([]item, 0, m.flight.len()+len(m.queue))
	for m.flight.len() > 0 {
		it := m.flight.pop()
		if it.kind.sets() {
			mark(&it.claim.adrift, m.cfg.Index)
		}
		lost = append(lost, it)
	}
	lost = append(lost, m.queue...)
	clear(m.queue)
	m.queue = m.queue[:0]
	for _, it := range lost {
		if it.kind.releases() {
			m.oweLocked(it)
		}
	}
	m.mu.Unlock()
	for _, it := range lost {
		if it.asker != nil {
			it.asker.Answered(m.cfg.Index, Answer{Err: err})
		}
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has been poked already
	}
}

// A flight is the queue of commands whose replies are due, oldest first.
type flight struct {
	items []item
	head  int
}

func (f *flight) len() int     { return len(f.items) - f.head }
func (f *flight) first() *item { return &f.items[f.head] }
func (f *flight) push(it item) { f.items = append(f.items, it) }

func (f *flight) pop() item {
	it := f.items[f.head]
	f.items[f.head] = item{}
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	} else if f.head > 1024 && f.head > len(f.items)/2 {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	return it
}
