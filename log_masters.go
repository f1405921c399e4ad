package redlock

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/quorum"
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

// untilShift is by how much the end of a quarantine may differ from the one that was written. Each new connection to the
// same memory computes it anew.
const untilShift = time.Second

// A masterChange is a change of a master's state that was not written yet.
type masterChange struct {
	since time.Time
	later time.Time   // the change is not written before this time; zero: no such bound
	state MasterState // the last state
	first bool        // it is the master's first state after connecting
	bad   error       // why the master was first down or refused; nil: it was neither
	voted bool        // the master was up
}

// due returns when the change is to be written.
func (c *masterChange) due() time.Time {
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
func (c *masterChange) isEarly() bool { return c.first && c.state == MasterQuarantined }

// kind returns the state. It returns MasterDown for both states that are written together, down and refused.
func (c *masterChange) kind() MasterState {
	if isBad(c.state) {
		return MasterDown
	}
	return c.state
}

// A masterTold is what was written about a master.
type masterTold struct {
	state MasterState          // the state at the time of the last line
	until time.Time            // the end of its quarantine, as of the last line about that
	bad   string               // the last message, if it said that the master is down or refused
	wakes bool                 // it was written that the master does not wake waiters, and that still holds
	full  bool                 // the same, that its memory is full
	voted bool                 // the master was up once; this is not written
	at    map[string]time.Time // when a line about each topic was last written
}

// A masterLine is a message about one master. Messages with the same text and the same reason become one
// line.
type masterLine struct {
	level slog.Level
	msg   string
	about *NodeError // the master's name, and the reason if there is one
}

// masterChanged notes a new state of a master, or that its wake-ups fail or work again.
func (n *notices) masterChanged(i int, before MasterState, s MasterStatus) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.changed[i]
	if c == nil {
		c = &masterChange{since: time.Now()}
		n.changed[i] = c
	}
	c.first = before == MasterConnecting && s.State != before
	c.state = s.State
	c.voted = c.voted || s.State == MasterUp
	if c.bad == nil && isBad(s.State) {
		c.bad = s.Err
		c.since = time.Now() // further masters may follow, even if better news was about to be written
	}
	n.noted()
}

// takeChanges removes and returns the changes that are due. If one change of a kind is due, all changes of
// that kind are taken, except those whose later has not come.
func (n *notices) takeChanges(d *deadlines) map[int]*masterChange {
	n.mu.Lock()
	defer n.mu.Unlock()
	due := make(map[MasterState]bool) // by kind
	for _, c := range n.changed {
		if d.due(c.due()) {
			due[c.kind()] = true
		}
	}
	taken := make(map[int]*masterChange)
	for i, c := range n.changed {
		if due[c.kind()] && (d.all || !c.later.After(d.now)) {
			taken[i] = c
			delete(n.changed, i)
		}
	}
	return taken
}

