package grant

import "github.com/redlock-go/redlock/internal/model/explore"

// This file defines what arrives on a subscription.

// messages delivers what a master has published to a client. A lost message is one that is never delivered.
func (w *world) messages(s *state, i, c int, next func(step, state)) {
	l := &s.masters[i].links[c]
	if l.said&looks != 0 {
		n := *s
		q := &n.masters[i].links[c]
		q.said &^= looks
		if n.clients[c].phase != waiting || w.deafToLooks || q.has(again) || w.send(q, again) || w.loses {
			next(step{verb: isToLook, client: c, master: i}, n)
		}
	}
	if l.said&recalls != 0 {
		n := *s
		n.masters[i].links[c].said &^= recalls
		if p := n.clients[c].phase; p.holds() || p == waiting && !w.forgetsEarly {
			n.clients[c].recalled = true
		}
		next(step{verb: isRecalled, client: c, master: i}, n)
	}
	if l.said&tells != 0 && !(w.ages && l.age.behind && l.age.ping != received) {
		w.hear(s, i, c, next)
	}
	if w.ages {
		switch a := &l.age; {
		case a.ping == sent:
			explore.Do(s, next, step{verb: pongs, client: c, master: i}, func(n *state) { n.masters[i].links[c].age.ping = answered })
		case a.ping == answered && (l.said&tells == 0 || a.behind):
			explore.Do(s, next, step{verb: hearsPong, client: c, master: i}, func(n *state) { n.masters[i].links[c].age.ping = received })
		}
	}
}

// hear delivers a message about a grant. The mark of a client that is far may be too old for it: then it polls.
func (w *world) hear(s *state, i, c int, next func(step, state)) {
	n := *s
	l := &s.masters[i].links[c]
	q := &n.masters[i].links[c]
	phase := s.clients[c].phase
	if l.said&waits != 0 && (phase.holds() || phase == waiting) {
		n.clients[c].recalled = true
	}
	q.clearGrant()
	if n.stales > 0 && phase == waiting && l.vote&granted == 0 {
		late := n
		late.stales--
		if w.ignoresLate || l.acquires() || w.send(&late.masters[i].links[c], again) {
			next(step{verb: hearsLate, client: c, master: i}, late)
		}
	}
	counts := l.said&checked != 0 || w.readerUnchecked && w.reads(c) || w.writerUnchecked && !w.reads(c)
	if counts && (phase == waiting || phase == idle && w.givenUpCounts) && l.vote&granted == 0 {
		w.receive(q, l)
	}
	next(step{verb: hears, client: c, master: i, done: q.vote&granted != 0}, n)
}

// receive turns a message into a vote. Its validity counts from the last PING whose PONG came before the
// message, or else from the registration.
func (w *world) receive(q *link, before *link) {
	bound := uint8(0)
	switch a := &before.age; {
	case !w.ages:
	case w.fromReceipt:
		bound = receipt
	case a.behind, w.lastPing && a.ping != unsent && a.ping != poll:
		bound = 1
	}
	if w.ages && bound < q.age.ended {
		return // it is over
	}
	q.vote |= granted
	if before.said&lost != 0 {
		q.vote |= past
	}
	q.fence = before.number
	q.age.bound = bound
}
