package master

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/incarnation"
)

// A peer is what the server says of a connection.
type peer struct {
	client  int64  // CLIENT ID; 0 if the server does not tell
	run     string // run_id; "" if the server does not tell
	broken  bool   // the connection was lost, perhaps with commands on the way
	haunted bool   // the connection before this one was lost and may still speak

	legacy   bool    // it keeps scripts over restarts
	database string  // that the connection has selected; for the guard
	seen     lookout // of its incarnation; for the guard
}

// supervise dials, serves the connection, and dials again, until Close.
func (m *Master) supervise() {
	redial := m.cfg.Redial()
	d := &dialer{m: m, greet: func(ctx context.Context, conn redis.Conn) (peer, error) {
		return m.hello(ctx, conn)
	}}
	defer d.await()
	for {
		conn, p, err := d.connect()
		if err == nil {
			began := time.Now()
			m.up(p)
			err = m.serve(conn, p)
			m.cfg.Servers.leave(m.cfg.Index, p.run)
			p.broken = !errors.Is(err, errStopped)
			if errors.Is(err, errSwitched) {
				p.run = "" // the connection's other half may have something to say yet
			}
			m.last = p // no dial is under way that would read it
			// A server that hangs up on us at once is not to be dialled at once.
			if time.Since(began) >= steady {
				redial = m.cfg.Redial()
			}
		}
		if m.isClosed() {
			m.abandon(ErrClosed)
			return
		}
		if isRefusal(err) {
			m.become(Refused, err)
		} else {
			m.become(Down, err)
		}
		if !m.pause(redial.NextBackOff()) {
			return
		}
	}
}

// steady is how long a connection must have stood for the next dial to begin a
// schedule of its own.
const steady = time.Second

func (m *Master) isClosed() bool {
	select {
	case <-m.closing:
		return true
	default:
		return false
	}
}

// pause waits for d and reports whether the master is still open.
func (m *Master) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-m.closing:
		return false
	}
}

// up lets commands in, behind the releases that are owed.
func (m *Master) up(p peer) {
	m.mu.Lock()
	if p.haunted {
		m.haunted = time.Now().Add(echoes[len(echoes)-1])
	}
	owed := m.payLocked(time.Now())
	m.queue = append(owed, m.queue...)
	poke(m.wake)
	var jump time.Duration
	if m.guarded() {
		before := m.guard.known
		jump = m.knowLocked(p.seen, before == nil || before.Record.Text != p.seen.known.Record.Text)
	}
	m.ripenLocked(time.Now())
	if m.guard.stale { // decided since this server was looked at
		m.lookLocked()
	}
	vain, err := m.keepOutLocked(), m.status.Err
	m.mu.Unlock()
	m.tell()
	for _, asker := range vain {
		asker.Answered(m.cfg.Index, Answer{Err: err})
	}
	if jump != 0 {
		m.cfg.Servers.weigh(m, jumpOf(jump))
	}
}

// keepOutLocked takes acquisitions out of the queue that came while the connection
// was made, if it leads to a server in quarantine, and returns their askers.
func (m *Master) keepOutLocked() (askers []Asker) {
	if m.status.State != Quarantined {
		return nil
	}
	kept := m.queue[:0]
	for _, it := range m.queue {
		if !it.kind.acquires() && it.kind != Ping {
			kept = append(kept, it)
		} else if it.asker != nil {
			askers = append(askers, it.asker)
		}
	}
	clear(m.queue[len(kept):])
	m.queue = kept
	return askers
}

// A dialled is what came of dialling.
type dialled struct {
	conn redis.Conn
	peer peer
	err  error
}

// A dialer dials for one purpose, one dial at a time.
type dialer struct {
	m *Master
	// greet makes a new connection ready.
	greet   func(context.Context, redis.Conn) (peer, error)
	pending chan dialled // cap 1: what comes of the dial under way, if there is one
}

// connect borrows a connection and makes it ready, within DialTimeout. It is
// done in a goroutine of its own, since a pool's Dial might not heed a context.
// Such a goroutine is waited for, by the next connect or before the end: a
// second one, and a third, would hang just as well.
func (d *dialer) connect() (redis.Conn, peer, error) {
	m := d.m
	ctx, cancel := context.WithTimeout(context.Background(), m.cfg.DialTimeout)
	defer cancel()
	if d.pending == nil {
		results := make(chan dialled, 1)
		d.pending = results
		go func() {
			var r dialled
			if r.conn, r.err = m.borrow(ctx); r.err == nil {
				if r.peer, r.err = d.greet(ctx, r.conn); r.err != nil {
					discard(r.conn)
				}
			}
			results <- r
		}()
	}
	select {
	case r := <-d.pending:
		d.pending = nil
		return r.conn, r.peer, m.dialError(r.err)
	case <-ctx.Done():
		return nil, peer{}, m.dialError(ctx.Err())
	case <-m.closing:
		cancel()
	}
	d.await()
	return nil, peer{}, ErrClosed
}