// putBack keeps a change, which takeChanges has returned, until later.
func (n *notices) putBack(i int, c *masterChange, later time.Time) {
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
func (n *notices) writeMasters(d *deadlines) {
	changes := n.takeChanges(d)
	now := n.masters() // no older than the changes
	var lines []masterLine
	for i, s := range now {
		t, c := n.told[i], changes[i]
		if t == nil {
			t = &masterTold{at: make(map[string]time.Time)}
			n.told[i] = t
		}
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
		lines = append(lines, news...)
		if early {
			n.putBack(i, &masterChange{since: c.since, state: c.state}, rest)
			d.due(rest)
		}
	}
	n.writeLines(lines, now)
	n.writeMaxTTL(now)
}

// writeMaxTTL writes that another client has declared a larger MaxTTL, once for each larger value.
func (n *notices) writeMaxTTL(now []MasterStatus) {
	before := n.maxTTL
	for _, s := range now {
		n.maxTTL = max(n.maxTTL, s.MaxTTL)
	}
	if n.maxTTL > before {
		n.log.Warn(msgMaxTTL, "before", before.String(), "now", n.maxTTL.String(), "hint", hintMaxTTL+before.String())
	}
}

// A raise is a line which says that this Client raises MaxTTL.
type raise struct {
	before, now time.Duration
	taken       bool          // the line is being written; guarded by notices.mu
	written     chan struct{} // closed when it is written
}

// raiseWithin is how long raising waits for the Logger.
const raiseWithin = 250 * time.Millisecond

// raising is called before this Client raises a master's MaxTTL. It returns when that is written, or when the Logger takes
// too long: a Logger that blocks must not keep the Client from connecting. If no client has declared a MaxTTL there, the
// default is expected, and not written.
func (n *notices) raising(before, now time.Duration) {
	if before == 0 && now <= defaultTTL {
		return
	}
	n.mu.Lock()
	if n.raise == nil {
		n.raise = &raise{before: before, now: now, written: make(chan struct{})}
		n.noted()
	}
	r := n.raise
	n.mu.Unlock()
	late := time.NewTimer(raiseWithin)
	defer late.Stop()
	select {
	case <-r.written:
	case <-late.C:
	}
}

// writeRaise writes once that this Client raises MaxTTL.
func (n *notices) writeRaise() {
	n.mu.Lock()
	r := n.raise
	due := r != nil && !r.taken
	if due {
		r.taken = true
	}
	n.mu.Unlock()
	if due {
		n.log.Warn(msgRaising, "before", r.before.String(), "now", r.now.String(), "hint", hintMaxTTL+cmp.Or(r.before, defaultTTL).String())
		close(r.written)
	}
}

// otherReason returns a change if a master that was down or refused still is, but its reason now has another
// message. Masters do not report such a change, so the reason is checked from time to time.
func (t *masterTold) otherReason(s MasterStatus, d *deadlines) *masterChange {
	if !isBad(t.state) || !isBad(s.State) {
		return nil
	}
	d.due(d.now.Add(noticeEvery)) // the next check
	if badMessage(s) == t.bad {
		return nil
	}
	return &masterChange{since: d.now, state: s.State}
}

// news returns the lines to write about a master. If urgent is true, it returns only the line about the
// state. urgent is true while further masters are still awaited, and when the Client is closed.
func (t *masterTold) news(s MasterStatus, c *masterChange, urgent bool) (lines []masterLine) {
	add := func(level slog.Level, msg string, why error) {
		lines = append(lines, masterLine{level, msg, &NodeError{Master: s.Name, Err: why}})
	}
	switch {
	case isBad(s.State):
		if msg := badMessage(s); msg != t.bad {
			add(slog.LevelWarn, msg, s.Err)
		}
	case s.State == MasterQuarantined:
		// After a restart in quarantine, the quarantine has begun again, and the time is told anew.
		if t.state != MasterQuarantined || s.Until.Sub(t.until) > untilShift {
			add(slog.LevelWarn, msgQuarantined, s.Err)
		}
	case s.State == MasterConnecting: // the state of every master at first
	case t.state == MasterQuarantined:
		add(slog.LevelInfo, msgReleased, nil)
	case isBad(t.state):
		add(slog.LevelInfo, msgUp, nil)
	case c.bad != nil:
		add(slog.LevelWarn, msgMoment, c.bad)
	}
	if urgent || isBad(s.State) {
		return lines
	}
	if s.WakeErr != nil && !t.wakes {
		add(slog.LevelWarn, msgWakes, s.WakeErr)
	}
	if s.MemoryErr != nil && !t.full {
		add(slog.LevelWarn, msgMemory, s.MemoryErr)
	}
	if _, told := t.at[topicOf(msgGuard)]; s.GuardErr != nil && !told {
		add(slog.LevelWarn, msgGuard, s.GuardErr)
	}
	return lines
}

// soonest returns when the lines may be written. Lines about the same topic are noticeEvery apart.
func (t *masterTold) soonest(lines []masterLine) (at time.Time) {
	for _, l := range lines {
		if last, told := t.at[topicOf(l.msg)]; told {
			at = latest(at, last.Add(noticeEvery))
		}
	}
	return at
}

// written notes that lines about a master are written.
func (t *masterTold) written(s MasterStatus, lines []masterLine, now time.Time) {
	if s.State != MasterConnecting {
		t.state = s.State
	}
	if !isBad(s.State) {
		t.bad = ""
	} else {
		t.bad = badMessage(s)
	}
	t.wakes = t.wakes && s.WakeErr != nil
	t.full = t.full && s.MemoryErr != nil
	for _, l := range lines {
		t.at[topicOf(l.msg)] = now
		t.wakes = t.wakes || l.msg == msgWakes
		if l.msg == msgQuarantined {
			t.until = s.Until
		}
		t.full = t.full || l.msg == msgMemory
	}
}

// writeLines writes lines about masters, one for each message and reason.
func (n *notices) writeLines(lines []masterLine, now []MasterStatus) {
	for len(lines) > 0 {
		first := lines[0]
		var about []error
		lines = slices.DeleteFunc(lines, func(l masterLine) bool {
			if l.msg == first.msg {
				about = append(about, l.about)
			}
			return l.msg == first.msg
		})
		if first.msg == msgQuarantined {
			n.writeQuarantine(now)
			continue
		}
		for _, r := range reasons(about) {
			attrs := []any{"masters", strings.Join(r.masters, ", ")}
			if r.err != nil {
				attrs = append(attrs, "why", plain(r.err))
			}
			n.log.Log(context.Background(), first.level, first.msg, attrs...)
		}
	}
}

// writeQuarantine writes which masters are in quarantine, and whether locks have to wait for its end. It
// mentions redlock doctor --adopt only if the masters may be new.
func (n *notices) writeQuarantine(now []MasterStatus) {
	var errs []error
	var names []string
	var untils []time.Time
	unused := true // as far as this Client has seen, no master has ever granted a lock
	for i, s := range now {
		if s.State == MasterUp || n.told[i].voted {
			unused = false
		}
		if q := quarantineOf(s.Err); q != nil {
			names, untils = append(names, s.Name), append(untils, q.Until)
			errs = append(errs, &NodeError{Master: s.Name, Err: errors.New(q.Why)})
			unused = unused && q.Why == incarnation.Absent.String()
		}
	}
	if len(names) == 0 {
		return // the masters have been adopted
	}
	slices.SortFunc(untils, time.Time.Compare)
	msg, until, why := msgQuarantined, untils[len(untils)-1], grouped(errs)
	missing := quorum.Majority(len(now)) - (len(now) - len(names)) // how many of these a quorum needs
	if missing > 0 {
		msg, until = msgHaveToWait, untils[missing-1]
	}
	if r := reasons(errs); len(r) == 1 {
		why = plain(r[0].err)
	}
	attrs := []any{"masters", strings.Join(names, ", "), "until", until.Format(time.RFC3339),
		"for", time.Until(until).Round(100 * time.Millisecond).String(), "why", why}
	if missing > 0 && unused {
		hint := "wait; or, if these masters are new and nobody holds a lock on them: redlock doctor --adopt"
		if len(now) == 1 {
			hint = "wait; or, if this master is new and nobody holds a lock on it: redlock doctor --adopt --single"
		}
		attrs = append(attrs, "hint", hint)
	}
	n.log.Warn(msg, attrs...)
}
