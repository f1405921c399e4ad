package master

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/incarnation"
)

// A link is one connection while it stands. Its writer and its reader are one
// goroutine each, as redigo's contract asks: one caller of Send and Flush, one
// of Receive.
//
// The reader alone measures time: it reads with a time-out only while replies
// are due, since any time-out is the end of a redigo connection. Its end frees
// a writer that is stuck in a full socket, because redigo closes the socket.
type link struct {
	m    *Master
	conn redis.Conn
	once sync.Once
	dead chan struct{} // closed once err is set
	err  error
	id   any // the client's, for the script; immutable
	peer     // immutable
	// cap 1: the state may have changed, for the writer, who ends quarantines
	turned chan struct{}
	args   []any     // the writer's scratch
	now    time.Time // the reader's, taken once for each reply
}

// errStopped ends a link that Close has drained.
var errStopped = errors.New("stopped")

// serve runs a connection until it fails, or is drained after Close, and
// returns the reason. The connection goes back to its pool, which drops it
// unless it is healthy and silent.
func (m *Master) serve(conn redis.Conn, p peer) error {
	l := &link{m: m, peer: p, conn: conn, dead: make(chan struct{}), turned: make(chan struct{}, 1), id: m.cfg.ID}
	read := make(chan struct{})
	go func() {
		defer close(read)
		l.read()
	}()
	l.write()
	<-read
	// Nobody else uses the connection any more, so Close may: it would wait for
	// pending replies, but there are none, or the connection is broken.
	conn.Close()
	return l.err
}

func (l *link) die(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.dead)
	})
}

// write sends what is queued until the link is dead.
func (l *link) write() {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	ripe := time.NewTimer(0) // when the quarantine is over
	defer ripe.Stop()
	closing := l.m.closing
	for {
		select {
		case <-l.dead:
			return
		case <-l.m.wake:
		case <-ripe.C:
			if until := l.m.ripen(); !until.IsZero() {
				ripe.Reset(time.Until(until))
			}
			continue
		case <-l.turned:
			ripe.Reset(0)
			continue
		case <-tick.C:
			if err := l.m.cfg.Servers.check(l.m.cfg.Index, l.run); err != nil {
				l.die(err)
				return // the reader stops at the next reply, or when one is overdue
			}
			l.m.beat()
			l.m.weighNow()
		case <-closing:
			closing = nil
		}
		// Let callers that are about to ask do so: they will share this flush.
		runtime.Gosched()
		if err := l.flush(l.m.take()); err != nil {
			l.die(noReply(err))
			return
		}
		if closing == nil && l.m.idle() {
			l.die(errStopped)
		}
	}
}

func (l *link) flush(items []item) error {
	if len(items) == 0 {
		return nil
	}
	// The reader may begin before the bytes have left: its time-out counts from
	// here, and if Flush gets stuck it is the reader who breaks it up.
	poke(l.m.due)
	for len(items) > 0 {
		n := max(items[0].batch, 1)
		if err := l.send(items[:n]); err != nil {
			return err
		}
		items = items[n:]
	}
	return l.conn.Flush()
}

// send writes one command, or the batch that items are.
func (l *link) send(items []item) error {
	name, args := "EVALSHA", l.args[:0]
	switch it := &items[0]; {
	case it.scripted():
		args = append(args, argBatchSHA, len(items))
		for _, it := range items {
			args = append(args, it.claim.key)
		}
		args = append(args, l.id)
		for i := range items {
			args = append(args, items[i].word(), items[i].claim.token)
		}
	case it.kind.sets():
		name, args = "SET", append(args, it.claim.key, it.claim.token, argNX, argPX, it.claim.ttl)
	case it.kind == Ping, it.kind == Glance:
		name = "PING"
	case it.kind == load:
		name, args = "SCRIPT", append(args, "LOAD", batchScript)
	case it.kind == probe:
		return l.sendProbe(it.sight)
	case it.kind == look:
		return incarnation.SendLook(l.conn, l.database, it.sight.known, it.sight.stale)
	}
	l.args = args
	return l.conn.Send(name, args...)
}

// Arguments, boxed once for redigo.
var (
	argNX       any = "NX"
	argPX       any = "PX"
	argBatchSHA any = batchSHA
)

// read hands replies back, in order, until the link is dead.
func (l *link) read() {
	for {
		select {
		case <-l.dead:
			return
		case <-l.m.due:
		}
		l.now = time.Now()
		for it, ok := l.m.oldest(); ok; it, ok = l.m.oldest() {
			if !l.receive(it) {
				return
			}
		}
	}
}

