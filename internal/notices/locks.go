package notices

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/master"
)

const (
	msgLost       = "redlock: leases were lost"
	msgUnreleased = "redlock: releases were not answered by a quorum of masters: locks stay taken until they are, or for their TTL"
	msgLimits     = "redlock: clients use different limits for semaphores: the largest counts, so give every client the same"
	msgMaxTTL     = "redlock: another client has declared a larger MaxTTL, so quarantines last longer: give every client the same"
	msgRaising    = "redlock: this Client raises the MaxTTL of the masters: from now on all locks have to wait for it, and 2s, when a majority of the masters restarts"
)

// gatherLosses is how long the goroutine waits for further losses with the same cause.
const gatherLosses = 50 * time.Millisecond

// limitsFor is for how long the other limit of a semaphore is not written again.
const limitsFor = 24 * time.Hour

// raiseWithin is how long Raising waits for the Logger.
const raiseWithin = 250 * time.Millisecond

// Lost notes a lost lease of the lock of this name.
func (n *Notices) Lost(name string, why Cause) {
	n.note(&event{Cause: why, msg: msgLost, names: []string{name}, gather: gatherLosses})
}

// Unreleased notes a release of the lock of this name that has failed, and that no caller waits for.
func (n *Notices) Unreleased(name string, why Cause) {
	n.note(&event{Cause: why, msg: msgUnreleased, names: []string{name}, gather: gatherLosses})
}

// OtherLimit notes that another limit than this Client's is in use for the semaphore of this name. It is written once.
func (n *Notices) OtherLimit(name string, own, other int) {
	if n.limits.Add(fmt.Sprint(own, " ", name)) {
		n.note(&event{Cause: Cause{Kind: fmt.Sprint(own, other)}, msg: msgLimits, names: []string{name}, attrs: []any{"limit", own, "other", other}})
	}
}

// noteMaxTTL notes that another client has declared a larger MaxTTL, once for each larger value.
func (n *Notices) noteMaxTTL(status []master.Status) {
	before := n.maxTTL
	for _, s := range status {
		n.maxTTL = max(n.maxTTL, s.MaxTTL)
	}
	if n.maxTTL > before {
		n.note(&event{Cause: Cause{Kind: n.maxTTL.String()}, msg: msgMaxTTL, attrs: attrsOfTTL(before, n.maxTTL, before)})
	}
}

// Raising is called before this Client raises a master's MaxTTL. It returns when that is written, or when the Logger takes
// too long: a Logger that blocks must not keep the Client from connecting. If no client has declared a MaxTTL there, the
// default is expected, and not written.
func (n *Notices) Raising(before, now time.Duration) {
	if before == 0 && now <= n.defaultTTL {
		return
	}
	n.raise.Do(func() {
		n.note(&event{msg: msgRaising, attrs: attrsOfTTL(before, now, cmp.Or(before, n.defaultTTL)), written: n.raised})
	})
	select {
	case <-n.raised:
	case <-time.After(raiseWithin):
	}
}

// attrsOfTTL returns what is said of a MaxTTL that becomes longer.
func attrsOfTTL(before, now, usual time.Duration) []any {
	return []any{"before", before.String(), "now", now.String(),
		"hint", "to lower it, stop all clients, and then: redlock doctor --adopt --max-ttl " + usual.String()}
}

// note notes what has happened to a lock, or to all.
func (n *Notices) note(e *event) {
	e.began, e.level = time.Now(), slog.LevelWarn
	n.mu.Lock()
	defer n.mu.Unlock()
	if lines := join(n.noted, e); len(lines) > len(n.noted) {
		n.noted = lines
		n.wakeWriter()
	}
}

// Waits are written after 1, 10 and 60 s, and then every minute. The schedule belongs to the cause of the
// waits, not to each wait: while masters are down, one line names all waiting locks. A lock that starts to
// wait for the same cause is written 10 s after the last line at the latest.

// warnAfter is how long a Lock waits before its wait is written.
const warnAfter = time.Second

// again returns how long the longest wait has lasted when the next line about it is due, after a line that was written when
// it had lasted for waited.
func again(waited time.Duration) time.Duration {
	if waited < 10*time.Second {
		return 10 * time.Second
	}
	return waited.Truncate(time.Minute) + time.Minute
}

// waitTick is the precision of the schedule.
const waitTick = 100 * time.Millisecond

const (
	msgWaiting = "redlock: still waiting for locks"
	msgInVain  = "redlock: waiting for locks in vain: waiting cannot help until the cause is mended"
)

// A Wait is a call that waits for a lock, and may have to be written. It is part of what waits: goroutines that pass a lock on
// wait a million times a second. Its exported fields are immutable from Watch on.
type Wait struct {
	Began   time.Time // when the call began
	Name    string    // of the lock
	NoError bool      // the call returns no error, so nothing but the Logger tells of its wait
	Endless bool      // the call has no deadline
	On      Waiter    // says why

	// Guarded by Notices.mu:
	seen          bool  // it was found to be long
	before, after *Wait // in the order of Watch
}

// A Waiter says why it waits.
type Waiter interface {
	// WaitsFor returns why the wait lasts now. It is called if the wait lasts for long. Waits for one name have one cause.
	WaitsFor() Cause
}

// Watch notes that a call waits. A Wait is watched once.
func (n *Notices) Watch(w *Wait) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.before, w.after = n.waits.before, &n.waits
	w.before.after, n.waits.before = w, w
	if at := w.Began.Add(warnAfter); at.Before(n.wake) {
		n.wake = at // waits that begin later need not wake the goroutine
		n.wakeWriter()
	}
}

// Unwatch notes the end of a wait.
func (n *Notices) Unwatch(w *Wait) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.before.after, w.after.before = w.after, w.before
	w.before, w.after = nil, nil
}

// longWaits returns the waits that have lasted for at least warnAfter, if their causes are to be determined now: every 10 s, or if
// another wait has become long. The caller holds n.mu.
func (n *Notices) longWaits() (long []*Wait) {
	if n.ends {
		return nil
	}
	isNew := false
	for w := n.waits.after; w != &n.waits; w = w.after {
		if at := w.Began.Add(warnAfter); at.After(n.now) {
			n.due(latest(at, n.now.Add(waitTick))) // waitTick: many waits end before a line is due
			break                                  // those behind it were watched later, and are found when it is long, or has ended
		}
		long, isNew, w.seen = append(long, w), isNew || !w.seen, true
	}
	if len(long) == 0 || !isNew && !n.due(n.look) {
		return nil
	}
	n.look = n.now.Add(every)
	return long
}

// waitEvents returns the events that waits last.
func waitEvents(long []*Wait) (lines []*event) {
	causes := make(map[string]Cause) // by name: a thousand goroutines may wait for one lock
	for _, w := range long {
		e := &event{began: w.Began, msg: msgWaiting, level: slog.LevelWarn, wait: true}
		var known bool
		if e.Cause, known = causes[w.Name]; !known {
			e.Cause, e.names = w.On.WaitsFor(), []string{w.Name}
			causes[w.Name] = e.Cause
		}
		switch {
		case e.InVain:
			e.msg, e.level = msgInVain, slog.LevelError
		case e.Held && !w.NoError:
			e.level = slog.LevelInfo
		}
		if e.Holder != "" {
			e.holders = []string{e.Holder}
		}
		if w.Endless {
			e.endless = 1
		}
		lines = join(lines, e)
	}
	for _, l := range lines {
		slices.Sort(l.names)
		slices.Sort(l.holders)
		l.holders = slices.Compact(l.holders)
	}
	return lines
}
