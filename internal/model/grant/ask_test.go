package grant

import "github.com/redlock-go/redlock/internal/model/explore"

// This file defines what a waiter may ask again.

// ask lets a waiter poll, ping, or act on a split vote.
func (w *world) ask(s *state, c int, next func(step, state)) {
	yes, under := s.granted(c), false
	pinged := explore.Count(s.masters[:], func(m master) bool { return m.links[c].age.ping != unsent })
	for i := range w.masters {
		l := &s.masters[i].links[c]
		under = under || l.acquires()
		if w.polls {
			w.poll(s, c, i, next)
		}
		// A sends none, which saves states: the others reach a quorum with their polls. In the large world A polls too.
		if w.ages && !w.fences && l.age.ping == unsent && c > 0 && (pinged < w.majority() || w.latePolls) {
			explore.Do(s, next, step{verb: pings, client: c, master: i}, func(n *state) { n.masters[i].links[c].age.ping = sent })
		}
	}
	switch {
	case !w.settles || w.tries(c) || yes == 0 || yes >= w.majority() || under:
	case !s.clients[c].asked:
		n := *s
		n.clients[c].asked = true
		for i := range w.masters {
			n.masters[i].links[c].view = free
		}
		k := asks
		if w.oneQueue() {
			k = again
		}
		if !w.noSplitTimer && w.sendAll(&n, c, k) {
			next(step{verb: asksAgain, client: c}, n)
		}
	case w.yields(s, c):
		n := *s
		w.close(&n, c)
		n.clients[c] = client{phase: waiting}
		for i := range w.masters {
			l := &n.masters[i].links[c]
			if !w.reaches(c, i) {
				continue
			}
			l.sendRelease(release)
			if !w.send(l, acquire) {
				return
			}
		}
		w.drawHash(&n, step{verb: yields, client: c}, next)
	default:
		explore.Do(s, next, step{verb: insists, client: c}, func(n *state) { n.clients[c].asked = false })
	}
}

// pollsUpTo is the largest fence of a master that is still polled.
const pollsUpTo = 3

// poll registers again at one master.
func (w *world) poll(s *state, c, i int, next func(step, state)) {
	n := *s
	l := &n.masters[i].links[c]
	switch {
	case l.acquires():
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

// yields reports whether the client must give up its claim, by the answers that it has: too few masters have answered, or
// another side has more of them, or as many and is to stay. The readers are one side, and each writer is one.
func (w *world) yields(s *state, c int) bool {
	var keys [marker + 1]int
	me := ownerOf(c)
	if w.reads(c) {
		me = marker
	}
	answers, own := 0, 0
	for i := range w.masters {
		switch l := &s.masters[i].links[c]; {
		case l.vote&granted != 0:
			keys[me]++
			own++
			answers++
		case l.view != free:
			keys[l.view]++
			answers++
		}
	}
	if w.noAllies && w.reads(c) {
		keys[marker] = own
	}
	if answers < w.majority() && !w.keepsMinority {
		return true
	}
	for o := range marker + 1 {
		if o == free || o == me || keys[o] < keys[me] {
			continue
		}
		if keys[o] > keys[me] || o != orphan && w.before(s, o, c) {
			return !w.noYield
		}
	}
	return false
}

// before reports whether another side stays if the claim of c has as many masters: a writer does beside readers, and of two writers
// the one with the smaller hash.
func (w *world) before(s *state, o owner, c int) bool {
	if o == marker || w.reads(c) {
		return o != marker
	}
	a, b := &s.clients[o-1], &s.clients[c]
	return a.rank < b.rank || a.rank == b.rank && o < ownerOf(c)
}
