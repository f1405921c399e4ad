package grant

// This file defines what arrives on a subscription.

// messages delivers what a master has published to a client. A lost message is one that is never delivered.
func (w *world) messages(s *state, i, c int, next func(step, state)) {
	m := &s.masters[i]
	l := &m.lanes[c]
	if l.said&looks != 0 {
		n := *s
		n.masters[i].lanes[c].said &^= looks
		if n.clients[c].phase == waiting && !w.ignoresLook {
			q := &n.masters[i].lanes[c]
			if q.has(again) || w.send(q, again) || w.loses {
				next(step{verb: hears, client: c, master: i, open: true}, n)
			}
		} else {
			next(step{verb: hears, client: c, master: i, open: true}, n)
		}
	}
	if l.said&tells != 0 && !(w.ages && l.age.behind && l.age.ping != received) {
		n := *s
		q := &n.masters[i].lanes[c]
		counts := l.said&checked != 0 || w.memoryUnchecked
		phase := s.clients[c].phase
		q.clearMessage()
		if counts && (phase == waiting || phase == idle && w.givenUpCounts) && l.vote&granted == 0 {
			w.receive(q, l)
		}
		next(step{verb: hears, client: c, master: i, done: q.vote&granted != 0}, n)
	}
	if w.ages {
		switch a := &l.age; {
		case a.ping == sent:
			n := *s
			n.masters[i].lanes[c].age.ping = answered
			next(step{verb: pongs, client: c, master: i}, n)
		case a.ping == answered && (l.said&tells == 0 || a.behind):
			n := *s
			n.masters[i].lanes[c].age.ping = received
			next(step{verb: hearsPong, client: c, master: i}, n)
		}
	}
}

// receive turns a message into a vote. Its validity counts from the last PING whose PONG came before the
// message, or else from the registration.
func (w *world) receive(q *lane, before *lane) {
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
