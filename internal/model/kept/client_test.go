package kept

import "fmt"

// A step is described by a text.
type step string

// A way calls back for the steps from a state.
type way struct {
	*world
	s     *state
	room  bool // K can send a command
	yield func(step, state)
}

func (w *way) do(name string, change func(n *state)) {
	n := *w.s
	change(&n)
	w.yield(step(name), n)
}

func (w *world) successors(s *state, yield func(step, state)) {
	if s.bad != "" {
		return
	}
	y := &way{w, s, !s.toMaster.full(), yield}
	for i := range w.goers {
		name := fmt.Sprintf("K%d ", i+1)
		if p := s.goers[i]; p < inside {
			y.lock(i, name)
		} else {
			y.unlock(i, name)
		}
	}
	y.giveUp()
	y.loss()
	y.upkeep()
	y.traffic()
	y.other()
	y.misfortunes()
}

func (w *world) isStranger(i int) bool { return w.stranger && i == w.goers-1 }

// canHandOver reports whether the lease can be handed to the first goroutine that waits.
func (w *world) canHandOver(s *state) bool {
	return s.order[0] != 0 && !w.isStranger(int(s.order[0])-1) && s.st&asked == 0 && s.valid > 0 && !s.ended
}

// enter makes goroutine i hold a lease that was kept.
func (w *world) enter(s *state, i int) {
	s.goers[i] = inside
	switch {
	case s.insiders() > 1:
		s.bad = "TWO GOROUTINES ARE INSIDE"
	case s.ended && s.released:
		s.bad = "A GOROUTINE ENTERS A LEASE WHOSE RELEASE WAS QUEUED"
	case s.w == inside && s.wLeft > 0 && w.deletes == 0: // else nobody could know
		s.bad = "A GOROUTINE ENTERS WHILE ANOTHER CLIENT HAS THE LOCK"
	case s.valid == 0:
		s.bad = "A GOROUTINE ENTERS A LEASE THAT IS OVER"
	case s.remembered == s.token && !w.forgetsAsk && !w.forgetsSoon && !w.looseGiveUp:
		s.bad = "A GOROUTINE ENTERS A LEASE THAT WAS RECALLED BEFORE"
	}
}

// hold makes goroutine i hold a lease that nobody kept.
func (s *state) hold(i int) {
	if s.goers[i] = inside; s.insiders() > 1 {
		s.bad = "TWO GOROUTINES ARE INSIDE"
	}
}

// lock has goroutine i lock.
func (w *way) lock(i int, name string) {
	s := w.s
	switch s.goers[i] {
	case out:
		w.call(i, name)
	case loaded:
		w.do(name+"takes the lease", func(n *state) { n.st, n.goers[i] = held, checking })
	case checked:
		if s.st == idle {
			w.do(name+"takes the lease", func(n *state) { n.st = held; w.enter(n, i) })
		} else {
			w.do(name+"comes too late", func(n *state) { n.goers[i] = out })
		}
	case checking:
		if (s.valid > 0 || w.checksNone) && (s.st&asked == 0 || w.checksNoBit) {
			w.do(name+"enters", func(n *state) { w.enter(n, i) })
		} else {
			w.do(name+"does not enter", func(n *state) { n.goers[i] = dropping })
		}
	case dropping:
		if name += "gives the lease up"; w.canRelease() {
			w.do(name, func(n *state) { n.goers[i] = out; n.calls++; n.release() })
		}
	case queued:
		w.do(name+"leaves its bit", func(n *state) {
			if n.goers[i] = waiting; !w.noMark {
				n.want()
			}
		})
	case acquiring:
		if s.token == s.last && w.room && s.last < 9 && s.givingUp == 0 && s.ended {
			w.do(name+"registers", func(n *state) { n.last++; n.toMaster.put(message{register, n.last, validity}) })
		}
	case acquired:
		w.do(name+"holds the lease", func(n *state) {
			n.st = held
			if n.remembered == n.token || n.ended {
				n.st |= asked
			}
			if n.waiters() > 0 {
				n.st |= wanted
			}
			n.hold(i)
		})
	case handed:
		w.do(name+"holds the lease that it was handed", func(n *state) {
			if n.waiters() > 0 && !w.oneMark {
				n.st |= wanted
			}
			n.hold(i)
		})
	}
}

// call begins a call of Lock.
func (w *way) call(i int, name string) {
	s := w.s
	canEnter := s.st == idle && !w.isStranger(i) || w.entersGone && !s.ended && s.st != 0 && s.insiders() == 0
	switch {
	case s.calls == 0:
	case canEnter && w.looseEnter:
		w.do(name+"sees the lease idle", func(n *state) { n.calls--; n.goers[i] = loaded })
	case canEnter && w.checksFirst && s.valid > 0:
		w.do(name+"reads the clocks", func(n *state) { n.calls--; n.goers[i] = checked })
	case canEnter && !w.checksFirst:
		w.do(name+"takes the lease", func(n *state) { n.calls--; n.st, n.goers[i] = held, checking })
	case !s.gate:
		w.do(name+"takes the gate", func(n *state) { n.calls--; n.gate, n.goers[i] = true, acquiring })
	default:
		w.do(name+"queues at the gate", func(n *state) {
			n.calls--
			n.order[n.waiters()] = uint8(i + 1)
			n.goers[i] = queued
		})
	}
}

// unlock has goroutine i unlock.
func (w *way) unlock(i int, name string) {
	s := w.s
	switch s.goers[i] {
	case inside:
		if s.st == held || w.blindUnlock && s.st&held != 0 && !s.ended {
			w.do(name+"unlocks and keeps", func(n *state) { n.st, n.goers[i] = idle, out })
		} else {
			w.do(name+"unlocks", func(n *state) { n.goers[i] = unlocking })
		}
	case unlocking:
		w.do(name+"clears the bit", func(n *state) {
			if n.goers[i] = passing; !w.clearsLate {
				n.st &^= wanted
			}
		})
	case passing:
		if w.canHandOver(s) {
			w.do(name+"hands over", func(n *state) { n.goers[i] = out; n.goers[n.next()] = handed })
		} else {
			w.do(name+"finds nobody to hand over to", func(n *state) { n.goers[i] = keeping })
		}
	case keeping:
		switch {
		case s.ended:
			if w.canRelease() {
				w.do(name+"leaves the gate", func(n *state) { n.goers[i] = out; n.release() })
			}
		case (s.st == held || w.clearsLate && s.st == held|wanted) && s.valid > 0 && (s.waiters() == 0 || w.keepsBeside):
			w.do(name+"sees that nobody waits", func(n *state) {
				if n.goers[i] = exchanging; w.clearsLate {
					n.goers[i] = clearing
				}
			})
		case s.st&wanted != 0 && s.st&asked == 0 && s.valid > 0:
			w.do(name+"looks again", func(n *state) { n.goers[i] = unlocking })
		case w.room:
			w.do(name+"releases", func(n *state) { n.goers[i] = out; n.release() })
		}
	case clearing:
		w.do(name+"clears the bit", func(n *state) { n.st &^= wanted; n.goers[i] = exchanging })
	case exchanging:
		if s.st == held {
			w.do(name+"keeps", func(n *state) { n.st, n.goers[i] = idle, out })
		} else {
			w.do(name+"looks again", func(n *state) { n.goers[i] = unlocking })
		}
	}
}

// canRelease reports whether whoever has taken the lease can end it now. If it has ended before, its release is queued by
// another goroutine, for which this one waits.
func (w *way) canRelease() bool {
	if w.s.ended {
		return w.s.released && w.s.told
	}
	return w.room
}
