// Package notices writes to a Logger what callers of Lock do not see otherwise: changes of masters, long waits, lost
// leases, and releases that fail. Events with the same cause are one line, however many masters, locks or leases are
// concerned. The user's Logger delays neither masters nor leases.
//
//   - notices.go: which events are one line, when it is due, and the goroutine that writes it.
//   - locks.go: what happens to locks: losses, failed releases, other limits of semaphores, and a larger MaxTTL.
//   - masters.go: what is true of masters, and was not written yet.
//   - waits.go: long waits.
package notices

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/reasons"
	"github.com/redlock-go/redlock/internal/recent"
)

// every is how often the same event may be logged. A master that goes up and down repeatedly, or a thousand waiting
// goroutines, must not fill a disk.
const every = 10 * time.Second

// forgottenAfter is for how long no event of a line must have been found, so that the next one is written as the first
// was. Waits that last are looked for every 10 s at least.
const forgottenAfter = 2 * every

// idle is how long the goroutine that writes sleeps if nothing is pending.
const idle = time.Hour

// Notices are the events of one Client.
//
// One goroutine writes. The others only note events, so a Logger that is slow, or blocked by a full pipe,
// does not delay a renewal.
type Notices struct {
	log        *slog.Logger  // immutable
	names      []string      // immutable; of the masters
	defaultTTL time.Duration // immutable; the MaxTTL of a Client without Options
	poke       chan struct{} // cap 1: an event was noted
	stop       chan struct{} // closed to end the goroutine
	done       chan struct{} // closed when it has ended
	limits     *recent.Set   // immutable; the semaphores for which another limit was noted, with that of this Client
	raise      sync.Once     // notes that this Client raises MaxTTL
	raised     chan struct{} // closed when that is written

	mu      sync.Mutex // guards what follows
	noted   []*event   // that happened to locks, and were not written yet: one for each line
	masters []subject
	waits   Wait      // the list of all: the first is behind it, and the last before it
	next    time.Time // when the goroutine that writes looks for events at the latest

	// Used only by the goroutine that writes:
	status func(i int) master.Status
	lines  map[string]*line // that were written lately, by the key of their events; of each master, by its name and the message
	look   time.Time        // when the causes of waits are determined next
	maxTTL time.Duration    // the Client's MaxTTL, or the largest that was noted
	now    time.Time        // when it woke
	wake   time.Time        // when it wakes next
	ends   bool             // it wakes for the last time: everything is due but waits
}

// A Cause is why a lock is waited for, or why a lease was lost or a release failed.
type Cause struct {
	Kind   string // equal for events that become one line: see reasons.Kind
	Text   string // for people
	Holder string // who holds the lock, if that is known
	Held   bool   // somebody holds the lock, which ends by itself
	InVain bool   // waiting cannot help: somebody has to mend something
}

// An event is what a line tells. Events with the same message and the same Kind are one line.
type event struct {
	Cause             // of the event that began first, if there are several
	began   time.Time // when it happened, or began to be true
	msg     string
	level   slog.Level
	of      string   // what the names are of: "names" of locks, or "masters"
	names   []string // of a wait all; otherwise reasons.NamesMost at most
	more    int      // how many names were left out
	holders []string
	attrs   []any         // at the end of the line
	gather  time.Duration // how long further events are waited for before the line is written
	wait    bool          // the line comes again while the wait lasts
	endless int           // how many of the waits have no deadline
	taken   []func()      // called under Notices.mu when the line is about to be written
	written chan struct{} // closed when the line is written; nil: nobody waits for that
}

const (
	ofLocks   = "names"
	ofMasters = "masters"
)

func (e *event) key() string { return e.msg + e.Kind }

// join adds an event to those of its line.
func join(lines []*event, e *event) []*event {
	i := slices.IndexFunc(lines, func(l *event) bool { return l.msg == e.msg && l.Kind == e.Kind })
	if i < 0 {
		return append(lines, e)
	}
	l := lines[i]
	if e.began.Before(l.began) {
		l.Cause, l.began = e.Cause, e.began
	}
	for _, holder := range e.holders {
		if !slices.Contains(l.holders, holder) {
			l.holders = append(l.holders, holder)
		}
	}
	for _, name := range e.names {
		if l.wait || len(l.names) < reasons.NamesMost {
			l.names = append(l.names, name)
		} else {
			l.more++
		}
	}
	l.level, l.endless, l.taken = max(l.level, e.level), l.endless+e.endless, append(l.taken, e.taken...)
	return lines
}

// A line is one that was written lately.
type line struct {
	first time.Time // when the first event of the first such line began
	last  time.Time // when the last such line was written
	seen  time.Time // when such an event was last found
	names []string  // in the last line
}

