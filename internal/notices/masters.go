package notices

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/reasons"
	"github.com/redlock-go/redlock/internal/remedy"
)

// How long a line about a master is delayed, so that it can name further masters. Dead masters are found at
// their heartbeats, 1 s apart. Masters that are alive again are found by dials, up to 1.5 s apart. Masters
// that are new to redlock are found together when a Client is opened, and a user may be waiting for the
// reason.
const (
	gatherBad   = 1100 * time.Millisecond
	gatherGood  = 2 * time.Second
	gatherFirst = 50 * time.Millisecond
)

// Messages about masters. The message is the same for one master and for many.
const (
	msgDown       = "redlock: masters are down"
	msgRefused    = "redlock: masters must not vote"
	msgPassword   = "redlock: masters reject the user or the password"
	msgNoPassword = "redlock: masters require a password"
	msgRights     = "redlock: masters deny the user a right"
	msgTLS        = "redlock: TLS with masters fails"
	msgMoment     = "redlock: masters were down for a moment"
	msgUp         = "redlock: masters are up again"
	msgReleased   = "redlock: masters vote again: their quarantine is over"
	msgWakes      = "redlock: masters do not wake waiters"
	msgWrites     = "redlock: masters grant no locks: they refuse writes"
	msgWritable   = "redlock: masters accept writes again"
	msgGuard      = "redlock: restarts of masters may go unnoticed"
	msgLists      = "redlock: other clients have another list of masters"
)

// A defect is what may be wrong with a master whose votes count.
type defect struct {
	msg string
	err error // nil: the master does not have the defect
}

func defectsOf(s master.Status) []defect {
	return []defect{{msgWakes, s.WakeErr}, {msgWrites, s.WriteErr}, {msgGuard, s.GuardErr}, {msgLists, s.ListErr}}
}

// topicOf returns the topic of a message: one of the messages that share a limit on how often they are
// written.
func topicOf(msg string) string {
	switch msg {
	case msgRefused, msgPassword, msgNoPassword, msgRights, msgTLS, msgMoment:
		return msgDown
	case msgReleased:
		return msgUp
	}
	return msg
}

// badMessage returns the message for a master that is down or refused.
func badMessage(s master.Status) string {
	text := s.Err.Error()
	switch {
	case s.WriteErr != nil: // a new connection cannot be made ready
		return msgWrites
	case strings.Contains(text, "WRONGPASS"), strings.Contains(text, "invalid password"):
		return msgPassword
	case strings.Contains(text, "NOAUTH"):
		return msgNoPassword
	case strings.Contains(text, "NOPERM"):
		return msgRights
	case remedy.IsTLS(s.Err):
		return msgTLS
	case s.State == master.Refused:
		return msgRefused
	}
	return msgDown
}

func isBad(s master.State) bool { return s == master.Down || s == master.Refused }

// A change is a change of a master's state that was not written yet.
type change struct {
	since time.Time
	later time.Time    // the change is not written before this time; zero: no such bound
	state master.State // the last state
	first bool         // it is the master's first state after connecting
	bad   error        // why the master was first down or refused; nil: it was neither
	voted bool         // the master was up
}

// due returns when the change is to be written.
func (c *change) due() time.Time {
	at := c.since.Add(gatherGood)
	switch {
	case isBad(c.state):
		at = c.since.Add(gatherBad)
	case c.isEarly():
		at = c.since.Add(gatherFirst)
	}
	return latest(at, c.later)
}

// isEarly reports whether the state is written before all other news about the master.
func (c *change) isEarly() bool { return c.first && c.state == master.Quarantined }

// kind returns the state. It returns master.Down for both states that are written together, down and refused.
func (c *change) kind() master.State {
	if isBad(c.state) {
		return master.Down
	}
	return c.state
}

// MasterChanged notes a new state of a master, or that it has a defect or has it no longer.
func (n *Notices) MasterChanged(i int, before master.State, s master.Status) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.changed[i]
	if c == nil {
		c = &change{since: time.Now()}
		n.changed[i] = c
	}
	c.first = before == master.Connecting && s.State != before
	c.state = s.State
	c.voted = c.voted || s.State == master.Up
	if c.bad == nil && isBad(s.State) {
		c.bad = s.Err
		c.since = time.Now() // further masters may follow, even if better news was about to be written
	}
	n.wakeWriter()
}

// takeChanges removes and returns the changes that are due. If one change of a kind is due, all changes of
// that kind are taken, except those whose later has not come.
func (n *Notices) takeChanges(d *deadlines) map[int]*change {
	n.mu.Lock()
	defer n.mu.Unlock()
	due := make(map[master.State]bool) // by kind
	for _, c := range n.changed {
		if d.due(c.due()) {
			due[c.kind()] = true
		}
	}
	taken := make(map[int]*change)
	for i, c := range n.changed {
		if due[c.kind()] && (d.all || !c.later.After(d.now)) {
			taken[i] = c
			delete(n.changed, i)
		}
	}
	return taken
}

// putBack keeps a change, which takeChanges has returned, until later.
func (n *Notices) putBack(i int, c *change, later time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if next := n.changed[i]; next != nil { // the master has changed since
		c.state, c.first, c.voted = next.state, next.first, c.voted || next.voted
		if c.bad == nil {
			c.bad = next.bad
		}
	}
	c.later = later
	n.changed[i] = c
}

