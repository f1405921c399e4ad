package master

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
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
	args []any // the writer's scratch
}

// errStopped ends a link that Close has drained.
var errStopped = errors.New("stopped")

// serve runs a connection until it fails, or is drained after Close, and
// returns the reason. The connection goes back to its pool, which drops it
// unless it is healthy and silent.
func (m *Master) serve(conn redis.Conn) error {
	l := &link{m: m, conn: conn, dead: make(chan struct{})}
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
	closing := l.m.closing
	for {
		select {
		case <-l.dead:
			return
		case <-l.m.wake:
		case <-tick.C:
			l.m.beat()
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

func (l *link) flush(batch []item) error {
	if len(batch) == 0 {
		return nil
	}
	// The reader may begin before the bytes have left: its time-out counts from
	// here, and if Flush gets stuck it is the reader who breaks it up.
	poke(l.m.due)
	for i := range batch {
		if err := l.send(&batch[i]); err != nil {
			return err
		}
	}
	return l.conn.Flush()
}

func (l *link) send(it *item) error {
	a := l.args[:0]
	name := "EVALSHA"
	switch it.kind {
	case Set:
		name, a = "SET", append(a, it.claim.key, it.claim.token, "NX", "PX", it.claim.ttl)
	case Release:
		a = append(a, releaseSHA, "1", it.claim.key, it.claim.token)
	case Ping:
		name = "PING"
	case load:
		name, a = "SCRIPT", append(a, "LOAD", releaseScript)
	}
	l.args = a
	return l.conn.Send(name, a...)
}

// read hands replies back, in order, until the link is dead.
func (l *link) read() {
	defer l.recoverFromReply()
	for {
		select {
		case <-l.dead:
			return
		case <-l.m.due:
		}
		for it, ok := l.m.oldest(); ok; it, ok = l.m.answered() {
			if !l.receive(it) {
				return
			}
		}
	}
}

// receive reads the reply to it and tells the asker. It reports whether the
// connection is still good.
func (l *link) receive(it item) bool {
	reply, err := redis.ReceiveWithTimeout(l.conn, l.m.patience(it))
	if err != nil && !isReply(err) {
		l.die(noReply(err))
		return false
	}
	a, ok := decode(it.kind, reply, err)
	if !ok {
		l.die(errUnexpected(it.kind, reply))
		sever(l.conn)
		return false
	}
	l.m.settle(it, a)
	return true
}

// recoverFromReply treats a reply that redigo cannot hold as a broken
// connection: a length of 10¹⁸ in front of an array makes it panic.
func (l *link) recoverFromReply() {
	if p := recover(); p != nil {
		if _, isRuntime := p.(runtime.Error); !isRuntime || !strings.Contains(fmt.Sprint(p), "makeslice") {
			panic(p)
		}
		l.die(errors.New("a reply too large to read"))
		sever(l.conn)
	}
}

// patience returns how long the oldest command's reply is still waited for.
func (m *Master) patience(it item) time.Duration {
	left := time.Until(it.sent.Add(max(m.cfg.DialTimeout, m.cfg.NodeTimeout)))
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

// answered drops the oldest command, whose reply has been dealt with, and
// returns the next one.
func (m *Master) answered() (item, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flight.pop()
	if m.flight.len() == 0 {
		if m.closed {
			poke(m.wake) // the writer may be waiting for this to stop
		}
		return item{}, false
	}
	return *m.flight.first(), true
}

// settle does what an answer to it requires and tells the asker.
func (m *Master) settle(it item, a Answer) {
	now := time.Now()
	retry := false
	m.mu.Lock()
	m.status.RTT = now.Sub(it.sent)
	if it.kind == Release {
		// The scripts are gone, so something has happened to this master. Load
		// them and ask once more, in the asker's name.
		if retry = noScript(a.Err) && !it.again; retry {
			m.pushLocked(item{kind: load})
			it.again = true
			m.pushLocked(it)
		} else {
			m.settleLocked(it, a, now)
		}
	}
	m.mu.Unlock()
	if it.asker != nil && !retry {
		it.asker.Answered(m.cfg.Index, a)
	}
}

func noScript(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT")
}

// beat is done once a second on a connection: it asks for what is owed, and
// for a sign of life if there is nothing else to say, which also finds that an
// idle connection has died before somebody needs it.
func (m *Master) beat() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range m.payLocked(time.Now()) {
		m.pushLocked(it)
	}
	if len(m.queue) == 0 && m.flight.len() == 0 {
		m.pushLocked(item{kind: Ping})
	}
}
