package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/remedy"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Server is what a server has said on a new connection.
type Server struct {
	Run      string             // run_id; "" if the server does not tell
	Database string             // the selected one, or incarnation.Unknown
	Legacy   bool               // it keeps scripts when it restarts
	Lacks    []string           // the scripts that it does not have, that of inspections among them
	Tight    bool               // its memory is nearly full
	Record   incarnation.Record // before the inspection; the zero Record if there is none, or the server does not tell
}

// A Memory is the memory that the inspection of a new connection has found. Each probe on that connection must find it again.
type Memory struct {
	Server
	Own *wire.Own // the texts of scripts for the server's process, if it has them; else nil

	known         *incarnation.Known
	found         incarnation.Inspection
	before, after clock.Reading // our clocks, before and after the server read its own
}

// MaxTTL returns the largest MaxTTL in the record.
func (m *Memory) MaxTTL() time.Duration { return m.known.Record.MaxTTL }

// Err returns why a restart of the server may remain unnoticed, or nil.
func (m *Memory) Err() error {
	if m.found.Run == incarnation.Unknown {
		return errBlind
	}
	return nil
}

// inspectionsMost is how often in a row a record may change while it is inspected.
const inspectionsMost = 10

var (
	errRestless = &wire.Refusal{Reason: "its record of restarts, " + incarnation.Key + ", keeps changing"}
	errSwitched = errors.New("another server answers on the same connection")
	errBlind    = errors.New("restarts cannot be detected: the server does not report its run_id")
)

// An inspector inspects the record on a new connection. known, stale, seen and wrote are those of the Guard when it begins; known and stale follow
// what it finds.
type inspector struct {
	*Guard
	known    *incarnation.Known
	stale    bool
	guessed  bool // known is what the server has said before the inspection
	scripts  loading
	seen     time.Time
	wrote    incarnation.Inspection
	why      incarnation.Why // why the last record was written
	declared time.Duration   // the record's MaxTTL is raised to this; not before raising was called
	raising  func(before, now time.Duration)
}

// Inspect repeats an inspection until it finds the record that it has also loaded as a script. Then the
// record, the script and the server's process belong together. Ahead of the inspections it loads the other scripts. It calls raising before this
// client's MaxTTL replaces a smaller one in the record. If the guard is off, it only loads scripts, and the Memory is nil.
func (g *Guard) Inspect(ctx context.Context, conn redis.Conn, server Server, raising func(before, now time.Duration)) (*Memory, error) {
	g.mu.Lock()
	i := inspector{Guard: g, known: g.known, stale: g.stale, seen: g.seen, wrote: g.wrote, why: incarnation.Holds, raising: raising}
	g.mu.Unlock()
	i.scripts.lacks = server.Lacks
	if g.servers.Client.Off {
		return nil, i.scripts.load(ctx, conn)
	}
	if !server.Legacy { // else a process could have the texts of the one before
		i.scripts.own = wire.OwnOf(server.Run)
	}
	i.guess(&server)
	for range inspectionsMost {
		m := &Memory{Server: server, known: i.known, before: g.servers.Client.Clock()}
		err := i.ask(ctx, conn, m)
		if wire.IsNoScript(err) { // the server has the script of inspections no more
			i.scripts.lacks = append(i.scripts.lacks, incarnation.Script())
			continue
		}
		if err != nil {
			return nil, err
		}
		if !i.take(m) {
			continue
		}
		if i.guessed && len(i.scripts.lacks) > 0 {
			i.guessed = false // the scripts need another inspection behind them
			continue
		}
		switch same := m.found.Run == server.Run; {
		case same && i.scripts.has:
			m.Own = i.scripts.own
		case !same && server.Run != "" && m.found.Run != incarnation.Unknown:
			return nil, errSwitched
		}
		return m, nil
	}
	return nil, errRestless
}

// guess takes the record that the server has said it has for what the first inspection will find, which saves a client that knows no record
// the second one. It must be the record of the process that this connection leads to: its probe's script is a proof of that for other clients.
func (i *inspector) guess(server *Server) {
	r := &server.Record
	if raises := i.raises(r.MaxTTL); raises || i.known != nil || i.stale || server.Run == "" || r.Run != server.Run {
		return
	}
	i.known, i.guessed = incarnation.Know(incarnation.Inspection{Record: *r, Run: r.Run}), true
}

