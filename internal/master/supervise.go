package master

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/remedy"
	"github.com/redlock-go/redlock/internal/wire"
)

// A supervisor keeps a Master's connection for commands. Before a connection is used,
//
//   - the server is asked what it is, and must not be one that may not vote: see wire.Judge;
//   - the user's rights are tried: see rights.go;
//   - the database is selected: see database.go;
//   - the server closes the last connection, so that no command from it is executed late;
//   - the record is inspected, and no other master of the Client votes for the same server: see package guard.
type supervisor struct {
	*Master
	last   peer   // the last connection; no dial is under way when it changes
	home   string // the database of the pool's new connections; empty before it is known
	shared bool   // immutable; the pool was in use before the Master
}

// A peer is what the server says about a connection.
type peer struct {
	guard.Server
	memory  *guard.Memory // nil without the guard
	client  int64         // CLIENT ID; 0 if the server does not tell
	rtt     time.Duration // the round trip of the first command
	trial   error         // the reply to a trial
	noSlots error         // what its user lacks for semaphores; else nil
	links   int           // of a subscription: Master.links before it
	hasty   bool          // of a subscription: see there
}

// supervise keeps the connection until Close.
func (m *Master) supervise(shared bool) {
	s := &supervisor{Master: m, shared: shared}
	d := &dialer{cfg: &m.cfg, closing: m.closing, hurry: m.hurry, greet: s.hello, serve: s.connected, failed: m.disconnected}
	d.run()
	m.abandon(ErrClosed)
}

// connected serves a connection.
func (s *supervisor) connected(conn redis.Conn, p peer) error {
	s.up(p)
	err := s.serve(conn, p)
	s.cfg.Servers.GiveUpVote(s.cfg.Index, p.Run)
	s.last = p
	return err
}

// up lets commands in, behind the releases that are owed.
func (m *Master) up(p peer) {
	var refused []Asker
	var err error
	m.update(func() {
		m.status.RTT = p.rtt
		m.connectedLocked(p.Run)
		m.roundTrip.begin(p.rtt)
		m.outbox.queue = append(m.outbox.due(time.Now()), m.outbox.queue...)
		poke(m.outbox.wake)
		if p.memory != nil {
			m.guard.Begin(p.memory)
			m.status.MaxTTL, m.status.GuardErr = p.memory.MaxTTL(), p.memory.Err()
		}
		m.quarantineLocked()
		m.triedLocked(p.trial)
		if m.noSlots = p.noSlots; m.noSlots != nil {
			refused = m.outbox.withdraw(func(it *item) bool { return it.Kind.Acquires() && it.Claim.OfSlots() })
			err = m.noSlots
		}
		if m.status.State == Quarantined {
			// Acquisitions that were let in while the connection was made.
			refused = append(refused, m.outbox.withdraw(func(it *item) bool { return it.Kind.Acquires() || it.Kind == wire.Ping })...)
			err = m.status.Err
		}
	})
	for _, asker := range refused {
		asker.Answered(m.cfg.Index, wire.Answer{Err: err})
	}
}

// disconnected notes that there is no connection. Nothing is let in from then on. The commands that
// cannot be answered any more fail before the change is reported.
func (m *Master) disconnected(err error) {
	err = redisconn.PrintableError(err)
	state, writeErr := Down, error(nil) // known only if it is the reason
	if refusal := (*wire.Refusal)(nil); errors.As(err, &refusal) {
		state = Refused
	} else if wire.RefusesWrites(err) {
		writeErr = err
	}
	m.mu.Lock()
	m.setWriteErrLocked(writeErr)
	m.setLocked(state, err, time.Time{})
	m.tellLocked()
	m.mu.Unlock()
	m.abandon(err)
	m.Report()
}

// abandon fails all commands with err after the connection has ended. Nothing is let in meanwhile:
// the state is Down or Refused, or the Master is closed.
func (m *Master) abandon(err error) {
	m.mu.Lock()
	m.guard.End()
	askers := m.outbox.empty()
	m.mu.Unlock()
	m.deliver(err)
	for _, asker := range askers {
		asker.Answered(m.cfg.Index, wire.Answer{Err: err})
	}
}

