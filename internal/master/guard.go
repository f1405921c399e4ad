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
)

// The restart guard: a grant counts only if the memory that it was made in is
// known to be older than the longest lease. See package incarnation for how a
// memory is told from the next.
//
// Behind the votes of each flush goes a probe, on the same connection. Grants are
// held back until its replies, which come in the same read as a rule, have
// confirmed them. If the probe finds anything odd the master is looked at again,
// on the same connection: when the record is the one that was known, nothing was
// lost and the grants count one round trip late; else they are void.

// A guard is what a Master knows of its server's incarnation. The Master's mutex
// guards it.
type guard struct {
	known *incarnation.Known // the record that was confirmed last; nil before the first look
	drift incarnation.Drift  // of the server's clock, while that record holds
	seen  time.Time          // when it was confirmed last, by the server's clock
	stale bool               // the record holds, and is to be written anew all the same
	until time.Time          // when the votes will count; zero: they do
	why   string             // they do not

	looks int                // under way; the last of them decides on what is held
	tries int                // how many it took so far
	next  *incarnation.Known // the record that they have found, if it is not the one known
	found incarnation.Why    // why it was written
	leapt time.Duration      // by how much the clock had jumped when a probe was answered
	// A jump of which no other master could say yet whether it is the server's.
	unweighed jump

	held, spare []verdict // grants, in order, that wait for a probe or a look
	probed      bool      // a probe was sent since the last heartbeat
	role        bool      // the next probe is to ask whether it is a replica now
	idle        []*sight  // to be used again
}

// A verdict is an answer that is to be told if it counts.
type verdict struct {
	kind   Kind
	asker  Asker
	answer Answer
}

// A sight is what a probe or a look is for.
type sight struct {
	known  *incarnation.Known
	stale  bool
	role   bool
	before clock.Reading // of our clocks, before it was sent
}

// A QuarantineError says that a master's votes do not count yet.
type QuarantineError struct {
	Until time.Time // when they will, if nothing happens
	Why   string    // they do not
}

func (e *QuarantineError) Error() string {
	return fmt.Sprintf("in quarantine until %s, for it may have forgotten locks: %s", e.Until.Format("15:04:05"), e.Why)
}

// guarded reports whether the restart guard is on.
func (m *Master) guarded() bool { return m.cfg.Quarantine > 0 }

// A lookout is one look at the server, and when it was taken by our own clocks.
type lookout struct {
	sight
	look  incarnation.Look
	after clock.Reading
}

// maxLooks bounds how often in a row a record may change under our eyes.
const maxLooks = 10

// enrol looks at a server's incarnation until it is known, on a connection that
// nobody else uses yet.
func (m *Master) enrol(ctx context.Context, conn redis.Conn, database string) (lookout, error) {
	m.mu.Lock()
	known, stale, seen := m.guard.known, m.guard.stale, m.guard.seen
	m.mu.Unlock()
	found := incarnation.Holds
	for range maxLooks {
		o := lookout{sight: sight{known: known, stale: stale, before: m.cfg.Clock()}}
		if err := incarnation.SendLook(conn, database, known, stale); err != nil {
			return o, err
		}
		if err := conn.Flush(); err != nil {
			return o, err
		}
		var err error
		o.look, err = incarnation.ReadLook(func() (any, error) { return receive(ctx, conn) })
		if err != nil && conn.Err() != nil {
			return o, err
		} else if err != nil {
			if isReadOnly(err) {
				m.suspect()
			}
			return o, errUnguarded(err)
		}
		o.after = m.cfg.Clock()
		if known != nil && o.look.Record.Text == known.Record.Text {
			o.look.Why = found
			return o, nil
		}
		// What is stale is the record that was there, were it not known before.
		stale = stale && known == nil && o.look.Why == incarnation.Holds || returned(o.look, seen)
		known, found = incarnation.Know(o.look), o.look.Why
	}
	return lookout{}, errRestless
}

// returned reports whether a record that was found in another's place, and holds, was
// there before the other was seen last: an older memory has come back, which knows
// nothing of what was locked meanwhile. After a step back of the clock, somebody's new
// record looks like that, too, and if everybody wrote another there would be no end.
func returned(found incarnation.Look, seen time.Time) bool {
	return found.Why == incarnation.Holds && found.Record.Since.Before(seen) && found.Now.After(seen.Add(-time.Second))
}

var errRestless = &refusal{"its record of restarts, " + incarnation.Key + ", keeps changing"}

// errUnguarded says that a server does not do what the guard needs. What it does not
// do at present, it may do when it is dialled again.
func errUnguarded(err error) error {
	text := err.Error()
	if !strings.HasPrefix(text, "NOPERM") && !strings.Contains(text, "unknown command") && !strings.Contains(text, "The user executing the script") {
		return fmt.Errorf("it did not say whether it has restarted: %w", err)
	}
	return &refusal{fmt.Sprintf("it cannot keep the record of its restarts, %s (%v): allow it, or disable the restart guard", incarnation.Key, err)}
}

