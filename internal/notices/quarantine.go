package notices

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/reasons"
)

const (
	msgQuarantined = "redlock: masters are in quarantine, and do not vote"
	msgHaveToWait  = msgQuarantined + ": locks have to wait"
	msgMaxTTL      = "redlock: another client has declared a larger MaxTTL, so quarantines last longer: give every client the same"
	msgRaising     = "redlock: this Client raises the MaxTTL of the masters: from now on all locks have to wait for it, and 2s, when a majority of the masters restarts"
	hintMaxTTL     = "to lower it, stop all clients, and then: redlock doctor --adopt --max-ttl "
)

// untilShift is by how much the end of a quarantine may differ from the one that was written. Each new connection to the
// same memory computes it anew.
const untilShift = time.Second

// writeQuarantine writes which masters are in quarantine, and whether locks have to wait for its end. It
// mentions redlock doctor --adopt only if the masters may be new.
func (n *Notices) writeQuarantine(now []master.Status) {
	var failures []reasons.Failure
	var names []string
	var untils []time.Time
	unused := true // as far as this Client has seen, no master has ever granted a lock
	for i, s := range now {
		unused = unused && s.State != master.Up && !n.told[i].voted
		if q := (*guard.QuarantineError)(nil); errors.As(s.Err, &q) {
			names, untils = append(names, n.names[i]), append(untils, q.Until)
			failures = append(failures, reasons.Failure{Master: n.names[i], Err: errors.New(q.Why)})
			unused = unused && q.Why == incarnation.Absent.String()
		}
	}
	if len(names) == 0 {
		return // the masters have been adopted
	}
	slices.SortFunc(untils, time.Time.Compare)
	msg, until := msgQuarantined, untils[len(untils)-1]
	missing := quorum.Majority(len(now)) - (len(now) - len(names)) // how many of these a quorum needs
	if missing > 0 {
		msg, until = msgHaveToWait, untils[missing-1]
	}
	why := reasons.Text(failures)
	if r := reasons.Group(failures); len(r) == 1 {
		why = reasons.Plain(r[0].Err)
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

// writeMaxTTL writes that another client has declared a larger MaxTTL, once for each larger value.
func (n *Notices) writeMaxTTL(now []master.Status) {
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
	written     chan struct{} // closed when the line is written
}

// raiseWithin is how long Raising waits for the Logger.
const raiseWithin = 250 * time.Millisecond

// Raising is called before this Client raises a master's MaxTTL. It returns when that is written, or when the Logger takes
// too long: a Logger that blocks must not keep the Client from connecting. If no client has declared a MaxTTL there, the
// default is expected, and not written.
func (n *Notices) Raising(before, now time.Duration) {
	if before == 0 && now <= n.defaultTTL {
		return
	}
	n.mu.Lock()
	if n.raise == nil {
		n.raise = &raise{before: before, now: now, written: make(chan struct{})}
		n.wakeWriter()
	}
	r := n.raise
	n.mu.Unlock()
	select {
	case <-r.written:
	case <-time.After(raiseWithin):
	}
}

// writeRaise writes once that this Client raises MaxTTL.
func (n *Notices) writeRaise() {
	n.mu.Lock()
	r := n.raise
	n.mu.Unlock()
	if r == nil || n.raised {
		return
	}
	n.raised = true
	n.log.Warn(msgRaising, "before", r.before.String(), "now", r.now.String(), "hint", hintMaxTTL+cmp.Or(r.before, n.defaultTTL).String())
	close(r.written)
}