// sections are the sections of INFO that say what a server is. Every version understands them one by
// one.
var sections = []string{"server", "replication", "cluster", "memory"}

// hello makes a new connection ready: see supervisor.
func (s *supervisor) hello(ctx context.Context, conn redis.Conn) (p peer, err error) {
	p, err = s.ask(ctx, conn)
	if err != nil {
		return p, err
	}
	if err := killLast(ctx, conn, s.last, p); err != nil {
		return p, err
	}
	if p.memory, err = s.guard.Inspect(ctx, conn, p.Server, s.cfg.Listener.Raising); err != nil {
		return p, err
	}
	return p, s.cfg.Servers.TakeVote(s.cfg.Index, p.Run)
}

// sendQuestions sends what ask reads, in one flush.
func (s *supervisor) sendQuestions(conn redis.Conn) error {
	conn.Send("SCRIPT", append(wire.ScriptsExist(), incarnation.Hash())...)
	conn.Send("CLIENT", "ID")
	conn.Send("CLIENT", "INFO")
	for _, section := range sections {
		conn.Send("INFO", section)
	}
	conn.Send("GETRANGE", incarnation.Key, 0, incarnation.LongestRecord) // one byte more than that
	sendQuery(conn, s.rights())
	sendQuery(conn, s.slotRights())
	return conn.Flush()
}

// ask asks the server, in one flush, what it is, who we are to it, what the user may do, and which scripts it has. It also
// selects the database.
func (s *supervisor) ask(ctx context.Context, conn redis.Conn) (p peer, err error) {
	sent := time.Now()
	if err := s.sendQuestions(conn); err != nil {
		return p, err
	}
	there, first := redis.Ints(redisconn.Receive(ctx, conn))
	if first != nil && (conn.Err() != nil || remedy.Ends(first)) {
		return p, first
	}
	told := len(there) == 2 // of wire.Scripts, and of the script of inspections
	if !told || there[0] != 1 {
		p.Lacks = wire.Scripts()
	}
	if s.guarded() && (!told || there[1] != 1) {
		p.Lacks = append(p.Lacks, incarnation.Script())
	}
	p.rtt = time.Since(sent)
	replies := make([]any, 3+len(sections))
	for i := range replies {
		// A server that forbids the question can be used: its reply remains nil.
		if replies[i], err = redisconn.Receive(ctx, conn); err != nil && conn.Err() != nil {
			if i == 0 {
				err = endedBy(first, err)
			}
			return p, err
		}
	}
	missing, noSlots, err := s.receiveRights(ctx, conn, &p)
	if err != nil {
		return p, err
	}
	p.noSlots = noSlots
	p.client, _ = redis.Int64(replies[0], nil)
	client, _ := redis.String(replies[1], nil)
	info := ""
	for _, reply := range replies[2 : 2+len(sections)] {
		section, _ := redis.String(reply, nil)
		info += section
	}
	p.Run, p.Legacy, p.Tight = wire.InfoField(info, "run_id"), wire.IsLegacy(info), wire.IsTight(info)
	text, _ := redis.String(replies[2+len(sections)], nil)
	if record, is := incarnation.Parse(text); is && len(text) <= incarnation.LongestRecord {
		p.Record = record
	}
	if err := wire.Judge(info); err != nil {
		if err == wire.ErrReplica {
			s.guard.MarkStale()
		}
		return p, err
	}
	if missing != nil {
		return p, missing
	}
	p.Database, err = s.selectHome(ctx, conn, incarnation.DatabaseOf(client))
	return p, err
}

// killLast has the server close the last connection, which was lost: a command that still lies in its
// socket must not be executed after the releases that are sent on the new one. Where CLIENT KILL is
// forbidden, or the server does not tell its run_id, a SET that is executed late leaves a key for one
// TTL. If the run_id is another one, the last connection ended with its process.
func killLast(ctx context.Context, conn redis.Conn, last, now peer) error {
	if last.Run == "" || now.Run != last.Run || last.client == 0 {
		return nil
	}
	// Client ids are never reused within one run_id, so this kills no other client's connection.
	if _, err := redisconn.Do(ctx, conn, "CLIENT", "KILL", "ID", last.client); err != nil {
		return conn.Err()
	}
	return nil
}
