package waiting

import (
	"fmt"
)

func (w *world) masterSteps(s *state, i int, next func(string, state)) {
	if s.masters[i].owner == dead {
		n := *s
		n.masters[i].owner = nobody
		next(fmt.Sprintf("the key at master %d expires", i+1), n)
	}
	for c := range w.clients {
		if s.masters[i].lanes[c].commands[0] == nothing {
			continue
		}
		n := *s
		k := n.masters[i].lanes[c].pop()
		w.execute(&n, i, c, k)
		next(fmt.Sprintf("master %d executes %s's %v", i+1, name(c), k), n)
	}
}

// execute executes a command as batch.lua does.
func (w *world) execute(s *state, i, c int, k command) {
	m, me := &s.masters[i], ownerOf(c)
	l := &m.lanes[c]
	answer := func(v vote) {
		if !l.pending() { // otherwise this attempt is over
			l.vote = v
		}
	}
	switch k {
	case set, acquire, behind, behindOnce:
		yields := (k == behind || k == behindOnce) && !w.overtakes && m.othersThan(me)
		if m.owner != nobody || yields {
			if k == acquire || k == behind {
				m.join(me)
			}
			answer(refused)
		} else {
			if m.turn != nobody && m.turn != me && (k == behind || k == behindOnce) {
				s.robbed = true
			}
			m.owner = me
			if k != set {
				m.part(me)
				m.mark = false
			}
			answer(granted)
		}
		m.passed(me)
	case undo, quit:
		if k == quit {
			m.part(me)
			m.passed(me)
		}
		switch {
		case m.owner == me:
			m.owner = nobody
		case m.owner == nobody && k == quit && !w.swallowsLeaves:
			w.wakeHead(s, m, me) // a release may have woken the client that leaves
		}
	case release:
		if m.owner != me {
			m.part(me)
			m.mark = false
			return
		}
		m.owner = nobody
		if !w.silentRelease && w.wakeHead(s, m, me) {
			s.clients[c].woke = true
		}
	case wake:
		if m.owner == nobody {
			w.wakeHead(s, m, me)
		}
	}
}

// passed ends the turn of a client.
func (m *master) passed(me owner) {
	if m.turn == me {
		m.turn = nobody
	}
}

// othersThan reports whether the queue contains another client, or the mark.
func (m *master) othersThan(me owner) bool {
	m.part(me)
	return m.queue[0] != nobody || m.mark
}

// wakeHead removes the first client other than the caller from the queue, and sends it a message. It reports
// whether there was one.
func (w *world) wakeHead(s *state, m *master, me owner) bool {
	m.turn = nobody
	for m.queue[0] != nobody {
		head := m.queue[0]
		m.part(head)
		if head == me || s.clients[head-1].missing && !w.wakesTheDead {
			continue
		}
		if !s.clients[head-1].died {
			m.lanes[head-1].message = true
			if w.turns {
				m.turn = head
			}
		}
		if m.queue[0] == nobody && !w.noMark {
			m.mark = true
		}
		return true
	}
	m.mark = false // it is removed like a client that is gone
	return false
}
