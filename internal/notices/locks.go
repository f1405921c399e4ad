package notices

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	msgLost       = "redlock: leases were lost"
	msgUnreleased = "redlock: releases were not answered by a quorum of masters: locks stay taken until they are, or for their TTL"
	msgLimits     = "redlock: clients use different limits for semaphores: the largest counts, so give every client the same"
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
	n.note(&event{Cause: why, msg: msgLost, names: []string{name}, due: time.Now().Add(gatherLosses)})
}

// Unreleased notes a release of the lock of this name that has failed, and that no caller waits for.
func (n *Notices) Unreleased(name string, why Cause) {
	n.note(&event{Cause: why, msg: msgUnreleased, names: []string{name}, due: time.Now().Add(gatherLosses)})
}

// OtherLimit notes that another limit than this Client's is in use for the semaphore of this name. It is written once.
func (n *Notices) OtherLimit(name string, own, other int) {
	if n.limits.Add(fmt.Sprint(own, " ", name)) {
		n.note(&event{Cause: Cause{Kind: fmt.Sprint(own, other)}, msg: msgLimits, names: []string{name}, attrs: []any{"limit", own, "other", other}})
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
	e.level = slog.LevelWarn
	n.mu.Lock()
	defer n.mu.Unlock()
	if lines := join(n.noted, e); len(lines) > len(n.noted) {
		n.noted = lines
		n.wakeWriter()
	}
}

// Waits are written after 1, 10 and 60 s, and then every minute. From the first line that names them on, all locks with one cause are
// due when the one that has waited longest is: while masters are down, one line names all waiting locks. A lock that starts to wait for the
// same cause is due at once, so it is written 10 s after the last line at the latest. A lock is remembered while goroutines that follow
// each other wait for it.

// warnAfter is how long a Lock waits before its wait is written.
const warnAfter = time.Second

// again returns how long a lock has been waited for when its next line is due, after one that was written after waited.
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

	before, after *Wait // in the order of Watch; guarded by Notices.mu
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

// forgottenAfter is for how long no wait for a lock must have been long, so that the next one is written as the first was.
const forgottenAfter = 2 * every

// A lock is one that is waited for, or was lately.
type lock struct {
	Cause           // of the waits
	first time.Time // when the first of them began
	due   time.Time // when they are written next
	look  time.Time // when the cause is determined next: after 10 s, and when they are due
	seen  time.Time // when one was last found to be long
}

// longWaits returns the waits that have lasted for at least warnAfter. The caller holds n.mu.
func (n *Notices) longWaits() (long []*Wait) {
	for w := n.waits.after; w != &n.waits && !n.ends; w = w.after {
		if at := w.Began.Add(warnAfter); at.After(n.now) {
			n.due(latest(at, n.now.Add(waitTick))) // waitTick: many waits end before a line is due
			break                                  // those behind it were watched later, and are found when it is long, or has ended
		}
		long = append(long, w)
	}
	return long
}

// waitEvents returns the events that waits last.
func (n *Notices) waitEvents(long []*Wait) (lines []*event) {
	maps.DeleteFunc(n.locks, func(_ string, l *lock) bool { return n.now.Sub(l.seen) > forgottenAfter })
	slices.SortStableFunc(long, func(a, b *Wait) int { return strings.Compare(a.Name, b.Name) })
	for i, w := range long {
		l := n.locks[w.Name]
		if l == nil {
			l = &lock{first: w.Began}
			n.locks[w.Name] = l
		}
		l.seen = n.now
		if before := l.Cause; !l.look.After(n.now) {
			l.Cause, l.look = w.On.WaitsFor(), n.now.Add(every)
			if l.Kind != before.Kind || l.InVain != before.InVain {
				l.due = n.now // a line about another cause does not name it
			}
		}
		e := &event{Cause: l.Cause, msg: msgWaiting, level: slog.LevelWarn, due: l.due, first: l.first, began: w.Began}
		switch {
		case e.InVain:
			e.msg, e.level = msgInVain, slog.LevelError
		case e.Held && !w.NoError:
			e.level = slog.LevelInfo
		}
		if i == 0 || w.Name != long[i-1].Name { // a thousand goroutines may wait for one lock
			e.names, e.holders = []string{w.Name}, []string{e.Holder}
			e.tell = append(e.tell, func(line *event) {
				l.due = line.first.Add(again(n.now.Sub(line.first)))
				l.look = earliest(l.look, l.due)
				n.next[line.key()] = earliest(n.next[line.key()], l.due) // 10 s is only 9 s after the first line
			})
		}
		if w.Endless {
			e.endless = 1
		}
		lines = join(lines, e)
	}
	return lines
}
