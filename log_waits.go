package redlock

import (
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Waits are written after 1, 10 and 60 s, and then every minute. The schedule belongs to the cause of the
// waits, not to each wait: while masters are down, one line names all waiting locks. A lock that starts to
// wait for the same cause is written 10 s after the last line at the latest.

// warnAfter is how long a Lock waits before its wait is written.
const warnAfter = time.Second

// nextNotice returns how long a wait will have lasted when it is written next. It has lasted for waited now.
func nextNotice(waited time.Duration) time.Duration {
	switch {
	case waited < 10*time.Second:
		return 10 * time.Second
	case waited < time.Minute:
		return time.Minute
	}
	return waited.Truncate(time.Minute) + time.Minute
}

// waitTick is the precision of that schedule.
const waitTick = 100 * time.Millisecond

// A watched is a wait that may have to be written.
type watched struct {
	began time.Time    // immutable
	name  string       // immutable; of the lock
	why   func() error // immutable; returns why it lasts now
	told  time.Time    // when it was last written; used only by the goroutine that writes
}

// A waitReason is what was written about waits with one cause.
type waitReason struct {
	first time.Time       // when the longest wait in the first line began
	last  time.Time       // when the last line was written
	next  time.Time       // when the next line is due
	seen  time.Time       // when such a wait was last found
	names map[string]bool // the locks in the last line
}

// A waitGroup is a set of waits that have the same cause now.
type waitGroup struct {
	waits   []*watched
	longest *watched
	why     error // why the longest wait lasts
	names   map[string]bool
	holders map[string]bool // the owners that are known, and readers
}

// watch notes a wait. unwatch must be called when the wait ends.
func (n *notices) watch(w *wait) {
	l := w.locker
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.waits[w] = &watched{
		began: now,
		name:  l.name,
		why: func() error {
			err := l.taken(l.client.gates.Last(l.key))
			return l.client.owners.named(l.heldKey(err), err)
		},
	}
	if at := now.Add(warnAfter); n.next.IsZero() || at.Before(n.next) {
		n.next = at // waits that begin later need not wake the goroutine
		n.noted()
	}
}

func (n *notices) unwatch(w *wait) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.waits, w)
}

// longWaits returns the waits that have lasted for at least warnAfter.
func (n *notices) longWaits(d *deadlines) (long []*watched) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.waits {
		if at := w.began.Add(warnAfter); !at.After(d.now) {
			long = append(long, w)
		} else {
			d.due(latest(at, d.now.Add(waitTick))) // waitTick: many waits end before a line is due
		}
	}
	return long
}

// writeWaits writes which locks are waited for, and why.
func (n *notices) writeWaits(d *deadlines) {
	long := n.longWaits(d)
	check := n.checked.Add(noticeEvery)
	for cause, r := range n.reasons {
		if d.now.Sub(r.seen) > time.Minute {
			delete(n.reasons, cause)
		} else if r.next.Before(check) {
			check = r.next
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
	for cause, g := range grouping(long) {
		if n.isDue(d, cause, g) {
			n.writeWait(d, cause, g)
		}
	}
}

// grouping groups waits by cause.
func grouping(waits []*watched) map[string]*waitGroup {
	type known struct {
		cause string
		why   error
	}
	byName := make(map[string]known) // a thousand goroutines may wait for one lock
	groups := make(map[string]*waitGroup)
	for _, w := range waits {
		k, ok := byName[w.name]
		if !ok {
			k.why = w.why()
			k.cause = causeOf(k.why)
			byName[w.name] = k
		}
		g := groups[k.cause]
		if g == nil {
			g = &waitGroup{longest: w, why: k.why, names: make(map[string]bool), holders: make(map[string]bool)}
			groups[k.cause] = g
		}
		g.waits = append(g.waits, w)
		g.names[w.name] = true
		if q := (*QuorumError)(nil); errors.As(k.why, &q) && q.Owner != "" {
			g.holders[q.Owner] = true
		} else if q != nil && len(q.Readers) > 0 {
			g.holders[readersText(q.Readers)] = true
		}
		if w.began.Before(g.longest.began) {
			g.longest, g.why = w, k.why
		}
	}
	return groups
}

// isDue reports whether a line about the waits with one cause is due.
func (n *notices) isDue(d *deadlines, cause string, g *waitGroup) bool {
	r := n.reasons[cause]
	joined := false
	for _, w := range g.waits {
		joined = joined || (r == nil || !r.names[w.name]) && (w.told.IsZero() || d.due(w.told.Add(noticeEvery)))
	}
	if r == nil {
		return joined
	}
	r.seen = d.now
	return d.due(r.next) || joined && d.due(r.last.Add(noticeEvery))
}

func (n *notices) writeWait(d *deadlines, cause string, g *waitGroup) {
	r := n.reasons[cause]
	if r == nil {
		r = &waitReason{first: g.longest.began, seen: d.now}
		n.reasons[cause] = r
	}
	r.last, r.names = d.now, g.names
	r.next = r.first.Add(nextNotice(d.now.Sub(r.first)))
	d.due(r.next)
	for _, w := range g.waits {
		w.told = d.now
	}
	names := slices.Sorted(maps.Keys(g.names))
	why := unprefixed(g.why)
	if q := (*QuorumError)(nil); errors.As(g.why, &q) {
		why = q.unnamed()
	}
	args := []any{"names", listed(names, len(names)), "waited", d.now.Sub(g.longest.began).Round(time.Millisecond).String(), "why", why}
	if holders := slices.Sorted(maps.Keys(g.holders)); len(holders) > 0 {
		args = append(args, "holders", listed(holders, len(holders)))
	}
	n.log.Warn("redlock: still waiting for locks", args...)
}

// causeOf returns text that is equal for errors of different locks with one cause. It leaves out the names of
// the masters that failed, and all digits, because both change from attempt to attempt.
func causeOf(err error) string {
	q := (*QuorumError)(nil)
	if errors.Is(err, ErrHeld) {
		return "held"
	} else if !errors.As(err, &q) {
		return withoutDigits(err.Error())
	}
	causes := make(map[string]bool)
	for _, err := range q.Errs {
		if node := (*NodeError)(nil); errors.As(err, &node) {
			err = node.Err
		}
		switch {
		case err == errRefused, err == errNoAnswer, err == errUnawaited, err == errUnasked: // not a fault of the master
		case quarantineOf(err) != nil:
			causes["in quarantine"] = true
		case lateOf(err) != nil, isUnreachable(err):
			causes["down"] = true
		default:
			causes[withoutDigits(plain(err))] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(causes)), "; ")
}

// isUnreachable reports whether err is a failure of the network, or of a server that does not answer. One
// outage causes many such errors, one after the other.
func isUnreachable(err error) bool {
	var network net.Error
	text := err.Error()
	return errors.As(err, &network) || errors.Is(err, io.EOF) ||
		strings.HasPrefix(text, "connection ") || strings.HasPrefix(text, "no connection ") // texts of package master
}

func withoutDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }
