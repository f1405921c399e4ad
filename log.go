package redlock

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// noticeEvery is how often the same notice may be repeated: a master that
// flaps, or a thousand goroutines that wait, must not fill a disk.
const noticeEvery = 10 * time.Second

// notices writes to the Logger, each kind of notice once in noticeEvery. It does
// so on a goroutine of its own: a Logger that is slow, or stuck in a full pipe,
// must not keep a lease from being renewed or its loss from being told. What it
// cannot take is dropped.
type notices struct {
	log   *slog.Logger
	total int                     // immutable; how many masters there are
	lines chan func(*slog.Logger) // bounded
	stop  chan struct{}           // closed to end the goroutine
	done  chan struct{}           // closed when it has ended

	mu     sync.Mutex           // guards what follows
	last   map[string]time.Time // by kind of notice
	pruned time.Time
	// Those in quarantine, by name, and whether a notice of them is being gathered.
	quarantined map[string]MasterStatus
	gathering   bool
}

func startNotices(log *slog.Logger, total int) *notices {
	n := &notices{
		log:   log,
		total: total,
		lines: make(chan func(*slog.Logger), 64),
		stop:  make(chan struct{}),
		done:  make(chan struct{}),
		last:  make(map[string]time.Time),

		quarantined: make(map[string]MasterStatus),
	}
	go n.run()
	return n
}

func (n *notices) run() {
	defer close(n.done)
	for {
		select {
		case line := <-n.lines:
			line(n.log)
		case <-n.stop:
			for { // what was said before the end
				select {
				case line := <-n.lines:
					line(n.log)
				default:
					return
				}
			}
		}
	}
}

// write has a line written, unless one of its kind was a moment ago, and reports
// whether it will be.
func (n *notices) write(kind string, line func(*slog.Logger)) bool {
	if !n.allow(kind) {
		return false
	}
	select {
	case n.lines <- line:
		return true
	default: // the Logger is stuck
		return false
	}
}

// allow reports whether a notice may be written now.
func (n *notices) allow(kind string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if t, ok := n.last[kind]; ok && now.Sub(t) < noticeEvery {
		return false
	}
	// Kinds contain lock names, so the map must not grow with them; nor must it
	// be gone through for each of ten thousand leases that are lost at once.
	if now.Sub(n.pruned) >= noticeEvery {
		n.pruned = now
		for k, t := range n.last {
			if now.Sub(t) >= noticeEvery {
				delete(n.last, k)
			}
		}
	}
	n.last[kind] = now
	return true
}

// masterChanged tells of a master that has gone down or come back, or that wakes
// nobody. That it came up the first time is what everybody expects.
func (n *notices) masterChanged(before MasterState, s MasterStatus) {
	n.quarantine(s)
	switch {
	case before == s.State && s.WakeErr != nil:
		n.write("wake "+s.Name, func(log *slog.Logger) {
			log.Warn("redlock: master wakes nobody", "master", s.Name, "err", oneLine(s.WakeErr))
		})
	case before == s.State, before == MasterConnecting && s.State == MasterUp, s.State == MasterQuarantined:
	case before == MasterQuarantined && s.State == MasterUp:
		n.write("up "+s.Name, func(log *slog.Logger) {
			log.Info("redlock: master votes again: its quarantine is over", "master", s.Name)
		})
	case s.State == MasterDown || s.State == MasterRefused:
		n.write(s.State.String()+" "+s.Name, func(log *slog.Logger) {
			log.Warn("redlock: master is "+s.State.String(), "master", s.Name, "err", oneLine(s.Err))
		})
	default:
		n.write("up "+s.Name, func(log *slog.Logger) {
			log.Info("redlock: master is "+s.State.String()+" again", "master", s.Name)
		})
	}
}

// gather is for how long other masters are waited for that go into quarantine
// together: all do that are new, and one line shall tell it.
const gather = 50 * time.Millisecond

// quarantine takes in a master's state, and tells of those in quarantine if it is a
// new one: why a Lock waits, for how long, and what to do about it.
func (n *notices) quarantine(s MasterStatus) {
	n.mu.Lock()
	_, known := n.quarantined[s.Name]
	if s.State != MasterQuarantined {
		delete(n.quarantined, s.Name)
		n.mu.Unlock()
		return
	}
	n.quarantined[s.Name] = s
	begin := !known && !n.gathering
	n.gathering = n.gathering || begin
	n.mu.Unlock()
	if !begin {
		return
	}
	taken := n.write("quarantine "+s.Name, func(log *slog.Logger) {
		select {
		case <-time.After(gather):
		case <-n.stop:
		}
		n.mu.Lock()
		n.gathering = false
		names, why, until := n.quarantinedLocked()
		n.mu.Unlock()
		if len(names) == 0 {
			return // they have been adopted
		}
		msg := "redlock: masters are in quarantine, and do not vote"
		if n.total-len(names) < quorum.Majority(n.total) {
			msg += ": locks have to wait"
		}
		log.Warn(msg, "masters", strings.Join(names, ", "), "for", time.Until(until).Round(100*time.Millisecond), "why", why,
			"hint", "if nobody holds a lock there: redlock doctor --adopt")
	})
	if !taken {
		n.mu.Lock()
		n.gathering = false
		n.mu.Unlock()
	}
}

// quarantinedLocked returns the masters in quarantine, why the first of them is, and
// when all will vote.
func (n *notices) quarantinedLocked() (names []string, why string, until time.Time) {
	names = slices.Sorted(maps.Keys(n.quarantined))
	for _, s := range n.quarantined {
		if s.Until.After(until) {
			until = s.Until
		}
	}
	if len(names) > 0 {
		if q := (*master.QuarantineError)(nil); errors.As(n.quarantined[names[0]].Err, &q) {
			why = q.Why
		}
	}
	return names, why, until
}

// lost tells of a lost lease, which a holder that does not look would not know.
func (n *notices) lost(err *lostError) {
	n.write("lost "+err.name, func(log *slog.Logger) {
		log.Warn("redlock: a lease was lost", "name", err.name, "why", unprefixed(err))
	})
}

// waiting tells that a Lock, which has no other way to say so, waits.
func (n *notices) waiting(name string, since time.Time, why error) {
	waited := time.Since(since).Round(time.Millisecond)
	n.write("lock "+name, func(log *slog.Logger) {
		log.Warn("redlock: still waiting for a lock", "name", name, "waited", waited, "why", oneLine(why))
	})
}
