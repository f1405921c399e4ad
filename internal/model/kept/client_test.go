package kept

import (
	"fmt"

	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/occupancy"
)

// A way has the steps from a state.
type way struct {
	*world
	explore.Way[state]
	room bool // K can send a command
}

func (w *world) successors(s *state, next func(string, state)) {
	if s.bad != "" {
		return
	}
	y := &way{w, explore.Way[state]{S: s, Next: next}, !s.toMaster.Full()}
	for i := range w.goers {
		name := fmt.Sprintf("K%d ", i+1)
		switch p := s.goers[i]; {
		case p < inside:
			y.lock(i, name)
		case p == inside:
			y.unlock(i, name)
		default:
			y.pass(name, p, func(n *state, p phase) { n.goers[i] = p }, false)
		}
	}
	y.decide()
	y.loss()
	y.upkeep()
	y.traffic()
	y.other()
	y.misfortunes()
}

func (w *world) isStranger(i int) bool { return w.stranger && i == w.goers-1 }

// reads reports whether goroutine i is a reader.
func (w *world) reads(i int) bool { return w.many && !w.isStranger(i) }

// canHandOver reports whether the lease can be handed to the first goroutine that waits.
func (w *world) canHandOver(s *state) bool {
	return s.order[0] != 0 && !w.many && !w.isStranger(int(s.order[0])-1) && !s.st.Has(occupancy.Draining) && s.valid > 0 && !s.ended
}

