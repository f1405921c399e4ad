package master

import (
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/wire"
)

// The restart guard: a vote counts only if the server's memory is known to be older than the longest
// lease. Package incarnation says how one memory is told from the next.
//
//   - Each new connection is inspected before it is used: see inspect.go. Only an inspection reads or
//     writes the server's record, and only an inspection begins a quarantine.
//   - A probe follows the votes of each flush, on the same connection: see probe.go. A grant is held
//     back until the replies to the probe, which usually arrive with it, have confirmed it. No probe follows a registration
//     that is likely to be refused. If it is granted all the same, a probe is sent then.
//   - A probe with an odd result ends the connection, and the grants that are held back are void. The
//     next connection is inspected.
//   - If a clock seems to have jumped, it may be the server's or our own: see clocks.go.

// A guard is what a Master knows about its server's memory. The Master's mutex guards it.
type guard struct {
	known *incarnation.Known // the record that the last inspection confirmed; nil before the first
	stale bool               // known no longer holds: the next inspection replaces it
	seen  time.Time          // the server's time when known was confirmed last
	drift incarnation.Drift  // of the server's clock
	since time.Time          // when the quarantine began; zero: votes count, whatever MaxTTL becomes known
	ended time.Time          // the end of the last quarantine
	voted time.Time          // since of the memory whose votes have counted last; zero: none have, or these count whatever MaxTTL becomes known
	why   string             // the reason for the quarantine
	jump  time.Duration      // the jump of its clock that the last probe found; 0: none

	held, spare []verdict              // grants, in the order of their answers, until a probe confirms them
	probes      fifo[clock.Reading]    // our clocks before each probe that is not answered
	probed      bool                   // a probe was sent since the last heartbeat
	wrote       incarnation.Inspection // the last one by a probe that found that the record did not hold, and replaced it
	anew        bool                   // the next probe is an inspection, and is sent even without votes
	inspecting  bool                   // such a probe is on its way
	thorough    bool                   // the next probe includes INFO
	looked      time.Time              // when the last probe that includes INFO was sent, or asked for
	careful     bool                   // each probe is careful: the server's memory is nearly full
	legacy      bool                   // each probe includes INFO: the server keeps scripts when it restarts
}

// A verdict is an answer and the Asker that it is for.
type verdict struct {
	asker  Asker
	answer wire.Answer
}

// A QuarantineError says that a master's votes do not count yet.
type QuarantineError struct {
	Until time.Time // when they count, if nothing else happens
	Why   string    // the reason
	// MaxTTL is the largest that another client has declared, if it is larger than this client's, else 0.
	MaxTTL time.Duration
}

// ErrQuarantined is what each QuarantineError matches.
var ErrQuarantined = errors.New("redlock: master is in quarantine")

// Is reports whether target is ErrQuarantined.
func (e *QuarantineError) Is(target error) bool { return target == ErrQuarantined }

func (e *QuarantineError) Error() string {
	text := fmt.Sprintf("in quarantine until %s, for it may have forgotten locks: %s", e.Until.Format("15:04:05"), e.Why)
	if e.MaxTTL > 0 {
		text += fmt.Sprintf(" (another client has declared a MaxTTL of %v; redlock doctor says how to lower it)", e.MaxTTL)
	}
	return text
}

// know takes in the inspection of a new connection to the master at index.
func (g *guard) know(p peer, index int, servers *Servers) {
	c := &servers.clocks
	o := p.inspected
	if g.known == nil || !g.known.Record.SameMemory(o.known.Record) {
		// Another memory. Its clock may be another server's, or may have jumped before the record was
		// written. So its clock is compared from now on, unless this client has replaced the record.
		if o.found.Why != incarnation.Stale {
			c.begin(index, o.before)
		}
		g.drift, g.jump, g.stale = incarnation.Drift{}, 0, false
		g.since, g.why = o.after.Time().Add(-o.found.Age()), o.found.Why.String()
		switch r := o.known.Record; {
		case r.AdoptedFor(len(servers.names)):
			g.since = time.Time{}
		case o.found.Why == incarnation.Holds && r.Adopted:
			g.why = fmt.Sprintf("it was adopted %s ago for a list of %d, and this client has a list of %d",
				o.found.Age().Round(time.Second), r.Masters, len(servers.names))
		case o.found.Why == incarnation.Holds:
			g.why = "its memory is known for " + o.found.Age().Round(time.Second).String() + " only: it was new, or restarted, or has lost it"
		}
	} else if g.known.Record.Text != o.known.Record.Text {
		g.jump = 0 // a client has raised MaxTTL in the record, which to a probe looks like a jump
	}
	g.known, g.seen, g.legacy, g.careful, g.looked = o.known, o.found.Now, p.legacy, p.tight, o.after.Time()
	g.compare(o, index, c)
}

