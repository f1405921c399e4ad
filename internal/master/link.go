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
	id   any       // the client's, for the script; immutable
	run  string    // the server's run_id; immutable
	args []any     // the writer's scratch
	now  time.Time // the reader's, taken once for each reply
}

// errStopped ends a link that Close has drained.
var errStopped = errors.New("stopped")

// serve runs a connection until it fails, or is drained after Close, and
// returns the reason. The connection goes back to its pool, which drops it
// unless it is healthy and silent.
func (m *Master) serve(conn redis.Conn, run string) error {
	l := &link{m: m, run: run, conn: conn, dead: make(chan struct{}), id: m.cfg.ID}
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
			if err := l.m.cfg.Servers.check(l.m.cfg.Index, l.run); err != nil {
				l.die(err)
				return // the reader stops at the next reply, or when one is overdue
			}
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
	switch it := items[0]; it.kind {
	case Set:
		name, args = "SET", append(args, it.claim.key, it.claim.token, argNX, argPX, it.claim.ttl)
	case Ping:
		name = "PING"
	case load:
		name, args = "SCRIPT", append(args, "LOAD", batchScript)
	default:
		args = append(args, argBatchSHA, len(items))
		for _, it := range items {
			args = append(args, it.claim.key)
		}
		args = append(args, l.id)
		for _, it := range items {
			args = append(args, it.word(), it.claim.token)
		}
	}
	l.args = args
	return l.conn.Send(name, args...)
}

// word returns what tells the script what to do.
func (it *item) word() any {
	word := kinds[it.kind].word
	switch {
	case it.kind == Renew:
		return word.(string) + " " + it.claim.ttl.(string)
	case it.kind.sets() && it.listening:
		return word.(string) + " " + it.claim.ttl.(string) + " " + it.claim.waited
	case it.kind.sets(): // nobody could wake us, so we do not queue
		return word.(string) + " " + it.claim.ttl.(string)
	}
	return word
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
	reply, err := receiveWithin(l.conn, l.m.patience(it, l.now))
	l.now = time.Now()
	switch {
	case err == errTooLarge:
		l.die(err)
		sever(l.conn)
		return false
	case err != nil && !isReply(err):
		l.die(noReply(err))
		return false
	case err != nil:
		for range max(it.batch, 1) {
			l.m.settle(Answer{Err: err}, it.batch, l.now)
		}
		return true
	case it.batch <= 1:
		return l.accept(it.kind, reply)
	}
	replies, _ := reply.([]any)
	if len(replies) != it.batch {
		return l.garbled(it.kind, reply)
	}
	for _, reply := range replies {
		if !l.accept(it.kind, reply) {
			return false
		}
	}
	return true
}

// accept settles the oldest command with its reply.
func (l *link) accept(k Kind, reply any) bool {
	a, ok := decode(k, reply)
	if !ok {
		return l.garbled(k, reply)
	}
	l.m.settle(a, 0, l.now)
	return true
}

// garbled gives up a connection whose replies can no longer be told apart.
func (l *link) garbled(k Kind, reply any) bool {
	l.die(fmt.Errorf("unexpected reply of type %T to %v", reply, k))
	sever(l.conn)
	return false
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
// and tells its asker. An error may have been the answer to a whole batch.
func (m *Master) settle(a Answer, batch int, now time.Time) {
	m.mu.Lock()
	it := m.flight.pop()
	m.status.RTT = now.Sub(it.sent)
	again := it.kind.scripted() && m.againLocked(it, a, batch)
	switch {
	case again:
	case it.kind.releases():
		m.settleLocked(it, a, now)
	case it.kind.sets():
		it.claim.answered(m.cfg.Index, a)
	}
	if m.closed && m.flight.len() == 0 {
		poke(m.wake) // the writer may be waiting for this to stop
	}
	m.mu.Unlock()
	if it.asker != nil && !again {
		it.asker.Answered(m.cfg.Index, a)
	}
}

// againLocked sends a scripted command again, in its asker's name, if the error
// that it was answered with need not be its own.
func (m *Master) againLocked(it item, a Answer, batch int) bool {
	switch {
	case a.Err == nil:
		return false
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
