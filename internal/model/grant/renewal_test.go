package grant

// This file defines renewals. The first lease of a grant is short, and is renewed like any other.

func (w *world) beginRenewal(s *state, c int, next func(step, state)) {
	n := *s
	n.clients[c].phase, n.clients[c].doomed = renewing, n.clients[c].overtaken
	for i := range w.masters {
		w.send(&n.masters[i].lanes[c], extend)
	}
	next(step{verb: renews, client: c}, n)
}

// commitRenewal extends the lease, and after that sets the keys that may be missing.
func (w *world) commitRenewal(s *state, c int, next func(step, state)) {
	yes := 0
	for i := range w.masters {
		if s.masters[i].lanes[c].vote&granted != 0 {
			yes++
		}
	}
	if yes < w.majority() {
		return
	}
	n := *s
	if n.clients[c].doomed {
		n.broken = honestLoss
	}
	n.clients[c] = client{phase: holding}
	for i := range w.masters {
		l := &n.masters[i].lanes[c]
		v := l.vote
		l.vote = 0
		if v&granted != 0 {
			l.vote = rests
			if v&past != 0 {
				l.vote |= restsPast
			}
		} else if !l.has(heal) {
			w.send(l, heal)
		}
		l.dropExtend()
	}
	next(step{verb: prolongs, client: c}, n)
}

func (w *world) giveUpRenewal(s *state, c int, next func(step, state)) {
	n := *s
	n.clients[c].phase, n.clients[c].doomed = holding, false
	for i := range w.masters {
		l := &n.masters[i].lanes[c]
		l.clearVote()
		l.dropExtend()
	}
	next(step{verb: fails, client: c}, n)
}

// dropExtend drops an extension whose renewal is decided: it would only make a key stay longer, and keys stay
// for any time.
func (l *lane) dropExtend() {
	for at := 0; at < mostRoom; {
		if l.commands[at] == extend {
			l.drop(at)
		} else {
			at++
		}
	}
}
