package model

import (
	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/model/rounds"
)

// This file defines how a holder renews its lease.

func (w *world) beginRenewal(s *state, c int, next func(action, state)) {
	n := *s
	cl := &n.clients[c]
	cl.phase = renewing
	cl.doomed, cl.openOver = cl.overtaken, false
	for i := range n.masters {
		w.send(&n.masters[i].lanes[c], extend)
	}
	next(action{verb: renews, client: c}, n)
}

// askAgain repeats the command to a master whose vote failed, in the same round.
func (w *world) askAgain(s *state, c int, next func(action, state)) {
	for i := range s.masters {
		if l := &s.masters[i].lanes[c]; l.vote == none && !l.has(extend) {
			explore.Try(s, next, action{verb: asksAgain, client: c, master: i}, func(n *state) bool { return w.send(&n.masters[i].lanes[c], extend) })
		}
	}
}

// commitRenewal extends the lease, and only then sets the keys that are missing. Any master that has not
// granted may have answered that its key is missing, at any time. Where the key exists, a heal does nothing.
func (w *world) commitRenewal(s *state, c int, next func(action, state)) {
	if s.granted(c, 0) < majority {
		return
	}
	n := *s
	cl := &n.clients[c]
	for i := range n.masters {
		if l := &n.masters[i].lanes[c]; l.vote == none && !l.has(heal) {
			w.sendHeal(l, cl.fence)
		}
	}
	if cl.doomed {
		n.prolonged = true
	}
	cl.phase, cl.over = holding, cl.openOver
	cl.openOver, cl.doomed = false, false
	n.restOn(c)
	for i := range n.masters {
		n.forgetRound(&n.masters[i], c)
	}
	next(action{verb: prolongs, client: c}, n)
}

// sendHeal queues a heal in place of the extension whose answer caused it.
func (w *world) sendHeal(l *lane, fence uint8) {
	for i, k := range l.queue {
		if k == extend {
			l.queue[i] = heal.with(fence)
			return
		}
	}
	w.send(l, heal.with(fence))
}

// giveUpRenewal abandons a renewal. The next renewal counts from its own beginning.
func (w *world) giveUpRenewal(s *state, c int, next func(action, state)) {
	n := *s
	cl := &n.clients[c]
	for i := range n.masters {
		m := &n.masters[i]
		m.key.GiveUp(c)
		if cl.over {
			m.key.End(c, rounds.ByLease)
		}
		m.earlier &^= rounds.Undecided(c)
		if l := &m.lanes[c]; w.healForRetry && l.vote == none && !l.has(heal) {
			w.sendHeal(l, cl.fence)
		}
		if !w.keepVotes {
			n.forgetRound(m, c)
		}
	}
	cl.phase = holding
	cl.openOver, cl.doomed = false, false
	next(action{verb: givesUp, client: c}, n)
}