// compare compares the server's clock with ours. If it has jumped, or the last probe of this memory
// found a jump, the quarantine begins again.
func (g *guard) compare(o inspection, index int, c *clocks) {
	by := g.drift.Compare(o.found.Now, o.before, o.after)
	if by == 0 {
		by = g.jump // and the clock has jumped back since
	}
	g.jump = 0
	c.compared(index, o.before, o.after, by)
	if by != 0 {
		g.since = o.after.Time()
		g.why = fmt.Sprintf("its clock has jumped by %v, or ours was stopped", by.Round(time.Millisecond))
	}
}

// hold holds a grant back.
func (g *guard) hold(asker Asker, a wire.Answer) { g.held = append(g.held, verdict{asker, a}) }

// takeHeld takes the grants that are held back. The slice is used again by the second call after this one.
func (g *guard) takeHeld() (held []verdict) {
	held = g.held
	g.held, g.spare = g.spare[:0], held
	return held
}

// quarantineLocked sets the state of a connected master: Quarantined until the quarantine has ended,
// and Up afterwards. A larger MaxTTL that becomes known prolongs the quarantine, also one that has ended. It does not begin a new one
// if the records of all masters were confirmed since: see settledLocked.
func (m *Master) quarantineLocked(now time.Time) {
	since := m.guard.since
	most := m.cfg.Servers.MaxTTL()
	until := since.Add(most + incarnation.Margin)
	if !since.IsZero() {
		m.guard.ended = until
	}
	if !since.IsZero() && until.After(now) {
		err := &QuarantineError{Until: until, Why: m.guard.why}
		if most > m.cfg.MaxTTL {
			err.MaxTTL = most
		}
		m.setLocked(Quarantined, err, until)
	} else {
		m.cfg.Servers.clocks.forget(m.cfg.Index)
		m.guard.voted = since
		m.setLocked(Up, nil, time.Time{})
	}
}

// prolongQuarantine prolongs a quarantine since a larger MaxTTL is known. It reports whether votes have counted that should not have: of this
// memory, or of the one before if this one has not voted yet. The connection may have ended since. The caller calls report.
func (m *Master) prolongQuarantine() (again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, voted := time.Now(), m.guard.voted
	if state := m.status.State; !m.guard.since.IsZero() && (state == Up || state == Quarantined) {
		m.quarantineLocked(now)
	}
	return !voted.IsZero() && voted.Add(m.cfg.Servers.MaxTTL()+incarnation.Margin).After(now)
}

// settledLocked reports whether no MaxTTL that is still unknown can concern the locks that a connected master may have forgotten. A client that
// held such a lock had declared its MaxTTL at a quorum of masters before. So it is known if the records of all others were seen after this memory
// began. A master that cannot be reached for long delays that; meanwhile a larger MaxTTL may begin the quarantine again.
func (m *Master) settledLocked() bool {
	return m.cfg.Servers.clocks.allAfter(m.cfg.Index, m.guard.since.Add(incarnation.Margin))
}

// endQuarantine ends the quarantine if its time is over. It returns the end of the quarantine, or the
// zero Time.
func (m *Master) endQuarantine() (until time.Time) {
	m.update(func() {
		if m.status.State == Quarantined {
			m.quarantineLocked(time.Now())
			until = m.status.Until
		}
	})
	return until
}

// markStale has the next inspection replace the record. A server that is a replica for a while may
// come back as the same process with the memory of another.
func (m *Master) markStale() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.guard.stale = m.cfg.Guard
}

// deliver hands grants that were held back to their Askers, or err instead if it is not nil. Only the
// reader calls it, or the supervisor after the reader has ended.
func (m *Master) deliver(held []verdict, err error) {
	for i, v := range held {
		held[i] = verdict{}
		if err != nil {
			v.answer = wire.Answer{Err: err}
		}
		v.asker.Answered(m.cfg.Index, v.answer)
	}
}
