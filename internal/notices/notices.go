// Package notices writes to a Logger what callers of Lock do not see otherwise: changes of masters, long waits, lost
// leases, and releases that fail. Events with the same cause are one line, however many masters, locks or leases are
// concerned. The user's Logger delays neither masters nor leases.
//
//   - notices.go: which events are one line, when it is due, and the goroutine that writes it.
//   - locks.go: losses, failed releases, other limits of semaphores, that this Client raises MaxTTL, and long waits.
//   - masters.go: what is true of masters.
package notices

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/reasons"
	"github.com/redlock-go/redlock/internal/recent"
)

// every is how often lines with the same message and cause may be written. A master that goes up and down repeatedly, or a thousand
// waiting goroutines, must not fill a disk.
const every = 10 * time.Second

// Notices are the events of one Client.
//
// One goroutine writes. The others only note events, so a Logger that is slow, or blocked by a full pipe, does not delay a
// renewal. The goroutine wakes when something is noted or due, and after 10 s. It then gathers all events: those that were noted, the
// waits that are long now, and what is true of the masters now.
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
	next   map[string]time.Time // when a line that was written lately may be written again, by the key of its events
	locks  map[string]*lock     // that are waited for, or were lately, by name
	maxTTL time.Duration        // the Client's MaxTTL, or the largest that was noted
	now    time.Time            // when it woke
	ends   bool                 // it wakes for the last time: everything is due but waits
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
	due     time.Time           // when it is to be written, if no such line was written lately
	names   []string            // of locks, the first reasons.NamesMost
	count   int                 // how many names there are
	masters []string            // the names of all
	whys    []reasons.Failure   // what is wrong with each of the masters; nil if it is over
	attrs   []any               // at the end of the line
	tell    []func(line *event) // notes that the line is written; the caller holds n.mu
	written chan struct{}       // closed when the line is written; nil: nobody waits for that

	// Of waits:
	first   time.Time // when the cause began to be waited for
	began   time.Time // when the longest wait began; zero: it is not about waits
	holders []string
	endless int // how many of the waits have no deadline
}

func (e *event) key() string { return e.msg + e.Kind }

// join adds an event to those of its line.
func join(lines []*event, e *event) []*event {
	e.count = len(e.names)
	i := slices.IndexFunc(lines, func(l *event) bool { return l.key() == e.key() })
	if i < 0 {
		return append(lines, e)
	}
	l := lines[i]
	l.due, l.first, l.began = earliest(l.due, e.due), earliest(l.first, e.first), earliest(l.began, e.began)
	l.level, l.count, l.endless = max(l.level, e.level), l.count+e.count, l.endless+e.endless
	l.names = append(l.names, e.names...)
	l.names = l.names[:min(len(l.names), reasons.NamesMost)] // a Logger may be blocked while thousands of leases are lost
	l.masters, l.whys = append(l.masters, e.masters...), append(l.whys, e.whys...)
	l.holders, l.tell = append(l.holders, e.holders...), append(l.tell, e.tell...)
	return lines
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
		next:       make(map[string]time.Time),
		locks:      make(map[string]*lock),
	}
	n.waits.before, n.waits.after = &n.waits, &n.waits
	return n
}

// Run writes events until Stop is called, and then the pending events, except waits. status returns the present status
// of a master.
func (n *Notices) Run(status func(i int) master.Status) {
	defer close(n.done)
	timer := time.NewTimer(every)
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
	n.mu.Lock()
	n.now = time.Now()
	n.wake = n.now.Add(every)
	long := n.longWaits()
	n.mu.Unlock()
	waits := n.waitEvents(long) // without the mutex: it asks for their causes
	n.mu.Lock()
	due := n.take(slices.Concat(n.noted, n.masterEvents(status), waits))
	n.noted = slices.DeleteFunc(n.noted, func(e *event) bool { return slices.Contains(due, e) })
	for _, l := range n.locks {
		n.due(l.look)
	}
	wake = n.wake
	n.mu.Unlock()
	for _, e := range due {
		n.write(e)
	}
	return wake
}

// take returns the events that are due, and tells them that they are written. The caller holds n.mu.
func (n *Notices) take(all []*event) (due []*event) {
	maps.DeleteFunc(n.next, func(_ string, at time.Time) bool { return !at.After(n.now) })
	for _, e := range all {
		if n.due(latest(e.due, n.next[e.key()])) {
			n.next[e.key()] = n.now.Add(every)
			for _, tell := range e.tell {
				tell(e)
			}
			due = append(due, e)
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
	masters := strings.Join(e.masters, ", ")
	why := cmp.Or(e.Text, strings.TrimPrefix(reasons.Text(e.whys), masters+": ")) // a reason of all needs no names
	slices.Sort(e.holders)
	holders := slices.DeleteFunc(slices.Compact(e.holders), func(unknown string) bool { return unknown == "" })
	add(len(e.names) > 0, "names", reasons.Names(e.names, e.count))
	add(!e.began.IsZero(), "waited", n.now.Sub(e.began).Round(time.Millisecond).String())
	add(masters != "", "masters", masters)
	add(why != "", "why", why)
	add(len(holders) > 0, "holders", reasons.Names(holders, len(holders)))
	add(e.InVain && e.endless > 0, "waits_without_deadline", e.endless)
	n.log.Log(context.Background(), e.level, e.msg, append(args, e.attrs...)...)
	if e.written != nil {
		close(e.written)
	}
}

func earliest(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }
func latest(a, b time.Time) time.Time   { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