// receive reads the reply to it, or to the batch that begins with it, and tells
// the askers. It reports whether the connection is still good.
func (l *link) receive(it item) bool {
	switch it.kind {
	case probe:
		return l.receiveProbe(it)
	case look:
		return l.receiveLook(it)
	}
	reply, err := receiveWithin(l.conn, l.m.patience(it, l.now))
	l.now = time.Now()
	switch {
	case err != nil && !isReply(err):
		return l.broken(err)
	case err != nil:
		for range max(it.batch, 1) {
			l.m.settle(Answer{Err: err}, it.batch, l.now)
		}
		return !l.demoted(err)
	case !it.scripted():
		a, ok := decode(it.kind, reply)
		return l.accept(it.kind, reply, a, ok)
	case it.batch <= 1:
		a, ok := decodeScripted(reply)
		return l.accept(it.kind, reply, a, ok)
	}
	replies, _ := reply.([]any)
	if len(replies) != it.batch {
		return l.garbled(it.kind, reply)
	}
	for _, reply := range replies {
		a, ok := decodeScripted(reply)
		if !l.accept(it.kind, reply, a, ok) {
			return false
		}
	}
	return true
}

// accept settles the oldest command with its answer, if its reply is one.
func (l *link) accept(k Kind, reply any, a Answer, ok bool) bool {
	if !ok {
		return l.garbled(k, reply)
	}
	l.m.settle(a, 0, l.now)
	return !l.demoted(a.Err)
}

// demoted gives up a server that says it is a replica, and reports whether it has.
func (l *link) demoted(err error) bool {
	if !l.m.guarded() || !isReadOnly(err) {
		return false
	}
	l.m.suspect()
	l.refused(errReplica)
	return true
}

// broken gives up a connection that could not be read.
func (l *link) broken(err error) bool {
	if err == errTooLarge {
		return l.refused(err)
	}
	l.die(noReply(err))
	return false
}

func isReadOnly(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "READONLY")
}

// refused gives up a connection on which replies may be pending.
func (l *link) refused(err error) bool {
	l.die(err)
	sever(l.conn)
	return false
}

// garbled gives up a connection whose replies can no longer be told apart.
func (l *link) garbled(k Kind, reply any) bool {
	return l.refused(fmt.Errorf("unexpected reply of type %T to %v", reply, k))
}

// patience returns how long the oldest command's reply is still waited for.
func (m *Master) patience(it item, now time.Time) time.Duration {
	left := it.sent.Add(max(m.cfg.DialTimeout, m.cfg.NodeTimeout)).Sub(now)
	// At least one NodeTimeout: if it is this process that slept, the reply
	// lies in the socket already and the connection is healthy.
	return max(left, m.cfg.NodeTimeout)
}

// oldest returns the command whose reply is due next.
func (m *Master) oldest() (item, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.flight.len() == 0 {
		return item{}, false
	}
	return *m.flight.first(), true
}

// settle takes the oldest command out of flight, does what its answer requires,
// and tells its asker; a grant only when it is certain that it counts. An error
// may have been the answer to a whole batch.
func (m *Master) settle(a Answer, batch int, now time.Time) {
	m.mu.Lock()
	it := m.popLocked(now)
	tell := it.asker != nil
	switch {
	case it.scripted() && m.againLocked(it, a, batch):
		tell = false
	case it.kind.releases():
		m.settleLocked(it, a, now)
	case it.kind.sets():
		it.claim.answered(m.cfg.Index, a)
	}
	if tell && m.guarded() && it.kind.votes() && a.Value > 0 {
		m.guard.held = append(m.guard.held, verdict{it.kind, it.asker, a})
		tell = false
	}
	m.mu.Unlock()
	if tell {
		it.asker.Answered(m.cfg.Index, a)
	}
}

// popLocked takes the oldest command, which was answered, out of flight.
func (m *Master) popLocked(now time.Time) item {
	it := m.flight.pop()
	m.status.RTT = now.Sub(it.sent)
	if m.closed && m.flight.len() == 0 {
		poke(m.wake) // the writer may be waiting for this to stop
	}
	return it
}

// againLocked sends a scripted command again, in its asker's name, if the error
// that it was answered with need not be its own.
func (m *Master) againLocked(it item, a Answer, batch int) bool {
	switch {
	case a.Err == nil:
		return false
	case it.kind.sets() && has(&it.claim.released, m.cfg.Index):
		return false // it would come behind its release
	case noScript(a.Err) && !it.reloaded:
		// The scripts are gone: something has happened to this master.
		if it.batch > 0 { // one member of the batch loads them for all
			m.pushLocked(item{kind: load})
		}
		it.reloaded = true
	case batch > 1:
		// One member's key may be forbidden to us, and took the others with it.
		it.alone = true
	default:
		return false
	}
	m.pushLocked(it)
	return true
}

func noScript(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT")
}

// beat is done once a second on a connection: it asks for what is owed, and for a
// sign of life if there is nothing else to say, which also finds before somebody
// needs it that an idle connection has died, or that its server has forgotten.
func (m *Master) beat() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range m.payLocked(time.Now()) {
		m.pushLocked(it)
	}
	if len(m.queue) == 0 && m.flight.len() == 0 || m.guarded() && !m.guard.probed {
		m.pushLocked(item{kind: Ping})
	}
	m.guard.probed, m.guard.role = false, true
}