// writeMasters writes the changes of masters that are due.
func (n *Notices) writeMasters(d *deadlines) {
	changes := n.takeChanges(d)
	now := make([]master.Status, len(n.names)) // no older than the changes
	for i := range now {
		now[i] = n.status(i)
	}
	var lines []line
	for i, s := range now {
		t, c := &n.told[i], changes[i]
		if c == nil {
			c = t.otherReason(s, d)
		}
		if c == nil {
			continue
		}
		t.voted = t.voted || c.voted
		rest := c.since.Add(gatherGood)
		early := c.isEarly() && !d.all && rest.After(d.now)
		news := t.news(s, c, early || d.all)
		if later := t.soonest(news); !d.due(later) {
			n.putBack(i, c, later)
			continue
		}
		t.written(s, news, d.now)
		for _, l := range news {
			l.about.Master = n.names[i]
			lines = append(lines, l)
		}
		if early {
			n.putBack(i, &change{since: c.since, state: c.state}, rest)
			d.due(rest)
		}
	}
	n.writeLines(lines, now)
	n.writeMaxTTL(now)
}

// A told is what was written about a master.
type told struct {
	state master.State         // the state at the time of the last line
	until time.Time            // the end of its quarantine, as of the last line about that
	bad   string               // the last message, if it said that the master is down or refused
	has   map[string]bool      // by message: it was written; of a defect: and the master still has it
	voted bool                 // the master was up once; this is not written
	at    map[string]time.Time // when a line about each topic was last written
}

// A line is a message about one master. Messages with the same text and the same reason are written as one.
type line struct {
	level slog.Level
	msg   string
	about reasons.Failure // the master, and why if there is a reason
}

// otherReason returns a change if a master that was down or refused still is, but its reason now has another
// message. Masters do not report such a change, so the reason is checked from time to time.
func (t *told) otherReason(s master.Status, d *deadlines) *change {
	if !isBad(t.state) || !isBad(s.State) {
		return nil
	}
	d.due(d.now.Add(every)) // the next check
	if badMessage(s) == t.bad {
		return nil
	}
	return &change{since: d.now, state: s.State}
}

// news returns the lines to write about a master. If urgent is true, it returns only the line about the
// state. urgent is true while further masters are still awaited, and when the Client is closed.
func (t *told) news(s master.Status, c *change, urgent bool) (lines []line) {
	add := func(level slog.Level, msg string, why error) {
		lines = append(lines, line{level, msg, reasons.Failure{Err: why}})
	}
	switch {
	case isBad(s.State):
		if msg := badMessage(s); msg != t.bad {
			add(slog.LevelWarn, msg, s.Err)
		}
		return lines
	case s.State == master.Quarantined:
		// After a restart in quarantine, the quarantine has begun again, and the time is told anew.
		if t.state != master.Quarantined || s.Until.Sub(t.until) > untilShift {
			add(slog.LevelWarn, msgQuarantined, s.Err)
		}
	case s.State == master.Connecting: // the state of every master at first
	case t.state == master.Quarantined:
		add(slog.LevelInfo, msgReleased, nil)
	case isBad(t.state) && t.bad != msgWrites: // else msgWritable says it
		add(slog.LevelInfo, msgUp, nil)
	case c.bad != nil:
		add(slog.LevelWarn, msgMoment, c.bad)
	}
	if t.has[msgWrites] && s.WriteErr == nil && s.State != master.Connecting && !urgent {
		add(slog.LevelInfo, msgWritable, nil)
	}
	for _, f := range defectsOf(s) {
		if f.err != nil && !t.has[f.msg] && !urgent {
			add(slog.LevelWarn, f.msg, f.err)
		}
	}
	return lines
}

// soonest returns when the lines may be written. Lines about the same topic are every apart.
func (t *told) soonest(lines []line) (at time.Time) {
	for _, l := range lines {
		if last, told := t.at[topicOf(l.msg)]; told {
			at = latest(at, last.Add(every))
		}
	}
	return at
}

// written notes that lines about a master are written.
func (t *told) written(s master.Status, lines []line, now time.Time) {
	if t.at == nil {
		t.at, t.has = make(map[string]time.Time), make(map[string]bool)
	}
	if s.State != master.Connecting {
		t.state = s.State
	}
	t.bad = ""
	if isBad(s.State) {
		t.bad = badMessage(s)
	}
	for _, f := range defectsOf(s) {
		t.has[f.msg] = t.has[f.msg] && (f.err != nil || f.msg == msgGuard) // msgGuard is written once
	}
	for _, l := range lines {
		t.at[topicOf(l.msg)] = now
		t.has[l.msg] = true
		if l.msg == msgQuarantined {
			t.until = s.Until
		}
	}
}

// writeLines writes lines about masters, one for each message and reason.
func (n *Notices) writeLines(lines []line, now []master.Status) {
	for len(lines) > 0 {
		first := lines[0]
		var about []reasons.Failure
		lines = slices.DeleteFunc(lines, func(l line) bool {
			if l.msg == first.msg {
				about = append(about, l.about)
			}
			return l.msg == first.msg
		})
		if first.msg == msgQuarantined {
			n.writeQuarantine(now)
			continue
		}
		for _, r := range reasons.Group(about) {
			attrs := []any{"masters", strings.Join(r.Masters, ", ")}
			if r.Err != nil {
				attrs = append(attrs, "why", reasons.Plain(r.Err))
			}
			n.log.Log(context.Background(), first.level, first.msg, attrs...)
		}
	}
}
