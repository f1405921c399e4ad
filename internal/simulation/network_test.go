package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/redlocktest"
)

// A direction is a way that bytes travel on a link.
type direction int

const (
	toMaster direction = iota
	toClient
)

// A route is how long bytes take between one process and one master. Each message takes a time of
// its own, up to jitter longer.
type route struct {
	delay  [2]time.Duration // by direction
	jitter time.Duration
}

// A link is the network between one process and one master. All connections of the process to the
// master run over it. A link keeps the order of the bytes of a connection, as TCP does. A blocked
// direction keeps its bytes until it is unblocked: TCP sends them again.
type link struct {
	master *redlocktest.Master // immutable
	route  route               // immutable
	denied []string            // immutable; commands that the master refuses from the process

	mu      sync.Mutex // guards what follows, and every conn of the link
	rng     *rand.Rand
	blocked [2]int        // how many faults block each direction
	slow    time.Duration // added to each message
	dead    bool          // the process has crashed: no dial succeeds any more
	conns   []*conn
	changed chan struct{} // closed when blocked or dead change
}

func newLink(m *redlocktest.Master, r route, rng *rand.Rand) *link {
	return &link{master: m, route: r, rng: rng, changed: make(chan struct{})}
}

// travelLocked returns how long a message takes.
func (l *link) travelLocked(d direction) time.Duration {
	return l.route.delay[d] + time.Duration(l.rng.Int64N(int64(l.route.jitter)+1)) + l.slow + 1
}

func (l *link) changedLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
	for _, c := range l.conns {
		c.changedLocked()
	}
}

// block blocks a direction until unblock is called as often.
func (l *link) block(d direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked[d]++
	l.changedLocked()
}

// unblock ends a block. What was kept arrives after the usual time.
func (l *link) unblock(d direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.blocked[d]--; l.blocked[d] > 0 {
		return
	}
	now := time.Now()
	for _, c := range l.conns {
		c.queues[d].notBefore(now.Add(l.travelLocked(d)))
	}
	l.changedLocked()
}

// setSlow makes each message take d longer.
func (l *link) setSlow(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = d
}

// reset breaks all connections. The client sees a reset at once. Requests on their way arrive late
// later than they would have, and only then the master sees the end of the connection.
func (l *link) reset(late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, c := range l.conns {
		c.broken = syscall.ECONNRESET
		c.queues[toMaster].postpone(now, late)
		c.closed = true
	}
	l.changedLocked()
}

// crash ends the process's side for good. A process that is killed leaves its connections to the
// kernel, which sends what is queued and closes them. A machine that loses power is silent: its
// connections stay at the master until shutdown.
func (l *link) crash(silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for _, c := range l.conns {
		c.broken = syscall.ECONNRESET
		if silent {
			c.queues[toMaster].keepOnTheWay(time.Now())
		}
		c.closed, c.silent = true, silent
	}
	l.changedLocked()
}

// shutdown ends all connections, silent ones included.
func (l *link) shutdown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead, l.blocked = true, [2]int{}
	for _, c := range l.conns {
		c.broken, c.closed, c.silent = net.ErrClosed, true, false
		c.queues[toMaster].chunks = nil
	}
	l.changedLocked()
}

// passable reports whether a round trip takes less than limit at present.
func (l *link) passable(limit time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.route
	return l.blocked == [2]int{} && !l.dead && r.delay[toMaster]+r.delay[toClient]+2*(r.jitter+l.slow) < limit
}

// dial connects the process to the master. It takes a round trip, and waits while the link is
// blocked.
func (l *link) dial(ctx context.Context) (net.Conn, error) {
	for _, d := range []direction{toMaster, toClient} {
		if err := l.cross(ctx, d); err != nil {
			return nil, err
		}
	}
	server, err := l.master.Dial(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		server.Close()
		return nil, syscall.ENETUNREACH
	}
	c := &conn{link: l, server: server, changed: make(chan struct{})}
	l.conns = append(l.conns, c)
	go c.send()
	go c.fetch()
	return c, nil
}

// cross waits until a packet has crossed the link.
func (l *link) cross(ctx context.Context, d direction) error {
	l.mu.Lock()
	due := time.Now().Add(l.travelLocked(d))
	l.mu.Unlock()
	for {
		l.mu.Lock()
		blocked, dead, changed := l.blocked[d] > 0, l.dead, l.changed
		l.mu.Unlock()
		switch {
		case dead:
			return syscall.ENETUNREACH
		case ctx.Err() != nil:
			return fmt.Errorf("dial %s: %w", l.master.Name(), ctx.Err())
		case !blocked && !due.After(time.Now()):
			return nil
		case blocked:
			await(changed, ctx.Done(), time.Time{})
		default:
			await(changed, ctx.Done(), due)
		}
	}
}

// await returns when changed or done is closed, or at until unless that is zero.
func await(changed, done <-chan struct{}, until time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		left := time.Until(until)
		if left <= 0 {
			return // a timer that is due at once can crash the race runtime
		}
		t := time.NewTimer(left)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-changed:
	case <-done:
	case <-due:
	}
}
