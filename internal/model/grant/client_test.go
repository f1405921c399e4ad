package grant

import "math/bits"

// This file defines what a client may do next. A client may give up or let its lease end at any time, which
// covers time-outs, unlocking, lost leases and the end of validity.

func (w *world) clientSteps(s *state, c int, next func(step, state)) {
	switch cl := &s.clients[c]; cl.phase {
	case idle:
		if cl.died {
			return
		}
		w.arrive(s, c, next)
		if w.givenUpCounts {
			w.commit(s, c, next)
		}
	case trying:
		w.commit(s, c, next)
		w.stay(s, c, next)
		w.end(s, c, gives, next)
	case waiting:
		w.commit(s, c, next)
		if w.fences {
			w.secondRound(s, c, next)
		}
		w.ask(s, c, next)
		if w.leaves {
			w.end(s, c, gives, next)
		}
	case holding:
		if w.sleeps {
			w.sleep(s, c, next)
		}
		if w.renewals {
			w.beginRenewal(s, c, next)
		}
		w.end(s, c, ends, next)
	case renewing:
		w.commitRenewal(s, c, next)
		w.giveUpRenewal(s, c, next)
		w.end(s, c, ends, next)
	}
	if s.crashes > 0 && s.clients[c].phase != idle {
		w.crash(s, c, next)
	}
}

// send queues commands to one master, and reports whether there was room. There must be room for them and for
// the release that follows. Otherwise they are lost, as with a full queue or a master that is down.
func (w *world) send(l *lane, commands ...command) bool {
	n := l.len()
	if n+len(commands)+1 > w.room {
		return false
	}
	copy(l.commands[n:], commands)
	return true
}

// sendRelease queues the release, for which there is always room. It does nothing if the last command is a
// release already.
func (l *lane) sendRelease() {
	switch n := l.len(); {
	case n > 0 && (l.commands[n-1] == release || l.commands[n-1] == undo):
	case n < mostRoom:
		l.commands[n] = release
	default:
		panic("grant: bug: no place was kept for a release")
	}
}

// arrive begins an acquisition.
func (w *world) arrive(s *state, c int, next func(step, state)) {
	if w.calls > 0 && s.calls == 0 {
		return
	}
	barges := w.busy && c == w.clients-1
	if !barges {
		w.begin(s, step{verb: registers, client: c}, waiting, acquire, next)
	}
	if w.tries || barges {
		w.begin(s, step{verb: tries, client: c}, trying, set, next)
	}
}

// begin asks all masters.
func (w *world) begin(s *state, a step, p phase, k command, next func(step, state)) {
	n := *s
	cl := &n.clients[a.client]
	*cl = client{phase: p}
	if w.calls > 0 {
		n.calls--
	}
	if !w.sendAll(&n, a.client, k) {
		return
	}
	w.drawHash(&n, a, next)
}

// stay registers a claim whose SET was not enough, with the same token.
func (w *world) stay(s *state, c int, next func(step, state)) {
	n := *s
	n.clients[c].phase = waiting
	if !(w.busy && c == w.clients-1) && w.sendAll(&n, c, acquire) {
		next(step{verb: stays, client: c}, n)
	}
}

// sendAll queues a command to every master. It returns false if there is no room yet.
func (w *world) sendAll(s *state, c int, k command) bool {
	for i := range w.masters {
		if w.reaches(c, i) && !w.send(&s.masters[i].lanes[c], k) && !w.loses {
			return false
		}
	}
	return true
}

// drawHash chooses the order of the hash of the client's fresh token among the hashes of the others.
func (w *world) drawHash(s *state, a step, next func(step, state)) {
	next(a, *s)
	for r := uint8(1); w.settles && int(r) < w.clients; r++ {
		n := *s
		n.clients[a.client].rank = r
		next(a, n)
	}
}

// commit begins a lease if a quorum of grants is there. With fences, the quorum must have given the same one.
func (w *world) commit(s *state, c int, next func(step, state)) {
	for used := range 1 << w.masters {
		if bits.OnesCount(uint(used)) != w.majority() {
			continue
		}
		fence, all := uint8(0), true
		for i := range w.masters {
			if l := &s.masters[i].lanes[c]; used>>i&1 == 1 {
				all = all && l.vote&granted != 0 && (fence == 0 || l.fence == fence || w.anyAck)
				fence = max(fence, l.fence)
			}
		}
		if all && (fence >= s.clock || w.oldNumbers) {
			n := *s
			w.hold(&n, c, used, fence)
			next(step{verb: commits, client: c, fence: fence}, n)
		}
	}
}

