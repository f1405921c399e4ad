package grant

// This file defines what a master of a lock with one queue executes otherwise than one with lanes.

// enqueue executes a registration or a poll.
func (w *world) enqueue(n state, i, c int, a step, next func(step, state)) {
	m := &n.masters[i]
	me, k := ownerOf(c), a.command
	w.findLoss(&n, i, c, k)
	first := m.queue[0] == free || m.queue[0] == me || w.pollsForItself && k == again
	if m.owner == me || m.owner == free && first {
		w.take(n, i, c, a, next)
		return
	}
	if m.owner == free && k == acquire && !w.waitsForSilent {
		if w.stops && !m.anyLive(free) {
			w.take(n, i, c, a, next)
			return
		} else if n.silences > 0 {
			n := n
			n.silences--
			w.take(n, i, c, a, next)
		}
	}
	m.join(me)
	refused := func(a step, n state) {
		w.refuse(&n, i, c)
		next(a, n)
	}
	if m.owner == free && (k == again || w.newcomersGrant) {
		w.grantHead(n, i, a, refused)
		return
	}
	refused(a, n)
}

// releaseQueued deletes the key if it belongs to the client, leaves the queue, and grants the head of the queue. It may also leave
// the key free, and tell the head to look.
func (w *world) releaseQueued(s state, i, c int, a step, next func(step, state)) {
	m := &s.masters[i]
	a.done = w.drop(m, c)
	if a.done || !w.staysQueued {
		m.part(ownerOf(c))
	}
	if m.owner != free && !w.overwrites || m.queue[0] == free || w.silentRelease || w.onlyIfDeleted && !a.done || a.command == undo {
		next(a, s)
		return
	}
	if w.opens && a.done && !w.neverOpen {
		n, a := s, a
		a.open = true
		w.tellFirst(&n.masters[i])
		next(a, n)
	}
	w.grantHead(s, i, a, next)
}

// grantHead grants the lock to the first claim of the queue that is not silent. If all are silent, the first of them is told to look.
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
			w.passTo(s, i, false, head, a, next)
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
		m.links[first-1].said |= looks
	}
	next(a, s)
}
