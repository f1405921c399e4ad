package redlock

import (
	"log/slog"
	"sync"
	"time"
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
	lines chan func(*slog.Logger) // bounded
	stop  chan struct{}           // closed to end the goroutine
	done  chan struct{}           // closed when it has ended

	mu     sync.Mutex           // guards what follows
	last   map[string]time.Time // by kind of notice
	pruned time.Time
}

func startNotices(log *slog.Logger) *notices {
	n := &notices{
		log:   log,
		lines: make(chan func(*slog.Logger), 64),
		stop:  make(chan struct{}),
		done:  make(chan struct{}),
		last:  make(map[string]time.Time),
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

// write has a line written, unless one of its kind was a moment ago.
func (n *notices) write(kind string, line func(*slog.Logger)) {
	if !n.allow(kind) {
		return
	}
	select {
	case n.lines <- line:
	default: // the Logger is stuck
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
	switch {
	case before == s.State && s.WakeErr != nil:
		n.write("wake "+s.Name, func(log *slog.Logger) {
			log.Warn("redlock: master wakes nobody", "master", s.Name, "err", oneLine(s.WakeErr))
		})
	case before == s.State, before == MasterConnecting && s.State == MasterUp:
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
