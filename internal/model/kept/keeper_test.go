package kept

import "github.com/redlock-go/redlock/internal/occupancy"

// release ends the lease, queues its release unless that was done before, and leaves the gate.
func (s *state) release() {
	if !s.ended {
		s.toMaster.Put(message{release, s.token, 0})
	}
	s.ended, s.told, s.released = true, true, true
	s.st, s.decider = occupancy.None, out
	s.leaveGate()
}

// mark takes an idle lease, or leaves a bit.
func (w *world) mark(s *state, bit occupancy.State) {
	next, took := s.st.Mark(bit)
	if s.st = next; took {
		s.decider = w.decision()
	}
}

// decision returns what a decider begins with. The lease of readers is not handed over.
func (w *world) decision() phase {
	if w.many {
		return releasing
	}
	return admitting
}

// hear handles a recall.
func (w *world) hear(s *state, token uint8) {
	if !w.forgetsSoon || s.st != occupancy.None {
		s.remembered = token
	}
	if s.token != token {
		return
	}
	isIdle := s.st&^occupancy.Many == occupancy.Idle
	switch {
	case isIdle && w.releasesFirst && !s.ended:
		s.ended, s.told, s.released, s.decider = true, true, true, leavesNow
		s.toMaster.Put(message{release, s.token, 0})
	case isIdle && w.looseGiveUp:
		s.decider = seen
	case s.st.Held() && w.givesHeld:
		s.release()
	case s.st.Held() && w.forgetsAsk:
	default:
		w.mark(s, occupancy.Draining)
	}
}

// decide goes on with a lease that was taken.
func (w *way) decide() {
	s := w.S
	switch s.decider {
	case out:
	case seen:
		if w.room && !s.ended {
			w.Do("K gives the idle lease up", func(n *state) { n.release() })
		}
	case leavesNow:
		w.Do("K leaves the gate", func(n *state) {
			if n.decider = out; n.st&^occupancy.Many == occupancy.Idle {
				n.st = occupancy.None
				n.leaveGate()
			}
		})
	case admitting:
		w.Do("K looks for a holder of the lease that was taken", func(n *state) { n.st, n.decider = n.st.Admit(), clearing })
	case releasing:
		if w.canRelease() {
			w.Do("K releases the lease that was taken", func(n *state) { n.release() })
		}
	default:
		w.pass("K ", s.decider, func(n *state, p phase) { n.decider = p }, true)
	}
}

// lose ends the lease.
func (s *state) lose() { s.ended, s.told, s.released = true, false, false }

// loss has K notice that the lease is over, and act on a loss in steps: the keeper is told, the release is queued, and the
// gate is left unless a goroutine holds the lease.
func (w *way) loss() {
	s := w.S
	tell, queue := s.ended && !s.told, s.ended && !s.released && w.room
	switch {
	case w.lossSilent:
		tell = false
	case w.marksLate:
		tell = tell && s.released
	default:
		queue = queue && s.told
	}
	if !s.ended && s.valid == 0 {
		w.Do("K notices that the lease is over", (*state).lose)
	}
	if tell {
		w.Do("the loss takes the lease, or leaves its bit", func(n *state) {
			n.told = true
			n.st, n.lossTook = n.st.Mark(occupancy.Draining)
		})
	}
	if queue {
		w.Do("the release of the lost lease is queued", func(n *state) {
			n.released = true
			n.told = n.told || w.lossSilent
			n.toMaster.Put(message{release, n.token, 0})
		})
	}
	if s.ended && s.released && s.told && s.lossTook {
		w.Do("the loss leaves the gate", func(n *state) { n.lossTook = false; n.release() })
	}
}

// upkeep renews and heals.
func (w *way) upkeep() {
	s := w.S
	if s.token == 0 || s.renewals == 0 || !w.room {
		return
	}
	send := func(name string, k kind, left uint8) {
		w.Do(name, func(n *state) {
			n.renewals--
			n.renewing = n.renewing || k == renew
			n.toMaster.Put(message{k, n.token, left})
		})
	}
	if !s.ended && !s.renewing || w.renewsLate && s.ended {
		send("K renews", renew, validity)
	}
	if w.healsLate && s.ended {
		send("K heals", heal, 0)
	}
}

