package notices

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
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
	msgDown        = "redlock: masters are down"
	msgRefused     = "redlock: masters must not vote"
	msgPassword    = "redlock: masters reject the user or the password"
	msgNoPassword  = "redlock: masters require a password"
	msgRights      = "redlock: masters deny the user a right"
	msgTLS         = "redlock: TLS with masters fails"
	msgMoment      = "redlock: masters were down for a moment"
	msgUp          = "redlock: masters are up again"
	msgQuarantined = "redlock: masters are in quarantine, and do not vote"
	msgHaveToWait  = msgQuarantined + ": locks have to wait"
	msgReleased    = "redlock: masters vote again: their quarantine is over"
	msgWrites      = "redlock: masters grant no locks: they refuse writes"
	msgWritable    = "redlock: masters accept writes again"
	msgWakes       = "redlock: masters do not wake waiters"
	msgGuard       = "redlock: restarts of masters may go unnoticed"
	msgLists       = "redlock: other clients have another list of masters"
)

// ends are the messages that another one does not hold any more. The end of a message that is not here is not written.
var ends = map[string]string{msgDown: msgUp, msgRefused: msgUp, msgPassword: msgUp, msgNoPassword: msgUp, msgRights: msgUp, msgTLS: msgUp, msgQuarantined: msgReleased, msgWrites: msgWritable}

// untilShift is by how much the end of a quarantine may differ from the one that was written. Each new connection to the
// same memory computes it anew.
const untilShift = time.Second

// A subject is a master: what was written about it, and what the goroutine that writes may not have seen.
type subject struct {
	topics [4]topic // in the order of factsOf
	voted  bool     // it was up once
}

// A topic is something about a master for which one message holds at most. The first topic is its state.
type topic struct {
	written string    // the message that was written and still holds; empty: there is none
	until   time.Time // the end of the quarantine, if that was written
	since   time.Time // when there began to be something to write; zero: there is nothing
	bad     error     // why the master was first down or refused since then; nil: it was neither
}

// A fact is the message that holds of a topic, and why. It is empty if nothing is wrong.
type fact struct {
	msg string
	err error
}

// factsOf returns what is known of the first topics.
func factsOf(s master.Status) []fact {
	switch {
	case s.State == master.Connecting: // as every master at first
		return nil
	case isBad(s.State):
		return []fact{{badMessage(s), s.Err}}
	}
	facts := []fact{{msgWrites, s.WriteErr}, {msgWakes, s.WakeErr}, {msgGuard, s.GuardErr}, {msgLists, s.ListErr}}
	if s.State == master.Quarantined {
		facts[0] = fact{msgQuarantined, s.Err}
	}
	for i := range facts {
		if facts[i].err == nil {
			facts[i].msg = ""
		}
	}
	return facts
}

func isBad(s master.State) bool { return s == master.Down || s == master.Refused }

// badMessage returns the message for a master that is down or refused.
func badMessage(s master.Status) string {
	says := func(word string) bool { return strings.Contains(s.Err.Error(), word) }
	switch {
	case s.WriteErr != nil: // a new connection cannot be made ready
		return msgWrites
	case says("WRONGPASS"), says("invalid password"):
		return msgPassword
	case says("NOAUTH"):
		return msgNoPassword
	case says("NOPERM"):
		return msgRights
	case remedy.IsTLS(s.Err):
		return msgTLS
	case s.State == master.Refused:
		return msgRefused
	}
	return msgDown
}

// MasterChanged notes a new state of a master, or that it has a defect or has it no longer.
func (n *Notices) MasterChanged(i int, s master.Status) {
	n.mu.Lock()
	defer n.mu.Unlock()
	state := &n.masters[i].topics[0]
	if state.bad == nil && isBad(s.State) {
		state.bad, state.since = s.Err, time.Now() // further masters may follow, even if better news was about to be written
	}
	n.masters[i].voted = n.masters[i].voted || s.State == master.Up
	n.wakeWriter()
}