// knowLocked takes in what the last look has confirmed. It returns by how much the
// server's clock has jumped.
func (m *Master) knowLocked(o lookout, replaced bool) (leap time.Duration) {
	g := &m.guard
	if replaced {
		g.known, g.stale, g.drift, g.until, g.unweighed = o.known, false, incarnation.Drift{}, time.Time{}, jump{}
	}
	g.seen = o.look.Now
	now := o.after.Time()
	left := m.cfg.Quarantine - o.look.Age()
	if g.known.Record.Adopted {
		left = 0
	}
	until := now.Add(left)
	if leap = g.drift.Look(o.look.Now, o.before, o.after); leap == 0 && !replaced {
		leap = g.leapt // and back
	}
	switch {
	case leap != 0:
		m.cfg.Servers.note(m.cfg.Index, leap)
		g.until = now.Add(m.cfg.Quarantine)
		g.why = fmt.Sprintf("its clock has jumped by %v, or ours was stopped", leap.Round(time.Millisecond))
	case left > 0 && until.After(g.until):
		g.until = until
		g.why = o.look.Why.String()
		if o.look.Why == incarnation.Holds {
			g.why = "its memory is known for " + o.look.Age().Round(time.Second).String() + " only: it was new, or restarted, or has lost it"
		}
	}
	m.status.GuardErr = nil
	if o.look.Run == incarnation.Unknown {
		m.status.GuardErr = errBlind
	}
	return leap
}

var errBlind = errors.New("restarts cannot be told: the server does not say its run_id")

// ripenLocked sets the state of a connected master: by whether the quarantine has
// ended.
func (m *Master) ripenLocked(now time.Time) {
	if g := &m.guard; g.until.After(now) {
		m.setLocked(Quarantined, &QuarantineError{g.until, g.why}, g.until)
	} else {
		g.until, g.unweighed = time.Time{}, jump{}
		m.setLocked(Up, nil, time.Time{})
	}
}

// ripen ends the quarantine if it is over, and returns when it will be; zero: it
// is.
func (m *Master) ripen() (until time.Time) {
	m.mu.Lock()
	if m.status.State == Quarantined {
		m.ripenLocked(time.Now())
		until = m.status.Until
	}
	m.mu.Unlock()
	m.tell()
	return until
}

// latest returns the record that a probe or a look is to find.
func (g *guard) latest() *incarnation.Known {
	if g.next != nil {
		return g.next
	}
	return g.known
}

// lookLocked has the server looked at again.
func (m *Master) lookLocked() {
	g := &m.guard
	g.looks++
	g.tries++
	m.pushLocked(item{kind: look, sight: &sight{known: g.latest(), stale: g.stale}})
}

// forgetLooks forgets the looks that a lost connection leaves unanswered.
func (g *guard) forgetLooks() { g.looks, g.tries, g.next, g.leapt = 0, 0, nil, 0 }

// suspect has the record written anew at the next look. A server that is a replica
// for a while may come back as the same process with another's memory.
func (m *Master) suspect() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.guard.stale = m.guarded()
}

// probeLocked returns the probe to be sent behind votes.
func (m *Master) probeLocked(before clock.Reading) item {
	g := &m.guard
	g.probed = true
	var s *sight
	if n := len(g.idle); n > 0 {
		s, g.idle = g.idle[n-1], g.idle[:n-1]
	} else {
		s = new(sight)
	}
	*s = sight{known: g.latest(), role: g.role, before: before}
	g.role = false
	return item{kind: probe, sight: s}
}

// judgeLocked takes the grants that are held back, and decides on them; sure says
// that they were made in the memory that is known, while its clock went as it went.
func (m *Master) judgeLocked(sure bool) (held []verdict) {
	g := &m.guard
	held = g.held
	g.held, g.spare = g.spare[:0], held
	for i := range held {
		switch {
		case m.status.State == Quarantined && (held[i].kind != Glance || !sure):
			held[i].answer = Answer{Err: m.status.Err}
		case !sure:
			held[i].answer = Answer{Err: errForgot}
		}
	}
	return held
}

var errForgot = errors.New("it may have forgotten locks")

// deliver tells verdicts, void for err unless that is nil. Only the reader calls
// it, or who comes after it.
func (m *Master) deliver(held []verdict, err error) {
	for i, v := range held {
		held[i] = verdict{}
		if err != nil {
			v.answer = Answer{Err: err}
		}
		v.asker.Answered(m.cfg.Index, v.answer)
	}
}
