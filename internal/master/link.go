package master

import (
	"cmp"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/wire"
)

// A link is one connection from when commands may be sent until it ends. As redigo requires, one
// goroutine sends and flushes, the writer, and one receives, the reader: see receive.go.
//
//   - The link ends when the writer or the reader calls die. The first error counts.
//   - Only the reader measures time. It reads with a time-out while replies are due; a time-out is the
//     end of a redigo connection.
//   - The reader breaks the connection when the link ends, which frees a writer that is stuck in a
//     full socket.
type link struct {
	m    *Master       // immutable
	conn redis.Conn    // immutable
	peer               // immutable
	id   any           // immutable; the client's, for the script
	due  chan struct{} // cap 1: a reply is due, or the link has ended, for the reader
	dead atomic.Bool   // err is set
	once sync.Once     // sets err
	err  error         // why the link has ended
	// The writer's:
	own  atomic.Pointer[wire.Own] // the texts of scripts for the server's process; nil: those for all. The reader drops it
	args []any
	told time.Time // when the client's patience was told last
	// The reader's:
	now     time.Time // taken once for each reply
	overdue time.Time // since when replies are overdue; zero: they are not
}

// errStopped ends a link whose commands were all answered after Close.
var errStopped = errors.New("stopped")

// serve uses a connection until it fails, or until everything is answered after Close, and returns the
// reason. In the latter case the connection goes back to its pool in working order.
func (m *Master) serve(conn redis.Conn, p peer) error {
	l := &link{m: m, peer: p, conn: conn, id: m.cfg.ID, due: make(chan struct{}, 1)}
	if p.memory != nil {
		l.own.Store(p.memory.Own)
	}
	m.cfg.Heart.join(l)
	defer m.cfg.Heart.leave(l)
	var reader sync.WaitGroup
	reader.Go(func() {
		l.read()
		if l.err != errStopped {
			// Nobody else may use the connection: replies may be pending, and the next connection has
			// the server close this one.
			redisconn.Break(conn)
		}
	})
	l.write()
	reader.Wait()
	conn.Close()
	return l.err
}

// die ends the link.
func (l *link) die(err error) {
	l.once.Do(func() {
		l.err = err
		l.dead.Store(true)
		poke(l.due)
		poke(l.m.outbox.wake)
	})
}

// write sends what is queued until the link has ended.
func (l *link) write() {
	for range l.m.outbox.wake {
		if l.dead.Load() {
			return
		}
		// Callers that are about to ask for something share this flush.
		runtime.Gosched()
		if err := l.flush(l.take()); err != nil {
			// If the reader has met an error, redigo has closed the connection under this Flush, which therefore
			// failed as well. The first error is the reason.
			l.die(redisconn.Ended(cmp.Or(l.conn.Err(), err)))
			return
		}
		switch {
		case !l.m.finished():
		case l.m.noted:
			l.m.noted = false
			l.m.push(newItem(wire.Forget, nil, nil))
		default:
			l.die(errStopped)
		}
	}
}

// take moves the queue into flight, with a probe behind votes, and returns it.
func (l *link) take() []item {
	m, now := l.m, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	items, votes, unproved := m.outbox.take(now, m.subscription != nil)
	if probe, needed := m.guard.Next(votes, unproved); needed {
		it := newItem(wire.Probe, nil, nil)
		it.Sent, it.probe = now, probe
		items = m.outbox.follow(it)
	}
	return items
}

func (l *link) flush(items []item) error {
	if len(items) == 0 {
		return nil
	}
	// The reader's time-out counts from here on, so that the reader ends a Flush that is stuck.
	poke(l.due)
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
	case it.Kind == wire.Asks:
		sendQuery(l.conn, it.Request.(wire.Query))
		return nil
	case it.Kind == wire.Probe:
		l.memory.Send(l.conn, it.probe)
		return nil
	case it.OfSet() && len(items) == 2:
		args = items[1].AppendFollow(args, l.id, it.Claim)
	case it.OfSet() || !it.Scripted():
		name, args = it.Append(args, l.id)
	default:
		args = it.AppendScript(args, len(items), l.own.Load())
		for i := range items {
			args = items[i].AppendKey(args)
		}
		args = append(args, l.id)
		for i := range items {
			args = items[i].AppendWord(args, l.m.cfg.Index)
		}
		args = l.appendPatience(args, items)
	}
	l.args = args
	return l.conn.Send(name, args...)
}

const (
	// toldFor is for how long new claims need not tell the client's patience again. The server keeps its note for twice as long.
	toldFor = 5 * time.Second
	// shortPatience is the longest patience that a client need not tell again. A claim that has joined counts as live for about as long.
	shortPatience = 600 * time.Millisecond
)

// appendPatience appends the client's patience if the items are to tell them.
func (l *link) appendPatience(args []any, items []item) []any {
	joins, must := false, false
	for i := range items {
		joined, new := items[i].Joins()
		joins, must = joins || joined, must || joined && !new
	}
	if !joins {
		return args
	}
	patience, far := l.m.cfg.Listener.Patience()
	now := items[0].Sent
	if !must && patience <= shortPatience && now.Sub(l.told) < toldFor {
		return args
	}
	l.told, l.m.noted = now, true
	return append(args, patience.Milliseconds()+1, far.Milliseconds())
}

// sendQuery sends the commands of a query.
func sendQuery(conn redis.Conn, q wire.Query) {
	for _, one := range q {
		conn.Send(one[0].(string), one[1:]...)
	}
}
