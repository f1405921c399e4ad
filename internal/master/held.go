package master

import "github.com/redlock-go/redlock/internal/wire"

// A vote is held back until the probe behind it is answered. The replies to both usually arrive together. What a probe asks, and whether the votes
// before it count, is what package guard says.

// A verdict is an answer and the Asker that it is for.
type verdict struct {
	asker  Asker
	answer wire.Answer
}

// deliver hands the votes that are held back to their Askers, or err instead if it is not nil.
func (m *Master) deliver(err error) {
	for _, v := range m.held {
		if err != nil {
			v.answer = wire.Answer{Err: err}
		}
		v.asker.Answered(m.cfg.Index, v.answer)
	}
	clear(m.held) // so that what has ended can be freed
	m.held = m.held[:0]
}

// receiveProbe reads the replies to a probe and delivers the votes before it. It returns an error if
// the result is odd.
func (l *link) receiveProbe(it item) error {
	m := l.m
	found, err := m.guard.Receive(l.conn, l.patience(it), l.memory, it.probe)
	if err != nil {
		return err
	}
	l.now = found.After.Time()
	if found.Loaded {
		l.own.Store(l.memory.Own)
	}
	m.mu.Lock()
	m.popLocked(l.now)
	counts, err := m.guard.Confirm(found)
	if err != nil || !counts {
		poke(m.outbox.wake)
		m.mu.Unlock()
		return err
	}
	if m.status.State != Up {
		err = m.status.Err
	}
	m.mu.Unlock()
	m.deliver(err)
	return nil
}
