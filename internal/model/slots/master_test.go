package slots

import (
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
)

func (m *master) queued(o token) bool { return slices.Contains(m.queue[:], o) }

func (m *master) enqueue(o token) {
	if !m.queued(o) {
		explore.Push(m.queue[:], o)
	}
}

func (m *master) stands(o token) (is slots) {
	for s := range nSlots {
		if m.owner[s] == o {
			is |= only(s)
		}
	}
	return is
}

// give gives a slot to a token, and tells its client.
func (m *master) give(st *state, s int, o token) {
	m.owner[s] = o
	if c, ok := o.client(); ok && st.clients[c].phase == waiting {
		m.lanes[c].messages |= only(s)
	}
}

// inTheWay returns the token of a claim that stands in one slot, which another one wishes; nobody if there is none.
func (m *master) inTheWay(st *state) token {
	for s := range nSlots {
		o := m.owner[s]
		c, ok := o.client()
		if ok && m.wish[s] != nobody && m.aimed>>c&1 == 0 && m.stands(o) == only(s) && st.clients[c].phase != idle {
			return o
		}
	}
	return nobody
}

// pass gives free slots to the tokens that wish them, to claims that are in the way of others, and to the heads of the queue.
func (w *world) pass(st *state, m *master) {
	for s := range nSlots {
		if m.owner[s] != nobody {
			continue
		}
		if o := m.wish[s]; o != nobody {
			m.wish[s] = nobody
			m.give(st, s, o)
		} else if o := m.inTheWay(st); o != nobody && !w.noExchange {
			m.give(st, s, o)
		} else if o := m.queue[0]; o != nobody {
			explore.Remove(m.queue[:], o)
			m.give(st, s, o)
		}
	}
}

// aimAt has a token aim at a slot.
func (w *world) aimAt(st *state, m *master, o token, s int) {
	explore.Remove(m.queue[:], o)
	if c, ok := o.client(); ok {
		m.aimed |= 1 << c
	}
	was := m.owner[s]
	switch {
	case was == o:
	case was == nobody:
		if m.wish[s] == o {
			m.wish[s] = nobody
		}
		m.give(st, s, o)
	case w.aimOverwrites:
		m.give(st, s, o)
	case !w.noWish:
		m.wish[s] = o
	}
	for x := range nSlots {
		if x == s || m.owner[x] != o || w.staysElsewhere {
			continue
		}
		m.owner[x] = nobody
		if was == nobody || was == o {
			continue
		}
		if w.swapsAtOnce {
			m.owner[s], m.wish[s] = nobody, nobody
			m.give(st, s, o)
			m.give(st, x, was)
		} else if c, ok := was.client(); ok && m.wish[x] == nobody && m.aimed>>c&1 == 0 && !w.noPartner {
			m.give(st, x, was)
		}
	}
	w.pass(st, m)
}

// execute has master i execute a command of a client. old says that its claim is an earlier one. pick is the slot that
// a registration is given; -1: the first that is free.
func (w *world) execute(st *state, i, c int, k command, old bool, pick int) {
	m := &st.masters[i]
	o := present(c)
	if old {
		o = earlier(c)
	}
	switch k {
	case register:
		w.register(st, m, o, pick)
	case release:
		o = earlier(c)
		if w.tokenTwice {
			o = present(c)
		}
		if !w.staysQueued {
			explore.Remove(m.queue[:], o)
		}
		for s := range nSlots {
			if m.owner[s] == o {
				m.owner[s] = nobody
			}
			if m.wish[s] == o && !w.keepsWishes {
				m.wish[s] = nobody
			}
		}
		if !w.silentRelease {
			w.pass(st, m)
		}
	default:
		w.aimAt(st, m, o, int(k-aim))
	}
}

func (w *world) register(st *state, m *master, o token, pick int) {
	if m.stands(o) != 0 || m.queued(o) {
		return
	}
	if m.queue[0] == nobody || w.newcomersTake {
		for s := range nSlots {
			free := m.owner[s] == nobody && m.wish[s] == nobody
			if free && (pick < 0 || pick == s) || w.overwrites && pick == s {
				m.give(st, s, o)
				return
			}
		}
	}
	m.enqueue(o)
}

// poll has a claim poll a master.
func (w *world) poll(st *state, m *master, c int) {
	o, cl, l := present(c), st.clients[c], &m.lanes[c]
	if !l.busy() && m.stands(o) == 0 && cl.aim == 0 {
		m.enqueue(o)
	}
	if !w.silentPoll {
		w.pass(st, m)
	}
	for s := range nSlots {
		if m.owner[s] == o && !l.votes.has(s) && cl.heeds(s) {
			l.messages |= only(s)
		}
	}
}