// ask makes one inspection.
func (i *inspector) ask(ctx context.Context, conn redis.Conn, m *Memory) (err error) {
	i.scripts.send(conn)
	incarnation.SendInspection(conn, m.Database, i.known, i.stale, i.declared)
	if err := conn.Flush(); err != nil {
		return err
	}
	if err := i.scripts.receive(ctx, conn); err != nil {
		return err
	}
	m.found, err = incarnation.ReadInspection(func() (any, error) { return redisconn.Receive(ctx, conn) })
	m.after = i.servers.Client.Clock()
	switch {
	case err == nil:
		return nil
	case conn.Err() != nil:
		return err
	case wire.IsNoScript(err):
		return err
	case wire.IsReadOnly(err):
		i.MarkStale()
	}
	return errUnguarded(err)
}

// take takes in what one inspection has found. It reports true if that is the memory. Otherwise the record has changed, or has to be changed, and the
// next inspection finds out.
func (i *inspector) take(m *Memory) (is bool) {
	found := &m.found
	i.servers.declare(found.Record.MaxTTL)
	if found.Why == incarnation.Holds && i.wrote.Why != incarnation.Holds && found.Record.SameMemory(i.wrote.Record) {
		found.Why = i.wrote.Why // a probe of the last connection has written it
	}
	if i.guessed && (found.Record.Text != i.known.Record.Text || found.Run != m.Run) {
		i.known, i.guessed = nil, false
	}
	if i.guessed {
		i.why = found.Why
	}
	// The stale record is not replaced if its MaxTTL has just been raised to the text that is known.
	stands := i.stale && found.Why == incarnation.Holds
	raises := i.raises(found.Record.MaxTTL)
	if i.known != nil && found.Record.Text == i.known.Record.Text && !stands && !raises {
		found.Why = i.why
		return true
	}
	if i.known == nil || found.Why != incarnation.Holds || !i.known.Record.SameMemory(found.Record) {
		i.why = found.Why // else MaxTTL was raised in a record that may have just been written
	}
	if i.known == nil || i.known.Record.SameMemory(found.Record) {
		i.stale = stands // else it was replaced
	} else {
		i.stale = returned(*found, i.seen)
	}
	i.known = incarnation.Know(*found)
	return false
}

// raises reports whether the next inspection has to raise a record's MaxTTL, and sets declared for that. It calls raising
// before, since nothing lowers a MaxTTL but an operator.
func (i *inspector) raises(of time.Duration) bool {
	most, own := i.servers.MaxTTL(), i.servers.Client.MaxTTL
	if of >= most || i.declared >= most {
		return false
	}
	if of < own {
		i.raising(of, own)
	}
	i.declared = most
	return true
}

// returned reports whether found is an older memory that has come back: its record holds, and was
// written before another record was confirmed last, by the server's clock. That memory lacks the locks
// that were taken in between. After the clock was set back, every new record looks like that, and if
// each client replaced it, there would be no end. Hence the last condition.
func returned(found incarnation.Inspection, seen time.Time) bool {
	return found.Why == incarnation.Holds && found.Record.Since.Before(seen) && found.Now.After(seen.Add(-time.Second))
}

// errUnguarded returns the error for an inspection that the server answered by an error. It is a refusal
// if the server forbids the commands.
func errUnguarded(err error) error {
	text := err.Error()
	if wire.RefusesWrites(err) { // Redis refuses even to queue commands in a transaction
		return remedy.With(err)
	}
	if !strings.HasPrefix(text, "NOPERM") && !strings.Contains(text, "unknown command") && !strings.Contains(text, "The user executing the script") {
		return fmt.Errorf("it did not say whether it has restarted: %w", err)
	}
	return &wire.Refusal{Reason: fmt.Sprintf("it cannot keep the record of its restarts, %s (%v): allow it, or disable the restart guard", incarnation.Key, err)}
}
