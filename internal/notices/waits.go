package notices

import (
	"log/slog"
	"slices"
	"time"
)

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

	seen          bool  // its cause was determined; used only by the goroutine that writes
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
	if at := w.Began.Add(warnAfter); at.Before(n.next) {
		n.next = at // waits that begin later need not wake the goroutine
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

// longWaits returns the waits that have lasted for at least warnAfter.
func (n *Notices) longWaits() (long []*Wait) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := n.waits.after; w != &n.waits; w = w.after {
		if at := w.Began.Add(warnAfter); at.After(n.now) {
			n.due(latest(at, n.now.Add(waitTick))) // waitTick: many waits end before a line is due
			break                                  // those behind it were watched later, and are found when it is long, or has ended
		}
		long = append(long, w)
	}
	return long
}

// waitsNews returns the waits that are long, if their causes are to be determined now.
func (n *Notices) waitsNews() (lines []*event) {
	if n.ends {
		return nil
	}
	long := n.longWaits()
	isNew := func(w *Wait) bool { return !w.seen }
	if len(long) == 0 || !slices.ContainsFunc(long, isNew) && !n.due(n.look) {
		return nil
	}
	n.look = n.now.Add(every)
	causes := make(map[string]Cause) // by name: a thousand goroutines may wait for one lock
	for _, w := range long {
		w.seen = true
		c, known := causes[w.Name]
		if !known {
			c = w.On.WaitsFor()
			causes[w.Name] = c
		}
		lines = join(lines, w.event(c, !known))
	}
	for _, l := range lines {
		slices.Sort(l.names)
		slices.Sort(l.holders)
	}
	return lines
}

// event returns the event that the wait lasts. named says whether it names the lock.
func (w *Wait) event(c Cause, named bool) *event {
	e := &event{Cause: c, began: w.Began, msg: msgWaiting, level: slog.LevelWarn, of: ofLocks, gather: warnAfter, wait: true}
	switch {
	case c.InVain:
		e.msg, e.level = msgInVain, slog.LevelError
	case c.Held && !w.NoError:
		e.level = slog.LevelInfo
	}
	if named {
		e.names = []string{w.Name}
	}
	if c.Holder != "" {
		e.holders = []string{c.Holder}
	}
	if w.Endless {
		e.endless = 1
	}
	return e
}