// traffic executes commands, and has answers and recalls arrive.
func (w *way) traffic() {
	s := w.S
	if !s.toMaster.Empty() && !s.fromM.Full() {
		w.Do("the master executes K's "+s.toMaster[0].kind.String(), func(n *state) { w.execute(n, n.toMaster.Pop(), &n.fromM) })
	}
	if !s.wOut.Empty() && !s.wIn.Full() {
		w.Do("the master executes W's "+s.wOut[0].kind.String(), func(n *state) { w.execute(n, n.wOut.Pop(), &n.wIn) })
	}
	if s.recall != 0 && (w.room || !w.releasesFirst && !w.givesHeld) {
		w.Do("K hears a recall", func(n *state) { token := n.recall; n.recall = 0; w.hear(n, token) })
	}
	if s.recall != 0 && s.loses > 0 {
		w.Do("the recall is lost", func(n *state) { n.loses--; n.recall = 0 })
	}
	if m := s.fromM[0]; m.kind != 0 && (w.room || m.kind != granted || m.left > 0) {
		w.Do("K learns of "+s.fromM[0].kind.String(), func(n *state) { w.learn(n, n.fromM.Pop()) })
	}
}

// learn handles an answer, or a grant, to K.
func (w *world) learn(s *state, m message) {
	switch {
	case m.kind == granted && m.token == s.last && s.token != m.token:
		for i, p := range s.goers {
			if p != acquiring {
				continue
			}
			s.token, s.valid, s.renewing = m.token, m.left, false
			if m.left == 0 { // it is undone before the next registration
				s.ended, s.told, s.released = true, true, true
				s.toMaster.Put(message{release, s.token, 0})
				continue
			}
			s.ended, s.goers[i] = false, acquired
		}
	case m.kind == renewed && s.token == m.token:
		if s.renewing = false; !s.ended && s.valid > 0 {
			s.valid = max(s.valid, m.left)
		}
	case m.kind == gone && s.token == m.token:
		if s.renewing = false; !s.ended {
			s.lose()
		}
	}
}

// other has W lock and unlock.
func (w *way) other() {
	s := w.S
	if !s.wIn.Empty() {
		w.Do("W learns of "+s.wIn[0].kind.String(), func(n *state) {
			m := n.wIn.Pop()
			if m.kind != granted || n.w != waiting || m.token != n.wToken || m.left == 0 {
				return
			}
			n.w, n.wLeft = inside, m.left
			if n.insiders() > 0 && n.valid > 0 && !n.ended && w.deletes == 0 {
				n.bad = "TWO CLIENTS HAVE THE LOCK"
			}
		})
	}
	switch {
	case s.w == out && s.others > 0 && !s.wOut.Full():
		w.Do("W registers", func(n *state) {
			n.others--
			n.wToken = max(n.wToken, wToken) + 1
			n.w = waiting
			n.wOut.Put(message{register, n.wToken, validity})
		})
	case s.w == waiting && w.polls && s.wOut.Empty() && s.wIn.Empty():
		w.Do("W polls", func(n *state) { n.wOut.Put(message{poll, n.wToken, validity}) })
	case s.w == inside && !s.wOut.Full():
		w.Do("W unlocks", func(n *state) { n.w = out; n.wOut.Put(message{release, n.wToken, 0}) })
	}
}

// misfortunes lets time pass, and the master lose keys.
func (w *way) misfortunes() {
	s := w.S
	if s.deletes > 0 && s.key != 0 && s.key < wToken {
		w.Do("somebody deletes the key", func(n *state) { n.deletes--; n.key = 0 })
	}
	if s.restarts > 0 {
		w.Do("the master loses its memory", func(n *state) {
			n.restarts--
			n.key, n.left, n.queue = 0, 0, [2]uint8{}
			if !w.noQuarantine {
				n.quarantine = ttl
			}
		})
	}
	if s.ticks == 0 {
		return
	}
	w.Do("a tick passes", func(n *state) {
		n.ticks--
		for _, v := range []*uint8{&n.valid, &n.wLeft, &n.quarantine, &n.left} {
			*v -= min(*v, 1)
		}
		if n.left == 0 {
			n.key = 0
		}
		for _, l := range []*lane{&n.toMaster, &n.fromM, &n.wOut, &n.wIn} {
			for i := range l {
				l[i].left -= min(l[i].left, 1)
			}
		}
	})
}
