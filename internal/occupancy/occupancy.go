// Package occupancy is the state machine by which the goroutines of a client enter and leave a tenure, without a mutex and
// without the masters. It serves those who hold a tenure one at a time and those who share it.
//
// Whoever takes a tenure from idle, in one step, decides about it: a goroutine enters it, or something gives it up. While
// goroutines hold the tenure, all others leave a bit. The last one that leaves a tenure with a bit decides.
//
//	none ── Begin ──► held ◄── Enter, Leave ──► idle
//	                  │  ▲                       │
//	            Leave,│  │Admit             Mark,│
//	             Yield▼  │                   Take▼
//	none ◄── End ──── taken ◄────────────────────┘
//
// Each step is a pure function of the State, so that internal/model/kept explores the steps that the code takes. An Atomic
// takes them atomically.
package occupancy

import "sync/atomic"

// A State says whether there is a tenure that goroutines may enter, and how many hold it. None is the zero State. In the other
// states, Present is set, and the low bits count those that hold the tenure.
type State uint64

const (
	None State = 0           // there is no tenure
	Idle State = Present     // nobody holds the tenure, which one goroutine at a time may hold
	One  State = Present | 1 // one goroutine holds it, and there is no bit
)

const (
	Present  State = 1 << (iota + 40) // there is a tenure
	Many                              // any number of goroutines may hold the tenure at a time
	Brief                             // nobody keeps the tenure: the last goroutine that leaves takes it
	taken                             // nobody holds the tenure, and whoever has taken it decides about it
	Wanted                            // a bit: another goroutine of the client waits, and cannot enter
	Draining                          // a bit: another client wants the lock, or the tenure has ended, or is to end

	count = Present - 1
)

// Held reports whether a goroutine holds the tenure.
func (s State) Held() bool { return s&count != 0 }

// Taken reports whether somebody has taken the tenure, and decides about it.
func (s State) Taken() bool { return s&taken != 0 }

// Has reports whether a bit is set.
func (s State) Has(bit State) bool { return s&bit != 0 }

// Begin returns the state of a new tenure that n goroutines hold. flags are Many and Brief.
func Begin(n int, flags State) State { return Present | flags | State(n) }

// Enter has one more goroutine hold the tenure. many says that any number may hold it, as Many does; otherwise the tenure must be
// idle. It must not be taken, and neither Wanted nor Draining may be set. The goroutine then reads the clocks, and then looks for Draining. In another order it could
// enter a tenure that has ended.
func (s State) Enter(many bool) (next State, ok bool) {
	if s == Idle && !many || s&^(count|Brief) == Present|Many && many {
		return s + 1, true
	}
	return s, false
}

// Leave has one goroutine leave. If it is the last one, and Wanted or Draining is set or the tenure is Brief, it takes the tenure, and
// decides. many is as for Enter. ok is false if nobody holds the tenure in this way.
func (s State) Leave(many bool) (next State, ok bool) {
	switch {
	case !s.Held() || s.Has(Many) != many:
		return s, false
	case s&count > 1 || !s.Has(Wanted|Draining|Brief):
		return s - 1, true
	}
	return s - 1 | taken, true
}

// Keep has the one goroutine that holds the tenure leave, unless there is a bit.
func (s State) Keep() (next State, ok bool) { return Idle, s == One }

// Mark takes an idle tenure, or leaves a bit for those who hold or have taken it. took reports whether it was idle.
func (s State) Mark(bit State) (next State, took bool) {
	switch s {
	case None:
		return None, false
	case Idle, Idle | Many:
		return s | taken | bit, true
	}
	return s | bit, false
}

// Take takes an idle tenure, and does nothing else.
func (s State) Take() (next State, took bool) {
	if s == Idle || s == Idle|Many {
		return s | taken | Draining, true
	}
	return s, false
}

// Admit has a goroutine hold the tenure that was taken.
func (s State) Admit() State { return s&^taken + 1 }

// Yield is the opposite of Admit: the only one that holds the tenure takes it.
func (s State) Yield() State { return s - 1 | taken }

// An Atomic is a State whose steps are atomic. Its methods are safe for concurrent use. The zero Atomic is None.
type Atomic struct{ v atomic.Uint64 }

// Load returns the State.
func (a *Atomic) Load() State { return State(a.v.Load()) }

// Begin is called while the State is None.
func (a *Atomic) Begin(n int, flags State) { a.v.Store(uint64(Begin(n, flags))) }

// End ends the tenure. Only those call it who have taken it, or hold it alone.
func (a *Atomic) End() { a.v.Store(uint64(None)) }

// Enter is State.Enter.
func (a *Atomic) Enter(many bool) (ok bool) {
	_, ok = a.do(func(s State) (State, bool) { return s.Enter(many) })
	return ok
}

// Leave is State.Leave, and returns the new State.
func (a *Atomic) Leave(many bool) (next State, ok bool) {
	return a.do(func(s State) (State, bool) { return s.Leave(many) })
}

// Keep is State.Keep.
func (a *Atomic) Keep() (ok bool) { return a.v.CompareAndSwap(uint64(One), uint64(Idle)) }

// Mark is State.Mark, and returns the new State.
func (a *Atomic) Mark(bit State) (next State, took bool) {
	return a.do(func(s State) (State, bool) { return s.Mark(bit) })
}

// Take is State.Take.
func (a *Atomic) Take() (took bool) {
	_, took = a.do(State.Take)
	return took
}

// Admit is State.Admit.
func (a *Atomic) Admit() { a.do(func(s State) (State, bool) { return s.Admit(), true }) }

// Yield is State.Yield.
func (a *Atomic) Yield() { a.do(func(s State) (State, bool) { return s.Yield(), true }) }

// Clear removes a bit.
func (a *Atomic) Clear(bit State) { a.v.And(^uint64(bit)) }

// do takes a step from the present State, and returns what the step returns.
func (a *Atomic) do(step func(State) (next State, ok bool)) (next State, ok bool) {
	for {
		s := a.Load()
		next, ok = step(s)
		if next == s || a.v.CompareAndSwap(uint64(s), uint64(next)) {
			return next, ok
		}
	}
}
