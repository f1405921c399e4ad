package notices

import (
	"maps"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/reasons"
)

// Waits are written after 1, 10 and 60 s, and then every minute. The schedule belongs to the cause of the
// waits, not to each wait: while masters are down, one line names all waiting locks. A lock that starts to
// wait for the same cause is written 10 s after the last line at the latest.

// warnAfter is how long a Lock waits before its wait is written.
const warnAfter = time.Second

// forgottenAfter is for how long no such wait must have been found, so that the next one is written as the first was. While such waits last,
// they are looked for every 10 s at least.
const forgottenAfter = 2 * every

// waitTick is the precision of the schedule.
const waitTick = 100 * time.Millisecond

// A Wait is one that may have to be written. It is part of what waits: goroutines that pass a lock on wait a million times a second.
type Wait struct {
	began time.Time // immutable, as what follows, from Watch on
	name  string    // of the lock
	of    Waiting
	on    Waiter

	told time.Time // when it was last written; used only by the goroutine that writes

	before, after *Wait // in the order in which they began; guarded by Notices.mu
}

// A Waiter says why it waits.
type Waiter interface {
	// WaitsFor returns why the wait lasts now. It is called if the wait lasts for long. Waits for one name have one cause.
	WaitsFor() Cause
}

// A Waiting says what kind of call waits.
type Waiting struct {
	NoError bool // it returns no error, so nothing but the Logger tells of its wait
	Endless bool // it has no deadline
}

// A reason is what was written about waits with one cause.
type reason struct {
	first time.Time       // when the longest wait in the first line began
	last  time.Time       // when the last line was written
	seen  time.Time       // when such a wait was last found
	names map[string]bool // the locks in the last line
}

// next returns when the next line is due.
func (r *reason) next() time.Time {
	waited := r.last.Sub(r.first)
	if waited < 10*time.Second {
		return r.first.Add(10 * time.Second)
	}
	return r.first.Add(waited.Truncate(time.Minute) + time.Minute)
}

// A group is a set of waits that have the same cause now.
type group struct {
	waits   []*Wait
	longest *Wait
	cause   Cause // why the longest wait lasts
	names   map[string]bool
	holders map[string]bool // those that are known
}

// Watch notes that a wait for the lock of a name begins. A Wait is watched once.
func (n *Notices) Watch(w *Wait, name string, of Waiting, on Waiter) {
	w.began, w.name, w.of, w.on = time.Now(), name, of, on
	n.mu.Lock()
	defer n.mu.Unlock()
	w.before, w.after = n.waits.before, &n.waits
	w.before.after, n.waits.before = w, w
	if at := w.began.Add(warnAfter); n.next.IsZero() || at.Before(n.next) {
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
func (n *Notices) longWaits(d *deadlines) (long []*Wait) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := n.waits.after; w != &n.waits; w = w.after {
		if at := w.began.Add(warnAfter); at.After(d.now) {
			d.due(latest(at, d.now.Add(waitTick))) // waitTick: many waits end before a line is due
			break                                  // those behind it began later
		}
		long = append(long, w)
	}
	return long
}

// writeWaits writes which locks are waited for, and why.
func (n *Notices) writeWaits(d *deadlines) {
	long := n.longWaits(d)
	check := n.checked.Add(every)
	for cause, r := range n.reasons {
		if d.now.Sub(r.seen) > forgottenAfter {
			delete(n.reasons, cause)
		} else if next := r.next(); next.Before(check) {
			check = next
		}
	}
	for _, w := range long {
		if w.told.IsZero() {
			check = d.now
		}
	}
	if len(long) == 0 || !d.due(check) {
		return
	}
	n.checked = d.now
	for cause, g := range grouped(long) {
		if n.isDue(d, cause, g) {
			n.writeWait(d, cause, g)
		}
	}
}

// grouped groups waits by the kind of their causes.
func grouped(waits []*Wait) map[string]*group {
	causes := make(map[string]Cause) // by name: a thousand goroutines may wait for one lock
	groups := make(map[string]*group)
	for _, w := range waits {
		c, ok := causes[w.name]
		if !ok {
			c = w.on.WaitsFor()
			causes[w.name] = c
		}
		g := groups[c.Kind]
		if g == nil {
			g = &group{longest: w, cause: c, names: make(map[string]bool), holders: make(map[string]bool)}
			groups[c.Kind] = g
		}
		g.waits = append(g.waits, w)
		g.names[w.name] = true
		if c.Holder != "" {
			g.holders[c.Holder] = true
		}
		if w.began.Before(g.longest.began) {
			g.longest, g.cause = w, c
		}
	}
	return groups
}

// isDue reports whether a line about the waits with one cause is due.
func (n *Notices) isDue(d *deadlines, cause string, g *group) bool {
	r := n.reasons[cause]
	joined := false
	for _, w := range g.waits {
		joined = joined || (r == nil || !r.names[w.name]) && (w.told.IsZero() || d.due(w.told.Add(every)))
	}
	if r == nil {
		return joined
	}
	r.seen = d.now
	return d.due(r.next()) || joined && d.due(r.last.Add(every))
}

func (n *Notices) writeWait(d *deadlines, cause string, g *group) {
	r := n.reasons[cause]
	if r == nil {
		r = &reason{first: g.longest.began, seen: d.now}
		n.reasons[cause] = r
	}
	r.last, r.names = d.now, g.names
	d.due(r.next())
	for _, w := range g.waits {
		w.told = d.now
	}
	names := slices.Sorted(maps.Keys(g.names))
	args := []any{"names", reasons.Names(names, len(names)), "waited", d.now.Sub(g.longest.began).Round(time.Millisecond).String(), "why", g.cause.Text}
	if holders := slices.Sorted(maps.Keys(g.holders)); len(holders) > 0 {
		args = append(args, "holders", reasons.Names(holders, len(holders)))
	}
	switch {
	case g.cause.InVain:
		if endless := g.count(func(of Waiting) bool { return of.Endless }); endless > 0 {
			args = append(args, "waits_without_deadline", endless)
		}
		n.log.Error("redlock: waiting for locks in vain: waiting cannot help until the cause is mended", args...)
	case g.cause.Held && g.count(func(of Waiting) bool { return of.NoError }) == 0:
		n.log.Info(msgWaiting, args...)
	default:
		n.log.Warn(msgWaiting, args...)
	}
}

const msgWaiting = "redlock: still waiting for locks"

// count returns how many of the waits are of such calls.
func (g *group) count(are func(Waiting) bool) (n int) {
	for _, w := range g.waits {
		if are(w.of) {
			n++
		}
	}
	return n
}

// latest returns the latest of some times.
func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }
