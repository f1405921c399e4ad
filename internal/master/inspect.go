package master

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

// An inspection is the result of reading a server's record on a new connection, and writing another if
// that one did not hold.
type inspection struct {
	known         *incarnation.Known
	found         incarnation.Inspection
	before, after clock.Reading // our clocks, before and after the server read its own
}

// inspectionsMost is how often in a row a record may change while it is inspected.
const inspectionsMost = 10

var (
	errRestless = &wire.Refusal{Reason: "its record of restarts, " + incarnation.Key + ", keeps changing"}
	errSwitched = errors.New("another server answers on the same connection")
)

// inspect repeats an inspection until it finds the record that it has also loaded as a script. Then the
// record, the script and the server's process belong together. recorded is the record's MaxTTL, as far as it is known. Ahead of
// the inspections it loads scripts.
func (s *supervisor) inspect(ctx context.Context, conn redis.Conn, database string, recorded time.Duration, scripts *loading) (inspection, error) {
	s.mu.Lock()
	known, stale, seen, wrote := s.guard.known, s.guard.stale, s.guard.seen, s.guard.wrote
	s.mu.Unlock()
	why := incarnation.Holds     // why the last record was written
	declared := time.Duration(0) // the record's MaxTTL is raised to this; not before Raising was called
	s.raises(recorded, &declared)
	for range inspectionsMost {
		scripts.send(conn)
		o := inspection{known: known, before: s.cfg.Clock()}
		if err := incarnation.SendInspection(conn, database, known, stale, declared); err != nil {
			return o, err
		}
		if err := conn.Flush(); err != nil {
			return o, err
		}
		err := scripts.receive(ctx, conn)
		if err != nil {
			return o, err
		}
		o.found, err = incarnation.ReadInspection(func() (any, error) { return redisconn.Receive(ctx, conn) })
		if err != nil && conn.Err() != nil {
			return o, err
		} else if err != nil {
			if isReadOnly(err) {
				s.markStale()
			}
			return o, errUnguarded(err)
		}
		o.after = s.cfg.Clock()
		if o.found.Why == incarnation.Holds && wrote.Why != incarnation.Holds && o.found.Record.SameMemory(wrote.Record) {
			o.found.Why = wrote.Why // a probe of the last connection has written it
		}
		// The stale record is not replaced if its MaxTTL has just been raised to the text that is known.
		stands := stale && o.found.Why == incarnation.Holds
		raises := s.raises(o.found.Record.MaxTTL, &declared)
		if known != nil && o.found.Record.Text == known.Record.Text && !stands && !raises {
			o.found.Why = why
			return o, nil
		}
		s.cfg.Servers.declare(o.found.Record.MaxTTL)
		if known == nil || o.found.Why != incarnation.Holds || !known.Record.SameMemory(o.found.Record) {
			why = o.found.Why // else MaxTTL was raised in a record that may have just been written
		}
		if known == nil || known.Record.SameMemory(o.found.Record) {
			stale = stands // else it was replaced
		} else {
			stale = returned(o.found, seen)
		}
		known = incarnation.Know(o.found)
	}
	return inspection{}, errRestless
}

// raises reports whether the next inspection has to raise a record's MaxTTL, and sets declared for that. It calls Raising
// before, since nothing lowers a MaxTTL but an operator.
func (s *supervisor) raises(of time.Duration, declared *time.Duration) bool {
	most := s.cfg.Servers.MaxTTL()
	if of >= most || *declared >= most {
		return false
	}
	if of < s.cfg.MaxTTL {
		s.cfg.Listener.Raising(of, s.cfg.MaxTTL)
	}
	*declared = most
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
