package grant

// This file defines whom a master grants a lock with lanes that is free.

// A cause says what has left the key free.
type cause uint8

const (
	byOther  cause = iota // a claim that was given up, or a poll
	byWriter              // a writer's release
	byReader              // that of the last reader
)

// pass grants a free key to those who are next. Beside readers, it lets in those who wait, if no writer does.
//
//   - Behind a writer, the readers are next, all of them; behind the last reader, the first writer.
//   - Otherwise the side is next that has waited longest.
//   - If readers are next and an announcement stands, the key stays free.
func (w *world) pass(s state, i int, why cause, a step, next func(step, state)) {
	m := &s.masters[i]
	if m.queue[0] == free || m.owner != free && m.owner != marker && !w.overwrites && !w.overMarks {
		next(a, s)
		return
	}
	if m.owner == marker && !(w.overwrites && w.writerWaits(m, free)) {
		if !w.writerWaits(m, free) && !m.announced && !w.quietQueue {
			w.letIn(s, i, a, next)
			return
		}
		next(a, s)
		return
	}
	if !w.stops && !w.grantsTheDead {
		for m.part(orphan) {
		}
	}
	writer, reader, readersFirst := w.firsts(m)
	if writer == free && reader == free {
		next(a, s)
		return
	}
	switch {
	case why == byWriter && reader != free && writer != free:
		readersFirst = !w.writersFirst
	case why == byReader && reader != free && writer != free:
		readersFirst = w.readersFirst
	}
	w.passTo(s, i, readersFirst, writer, a, next)
	if s.silences == 0 {
		return
	}
	// The first is taken for silent.
	s.silences--
	switch {
	case readersFirst && writer != free:
		w.passTo(s, i, false, writer, a, next)
	case !readersFirst && reader != free:
		w.passTo(s, i, true, writer, a, next)
	default:
		if !w.leavesSilent {
			w.tellFirst(m)
		}
		next(a, s)
	}
}

// firsts returns the first writer and the first reader that wait, and reports whether the reader has waited longer.
func (w *world) firsts(m *master) (writer, reader owner, readersFirst bool) {
	for _, o := range m.queue {
		switch {
		case o == free || o == orphan && !w.grantsTheDead:
		case w.writes(o) && writer == free:
			writer = o
		case !w.writes(o) && reader == free:
			reader, readersFirst = o, writer == free
		}
	}
	return writer, reader, readersFirst
}

// passTo grants the lock to the readers that wait, or to a writer.
func (w *world) passTo(s state, i int, readers bool, writer owner, a step, next func(step, state)) {
	m := &s.masters[i]
	switch {
	case readers && m.announced && !w.passesBy:
		next(a, s)
	case readers && (m.owner == free || w.overMarks):
		w.letIn(s, i, a, next)
	case !readers && (m.owner == free || w.overwrites):
		m.part(writer)
		m.owner = writer
		a.grants = writer
		w.raise(s, i, true, true, func(n state, fence uint8) {
			a := a
			a.fence = fence
			w.tell(&n, i, writer, fence)
			next(a, n)
		})
	default:
		next(a, s)
	}
}

// letIn grants the lock to all readers that wait.
func (w *world) letIn(s state, i int, a step, next func(step, state)) {
	m := &s.masters[i]
	var all []owner
	for _, o := range m.queue {
		if o != free && !w.writes(o) && (o != orphan || w.grantsTheDead) && !(w.firstOnly && len(all) > 0) {
			all = append(all, o)
		}
	}
	for _, o := range all {
		m.part(o)
		a.letsIn |= bitOf(o)
	}
	if len(all) == 0 {
		next(a, s)
		return
	}
	w.mark(m, a.letsIn)
	w.raise(s, i, false, true, func(n state, fence uint8) {
		a := a
		a.fence = fence
		for _, o := range all {
			w.tell(&n, i, o, fence)
		}
		next(a, n)
	})
}

// bitOf returns the member of a reader that waits.
func bitOf(o owner) members { return 1 << (o - 1) }

// tell publishes a grant to the client of an entry.
func (w *world) tell(s *state, i int, o owner, fence uint8) {
	if o == orphan {
		return
	}
	c := int(o) - 1
	m := &s.masters[i]
	l := &m.links[c]
	l.age.mark = l.age.last()
	if !(l.current() && s.clients[c].phase == waiting) && !w.givenUpCounts && !w.tokenTwice {
		return
	}
	l.clearGrant()
	l.said |= tells
	if !m.quarantined {
		l.said |= checked
	}
	quiet := w.quietGrant && w.reads(c) || w.quietToWriter && !w.reads(c)
	if w.keeps(c) && !quiet && w.keepsOut(m, c) {
		l.said |= waits
	}
	l.number = fence
	l.age.behind = l.age.ping == answered || l.age.ping == received
}