// mastersNews returns what is true of masters and was not written yet. The caller holds n.mu.
func (n *Notices) mastersNews(status []master.Status) (lines []*event) {
	for i, s := range status {
		t := &n.masters[i]
		for j, f := range factsOf(s) {
			if n.ends && j > 0 {
				break // a program that runs for a moment does not tell of defects
			}
			about := &t.topics[j]
			e := about.news(f, s, !t.voted)
			if e == nil {
				continue
			}
			if about.since.IsZero() {
				about.since = n.now
			}
			key := n.names[i] + e.msg // the limit holds for each master
			if l := n.lines[key]; l != nil && !n.due(l.last.Add(every)) {
				continue
			}
			e.of, e.names, e.began = ofMasters, []string{n.names[i]}, about.since
			e.taken = []func(){func() {
				*about = topic{written: f.msg, until: s.Until}
				n.lines[key] = &line{last: n.now, seen: n.now}
			}}
			if e.msg == msgQuarantined {
				n.tellQuarantine(e, status)
			}
			lines = join(lines, e)
		}
		if isBad(s.State) {
			n.due(n.now.Add(every)) // masters do not report that the reason has changed
		}
	}
	return lines
}

// news returns what is to be written about a topic, of which f holds now; nil if there is nothing.
func (t *topic) news(f fact, s master.Status, isNew bool) *event {
	e := &event{msg: f.msg, level: slog.LevelWarn, gather: gatherGood}
	// After a restart in quarantine, the quarantine has begun again, and the time is told anew.
	again := f.msg == msgQuarantined && s.Until.Sub(t.until) > untilShift
	switch {
	case f.msg == "" && t.written == "" && t.bad != nil:
		e.msg, f.err = msgMoment, t.bad
	case f.msg == t.written && !again, f.msg == "" && t.written == msgGuard: // msgGuard is written once
		*t = topic{written: t.written, until: t.until}
		return nil
	case f.msg == "" && ends[t.written] == "":
		*t = topic{}
		return nil
	case f.msg == "":
		e.msg, e.level = ends[t.written], slog.LevelInfo
	case isBad(s.State):
		e.gather = gatherBad
	case f.msg == msgQuarantined && t.written == "" && isNew:
		e.gather = gatherFirst
	}
	if f.err != nil {
		e.Text = reasons.Plain(f.err)
		e.Kind = e.Text
	}
	return e
}

// tellQuarantine words the line which says what masters are in quarantine, and whether locks have to wait for its end. It
// mentions redlock doctor --adopt only if the masters may be new. The caller holds n.mu.
func (n *Notices) tellQuarantine(e *event, status []master.Status) {
	var names []string
	var failures []reasons.Failure
	var untils []time.Time
	unused := true // as far as this Client has seen, no master has ever granted a lock
	for i, s := range status {
		unused = unused && !n.masters[i].voted && s.State != master.Up
		if q := (*guard.QuarantineError)(nil); errors.As(s.Err, &q) {
			names, untils = append(names, n.names[i]), append(untils, q.Until)
			failures = append(failures, reasons.Failure{Master: n.names[i], Err: errors.New(q.Why)})
			unused = unused && q.Why == incarnation.Absent.String()
		}
	}
	slices.SortFunc(untils, time.Time.Compare)
	until, all := untils[len(untils)-1], strings.Join(names, ", ")
	missing := quorum.Majority(len(status)) - (len(status) - len(names)) // how many of these a quorum needs
	if missing > 0 {
		e.msg, until = msgHaveToWait, untils[missing-1]
	}
	e.Cause, e.names = Cause{}, nil // all masters that are in quarantine are named
	e.attrs = []any{ofMasters, all, "until", until.Format(time.RFC3339), "for", max(time.Until(until), 0).Round(100 * time.Millisecond).String(),
		"why", strings.TrimPrefix(reasons.Text(failures), all+": ")} // a reason of all needs no names
	if missing > 0 && unused {
		which := "these masters are new and nobody holds a lock on them: redlock doctor --adopt"
		if len(status) == 1 {
			which = "this master is new and nobody holds a lock on it: redlock doctor --adopt --single"
		}
		e.attrs = append(e.attrs, "hint", "wait; or, if "+which)
	}
}
