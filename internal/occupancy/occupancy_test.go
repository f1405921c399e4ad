package occupancy

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// internal/model/kept explores what the steps are good for. This table says what each of them does.
func TestTheStepsOfAState(t *testing.T) {
	enter := func(many bool) func(State) (State, bool) {
		return func(s State) (State, bool) { return s.Enter(many) }
	}
	leave := func(many bool) func(State) (State, bool) {
		return func(s State) (State, bool) { return s.Leave(many) }
	}
	mark := func(bit State) func(State) (State, bool) {
		return func(s State) (State, bool) { return s.Mark(bit) }
	}
	always := func(step func(State) State) func(State) (State, bool) {
		return func(s State) (State, bool) { return step(s), true }
	}
	for _, row := range []struct {
		name     string
		step     func(State) (State, bool)
		from, to State
		ok       bool
	}{
		{"one enters an idle tenure", enter(false), Idle, One, true},
		{"one enters none", enter(false), None, 0, false},
		{"a second one", enter(false), One, 0, false},
		{"one enters a tenure of many", enter(false), Idle | Many, 0, false},
		{"one enters a tenure that was taken", enter(false), Idle | taken, 0, false},
		{"one enters beside a bit", enter(false), Idle | Wanted, 0, false},
		{"the first of many", enter(true), Idle | Many, One | Many, true},
		{"the third of many", enter(true), One | Many + 1, One | Many + 2, true},
		{"the third of many that keep nothing", enter(true), One | Many | Brief + 1, One | Many | Brief + 2, true},
		{"one of many enters none", enter(true), None, 0, false},
		{"one of many enters the tenure of one", enter(true), Idle, 0, false},
		{"one of many enters beside a bit", enter(true), One | Many | Draining, 0, false},
		{"one of many enters a tenure that was taken", enter(true), Idle | Many | taken, 0, false},
		{"the last one leaves", leave(false), One, Idle, true},
		{"the last of many leaves", leave(true), One | Many, Idle | Many, true},
		{"one of two leaves, with a bit", leave(true), One | Many | Draining + 1, One | Many | Draining, true},
		{"the last one leaves, with a bit", leave(false), One | Wanted, Idle | Wanted | taken, true},
		{"the last of many leaves, with a bit", leave(true), One | Many | Draining, Idle | Many | Draining | taken, true},
		{"the last of many that keep nothing leaves", leave(true), One | Many | Brief, Idle | Many | Brief | taken, true},
		{"one leaves an idle tenure", leave(false), Idle, Idle, false},
		{"one leaves none", leave(false), None, None, false},
		{"one of many leaves the tenure of one", leave(true), One, One, false},
		{"one leaves a tenure of many", leave(false), One | Many, One | Many, false},
		{"one leaves a tenure that was taken", leave(true), Idle | Many | taken, Idle | Many | taken, false},
		{"one keeps", State.Keep, One, Idle, true},
		{"one keeps beside a bit", State.Keep, One | Wanted, 0, false},
		{"a bit for nobody", mark(Draining), None, None, false},
		{"a bit for an idle tenure", mark(Wanted), Idle, Idle | taken | Wanted, true},
		{"a bit for an idle tenure of many", mark(Draining), Idle | Many, Idle | Many | taken | Draining, true},
		{"a bit for a holder", mark(Draining), One | Wanted, One | Wanted | Draining, false},
		{"a bit for who has taken it", mark(Wanted), Idle | taken, Idle | taken | Wanted, false},
		{"an idle tenure is taken", State.Take, Idle, Idle | taken | Draining, true},
		{"an idle tenure of many is taken", State.Take, Idle | Many, Idle | Many | taken | Draining, true},
		{"a tenure that is held is taken", State.Take, One, One, false},
		{"a tenure is taken twice", State.Take, Idle | taken, Idle | taken, false},
		{"who has taken it lets one in", always(State.Admit), Idle | taken | Wanted, One | Wanted, true},
		{"the holder takes it", always(State.Yield), One | Draining, Idle | taken | Draining, true},
	} {
		to, ok := row.step(row.from)
		if ok != row.ok || (ok || row.to != 0) && to != row.to {
			t.Errorf("%s: from %#x to %#x, %v; want %#x, %v", row.name, uint64(row.from), uint64(to), ok, uint64(row.to), row.ok)
		}
	}
}

// Goroutines enter, leave, and mark. Of those that exclude each other one is inside at a time, and a tenure that was taken has
// nobody inside until it is idle again.
func TestStepsAreAtomic(t *testing.T) {
	for _, many := range []bool{false, true} {
		var a Atomic
		var inside, deciding atomic.Int32
		var entered, taken atomic.Int64
		begin := Begin(1, 0)
		if many {
			begin = Begin(1, Many)
		}
		a.Begin(1, begin&^One)
		a.Leave(many)
		decide := func() {
			taken.Add(1)
			if deciding.Add(1) > 1 || inside.Load() > 0 {
				t.Errorf("many %v: a tenure that was taken is held, or was taken twice", many)
			}
			runtime.Gosched()
			deciding.Add(-1)
			for again := true; again; { // somebody may mark meanwhile
				a.End()
				a.Begin(1, begin&^One)
				left, _ := a.Leave(many)
				again = left.Taken()
			}
		}
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for j := range 20_000 {
					if i == 0 && j%8 == 0 {
						if _, took := a.Mark(Draining); took {
							decide()
						}
						runtime.Gosched()
					}
					if !a.Enter(many) {
						continue
					}
					entered.Add(1)
					if n := inside.Add(1); n > 1 && !many || deciding.Load() > 0 {
						t.Errorf("many %v: %d are inside", many, n)
					}
					inside.Add(-1)
					if left, ok := a.Leave(many); !ok {
						t.Errorf("many %v: Leave reports that nobody is inside", many)
					} else if left.Taken() {
						decide()
					}
				}
			})
		}
		all.Wait()
		if entered.Load() == 0 || taken.Load() == 0 {
			t.Errorf("many %v: entered %d times, taken %d times; want more of both", many, entered.Load(), taken.Load())
		}
	}
}

func TestAStepThatIsNotAllowedChangesNothing(t *testing.T) {
	var a Atomic
	if _, took := a.Mark(Draining); took || a.Load() != None {
		t.Errorf("a bit for nobody makes the state %#x, taken %v; want none", uint64(a.Load()), took)
	}
	a.Begin(1, 0)
	if a.Enter(false) || a.Load() != One {
		t.Errorf("a second goroutine makes the state %#x, want one that holds", uint64(a.Load()))
	}
	a.Mark(Wanted)
	if a.Keep() || a.Load() != One|Wanted {
		t.Errorf("to keep beside a bit makes the state %#x, want no change", uint64(a.Load()))
	}
}

func TestATenureThatWasTakenIsHeldAgainOrEnds(t *testing.T) {
	var a Atomic
	a.Begin(1, 0)
	if a.Yield(); a.Load() != Idle|taken {
		t.Errorf("after Yield the state is %#x, want taken", uint64(a.Load()))
	}
	if a.Admit(); a.Load() != One {
		t.Errorf("after Admit the state is %#x, want one that holds", uint64(a.Load()))
	}
	if a.End(); a.Load() != None || a.Enter(false) {
		t.Errorf("after End the state is %#x, want none, which nobody enters", uint64(a.Load()))
	}
}