// next returns when e is to be written. l is nil if no such line was written lately.
func (l *line) next(e *event) time.Time {
	at := e.began.Add(e.gather)
	if l == nil {
		return at
	}
	limit := l.last.Add(every)
	if !e.wait {
		return latest(at, limit)
	}
	at = l.first.Add(again(l.last.Sub(l.first)))
	isNew := func(name string) bool { _, was := slices.BinarySearch(l.names, name); return !was }
	if limit.Before(at) && slices.ContainsFunc(e.names, isNew) {
		return limit
	}
	return at
}

// New returns the Notices of a Client whose masters have these names, and which has declared maxTTL.
func New(log *slog.Logger, names []string, maxTTL, defaultTTL time.Duration) *Notices {
	n := &Notices{
		log:        log,
		names:      names,
		defaultTTL: defaultTTL,
		maxTTL:     maxTTL,
		poke:       make(chan struct{}, 1),
		stop:       make(chan struct{}),
		done:       make(chan struct{}),
		masters:    make([]subject, len(names)),
		limits:     recent.NewSet(limitsFor),
		raised:     make(chan struct{}),
		next:       time.Now().Add(idle),
		lines:      make(map[string]*line),
	}
	n.waits.before, n.waits.after = &n.waits, &n.waits
	return n
}

// Run writes events until Stop is called, and then the pending events, except waits. status returns the present status
// of a master.
func (n *Notices) Run(status func(i int) master.Status) {
	defer close(n.done)
	n.status = status
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for !n.ends {
		n.writeDue()
		timer.Reset(max(time.Until(n.wake), time.Millisecond)) // not zero: see package bubbletest
		select {
		case <-n.poke:
		case <-timer.C:
		case <-n.stop:
			n.ends = true
		}
	}
	n.writeDue()
}

// Stop ends Run, and returns a channel that is closed when Run has ended. It must be called once.
func (n *Notices) Stop() <-chan struct{} {
	close(n.stop)
	return n.done
}

// wakeWriter wakes the goroutine that writes.
func (n *Notices) wakeWriter() {
	select {
	case n.poke <- struct{}{}:
	default:
	}
}

// due reports whether what is to be done at a time is due now. If it is not, the goroutine wakes then.
func (n *Notices) due(at time.Time) bool {
	if n.ends || !at.After(n.now) {
		return true
	}
	n.wake = earliest(n.wake, at)
	return false
}

// writeDue writes the lines that are due.
func (n *Notices) writeDue() {
	n.now = time.Now()
	n.wake = n.now.Add(idle)
	status := make([]master.Status, len(n.names))
	for i := range status {
		status[i] = n.status(i)
	}
	waits := n.waitsNews() // without the mutex: it asks for their causes
	n.noteMaxTTL(status)
	n.mu.Lock()
	due := n.take(slices.Concat(n.noted, n.mastersNews(status), waits))
	n.noted = slices.DeleteFunc(n.noted, func(e *event) bool { return slices.Contains(due, e) })
	for _, e := range waits {
		n.look = earliest(n.look, n.lines[e.key()].next(e))
		n.due(n.look)
	}
	n.next = n.wake
	n.mu.Unlock()
	for _, e := range due {
		n.write(e)
	}
}

// take returns the events that are due, and notes that they are written. The caller holds n.mu.
func (n *Notices) take(all []*event) (due []*event) {
	maps.DeleteFunc(n.lines, func(_ string, l *line) bool { return n.now.Sub(l.seen) > forgottenAfter })
	for _, e := range all {
		l := n.lines[e.key()]
		if l != nil {
			l.seen = n.now
		}
		if !n.due(l.next(e)) {
			continue
		}
		due = append(due, e)
		for _, f := range e.taken {
			f()
		}
		if e.of == ofMasters {
			continue
		}
		if l == nil {
			l = &line{first: e.began}
			n.lines[e.key()] = l
		}
		l.last, l.seen, l.names = n.now, n.now, e.names
	}
	return due
}

// write writes a line.
func (n *Notices) write(e *event) {
	var args []any
	add := func(is bool, key string, value any) {
		if is {
			args = append(args, key, value)
		}
	}
	add(len(e.names) > 0, e.of, reasons.Names(e.names, len(e.names)+e.more))
	add(e.wait, "waited", n.now.Sub(e.began).Round(time.Millisecond).String())
	add(e.Text != "", "why", e.Text)
	add(len(e.holders) > 0, "holders", reasons.Names(e.holders, len(e.holders)))
	add(e.InVain && e.endless > 0, "waits_without_deadline", e.endless)
	n.log.Log(context.Background(), e.level, e.msg, append(args, e.attrs...)...)
	if e.written != nil {
		close(e.written)
	}
}

func earliest(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }
func latest(a, b time.Time) time.Time   { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
