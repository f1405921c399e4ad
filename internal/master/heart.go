package master

import (
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/wire"
)

// A Heart has the links of all masters of a Client beat once a second. One timer does that, since each of them wakes an idle process. The zero Heart is
// ready for use.
type Heart struct {
	mu    sync.Mutex  // guards what follows
	links []*link     // that have not ended
	timer *time.Timer // runs while there are links; nil before the first
}

func (h *Heart) join(l *link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.links = append(h.links, l); len(h.links) > 1 {
		return
	}
	if h.timer == nil {
		h.timer = time.AfterFunc(heartbeat, h.beat)
	} else {
		h.timer.Reset(heartbeat)
	}
}

func (h *Heart) leave(l *link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.links, l)
	if h.links = slices.Delete(h.links, i, i+1); len(h.links) == 0 {
		h.timer.Stop()
	}
}

func (h *Heart) beat() {
	h.mu.Lock()
	links := slices.Clone(h.links)
	h.mu.Unlock()
	for _, l := range links {
		if err := l.beat(); err != nil {
			l.die(err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.links) > 0 {
		h.timer.Reset(heartbeat)
	}
}

// beat does what is due once a second. It sends owed releases again. It sends a Ping to an idle
// master, so that a lost connection is noticed, and to a master without recent votes, so that a restart
// is. It finds out whether the server accepts writes. While the client is calm, its polls find that out. It asks for clients with other lists of masters. It ends the
// link if the server's clock is known to have jumped.
func (l *link) beat() error {
	m := l.m
	if err := m.guard.Jumped(); err != nil {
		return err
	}
	calm := m.calm()
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.dead.Load() {
		return nil // what is queued from now on is for the next link
	}
	for _, it := range m.outbox.due(time.Now()) {
		m.outbox.push(it)
	}
	if due := m.guard.Beat(calm); !calm && (due || m.outbox.idle()) {
		m.outbox.push(newItem(wire.Ping, nil, nil))
	}
	if !calm || m.status.WriteErr != nil {
		m.tryLocked()
	}
	m.askListsLocked(time.Now())
	return nil
}
