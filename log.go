package redlock

import (
	"log/slog"
	"sync"
	"time"
)

// noticeEvery is how often the same notice may be repeated: a master that
// flaps, or a thousand goroutines that wait, must not fill a disk.
const noticeEvery = 10 * time.Second

// notices writes to the Logger, each kind of notice once in noticeEvery.
type notices struct {
	log *slog.Logger

	mu   sync.Mutex           // guards last
	last map[string]time.Time // by kind of notice
}

// allow reports whether a notice may be written now.
func (n *notices) allow(kind string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if t, ok := n.last[kind]; ok && now.Sub(t) < noticeEvery {
		return false
	}
	if n.last == nil {
		n.last = make(map[string]time.Time)
	}
	// Kinds contain lock names, so the map must not grow with them.
	for k, t := range n.last {
		if now.Sub(t) >= noticeEvery {
			delete(n.last, k)
		}
	}
	n.last[kind] = now
	return true
}

// masterChanged tells of a master that has gone down or come back. That it
// came up the first time is what everybody expects.
func (n *notices) masterChanged(before MasterState, s MasterStatus) {
	if before == MasterConnecting && s.State == MasterUp {
		return
	}
	if before == s.State {
		if s.WakeErr != nil && n.allow("wake "+s.Name) {
			n.log.Warn("redlock: master wakes nobody", "master", s.Name, "err", oneLine(s.WakeErr))
		}
		return
	}
	if !n.allow("master " + s.Name + " " + s.State.String()) {
		return
	}
	if s.State == MasterDown {
		n.log.Warn("redlock: master is down", "master", s.Name, "err", oneLine(s.Err))
	} else {
		n.log.Info("redlock: master is "+s.State.String()+" again", "master", s.Name)
	}
}

// lost tells of a lost lease, which a holder that does not look would not know.
func (n *notices) lost(err *lostError) {
	if n.allow("lost " + err.name) {
		n.log.Warn("redlock: a lease was lost", "name", err.name, "why", unprefixed(err))
	}
}

// waiting tells that a Lock, which has no other way to say so, waits.
func (n *notices) waiting(name string, since time.Time, why error) {
	if !n.allow("lock " + name) {
		return
	}
	n.log.Warn("redlock: still waiting for a lock", "name", name,
		"waited", time.Since(since).Round(time.Millisecond), "why", oneLine(why))
}
