package grant

// This file defines what may happen at a master next: the oldest command of a client is executed or lost, a
// message arrives, the key expires, or the master loses its memory.

func (w *world) masterSteps(s *state, i int, next func(step, state)) {
	m := &s.masters[i]
	for c := range w.clients {
		l := &m.lanes[c]
		if k := l.commands[0]; k != nothing {
			w.execute(s, i, c, next)
			// A release is owed until it is executed. The loss of a command that no other follows has the
			// same effect as a late execution.
			if w.loses && k != release && k != undo && l.commands[1] != nothing {
				n := *s
				n.masters[i].lanes[c].drop(0)
				next(step{verb: loses, client: c, master: i, command: k}, n)
			}
			if w.quitOvertakes && k != release && l.commands[1] == release {
				n := *s
				q := &n.masters[i].lanes[c].commands
				q[0], q[1] = q[1], q[0]
				next(step{verb: overtakes, client: c, master: i, command: k}, n)
			}
		}
		w.messages(s, i, c, next)
		if w.ages {
			w.time(s, i, c, next)
		}
	}
	if m.owner != free && w.expires {
		w.expire(s, i, next)
	}
	w.restart(s, i, next)
	w.endQuarantine(s, i, next)
}

// execute executes the command at the head of the queue.
func (w *world) execute(s *state, i, c int, next func(step, state)) {
	n := *s
	m := &n.masters[i]
	l := &m.lanes[c]
	k := l.commands[0]
	l.drop(0)
	a := step{verb: executes, client: c, master: i, command: k}
	me := ownerOf(c)
	switch k.kind() {
	case set:
		if m.owner != free {
			break
		}
		w.take(n, i, c, a, next)
		return
	case acquire, again:
		if k == again && m.owner != me && l.current() && n.clients[c].phase.holds() && !w.ignoresLoss {
			// The key is gone, and the client learns this before it learns of an extension at this master.
			l.vote = void
		}
		first := m.queue[0] == free || m.queue[0] == me || w.pollsForItself && k == again
		if m.owner == me || m.owner == free && first {
			w.take(n, i, c, a, next)
			return
		}
		if m.owner == free && k == acquire && !w.waitsForSilent {
			if w.stops && !m.queuedLive() {
				w.take(n, i, c, a, next)
				return
			} else if n.silences > 0 {
				n := n
				n.silences--
				w.take(n, i, c, a, next)
			}
		}
		m.join(me)
		if m.owner == free && (k == again || w.newcomersGrant) {
			w.grantHead(n, i, a, func(a step, n state) {
				w.refuse(&n, i, c)
				next(a, n)
			})
			return
		}
		w.refuse(&n, i, c)
	case raise:
		if m.owner == me {
			m.fence = max(m.fence, k.fence())
			if l.current() && !w.raisesOnly {
				l.age.mark = l.age.last()
			}
			if l.current() && n.clients[c].want == k.fence() {
				w.vote(&n, i, c, m.fence, 1)
			}
			a.done = true
		}
	case extend:
		if m.owner == me {
			a.done = true
			if l.current() && n.clients[c].phase == renewing && l.vote&void == 0 {
				w.vote(&n, i, c, 0, 0)
			}
		}
	case heal:
		if m.owner == free {
			a.done = true
			m.owner = me
			m.part(me)
		}
	case release, undo:
		w.release(n, i, c, a, next)
		return
	}
	next(a, n)
}

// refuse answers a registration with the token that the key holds.
func (w *world) refuse(s *state, i, c int) {
	if m := &s.masters[i]; w.settles && m.lanes[c].current() {
		m.lanes[c].view = m.owner
	}
}

