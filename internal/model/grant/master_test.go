package grant

import "github.com/redlock-go/redlock/internal/model/explore"

// This file defines what may happen at a master next: the oldest command of a client is executed or lost, a
// message arrives, something expires, or the master loses its memory.

func (w *world) masterSteps(s *state, i int, next func(step, state)) {
	m := &s.masters[i]
	for c := range w.clients() {
		l := &m.links[c]
		if k := l.commands[0]; k != nothing {
			w.execute(s, i, c, next)
			// A release is owed until it is executed. The loss of a command that no other follows has the
			// same effect as a late execution.
			if w.loses && !k.releases() && l.commands[1] != nothing {
				explore.Do(s, next, step{verb: loses, client: c, master: i, command: k}, func(n *state) { n.masters[i].links[c].drop(0) })
			}
			if w.quitOvertakes && !k.releases() && l.commands[1].releases() {
				n := *s
				q := &n.masters[i].links[c].commands
				q[0], q[1] = q[1], q[0]
				next(step{verb: overtakes, client: c, master: i, command: k}, n)
			}
		}
		w.messages(s, i, c, next)
		if w.ages {
			w.time(s, i, c, next)
		}
	}
	if w.expires {
		w.expire(s, i, next)
	}
	w.lapse(s, i, next)
	w.restart(s, i, next)
	w.endQuarantine(s, i, next)
}

// execute executes the command at the head of the queue.
func (w *world) execute(s *state, i, c int, next func(step, state)) {
	n := *s
	m := &n.masters[i]
	l := &m.links[c]
	k := l.commands[0]
	l.drop(0)
	a := step{verb: executes, client: c, master: i, command: k}
	switch k.kind() {
	case set:
		if m.owner != free {
			break
		}
		w.take(n, i, c, a, next)
		return
	case acquire, again, asks:
		if w.oneQueue() {
			w.enqueue(n, i, c, a, next)
		} else {
			w.acquire(n, i, c, a, next)
		}
		return
	case raise:
		if !w.mine(m, c) {
			break
		}
		a.done = true
		m.fence = max(m.fence, k.fence())
		if l.current() && !w.raisesOnly {
			l.age.mark = l.age.last()
		}
		if l.current() && n.clients[c].want == k.fence() {
			acked := m.fence // the client counts it only if it is the one that was asked for
			if w.acksLower && w.reads(c) {
				acked = k.fence()
			}
			w.vote(&n, i, c, acked, 1)
		}
	case extend:
		if w.extends(m, c) {
			a.done = true
			if l.current() && n.clients[c].phase == renewing && l.vote&void == 0 {
				w.vote(&n, i, c, 0, 0)
			}
		}
	case heal:
		if m.owner == free || w.reads(c) && m.owner == marker {
			a.done = true
			w.give(m, c)
			m.part(ownerOf(c))
		}
	case release, openly, undo:
		if w.oneQueue() {
			w.releaseQueued(n, i, c, a, next)
		} else {
			w.release(n, i, c, a, next)
		}
		return
	}
	next(a, n)
}

// extends extends the key or the member of client c, and reports whether it did.
func (w *world) extends(m *master, c int) bool {
	if !w.reads(c) {
		return m.owner == ownerOf(c)
	}
	stands := m.set.has(c) || w.passedCounts && m.passed.has(c) || w.renewalJoins
	if !stands || m.owner != marker && !(w.renewalMarks && m.owner == free) {
		return false
	}
	w.give(m, c)
	return true
}

// findLoss has a poll find that what a holder had is gone. The client learns this before it learns of an extension at this master.
func (w *world) findLoss(s *state, i, c int, k command) {
	m := &s.masters[i]
	if l := &m.links[c]; k != acquire && !w.mine(m, c) && l.current() && s.clients[c].phase.holds() && !w.ignoresLoss {
		l.vote = void
	}
}

// acquire executes a registration or a poll.
func (w *world) acquire(n state, i, c int, a step, next func(step, state)) {
	m := &n.masters[i]
	k := a.command
	w.findLoss(&n, i, c, k)
	silent := false // the clients in the way may be taken for silent
	switch {
	case w.mine(m, c), m.owner == free && w.takesFree(m, c):
		w.take(n, i, c, a, next)
		return
	case w.reads(c) && m.owner == marker:
		if w.joins(&n, i, c, k) {
			w.take(n, i, c, a, next)
			return
		}
		silent = k == acquire && !m.announced
	case m.owner == free:
		silent = k == acquire && !(w.reads(c) && m.announced)
	}
	if silent && n.silences > 0 {
		n := n
		n.silences--
		w.take(n, i, c, a, next)
	}
	w.wait(n, i, c, a, next)
}

// takesFree reports whether client c takes a free key.
func (w *world) takesFree(m *master, c int) bool {
	me := ownerOf(c)
	if w.reads(c) && m.announced && !w.passesBy && !w.tries(c) {
		return false
	}
	if w.tries(c) && !(w.shutsOut && w.reads(c)) {
		return true
	}
	if m.queue[0] == orphan && (w.waitsForSilent || w.grantsTheDead && !w.stops) {
		return false
	}
	return !m.anyLive(me)
}

// joins reports whether a reader joins those who hold the lock at a master.
func (w *world) joins(s *state, i, c int, k command) bool {
	m := &s.masters[i]
	waits := w.writerWaits(m, ownerOf(c)) || w.waitsForSilent && w.deadWrites && m.queue[0] == orphan
	if k == asks && !w.staysBehind && s.clients[c].phase == waiting && m.links[c].current() {
		return true
	}
	return (!waits || w.barges) && (!m.announced || w.passesBy)
}

