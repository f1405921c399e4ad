package grant

// This file defines what a waiter may ask again.

// ask lets a waiter register again, ping, or act on a split vote.
func (w *world) ask(s *state, c int, next func(step, state)) {
	yes, pinged, under := 0, 0, false
	for i := range w.masters {
		if s.masters[i].lanes[c].age.ping != unsent {
			pinged++
		}
	}
	for i := range w.masters {
		l := &s.masters[i].lanes[c]
		if l.vote&granted != 0 {
			yes++
		}
		under = under || l.has(acquire) || l.has(again)
		if w.polls {
			w.poll(s, c, i, next)
		}
		// A sends none, which saves states: the others reach a quorum with their polls. In the large world A polls too.
		if w.ages && !w.fences && l.age.ping == unsent && c > 0 && (pinged < w.majority() || w.latePolls) {
			n := *s
			n.masters[i].lanes[c].age.ping = sent
			next(step{verb: pings, client: c, master: i}, n)
		}
	}
	switch {
	case !w.settles || yes == 0 || yes >= w.majority() || under:
	case !s.clients[c].asked:
		n := *s
		n.clients[c].asked = true
		for i := range w.masters {
			n.masters[i].lanes[c].view = free
		}
		if !w.noSplitTimer && w.sendAll(&n, c, again) {
			next(step{verb: asksAgain, client: c}, n)
		}
	case w.yields(s, c):
		n := *s
		w.close(&n, c)
		n.clients[c] = client{phase: waiting}
		for i := range w.masters {
			l := &n.masters[i].lanes[c]
			if !w.reaches(c, i) {
				continue
			}
			l.sendRelease()
			if !w.send(l, acquire) {
				return
			}
		}
		w.drawHash(&n, step{verb: yields, client: c}, next)
	default:
		n := *s
		n.clients[c].asked = false
		next(step{verb: insists, client: c}, n)
	}
}

// pollsUpTo is the largest fence of a master that is still polled.
const pollsUpTo = 3

// poll registers again at one master.
func (w *world) poll(s *state, c, i int, next func(step, state)) {
	n := *s
	l := &n.masters[i].lanes[c]
	switch {
	case l.has(acquire) || l.has(again):
		return
	case n.masters[i].fence >= pollsUpTo: // otherwise the numbers would not be bounded
		return
	case w.ages && l.age.ping != unsent: // there are only two marks
		return
	case !w.ages && l.vote&granted != 0: // it would only extend the key, and keys stay for any time
		return
	case !w.send(l, again):
		return
	}
	if w.ages {
		l.age.ping = poll
	}
	if w.latePolls {
		next(step{verb: polls, client: c, master: i}, n)
	} else if l.commands[0] == again {
		w.execute(&n, i, c, next)
	}
}

// yields reports whether the client must give up its claim. It must if too few masters have answered. It also
// must if, by the answers that it has, another token has more keys, or as many keys and a smaller hash.
func (w *world) yields(s *state, c int) bool {
	var keys [orphan + 1]int
	me := ownerOf(c)
	answers := 0
	for i := range w.masters {
		switch l := &s.masters[i].lanes[c]; {
		case l.vote&granted != 0:
			keys[me]++
			answers++
		case l.view != free:
			keys[l.view]++
			answers++
		}
	}
	if answers < w.majority() && !w.keepsMinority {
		return true
	}
	for o := range owner(orphan + 1) {
		if o == free || o == me || keys[o] < keys[me] {
			continue
		}
		if keys[o] > keys[me] || o != orphan && s.clients[o-1].before(&s.clients[c], o < me) {
			return !w.noYield
		}
	}
	return false
}

// before reports whether a token's hash is smaller than another's. If they are equal, the clients' numbers
// decide.
func (a *client) before(b *client, first bool) bool {
	return a.rank < b.rank || a.rank == b.rank && first
}
