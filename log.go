package redlock

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// noticeEvery is how often the same event may be logged. A master that goes up and down repeatedly, or a
// thousand waiting goroutines, must not fill a disk.
const noticeEvery = 10 * time.Second

// notices writes to the Logger the events that callers of Lock do not see otherwise: changes of masters, long
// waits, and lost leases. Events with the same cause are one line, however many masters, locks or leases are
// concerned.
//
// One goroutine writes. The others only note events, so a Logger that is slow, or blocked by a full pipe,
// does not delay a renewal.
type notices struct {
	log     *slog.Logger          // immutable
	masters func() []MasterStatus // immutable; returns their present status
	poke    chan struct{}         // cap 1: an event was noted
	stop    chan struct{}         // closed to end the goroutine
	done    chan struct{}         // closed when it has ended

	mu      sync.Mutex // guards what follows
	changed map[int]*masterChange
	waits   map[*wait]*watched
	next    time.Time        // when the goroutine writes next; zero: nothing is pending
	losses  map[string]*loss // by cause
	raise   *raise           // nil until the Client raises MaxTTL

	// Used only by the goroutine that writes:
	told    map[int]*masterTold
	reasons map[string]*waitReason // why locks are waited for, by cause
	checked time.Time              // when the causes of waits were last determined
	maxTTL  time.Duration          // the Client's MaxTTL, or the largest that was written
}

func newNotices(log *slog.Logger, maxTTL time.Duration, masters func() []MasterStatus) *notices {
	return &notices{
		maxTTL:  maxTTL,
		log:     log,
		masters: masters,
		poke:    make(chan struct{}, 1),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		changed: make(map[int]*masterChange),
		waits:   make(map[*wait]*watched),
		losses:  make(map[string]*loss),
		told:    make(map[int]*masterTold),
		reasons: make(map[string]*waitReason),
	}
}

// run writes events until stop is closed, and then the pending events, except waits. It must not be started
// before all masters are.
func (n *notices) run() {
	defer close(n.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d := &deadlines{now: time.Now()}
		n.write(d)
		n.mu.Lock()
		n.next = d.next
		n.mu.Unlock()
		// No timer with a duration of zero is used: see package bubbletest.
		wait := time.Hour
		if !d.next.IsZero() {
			wait = max(time.Until(d.next), time.Millisecond)
		}
		timer.Reset(wait)
		select {
		case <-n.poke:
		case <-timer.C:
		case <-n.stop:
			n.write(&deadlines{now: time.Now(), all: true})
			return
		}
	}
}

// write writes the events that are due.
func (n *notices) write(d *deadlines) {
	n.writeRaise()
	n.writeMasters(d)
	n.writeLosses(d)
	if !d.all {
		n.writeWaits(d)
	}
}

// noted wakes the goroutine that writes.
func (n *notices) noted() { poke(n.poke) }

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

// namesMost is the highest number of lock names in a line.
const namesMost = 10

// listed returns the first names of count as text. names has at least min(count, namesMost) elements.
func listed(names []string, count int) string {
	text := strings.Join(names[:min(len(names), namesMost)], ", ")
	if more := count - namesMost; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// A loss is a set of lost leases, or of failed releases, with one cause.
type loss struct {
	msg   string    // what has happened
	since time.Time // when the first loss occurred that was not written yet
	names []string  // of the locks not written yet, namesMost at most
	count int       // how many are not written yet
	why   string    // the reason of the last loss
	told  time.Time // when a line was last written
}

const (
	msgLost       = "redlock: leases were lost"
	msgUnreleased = "redlock: releases were not answered by a quorum of masters: locks stay taken until they are, or for their TTL"
)

// lost notes a lost lease.
func (n *notices) lost(err *lostError) {
	n.noteLoss(msgLost, err.name, err.reason, err.votes, err.why())
}

// unreleased notes a release that no caller waits for, and that has failed or has found that the lease was
// lost.
func (n *notices) unreleased(name string, err error) {
	if lost, ok := err.(*lostError); ok {
		n.lost(lost)
	} else if votes, ok := err.(*QuorumError); ok {
		n.noteLoss(msgUnreleased, name, nil, votes, votes.unnamed())
	}
}

func (n *notices) noteLoss(msg, name string, reason error, votes *QuorumError, why string) {
	cause := msg
	if reason != nil {
		cause += withoutDigits(reason.Error())
	}
	if votes != nil {
		cause += causeOf(votes)
	}
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.losses[cause]
	if l == nil {
		l = &loss{msg: msg}
		n.losses[cause] = l
	}
	if l.count == 0 {
		l.since = now
		n.noted()
	}
	l.count++
	if len(l.names) < namesMost {
		l.names = append(l.names, name)
	}
	l.why = why
}

// lossGather is how long the goroutine waits for further losses with the same cause.
const lossGather = 50 * time.Millisecond

func (n *notices) writeLosses(d *deadlines) {
	var due []loss
	n.mu.Lock()
	for cause, l := range n.losses {
		switch {
		case l.count == 0 && d.now.Sub(l.told) >= noticeEvery:
			delete(n.losses, cause)
		case l.count == 0:
			d.due(l.told.Add(noticeEvery))
		case d.due(l.since.Add(lossGather)) && (l.told.IsZero() || d.due(l.told.Add(noticeEvery))):
			due = append(due, *l)
			*l = loss{msg: l.msg, told: d.now}
		}
	}
	n.mu.Unlock()
	for _, l := range due {
		n.log.Warn(l.msg, "names", listed(l.names, l.count), "why", l.why)
	}
}