// enter makes goroutine i hold a lease that was kept.
func (w *world) enter(s *state, i int) {
	s.goers[i] = inside
	switch {
	case w.crowded(s):
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
func (w *world) hold(s *state, i int) {
	if s.goers[i] = inside; w.crowded(s) {
		s.bad = "TWO GOROUTINES ARE INSIDE"
	}
}

// lock has goroutine i lock.
func (w *way) lock(i int, name string) {
	s := w.S
	switch s.goers[i] {
	case out:
		w.call(i, name)
	case loaded:
		w.Do(name+"takes the lease", func(n *state) { n.st, n.goers[i] = occupancy.One, checking })
	case checked:
		if next, ok := s.st.Enter(w.many); ok {
			w.Do(name+"takes the lease", func(n *state) { n.st = next; w.enter(n, i) })
		} else {
			w.Do(name+"comes too late", func(n *state) { n.goers[i] = out })
		}
	case checking:
		if (s.valid > 0 || w.checksNone) && (!s.st.Has(occupancy.Draining) || w.checksNoBit) {
			w.Do(name+"enters", func(n *state) { w.enter(n, i) })
		} else {
			w.Do(name+"does not enter", func(n *state) { n.goers[i] = dropping })
		}
	case dropping:
		w.Do(name+"leaves its bit", func(n *state) { n.st, _ = n.st.Mark(occupancy.Draining); n.goers[i] = quitting })
	case quitting:
		w.Do(name+"leaves", func(n *state) { n.goers[i] = out; n.calls++; w.leave(n) })
	case away:
		if s.leading {
			w.Do(name+"follows", func(n *state) { n.goers[i] = following })
		} else {
			w.Do(name+"leads", func(n *state) { n.leading = true; n.toGate(i) })
		}
	case queued:
		w.Do(name+"leaves its bit", func(n *state) {
			if n.goers[i] = waiting; !w.noMark {
				w.mark(n, occupancy.Wanted)
			}
		})
	case acquiring:
		if s.token == s.last && w.room && s.last < 9 && s.decider == out && s.ended {
			w.Do(name+"registers", func(n *state) { n.last++; n.toMaster.Put(message{register, n.last, validity}) })
		}
	default:
		w.begin(i, name)
	}
}

// call begins a call of Lock.
func (w *way) call(i int, name string) {
	s := w.S
	next, canEnter := s.st.Enter(w.many)
	gone := w.entersGone && !s.ended && s.st != occupancy.None && s.insiders() == 0
	canEnter = canEnter && !w.isStranger(i)
	switch {
	case s.calls == 0:
	case (canEnter || gone) && w.looseEnter:
		w.Do(name+"sees the lease idle", func(n *state) { n.calls--; n.goers[i] = loaded })
	case canEnter && w.checksFirst:
		if s.valid > 0 {
			w.Do(name+"reads the clocks", func(n *state) { n.calls--; n.goers[i] = checked })
		}
	case canEnter:
		w.Do(name+"takes the lease", func(n *state) { n.calls--; n.st, n.goers[i] = next, checking })
	case gone:
		w.Do(name+"takes the lease", func(n *state) { n.calls--; n.st, n.goers[i] = occupancy.One, checking })
	case w.reads(i):
		w.Do(name+"cannot enter", func(n *state) { n.calls--; n.goers[i] = away })
	default:
		w.Do(name+"goes to the gate", func(n *state) { n.calls--; n.toGate(i) })
	}
}

// toGate has goroutine i take the gate, or queue for it.
func (s *state) toGate(i int) {
	if !s.gate {
		s.gate, s.goers[i] = true, acquiring
		return
	}
	s.order[s.waiters()] = uint8(i + 1)
	s.goers[i] = queued
}

// begin has goroutine i hold a lease that it has acquired, or was handed.
func (w *way) begin(i int, name string) {
	s := w.S
	open := func(n *state, looks bool) {
		switch n.goers[i] = begun; {
		case w.isStranger(i): // nobody else enters its lease
		case !w.many:
			n.st = occupancy.Begin(1, 0)
		default:
			n.leading = false
			readers := 1
			for o, p := range n.goers {
				if p == following {
					readers++
					w.hold(n, o)
				}
			}
			n.st = occupancy.Begin(readers, occupancy.Many)
			if n.remembered == n.token {
				n.st |= occupancy.Draining
			}
		}
		if looks && n.ended && !w.isStranger(i) {
			n.st |= occupancy.Draining
		}
	}
	switch s.goers[i] {
	case acquired:
		if w.looksEarly {
			w.Do(name+"looks whether the lease has ended", func(n *state) {
				if n.goers[i] = looked; n.ended {
					open(n, true)
				}
			})
			return
		}
		w.Do(name+"begins the lease", func(n *state) { open(n, true) })
	case looked:
		w.Do(name+"begins the lease", func(n *state) { open(n, false) })
	case begun:
		w.Do(name+"holds the lease", func(n *state) {
			if n.remembered == n.token {
				n.st, _ = n.st.Mark(occupancy.Draining)
			}
			if n.waiters() > 0 {
				n.st, _ = n.st.Mark(occupancy.Wanted)
			}
			w.hold(n, i)
		})
	case handed:
		w.Do(name+"holds the lease that it was handed", func(n *state) {
			if n.waiters() > 0 && !w.oneMark {
				n.st, _ = n.st.Mark(occupancy.Wanted)
			}
			w.hold(n, i)
		})
	}
}

// unlock has goroutine i unlock.
func (w *way) unlock(i int, name string) {
	s := w.S
	switch next, keeps := s.st.Keep(); {
	case w.reads(i):
		w.Do(name+"leaves", func(n *state) { n.goers[i] = out; w.leave(n) })
	case keeps || w.blindUnlock && s.st.Held() && !s.ended:
		w.Do(name+"unlocks and keeps", func(n *state) { n.st, n.goers[i] = next, out })
	case w.isStranger(i):
		w.Do(name+"unlocks", func(n *state) { n.goers[i] = keeping })
	default:
		w.Do(name+"unlocks", func(n *state) { n.goers[i] = clearing })
	}
}

// leave has a goroutine leave. The last one that leaves a lease with a bit decides.
func (w *world) leave(s *state) {
	next, ok := s.st.Leave(w.many)
	if w.blindUnlock && w.many {
		next = s.st - 1
	}
	if s.st = next; ok && next.Taken() {
		s.decider = w.decision()
	}
}

// pass has whoever holds the lease, or decides about it, hand it over, keep it or release it. at is where that is.
func (w *way) pass(name string, at phase, set func(n *state, p phase), decider bool) {
	s := w.S
	switch at {
	case clearing:
		w.Do(name+"clears the bit", func(n *state) {
			if set(n, passing); !w.clearsLate {
				n.st &^= occupancy.Wanted
			}
		})
	case passing:
		if w.canHandOver(s) {
			w.Do(name+"hands over", func(n *state) { set(n, out); n.goers[n.next()] = handed })
		} else {
			w.Do(name+"finds nobody to hand over to", func(n *state) { set(n, keeping) })
		}
	case keeping:
		free := s.st == occupancy.One || w.clearsLate && s.st == occupancy.One|occupancy.Wanted
		switch {
		case s.st.Has(occupancy.Wanted) && !s.st.Has(occupancy.Draining) && !w.clearsLate:
			w.Do(name+"looks again", func(n *state) { set(n, clearing) })
		case free && s.valid > 0 && !s.ended && (s.waiters() == 0 || w.keepsBeside):
			w.Do(name+"sees that nobody waits", func(n *state) {
				if set(n, exchanging); w.clearsLate {
					set(n, lateClear)
				}
			})
		case decider:
			w.Do(name+"takes the lease again", func(n *state) { n.st = n.st.Yield(); set(n, releasing) })
		case w.canRelease():
			w.Do(name+"releases", func(n *state) { set(n, out); n.release() })
		}
	case lateClear:
		w.Do(name+"clears the bit", func(n *state) { n.st &^= occupancy.Wanted; set(n, exchanging) })
	case exchanging:
		if next, ok := s.st.Keep(); ok {
			w.Do(name+"keeps", func(n *state) { n.st = next; set(n, out) })
		} else {
			w.Do(name+"looks again", func(n *state) { set(n, clearing) })
		}
	}
}

// canRelease reports whether whoever has taken the lease can end it now. If it has ended before, its release is queued by
// another goroutine, for which this one waits.
func (w *way) canRelease() bool {
	if w.S.ended {
		return w.S.released && w.S.told
	}
	return w.room
}
