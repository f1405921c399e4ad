package grant

import (
	"math/bits"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// This file defines what a client may do next. A client may give up or let its lease end at any time, which
// covers time-outs, unlocking, lost leases and the end of validity.

func (w *world) clientSteps(s *state, c int, next func(step, state)) {
	switch cl := &s.clients[c]; cl.phase {
	case idle:
		if cl.died {
			return
		}
		w.begin(s, c, next)
		if w.givenUpCounts {
			w.commit(s, c, next)
		}
	case trying:
		w.commit(s, c, next)
		w.register(s, c, next)
		w.end(s, c, gives, release, next)
	case waiting:
		w.commit(s, c, next)
		if w.fences {
			w.secondRound(s, c, next)
		}
		w.ask(s, c, next)
		if w.leaves || w.tries(c) {
			w.end(s, c, gives, release, next)
		}
	case holding:
		if w.sleeps {
			w.sleep(s, c, next)
		}
		if w.renewals {
			w.beginRenewal(s, c, next)
		}
		if !w.keeps(c) || cl.recalled {
			w.leave(s, c, next)
		}
	case renewing:
		w.repeatRenewal(s, c, next)
		w.commitRenewal(s, c, next)
		w.giveUpRenewal(s, c, next)
		w.leave(s, c, next)
	}
	if s.crashes > 0 && s.clients[c].phase != idle && (w.allDie || w.reads(c) != w.deadWrites) {
		w.crash(s, c, next)
	}
}

// send queues a command to one master, and reports whether there was room for it and for the release that
// follows. Otherwise it is lost, as with a full queue or a master that is down.
func (w *world) send(l *link, k command) bool { return explore.Push(l.commands[:w.room-1], k) }

// sendRelease queues the release, for which there is always room. It does nothing if the last command is a
// release already.
func (l *link) sendRelease(how command) {
	if !explore.Last(l.commands[:]).releases() {
		explore.MustPush(l.commands[:], how)
	}
}

// sendAll queues a command to every master. It returns false if there is no room yet.
func (w *world) sendAll(s *state, c int, k command) bool {
	for i := range w.masters {
		if w.reaches(c, i) && !w.send(&s.masters[i].links[c], k) && !w.loses {
			return false
		}
	}
	return true
}

// begin registers a claim at all masters, or sends them a plain SET.
func (w *world) begin(s *state, c int, next func(step, state)) {
	if w.calls > 0 && s.calls == 0 {
		return
	}
	with := func(v explore.Verb, p phase, k command) {
		n := *s
		n.clients[c] = client{phase: p}
		if w.calls > 0 {
			n.calls--
		}
		if w.sendAll(&n, c, k) {
			w.drawHash(&n, step{verb: v, client: c}, next)
		}
	}
	if !w.isBarger(c) {
		with(registers, waiting, acquire)
	}
	if w.isBarger(c) || w.sets {
		with(tries, trying, set)
	}
}

// register registers a claim whose SET was not enough, with the same token.
func (w *world) register(s *state, c int, next func(step, state)) {
	explore.Try(s, next, step{verb: stays, client: c}, func(n *state) bool {
		n.clients[c].phase = waiting
		return !w.isBarger(c) && w.sendAll(n, c, acquire)
	})
}

// drawHash chooses the order of the hash of the client's fresh token among the hashes of the others.
func (w *world) drawHash(s *state, a step, next func(step, state)) {
	next(a, *s)
	for r := uint8(1); w.settles && (w.masters > 1 || w.oneQueue()) && int(r) < w.clients(); r++ {
		n := *s
		n.clients[a.client].rank = r
		next(a, n)
	}
}

// commit begins a lease if a quorum of votes is there. With fences, the quorum must have given the same one.
func (w *world) commit(s *state, c int, next func(step, state)) {
	for used := range 1 << w.masters {
		if bits.OnesCount(uint(used)) != w.majority() {
			continue
		}
		fence, all := uint8(0), true
		for i := range w.masters {
			if used>>i&1 == 0 {
				continue
			}
			l := &s.masters[i].links[c]
			all = all && l.vote&granted != 0 && (fence == 0 || l.fence == fence || w.anyAck || w.leastNumber)
			if w.leastNumber && fence > 0 {
				fence = min(fence, l.fence)
			} else {
				fence = max(fence, l.fence)
			}
		}
		if all && (fence >= s.clock || w.oldNumbers) {
			explore.Do(s, next, step{verb: commits, client: c, fence: fence}, func(n *state) { w.hold(n, c, used, fence) })
		}
	}
}

func (w *world) hold(s *state, c, used int, fence uint8) {
	s.clients[c] = client{phase: holding, recalled: s.clients[c].recalled}
	for o := range w.clients() {
		if cl := &s.clients[o]; o != c && cl.over && !(w.reads(c) && w.reads(o)) {
			cl.overtaken = true
		}
	}
	for i := range w.masters {
		m := &s.masters[i]
		l := &m.links[c]
		v, bound := l.vote, l.age.bound
		l.clearVote()
		l.clearGrant()
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
		w.number(s, c, fence)
	}
}

// number checks a fence that is committed. A reader's is not smaller than that of each earlier writer, and a writer's is greater than all.
// That of a reader may be smaller than those of earlier readers.
func (w *world) number(s *state, c int, fence uint8) {
	if w.reads(c) {
		if fence < s.written || w.rises && fence < s.read {
			s.unordered = true
		}
		s.read = max(s.read, fence)
		return
	}
	if fence <= s.written || fence <= s.read {
		s.unordered = true
	}
	s.written = max(s.written, fence)
}

// secondRound asks every master to raise its fence and to extend the key or the member. If no quorum agrees, it raises the
// fence to the largest that the client has read. If the clock is ahead by a quarantine, it raises the fence to
// the clock.
func (w *world) secondRound(s *state, c int, next func(step, state)) {
	fence := uint8(0)
	for i := range w.masters {
		if l := &s.masters[i].links[c]; l.vote&granted != 0 {
			fence = max(fence, l.fence)
		}
	}
	if !w.oldNumbers {
		fence = max(fence, s.clock)
	}
	most := explore.Count(s.masters[:], func(m master) bool { return m.links[c].vote&granted != 0 && m.links[c].fence == fence })
	if s.granted(c) < w.majority() || most >= w.majority() || fence <= s.clients[c].want {
		return
	}
	n := *s
	n.clients[c].want = fence
	for i := range w.masters {
		l := &n.masters[i].links[c]
		if l.vote&granted != 0 && l.fence == fence || w.ages && l.age.ping != unsent {
			continue
		}
		if w.send(l, raise.with(fence)) && w.ages {
			l.age.ping = poll // the mark
		}
	}
	next(step{verb: raises, client: c, fence: fence}, n)
}

// leave ends a lease.
func (w *world) leave(s *state, c int, next func(step, state)) {
	if w.opens && !w.neverOpen && !w.tries(c) && !w.oneQueue() { // a release of the queue is decided at the master: see releaseQueued
		w.end(s, c, ends, openly, next)
	}
	w.end(s, c, ends, release, next)
}

// end ends a claim or a lease, for any reason. It queues the releases, which arrive at any later time.
func (w *world) end(s *state, c int, v explore.Verb, how command, next func(step, state)) {
	n := *s
	if p := s.clients[c].phase; w.keepsToItself && p == waiting || w.quietUndo && p == trying {
		how = undo
	}
	for i := range w.masters {
		l := &n.masters[i].links[c]
		if w.forgetsRefused && v == gives && l.vote&granted == 0 {
			continue
		}
		l.sendRelease(how)
	}
	w.close(&n, c)
	if w.busy && v == ends && !w.tries(c) && (how == release || w.noGap) {
		n.clients[c] = client{phase: waiting}
		if !w.sendAll(&n, c, acquire) {
			return
		}
	}
	next(step{verb: v, client: c, open: how == openly}, n)
}

// close clears the state of the client.
func (w *world) close(s *state, c int) {
	counts := w.givenUpCounts && s.clients[c].phase == waiting
	s.clients[c] = client{}
	for i := range w.masters {
		l := &s.masters[i].links[c]
		l.vote &^= rests | restsPast | void
		l.view = free
		l.age = age{}
		l.said &^= recalls | looks
		if !counts {
			l.clearVote()
		}
		if !counts && !w.tokenTwice {
			l.clearGrant()
		}
		l.dropExtend()
	}
}

// dropExtend drops an extension whose renewal is decided: it would only make a key stay longer, and keys stay
// for any time.
func (l *link) dropExtend() {
	for explore.Remove(l.commands[:], extend) {
	}
}

// crash ends a client, which sends no releases. What it has then, and its entries in the queues, belong to no client.
func (w *world) crash(s *state, c int, next func(step, state)) {
	n := *s
	n.crashes--
	for i := range w.masters {
		m := &n.masters[i]
		if w.mine(m, c) {
			if !w.expires {
				return
			}
			if w.reads(c) {
				m.set = m.set&^memberOf(c) | dead
			} else {
				m.owner = orphan
			}
		}
		m.passed &^= memberOf(c)
		for at, o := range m.queue { // later grants find no subscriber, unless the master has not noticed the death yet
			if o == ownerOf(c) {
				m.queue[at] = orphan
			}
		}
		m.links[c] = link{}
	}
	n.clients[c] = client{died: true}
	next(step{verb: dies, client: c}, n)
}
