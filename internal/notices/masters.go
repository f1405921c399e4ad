package notices

import (
	"cmp"
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
	msgMaxTTL      = "redlock: another client has declared a larger MaxTTL, so quarantines last longer: give every client the same"
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

// A topic is something about a master for which one fact holds at most. The first topic is its state.
type topic struct {
	told  fact      // what was written and still holds
	since time.Time // when there began to be something to write; zero: there is nothing
	bad   error     // why the master was first down or refused since the last line; nil: it was neither
}

// A fact is a message about a master. It holds if there is a reason.
type fact struct {
	msg   string
	why   error
	until time.Time // the end of a quarantine
}

// factsOf returns what is known of the first topics of a master.
func factsOf(s master.Status) []fact {
	switch {
	case s.State == master.Connecting: // as every master at first
		return nil
	case isBad(s.State):
		return []fact{{msg: badMessage(s), why: s.Err}}
	}
	state := fact{msg: msgWrites, why: s.WriteErr}
	if s.State == master.Quarantined {
		state = fact{msgQuarantined, s.Err, s.Until}
	}
	return []fact{state, {msg: msgWakes, why: s.WakeErr}, {msg: msgGuard, why: s.GuardErr}, {msg: msgLists, why: s.ListErr}}
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
	m := &n.masters[i]
	if isBad(s.State) {
		m.topics[0].bad = cmp.Or(m.topics[0].bad, s.Err)
	}
	m.voted = m.voted || s.State == master.Up
	n.wakeWriter()
}

// masterEvents returns what is true of masters, or over, and was not written yet. The caller holds n.mu.
func (n *Notices) masterEvents(status []master.Status) (lines []*event) {
	for i, s := range status {
		if s.MaxTTL > n.maxTTL {
			e := &event{Cause: Cause{Kind: s.MaxTTL.String()}, msg: msgMaxTTL, level: slog.LevelWarn, attrs: attrsOfTTL(n.maxTTL, s.MaxTTL, n.maxTTL)}
			e.tell = append(e.tell, func(*event) { n.maxTTL = max(n.maxTTL, s.MaxTTL) })
			lines = join(lines, e)
		}
		m, gather := &n.masters[i], gatherGood
		switch {
		case isBad(s.State):
			gather = gatherBad
		case s.State == master.Quarantined && !m.voted:
			gather = gatherFirst
		}
		for j, f := range factsOf(s) {
			if n.ends && j > 0 {
				break // a program that runs for a moment does not tell of defects
			}
			if f.why == nil {
				f = fact{}
			}
			t := &m.topics[j]
			news := t.news(f)
			if news.msg == "" {
				f.until = t.told.until // as it was written
				*t = topic{told: f}
				continue
			}
			t.since = cmp.Or(t.since, n.now)
			e := &event{msg: news.msg, due: t.since.Add(gather), masters: []string{n.names[i]}}
			e.tell = append(e.tell, func(*event) { *t = topic{told: f} })
			if news.why != nil {
				e.level, e.Kind, e.whys = slog.LevelWarn, reasons.Kind(news.why), []reasons.Failure{{Master: n.names[i], Err: news.why}}
			}
			lines = join(lines, e)
		}
	}
	for _, l := range lines {
		if l.msg == msgQuarantined {
			n.completeQuarantine(l, status)
		}
	}
	return lines
}

// news returns what is to be written of a topic for which f holds; the zero fact if there is nothing.
func (t *topic) news(f fact) fact {
	switch {
	case f.msg == "" && t.told.msg == "" && t.bad != nil:
		return fact{msg: msgMoment, why: t.bad}
	case f.msg == "":
		return fact{msg: ends[t.told.msg]}
	case f.msg == t.told.msg && f.until.Sub(t.told.until) <= untilShift:
		return fact{}
	}
	return f
}

// completeQuarantine has a line about quarantines name all masters, and say whether locks have to wait for the end. It
// mentions redlock doctor --adopt only if the masters may be new. The caller holds n.mu.
func (n *Notices) completeQuarantine(e *event, status []master.Status) {
	e.masters, e.whys = nil, nil
	var untils []time.Time
	unused := true // as far as this Client has seen, no master has ever granted a lock
	for i, s := range status {
		unused = unused && !n.masters[i].voted && s.State != master.Up
		if q := (*guard.QuarantineError)(nil); errors.As(s.Err, &q) {
			e.masters, untils = append(e.masters, n.names[i]), append(untils, q.Until)
			e.whys = append(e.whys, reasons.Failure{Master: n.names[i], Err: errors.New(q.Why)})
			unused = unused && q.Why == incarnation.Absent.String()
		}
	}
	slices.SortFunc(untils, time.Time.Compare)
	until := untils[len(untils)-1]
	missing := quorum.Majority(len(status)) - (len(status) - len(untils)) // how many of these a quorum needs
	if missing > 0 {
		e.msg, until = msgHaveToWait, untils[missing-1]
	}
	e.attrs = []any{"until", until.Format(time.RFC3339), "for", max(time.Until(until), 0).Round(100 * time.Millisecond).String()}
	if missing > 0 && unused {
		hint := "wait; or, if these masters are new and nobody holds a lock on them: redlock doctor --adopt"
		if len(status) == 1 {
			hint += " --single"
		}
		e.attrs = append(e.attrs, "hint", hint)
	}
}