// take sets or extends the key for the client itself, in answer to its command.
func (w *world) take(s state, i, c int, a step, next func(step, state)) {
	m := &s.masters[i]
	l := &m.lanes[c]
	a.done = true
	mine := m.owner == ownerOf(c)
	m.owner = ownerOf(c)
	m.part(ownerOf(c))
	p := s.clients[c].phase
	votes := l.current() && (p == waiting || p == trying)
	mark := uint8(0)
	if l.age.ping == poll && a.command == again {
		mark = 1
	}
	if l.current() {
		l.age.mark = l.age.last()
	}
	if mine && votes && w.fences {
		w.vote(&s, i, c, m.fence, mark) // the fence that it was given before
		next(a, s)
		return
	}
	w.number(s, i, false, func(n state, fence uint8) {
		a := a
		a.fence = fence
		if votes {
			w.vote(&n, i, c, fence, mark)
		}
		next(a, n)
	})
}

// number gives a fence to the key that was set: the larger of the proposed one and the successor of the last.
// A client that registers proposes from its clock now. A client whose release is executed may have proposed
// long ago.
func (w *world) number(s state, i int, byRelease bool, next func(state, uint8)) {
	if !w.fences {
		next(s, 0)
		return
	}
	before, last := s.masters[i].fence, uint8(0)
	give := func(fence uint8) {
		if fence = max(before+1, fence); fence == last {
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
	l := &m.lanes[c]
	if m.quarantined && !w.noQuarantine {
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

// release deletes the key if it belongs to the client, leaves the queue, and grants the head of the queue.
func (w *world) release(s state, i, c int, a step, next func(step, state)) {
	m := &s.masters[i]
	me := ownerOf(c)
	a.done = m.owner == me
	if a.done {
		m.owner = free
	}
	if a.done || !w.staysQueued {
		m.part(me)
	}
	if m.owner != free && !w.overwrites || m.queue[0] == free || w.silentRelease || w.onlyIfDeleted && !a.done || a.command == undo {
		next(a, s)
		return
	}
	if w.opens && a.done && !w.neverOpen {
		n := s
		for _, head := range m.queue {
			if head == free || head != orphan {
				if head != free {
					n.masters[i].lanes[head-1].said |= looks
				}
				break
			} else if !w.stops {
				break
			}
		}
		a := a
		a.open = true
		next(a, n)
	}
	w.grantHead(s, i, a, next)
}

// grantHead sets the key for the first claim of the queue that is not silent, and publishes a message. If all are silent,
// the first of them is told to look.
func (w *world) grantHead(s state, i int, a step, next func(step, state)) {
	m := &s.masters[i]
	for m.queue[0] == orphan && !w.stops && !w.grantsTheDead && !w.loses {
		m.part(orphan)
	}
	for _, head := range m.queue {
		if head == free {
			break
		}
		if stopped := head == orphan && w.stops && !w.grantsTheDead; !stopped {
			w.grantTo(s, i, head, a, next)
			if s.silences == 0 || head == orphan || a.command == again && head == ownerOf(a.client) { // which has just polled
				return
			}
			s.silences--
			if w.forgetsSilent {
				m.part(head)
			}
		}
	}
	if first := m.queue[0]; first != free && first != orphan && !w.leavesSilent {
		m.lanes[first-1].said |= looks
	}
	next(a, s)
}

// grantTo sets the key for a claim of the queue, and publishes a message.
func (w *world) grantTo(s state, i int, head owner, a step, next func(step, state)) {
	m := &s.masters[i]
	m.part(head)
	m.owner = head
	a.grants = head
	if head == orphan {
		next(a, s)
		return
	}
	l := &m.lanes[head-1]
	l.age.mark = l.age.last()
	w.number(s, i, true, func(n state, fence uint8) {
		l := &n.masters[i].lanes[head-1]
		told := l.current() && n.clients[head-1].phase == waiting
		if told || w.tokenTwice || w.givenUpCounts {
			l.clearMessage()
			l.said |= tells
			if !m.quarantined {
				l.said |= checked
			}
			l.number = fence
			l.age.behind = l.age.ping == answered || l.age.ping == received
		}
		a := a
		a.fence = fence
		next(a, n)
	})
}
