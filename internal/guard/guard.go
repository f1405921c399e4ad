// Package guard decides whether the votes of a master count: the restart guard.
//
// A master that has forgotten locks may grant them again. So a vote counts only if the server's memory is known to be older than the longest
// lease. Package incarnation has what lies on the server, the record, and says how one memory is told from the next. This package is the part of a
// client.
//
//   - What it knows: of one master, a [Guard]; of all masters of a Client, [Servers]: the largest MaxTTL, which master votes for a server, and
//     whose clock has jumped (clocks.go).
//   - What it asks: each new connection is inspected before it is used (inspect.go), behind the scripts that its server lacks (load.go). Only an
//     inspection reads or writes the record. A probe follows the votes of each flush, on the same connection (probe.go).
//   - What it decides: until when a master is in quarantine ([Guard.Quarantine]); whether the votes before a probe count ([Guard.Confirm]);
//     whether a grant counts that came as a message ([Guard.Sure]).
//
// A probe with an odd result ends the connection, and the votes before it are void. The next connection is inspected. Only an inspection begins
// a quarantine.
//
// The package owns no connection. Package master sends and receives at the right moments, and holds votes back until they are confirmed.
//
// # Concurrency
//
// A Guard has a mutex of its own. Its master calls it with the mutex of the master, so that the states of both change together: only Inspect,
// Receive and MarkStale are called without it. Behind Guard.mu, a goroutine may take Servers.mu or clocks.mu.
package guard

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/fifo"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Guard is what a client knows about the memory of one master. It is safe for concurrent use.
type Guard struct {
	servers *Servers // immutable
	index   int      // immutable; of the master
	voter   Voter    // immutable; the master

	mu    sync.Mutex         // guards what follows
	known *incarnation.Known // the record that the last inspection confirmed; nil before the first
	stale bool               // known no longer holds: the next inspection replaces it
	seen  time.Time          // the server's time when known was confirmed last
	drift incarnation.Drift  // of the server's clock
	jump  time.Duration      // the jump of its clock that the last probe found; 0: none

	since time.Time // when the quarantine began; zero: votes count, whatever MaxTTL becomes known
	why   string    // the reason for the quarantine
	ended time.Time // the end of the last quarantine
	up    bool      // votes count: the last Quarantine returned nil
	voted time.Time // since of the memory whose votes have counted last; zero: none have, or these count whatever MaxTTL becomes known

	probes     fifo.Queue[clock.Reading] // our clocks before each probe that is not answered
	probed     bool                      // a probe was sent since the last Beat
	wrote      incarnation.Inspection    // the last one by a probe that found that the record did not hold, and replaced it
	anew       bool                      // the next probe is an inspection, and is sent even without votes
	inspecting bool                      // such a probe is on its way
	thorough   bool                      // the next probe includes INFO
	looked     time.Time                 // when the last probe that includes INFO was sent, or asked for
	careful    bool                      // each probe is careful: the server's memory is nearly full
	legacy     bool                      // each probe includes INFO: the server keeps scripts when it restarts
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

// Begin takes in the memory of a new connection. Quarantine then says whether its votes count.
func (g *Guard) Begin(m *Memory) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil || !g.known.Record.SameMemory(m.known.Record) {
		// Another memory. Its clock may be another server's, or may have jumped before the record was
		// written. So its clock is compared from now on, unless this client has replaced the record.
		if m.found.Why != incarnation.Stale {
			g.servers.clocks.begin(g.index, m.before)
		}
		g.drift, g.jump, g.stale = incarnation.Drift{}, 0, false
		g.since, g.why = m.quarantine(len(g.servers.Client.Names))
	} else if g.known.Record.Text != m.known.Record.Text {
		g.jump = 0 // a client has raised MaxTTL in the record, which to a probe looks like a jump
	}
	g.known, g.seen, g.legacy, g.careful, g.looked = m.known, m.found.Now, m.Legacy, m.Tight, m.after.Time()
	g.compareLocked(m)
}