func (w *world) hold(s *state, c, used int, fence uint8) {
	s.clients[c] = client{phase: holding}
	for o := range w.clients {
		if cl := &s.clients[o]; o != c && cl.over {
			cl.overtaken = true
		}
	}
	for i := range w.masters {
		m := &s.masters[i]
		l := &m.lanes[c]
		v := l.vote
		bound := l.age.bound
		l.clearVote()
		l.clearMessage()
		l.view = free
		if used>>i&1 == 1 {
			l.vote |= rests
			l.age.bound = bound
			if v&past != 0 {
				l.vote |= restsPast
				m.past = max(m.past, fence)
			}
		}
	}
	if w.fences {
		if fence <= s.highest {
			s.broken = risingFences
		}
		s.highest = max(s.highest, fence)
	}
}

// secondRound asks every master to raise its fence and to extend the key. If no quorum agrees, it raises the
// fence to the largest that the client has read. If the clock is ahead by a quarantine, it raises the fence to
// the clock.
func (w *world) secondRound(s *state, c int, next func(step, state)) {
	fence, votes, most := uint8(0), 0, 0
	for i := range w.masters {
		if l := &s.masters[i].lanes[c]; l.vote&granted != 0 {
			votes++
			fence = max(fence, l.fence)
		}
	}
	if !w.oldNumbers {
		fence = max(fence, s.clock)
	}
	for i := range w.masters {
		if l := &s.masters[i].lanes[c]; l.vote&granted != 0 && l.fence == fence {
			most++
		}
	}
	if votes < w.majority() || most >= w.majority() || fence <= s.clients[c].want {
		return
	}
	n := *s
	n.clients[c].want = fence
	for i := range w.masters {
		l := &n.masters[i].lanes[c]
		if l.vote&granted != 0 && l.fence == fence || w.ages && l.age.ping != unsent {
			continue
		}
		if w.send(l, raise.with(fence)) && w.ages {
			l.age.ping = poll // the mark
		}
	}
	next(step{verb: raises, client: c, fence: fence}, n)
}

// end ends a claim or a lease, for any reason. It queues the releases, which arrive at any later time.
func (w *world) end(s *state, c int, v verb, next func(step, state)) {
	n := *s
	p := n.clients[c].phase
	quiet := w.keepsToItself && p == waiting || w.quietUndo && p == trying
	for i := range w.masters {
		l := &n.masters[i].lanes[c]
		if w.forgetsRefused && p == waiting && l.vote&granted == 0 {
			continue
		}
		l.sendRelease()
		if quiet {
			l.commands[l.len()-1] = undo
		}
	}
	w.close(&n, c)
	if w.busy && v == ends {
		n.clients[c] = client{phase: waiting}
		if !w.sendAll(&n, c, acquire) {
			return
		}
	}
	next(step{verb: v, client: c}, n)
}

// close clears the state of the client.
func (w *world) close(s *state, c int) {
	counts := w.givenUpCounts && s.clients[c].phase == waiting
	s.clients[c] = client{}
	for i := range w.masters {
		l := &s.masters[i].lanes[c]
		l.vote &^= rests | restsPast | void
		l.view = free
		l.age = age{}
		if !counts {
			l.clearVote()
		}
		if !counts && !w.tokenTwice {
			l.said, l.number = 0, 0
		}
		for at := 0; at < mostRoom; {
			if k := l.commands[at].kind(); k == extend && l.commands[at] != nothing {
				l.drop(at) // it would only make a key stay longer, and keys stay for any time
			} else {
				at++
			}
		}
	}
}

// crash ends a client, which sends no releases. Its keys and its entries in the queues belong to no client.
func (w *world) crash(s *state, c int, next func(step, state)) {
	n := *s
	n.crashes--
	for i := range w.masters {
		m := &n.masters[i]
		if m.owner == ownerOf(c) {
			if !w.expires {
				return
			}
			m.owner = orphan
		}
		for at, o := range m.queue { // later grants find no subscriber, unless the master has not noticed the death yet
			if o == ownerOf(c) {
				m.queue[at] = orphan
			}
		}
		m.lanes[c] = lane{}
	}
	n.clients[c] = client{died: true}
	next(step{verb: dies, client: c}, n)
}
