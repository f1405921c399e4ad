package master

import "github.com/redlock-go/redlock/internal/wire"

// A vote is held back until the probe behind it is answered. The replies to both usually arrive together. What a probe asks, and whether the votes
// before it count, is what package guard says.

// A verdict is an answer and the Asker that it is for.
type verdict struct {
	asker  Asker
	answer wire.Answer
}

// takeHeldLocked takes the votes that are held back. The slice is used again by the second call after this one.
func (m *Master) takeHeldLocked() (held []verdict) {
	held = m.held
	m.held, m.heldSpare = m.heldSpare[:0], held
	return held
}

// deliver hands votes that were held back to their Askers, or err instead if it is not nil. Only the
// reader calls it, or the supervisor after the reader has ended.
func (m *Master) deliver(held []verdict, err error) {
	for i, v := range held {
		held[i] = verdict{}
		if err != nil {
			v.answer = wire.Answer{Err: err}
		}
		v.asker.Answered(m.cfg.Index, v.answer)
	}
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
	held := m.takeHeldLocked()
	if m.status.State != Up {
		err = m.status.Err
	}
	m.mu.Unlock()
	m.deliver(held, err)
	return nil
}