// await waits for a dial whose result is not wanted any more.
func (d *dialer) await() {
	if d.pending == nil {
		return
	}
	if r := <-d.pending; r.err == nil {
		discard(r.conn)
	}
	d.pending = nil
}

// borrow gets a connection from the pool. redigo's GetContext panics, with a
// send on a closed channel, if a pool that waits is closed while ctx ends.
func (m *Master) borrow(ctx context.Context) (conn redis.Conn, err error) {
	defer func() {
		if p := recover(); p != nil {
			if !m.cfg.Pool.Wait {
				panic(p)
			}
			conn, err = nil, errors.New("the pool is closed")
		}
	}()
	conn, err = m.cfg.Pool.GetContext(ctx)
	if err != nil {
		return nil, err // GetContext's conn is a stand-in that only repeats err
	}
	return conn, nil
}

// sections are those of INFO that say what a server is: one by one, which every
// version understands.
var sections = []string{"server", "replication", "cluster", "memory"}

// hello loads the script, learns what the server is and who we are to it, and
// has it kill our last connection: else what still lies in that socket could be executed
// after the releases that are sent on this one.
func (m *Master) hello(ctx context.Context, conn redis.Conn) (p peer, err error) {
	if err := canTimeOut(conn); err != nil {
		return p, err
	}
	conn.Send("SCRIPT", "LOAD", batchScript)
	conn.Send("CLIENT", "ID")
	conn.Send("CLIENT", "INFO")
	for _, section := range sections {
		conn.Send("INFO", section)
	}
	if err := conn.Flush(); err != nil {
		return p, err
	}
	if _, err := redis.String(receive(ctx, conn)); err != nil {
		return p, fmt.Errorf("SCRIPT LOAD: %w", err)
	}
	// A server that forbids what follows can still be used.
	if p.client, err = redis.Int64(receive(ctx, conn)); err != nil && conn.Err() != nil {
		return p, err
	}
	client, err := redis.String(receive(ctx, conn))
	if err != nil && conn.Err() != nil {
		return p, err
	}
	p.database = incarnation.DatabaseOf(client)
	var info string
	for range sections {
		section, err := redis.String(receive(ctx, conn))
		if err != nil && conn.Err() != nil {
			return p, err
		}
		info += section
	}
	p.run, p.legacy = InfoField(info, "run_id"), isLegacy(info)
	if err := Judge(info); err != nil {
		if err == errReplica {
			m.suspect()
		}
		return p, err
	}
	if m.last.broken {
		if p.haunted, err = exorcise(ctx, conn, m.last, p); err != nil {
			return p, err
		}
	}
	if m.guarded() {
		if p.seen, err = m.enrol(ctx, conn, p.database); err != nil {
			return p, err
		}
		if run := p.seen.look.Run; p.run != "" && run != incarnation.Unknown && run != p.run {
			return p, errSwitched
		}
	}
	return p, m.cfg.Servers.claim(m.cfg.Index, p.run)
}

// exorcise makes sure that a connection which we have lost cannot speak any
// more, and reports whether it still may.
func exorcise(ctx context.Context, conn redis.Conn, last, now peer) (haunted bool, err error) {
	if last.run == "" || now.run == "" || last.client == 0 {
		return true, nil
	}
	if last.run != now.run {
		return false, nil // it ended with the process that it led to
	}
	// Client ids are never reused within one run_id, so this kills nobody else's
	// connection.
	conn.Send("CLIENT", "KILL", "ID", last.client)
	if err := conn.Flush(); err != nil {
		return true, err
	}
	if _, err := redis.Int64(receive(ctx, conn)); err != nil {
		return true, conn.Err()
	}
	return false, nil
}

// dialError words a failure to connect. Time-outs come in many guises, some of
// which match context.DeadlineExceeded: a caller must not take them for the end
// of its own context.
func (m *Master) dialError(err error) error {
	if isTimeout(err) {
		return fmt.Errorf("no connection within %v", m.cfg.DialTimeout)
	}
	return err
}