// quarantine returns since when the memory is in quarantine for a client with so many masters, and why. It is zero if votes count.
func (m *Memory) quarantine(masters int) (since time.Time, why string) {
	since, why = m.after.Time().Add(-m.found.Age()), m.found.Why.String()
	switch r := m.known.Record; {
	case r.AdoptedFor(masters):
		since = time.Time{}
	case m.found.Why == incarnation.Holds && r.Adopted:
		why = fmt.Sprintf("it was adopted %s ago for a list of %d, and this client has a list of %d", m.found.Age().Round(time.Second), r.Masters, masters)
	case m.found.Why == incarnation.Holds:
		why = "its memory is known for " + m.found.Age().Round(time.Second).String() + " only: it was new, or restarted, or has lost it"
	}
	return since, why
}

// compareLocked compares the server's clock with ours. If it has jumped, or the last probe of this memory
// found a jump, the quarantine begins again.
func (g *Guard) compareLocked(m *Memory) {
	by := g.drift.Compare(m.found.Now, m.before, m.after)
	if by == 0 {
		by = g.jump // and the clock has jumped back since
	}
	g.jump = 0
	g.servers.clocks.compared(g.index, m.before, m.after, by)
	if by != 0 {
		g.since = m.after.Time()
		g.why = fmt.Sprintf("its clock has jumped by %v, or ours was stopped", by.Round(time.Millisecond))
	}
}

// End says that the connection has ended: its probes will not be answered.
func (g *Guard) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probes, g.anew, g.inspecting = fifo.Queue[clock.Reading]{}, false, false
}

// Quarantine returns why the votes of a connected master do not count, and until when; nil: they count. A larger MaxTTL that becomes known
// prolongs the quarantine, also one that has ended. It does not begin a new one if the records of all masters were confirmed since: see
// settledLocked.
func (g *Guard) Quarantine() *QuarantineError {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := g.servers.MaxTTL()
	until := g.since.Add(most + incarnation.Margin)
	if !g.since.IsZero() {
		g.ended = until
	}
	if g.up = g.since.IsZero() || !until.After(time.Now()); g.up {
		g.servers.clocks.forget(g.index)
		g.voted = g.since
		return nil
	}
	err := &QuarantineError{Until: until, Why: g.why}
	if most > g.servers.Client.MaxTTL {
		err.MaxTTL = most
	}
	return err
}

// prolong has the master prolong its quarantine, since a larger MaxTTL is known. It reports whether votes have counted that should not have: of
// this memory, or of the one before if this one has not voted yet. The connection may have ended since.
func (g *Guard) prolong() (revoked bool) {
	g.mu.Lock()
	voted := g.voted
	g.mu.Unlock()
	g.voter.Prolong()
	return !voted.IsZero() && voted.Add(g.servers.MaxTTL()+incarnation.Margin).After(time.Now())
}

// settledLocked reports whether no MaxTTL that is still unknown can concern the locks that a connected master may have forgotten. A client that
// held such a lock had declared its MaxTTL at a quorum of masters before. So it is known if the records of all others were seen after this memory
// began. A master that cannot be reached for long delays that; meanwhile a larger MaxTTL may begin the quarantine again.
func (g *Guard) settledLocked() bool {
	return g.servers.clocks.allAfter(g.index, g.since.Add(incarnation.Margin))
}

// MarkStale has the next inspection replace the record. A server that is a replica for a while may
// come back as the same process with the memory of another.
func (g *Guard) MarkStale() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stale = true
}

// Jumped returns an error, which ends the connection, if the server's clock is known to have jumped. The next inspection replaces the record.
func (g *Guard) Jumped() error {
	if !g.servers.clocks.blame(g.index) {
		return nil
	}
	g.MarkStale()
	return errJumped
}

// Sure reports whether a grant that came as a message was made in the memory that is known, after its quarantine. mark is a moment before the
// grant. The master must be up.
func (g *Guard) Sure(in wire.Memory, mark clock.Reading) bool {
	now := g.servers.Client.Clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.servers.Client.Off:
		return true
	case g.careful:
		return false // the key may have been evicted before; the probe behind a poll finds out
	case in.Run == wire.NoRun:
		return false // whoever has granted the lock could not ask, and the record may say so, too
	case g.known == nil || in.Run != g.known.Record.Run || mark.Time().Before(g.ended):
		return false
	}
	at, there := g.known.Time(in.Left)
	drift := g.drift
	return there && drift.Compare(at, mark, now) == 0
}