// wait has a claim wait that is refused.
func (w *world) wait(n state, i, c int, a step, next func(step, state)) {
	m := &n.masters[i]
	switch {
	case w.tries(c):
		if m.owner == marker && w.roles[c] == 'T' && !w.triesQuietly {
			m.announced = true
			w.recall(m)
		}
		next(a, n)
		return
	default:
		m.join(ownerOf(c))
	}
	if m.owner == marker && !w.reads(c) || m.owner != marker {
		w.recall(m)
	}
	refused := func(a step, n state) {
		if !w.mine(&n.masters[i], c) {
			w.refuse(&n, i, c)
		}
		next(a, n)
	}
	if m.owner == free && (a.command != acquire || w.newcomersGrant) {
		w.pass(n, i, byOther, a, refused)
		return
	}
	refused(a, n)
}

// recall asks those who hold the lock at a master to leave.
func (w *world) recall(m *master) {
	if w.noRecall {
		return
	}
	for c := range w.clients() {
		if w.mine(m, c) && w.keeps(c) {
			m.links[c].said |= recalls
		}
	}
}

// refuse answers a registration with what the key holds.
func (w *world) refuse(s *state, i, c int) {
	if m := &s.masters[i]; w.settles && m.links[c].current() {
		m.links[c].view = m.owner
	}
}

// take gives the lock to the client itself, in answer to its command.
func (w *world) take(s state, i, c int, a step, next func(step, state)) {
	m := &s.masters[i]
	l := &m.links[c]
	a.done = true
	mine := w.mine(m, c)
	w.give(m, c)
	m.part(ownerOf(c))
	mark := uint8(0)
	if l.age.ping == poll && a.command == again {
		mark = 1
	}
	if l.current() {
		l.age.mark = l.age.last()
	}
	p := s.clients[c].phase
	votes := l.current() && (p == waiting || p == trying)
	if votes && w.keeps(c) && w.keepsOut(m, c) {
		s.clients[c].recalled = true
	}
	told := func(n state, fence uint8) {
		a := a
		a.fence = fence
		if votes {
			w.vote(&n, i, c, fence, mark)
		}
		if w.reads(c) && a.command != acquire && !w.writerWaits(&n.masters[i], free) && !n.masters[i].announced {
			w.letIn(n, i, a, next) // others that wait come in, too
			return
		}
		next(a, n)
	}
	if mine && votes && w.fences {
		told(s, m.fence) // at least the fence that it was given before
		return
	}
	w.raise(s, i, !w.reads(c), false, told)
}

// raise gives a fence to a key that was set, or to a member. That of a writer is the larger of the proposed one and the successor of the
// last; that of a reader may be equal to the last. A client that registers proposes from its clock now. A client whose release is executed may
// have proposed long ago.
func (w *world) raise(s state, i int, writes, byRelease bool, next func(state, uint8)) {
	if !w.fences {
		next(s, 0)
		return
	}
	before, last := s.masters[i].fence, uint8(0)
	if writes && !w.staysBelow {
		before++
	}
	give := func(fence uint8) {
		if fence = max(before, fence, 1); fence == last {
			return
		}
		if fence > maxFence {
			panic("grant: bug: the fences outgrow a command")
		}
		last = fence
		n := s
		n.masters[i].fence = fence
		next(n, fence)
	}
	if byRelease {
		give(0)
	}
	for d := range max(1, w.spread) {
		give(s.clock + d)
	}
}

// vote gives the client a vote, whose validity counts from a mark.
func (w *world) vote(s *state, i, c int, fence, mark uint8) {
	m := &s.masters[i]
	l := &m.links[c]
	if m.quarantined && !w.noQuarantine && !(w.countQuarantined && s.clients[c].phase == renewing) {
		return
	}
	if w.ages && mark < l.age.ended {
		return
	}
	l.vote = l.vote&^past | granted
	l.fence = fence
	l.age.bound = max(l.age.bound, mark)
	l.view = free
}

// release takes the lock from the client, and waits no longer for it. If the key is free then, it grants the lock, or leaves it free.
func (w *world) release(n state, i, c int, a step, next func(step, state)) {
	m := &n.masters[i]
	freed := w.drop(m, c)
	a.done = freed
	left := false
	if freed || !w.staysQueued {
		left = m.part(ownerOf(c))
	}
	_, reader, _ := w.firsts(m)
	if freed && !w.reads(c) && !w.staysAnnounced && (w.tries(c) || reader != free) {
		m.announced = false
	}
	why := byOther
	switch {
	case freed && w.reads(c):
		why = byReader
	case freed:
		why = byWriter
	}
	switch {
	case w.silentRelease, w.onlyIfDeleted && !freed, w.quietUndo && w.tries(c):
	case a.command == openly && freed && m.queue[0] != free:
		a.open = true
		w.tellFirst(m)
	case left && !freed && w.quietQueue && m.owner == marker:
	default:
		w.pass(n, i, why, a, next)
		return
	}
	next(a, n)
}

// tellFirst tells the first that waits, and has not stopped, to look.
func (w *world) tellFirst(m *master) {
	for _, o := range m.queue {
		if o != free && o != orphan {
			m.links[o-1].said |= looks
			return
		}
	}
}
