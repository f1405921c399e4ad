package grant

import "github.com/redlock-go/redlock/internal/model/explore"

// This file defines renewals. The first lease of a grant is short, and is renewed like any other.

func (w *world) beginRenewal(s *state, c int, next func(step, state)) {
	n := *s
	n.clients[c].phase, n.clients[c].doomed = renewing, n.clients[c].overtaken
	for i := range w.masters {
		w.send(&n.masters[i].links[c], extend)
	}
	next(step{verb: renews, client: c}, n)
}

// repeatRenewal repeats the renewal to a master that has not granted it.
func (w *world) repeatRenewal(s *state, c int, next func(step, state)) {
	for i := range w.masters {
		if l := &s.masters[i].links[c]; w.repeats && l.vote&granted == 0 && !l.has(extend) {
			explore.Try(s, next, step{verb: repeats, client: c, master: i}, func(n *state) bool { return w.send(&n.masters[i].links[c], extend) })
		}
	}
}

// commitRenewal extends the lease, and after that sets what may be missing.
func (w *world) commitRenewal(s *state, c int, next func(step, state)) {
	if s.granted(c) < w.majority() {
		return
	}
	n := *s
	if n.clients[c].doomed {
		n.prolonged = true
	}
	w.sendHeals(&n, c)
	n.clients[c] = client{phase: holding, recalled: n.clients[c].recalled}
	for i := range w.masters {
		l := &n.masters[i].links[c]
		v := l.vote
		l.vote = 0
		if v&granted != 0 {
			l.vote = rests
			if v&past != 0 {
				l.vote |= restsPast
			}
		}
	}
	next(step{verb: prolongs, client: c}, n)
}

// sendHeals sends a heal to each master that has not granted the renewal: with lanes in the place of the extension, else behind it.
func (w *world) sendHeals(s *state, c int) {
	for i := range w.masters {
		l := &s.masters[i].links[c]
		if !w.oneQueue() {
			l.dropExtend()
		}
		if l.vote&granted == 0 && !l.has(heal) {
			w.send(l, heal)
		}
		l.dropExtend()
	}
}

func (w *world) giveUpRenewal(s *state, c int, next func(step, state)) {
	n := *s
	n.clients[c].phase, n.clients[c].doomed = holding, false
	if w.healForRetry {
		w.sendHeals(&n, c)
	}
	for i := range w.masters {
		l := &n.masters[i].links[c]
		l.clearVote()
		l.dropExtend()
	}
	next(step{verb: fails, client: c}, n)
}
