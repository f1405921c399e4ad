// Package notices writes to a Logger what callers of Lock do not see otherwise: changes of masters, long waits, lost
// leases, and releases that fail. Events with the same cause are one line, however many masters, locks or leases are
// concerned. The user's Logger delays neither masters nor leases.
//
//   - notices.go: which events are one line, when it is due, and the goroutine that writes it.
//   - locks.go: losses, failed releases, other limits of semaphores, a larger MaxTTL, and long waits.
//   - masters.go: what is true of masters, and was not written yet.
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

// every is how often lines with the same message and cause may be written. A master that goes up and down repeatedly, or a thousand
// waiting goroutines, must not fill a disk.
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
	wake    time.Time // when the goroutine that writes wakes at the latest

	// Used only by the goroutine that writes:
	lines  map[string]*line // that were written lately, or are pending, by the key of their events
	look   time.Time        // when the causes of waits are determined next
	maxTTL time.Duration    // the Client's MaxTTL, or the largest that was noted
	now    time.Time        // when it woke
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
	Cause   // of the first, if there are several; without Text if it is about masters
	msg     string
	level   slog.Level
	began   time.Time     // when it happened, or began to be true
	gather  time.Duration // how long further events are waited for before the line is written
	names   []string      // of locks; of a wait all, otherwise reasons.NamesMost at most
	more    int           // how many names were left out
	holders []string
	masters []reasons.Failure // what is wrong with each; no error if it is over
	topics  []*topic          // of the masters
	attrs   []any             // at the end of the line
	wait    bool              // the line comes again while the wait lasts
	endless int               // how many of the waits have no deadline
	written chan struct{}     // closed when the line is written; nil: nobody waits for that
}

func (e *event) key() string { return e.msg + e.Kind }

// join adds an event to those of its line.
func join(lines []*event, e *event) []*event {
	i := slices.IndexFunc(lines, func(l *event) bool { return l.key() == e.key() })
	if i < 0 {
		return append(lines, e)
	}
	l := lines[i]
	l.began = earliest(l.began, e.began)
	for _, name := range e.names {
		if l.wait || len(l.names) < reasons.NamesMost {
			l.names = append(l.names, name)
		} else {
			l.more++
		}
	}
	l.holders, l.masters, l.topics = append(l.holders, e.holders...), append(l.masters, e.masters...), append(l.topics, e.topics...)
	l.level, l.endless = max(l.level, e.level), l.endless+e.endless
	return lines
}

// A line is what is known of the events of one key.
type line struct {
	first time.Time // when the first of them began
	seen  time.Time // when one was last found
	last  time.Time // when the last line was written; zero: none was
	names []string  // in the last line
}

// next returns when e is to be written. A wait is found when it is long, so the first line about it is due at once.
func (l *line) next(e *event) time.Time {
	limit := l.last.Add(every)
	if !e.wait {
		return latest(e.began.Add(e.gather), limit)
	}
	at := l.first.Add(again(l.last.Sub(l.first)))
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
		lines:      make(map[string]*line),
	}
	n.waits.before, n.waits.after = &n.waits, &n.waits
	return n
}

// Run writes events until Stop is called, and then the pending events, except waits. status returns the present status
// of a master.
func (n *Notices) Run(status func(i int) master.Status) {
	defer close(n.done)
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for !n.ends {
		timer.Reset(max(time.Until(n.writeDue(status)), time.Millisecond)) // not zero: see package bubbletest
		select {
		case <-n.poke:
		case <-timer.C:
		case <-n.stop:
			n.ends = true
		}
	}
	n.writeDue(status)
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

// due reports whether what is to be done at a time is due now. If it is not, the goroutine wakes then. The caller holds n.mu.
func (n *Notices) due(at time.Time) bool {
	if n.ends || !at.After(n.now) {
		return true
	}
	n.wake = earliest(n.wake, at)
	return false
}

// writeDue writes the lines that are due, and returns when it is to be called again at the latest.
func (n *Notices) writeDue(statusOf func(i int) master.Status) (wake time.Time) {
	status := make([]master.Status, len(n.names))
	for i := range status {
		status[i] = statusOf(i)
	}
	n.noteMaxTTL(status)
	n.mu.Lock()
	n.now = time.Now()
	n.wake = n.now.Add(idle)
	long := n.longWaits()
	n.mu.Unlock()
	waits := waitEvents(long) // without the mutex: it asks for their causes
	n.mu.Lock()
	due := n.take(slices.Concat(n.noted, n.masterEvents(status), waits), status)
	n.noted = slices.DeleteFunc(n.noted, func(e *event) bool { return slices.Contains(due, e) })
	wake = n.wake
	n.mu.Unlock()
	for _, e := range due {
		n.write(e)
	}
	return wake
}

// take returns the events that are due, and notes that they are written. The caller holds n.mu.
func (n *Notices) take(all []*event, status []master.Status) (due []*event) {
	maps.DeleteFunc(n.lines, func(_ string, l *line) bool { return n.now.Sub(l.seen) > forgottenAfter })
	for _, e := range all {
		l := n.lines[e.key()]
		if l == nil {
			l = &line{first: e.began}
			n.lines[e.key()] = l
		}
		l.seen = n.now
		if n.due(l.next(e)) {
			l.last, l.names = n.now, e.names
			if len(e.masters) > 0 {
				n.tell(e, status)
			}
			due = append(due, e)
		}
		if e.wait {
			n.look = earliest(n.look, l.next(e))
			n.due(n.look)
		}
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
	add(len(e.names) > 0, "names", reasons.Names(e.names, len(e.names)+e.more))
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
