// Package notices writes to a Logger what callers of Lock do not see otherwise: changes of masters, long waits, lost
// leases, and releases that fail. Events with the same cause are one line, however many masters, locks or leases are
// concerned. Functions of a Trace are called in the background, too. The user's code delays neither masters nor leases.
//
//   - notices.go: the goroutine that writes, and losses.
//   - masters.go: changes of masters.
//   - quarantine.go: quarantines, and the MaxTTL on which their length depends.
//   - waits.go: long waits.
//   - limits.go: different limits of semaphores.
//   - events.go: the goroutine that calls functions of a Trace.
package notices

import (
	"log/slog"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/reasons"
	"github.com/redlock-go/redlock/internal/recent"
)

// every is how often the same event may be logged. A master that goes up and down repeatedly, or a thousand waiting
// goroutines, must not fill a disk.
const every = 10 * time.Second

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

	mu      sync.Mutex // guards what follows
	changed map[int]*change
	waits   Wait             // the list of all: the first is behind it, and the last before it
	next    time.Time        // when the goroutine writes next; zero: nothing is pending
	losses  map[string]*loss // by cause
	raise   *raise           // nil until the Client raises MaxTTL

	limits      recent.Map[int] // of this Client, of semaphores for which another one was written
	differences []difference    // that were not written yet

	// Used only by the goroutine that writes:
	status  func(i int) master.Status
	told    []told             // about each master
	reasons map[string]*reason // why locks are waited for, by cause
	checked time.Time          // when the causes of waits were last determined
	maxTTL  time.Duration      // the Client's MaxTTL, or the largest that was written
	raised  bool               // raise was written
}

// A Cause is why a lock is waited for, or why a lease was lost or a release failed.
type Cause struct {
	Kind   string // equal for events that become one line: see reasons.Kind
	Text   string // for people
	Holder string // who holds the lock, if that is known
	Held   bool   // somebody holds the lock, which ends by itself
	InVain bool   // waiting cannot help: somebody has to mend something
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
		changed:    make(map[int]*change),
		losses:     make(map[string]*loss),
		limits:     recent.Map[int]{Keep: limitsFor},
		told:       make([]told, len(names)),
		reasons:    make(map[string]*reason),
	}
	n.waits.before, n.waits.after = &n.waits, &n.waits
	return n
}

// Run writes events until Stop is called, and then the pending events, except waits. status returns the present status
// of a master.
func (n *Notices) Run(status func(i int) master.Status) {
	defer close(n.done)
	n.status = status
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d := &deadlines{now: time.Now()}
		n.write(d)
		n.mu.Lock()
		n.next = d.next
		n.mu.Unlock()
		// No timer with a duration of zero is used: see package bubbletest.
		pause := time.Hour
		if !d.next.IsZero() {
			pause = max(time.Until(d.next), time.Millisecond)
		}
		timer.Reset(pause)
		select {
		case <-n.poke:
		case <-timer.C:
		case <-n.stop:
			n.write(&deadlines{now: time.Now(), all: true})
			return
		}
	}
}

// Stop ends Run, and returns a channel that is closed when Run has ended. It must be called once.
func (n *Notices) Stop() <-chan struct{} {
	close(n.stop)
	return n.done
}

// write writes the events that are due.
func (n *Notices) write(d *deadlines) {
	n.writeRaise()
	n.writeMasters(d)
	n.writeLosses(d)
	n.writeLimits()
	if !d.all {
		n.writeWaits(d)
	}
}

// wakeWriter wakes the goroutine that writes.
func (n *Notices) wakeWriter() {
	select {
	case n.poke <- struct{}{}:
	default:
	}
}

// deadlines decides which events are due, and collects the time at which the next event is due.
type deadlines struct {
	now  time.Time
	all  bool      // everything is due
	next time.Time // zero: nothing is pending
}

// due reports whether an event that is to be written at a given time is due now.
func (d *deadlines) due(at time.Time) bool {
	if d.all || !at.After(d.now) {
		return true
	}
	if d.next.IsZero() || at.Before(d.next) {
		d.next = at
	}
	return false
}

// A loss is a set of lost leases, or of failed releases, with one cause.
type loss struct {
	msg   string    // what has happened
	since time.Time // when the first loss occurred that was not written yet
	names []string  // of the locks not written yet, reasons.NamesMost at most
	count int       // how many are not written yet
	why   string    // the reason of the last loss
	told  time.Time // when a line was last written
}

const (
	msgLost       = "redlock: leases were lost"
	msgUnreleased = "redlock: releases were not answered by a quorum of masters: locks stay taken until they are, or for their TTL"
)

// Lost notes a lost lease of the lock of this name.
func (n *Notices) Lost(name string, why Cause) { n.noteLoss(msgLost, name, why) }

// Unreleased notes a release of the lock of this name that has failed, and that no caller waits for.
func (n *Notices) Unreleased(name string, why Cause) { n.noteLoss(msgUnreleased, name, why) }

func (n *Notices) noteLoss(msg, name string, why Cause) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.losses[msg+why.Kind]
	if l == nil {
		l = &loss{msg: msg}
		n.losses[msg+why.Kind] = l
	}
	if l.count == 0 {
		l.since = now
		n.wakeWriter()
	}
	l.count++
	if len(l.names) < reasons.NamesMost {
		l.names = append(l.names, name)
	}
	l.why = why.Text
}

// lossGather is how long the goroutine waits for further losses with the same cause.
const lossGather = 50 * time.Millisecond

func (n *Notices) writeLosses(d *deadlines) {
	var due []loss
	n.mu.Lock()
	for cause, l := range n.losses {
		switch {
		case l.count == 0 && d.now.Sub(l.told) >= every:
			delete(n.losses, cause)
		case l.count == 0:
			d.due(l.told.Add(every))
		case d.due(l.since.Add(lossGather)) && (l.told.IsZero() || d.due(l.told.Add(every))):
			due = append(due, *l)
			*l = loss{msg: l.msg, told: d.now}
		}
	}
	n.mu.Unlock()
	for _, l := range due {
		n.log.Warn(l.msg, "names", reasons.Names(l.names, l.count), "why", l.why)
	}
}
