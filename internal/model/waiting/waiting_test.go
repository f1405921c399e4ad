package waiting

import (
	"fmt"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// A finding is an error that an exploration has found.
type finding string

const (
	fine      finding = "nobody waits in vain"
	stuck     finding = "SOMEBODY SLEEPS, THE LOCK IS FREE, AND NOBODY COMES"
	lockedOut finding = "SOMEBODY WAITS AND CANNOT GET IN ANY MORE"
	robbed    finding = "A CLIENT THAT RELEASED THE LOCK TAKES IT FROM THE CLIENT THAT IT HAS WOKEN"
)

// A result is the outcome of an exploration.
type result struct {
	states  int
	found   finding
	trace   []string
	holders [mostClients]int // states in which each client holds the lock
	sleeps  int              // states in which a client sleeps
}

func (r result) String() string {
	return explore.Text(fmt.Sprintf("%d states: %s", r.states, r.found), r.trace)
}

// explore visits every state that can be reached.
func (w *world) explore() (r result) {
	found := explore.Model[state, string]{
		Initial:    state{crashes: w.crashes, calls: w.calls},
		Successors: w.successors,
		Canonical:  func(s state) state { return s.canonical(w.masters) },
		Broken:     func(s *state) bool { return w.check(s) != fine },
		Progress:   true,
	}.Explore()
	r.states, r.found = len(found.States), fine
	for i := range found.States {
		for c := range w.clients {
			switch found.States[i].clients[c].phase {
			case holding:
				r.holders[c]++
			case asleep:
				r.sleeps++
			}
		}
	}
	at := found.Broken
	if at >= 0 {
		r.found = w.check(&found.States[at])
	}
	for c := 0; c < w.clients && at < 0; c++ {
		// A client can also end its wait by leaving or dying, which does not count.
		at = found.Trapped(
			func(s *state) bool { return s.clients[c].phase.waits() },
			func(s *state) bool { return s.clients[c].phase == holding },
		)
		if at >= 0 {
			r.found = lockedOut
		}
	}
	if at >= 0 {
		r.trace = found.Trace(at)
	}
	return r
}

func (w *world) check(s *state) finding {
	switch {
	case w.isStuck(s):
		return stuck
	case s.robbed && w.turns:
		return robbed
	}
	return fine
}

// isStuck reports whether a client sleeps although nothing is under way and a quorum is free.
func (w *world) isStuck(s *state) bool {
	sleepers, free := 0, 0
	for i := range w.masters {
		m := &s.masters[i]
		if m.owner == nobody {
			free++
		}
		for c := range w.clients {
			if l := &m.lanes[c]; l.commands[0] != nothing || l.message {
				return false
			}
		}
	}
	for c := range w.clients {
		switch cl := &s.clients[c]; {
		case cl.phase == asleep && !cl.woken:
			sleepers++
		case cl.phase != idle:
			return false
		}
	}
	return w.noPolls && sleepers > 0 && free >= w.majority()
}

var (
	// Without polls, and with one master: this shows what the wake-ups alone achieve.
	woken = world{masters: 1, clients: 3, room: 4, calls: 4, leaves: true, careful: true, tries: true, rules: rules{noPolls: true}}
	// With polls, whatever happens.
	polled   = world{masters: 3, clients: 2, room: 3, calls: 2}
	split    = world{masters: 2, clients: 2, room: 4, calls: 3}
	mishaps  = world{masters: 1, clients: 3, room: 4, calls: 3, leaves: true, loses: true, crashes: 1}
	crowded  = world{masters: 1, clients: 2, room: 4, calls: 3, busy: true}
	turns    = world{masters: 1, clients: 3, room: 4, calls: 4, tries: true, turns: true}
	turnsOf2 = world{masters: 2, clients: 2, room: 4, calls: 3, turns: true}
	strewn   = world{masters: 3, clients: 2, room: 3, calls: 2, loses: true, crashes: 1}
	allWorld = []struct {
		name  string
		world world
		floor int
	}{
		{"wake-ups alone", woken, 1000},
		{"three masters", polled, 1000},
		{"masters that split their votes", split, 1000},
		{"messages are lost and clients die", mishaps, 1000},
		{"three masters, messages are lost and clients die", strewn, 1000},
		{"a client that always has the next goroutine", crowded, 100},
		{"a client that locks again while its release is on its way", turns, 1000},
		{"two masters, and clients that lock again", turnsOf2, 1000},
	}
)

func TestNobodyWaitsInVain(t *testing.T) {
	for _, e := range allWorld {
		t.Run(e.name, func(t *testing.T) {
			r := e.world.explore()
			t.Log(r)
			if r.found != fine {
				t.Errorf("found: %s", r.found)
			}
			if r.states < e.floor || r.sleeps == 0 {
				t.Errorf("%d states, and %d in which somebody sleeps: part of the model is not reached", r.states, r.sleeps)
			}
			for c := range e.world.clients {
				if r.holders[c] == 0 {
					t.Errorf("%s never holds the lock", name(c))
				}
			}
		})
	}
}

// with returns a world with some rules switched off.
func with(w world, r rules) world {
	r.noPolls = r.noPolls || w.noPolls
	w.rules = r
	return w
}

// TestEachRuleIsNeeded switches off one rule at a time and finds a client that waits for ever.
func TestEachRuleIsNeeded(t *testing.T) {
	ends := woken
	ends.careful = false
	dying := mishaps
	dying.loses, dying.leaves, dying.noPolls = false, false, true
	for _, v := range []struct {
		name  string
		world world
		want  finding
	}{
		{"a release that wakes nobody", with(woken, rules{silentRelease: true}), stuck},
		{"a woken client that leaves, and does not pass it on", with(woken, rules{swallowsLeaves: true}), stuck},
		{"a sleeper that is registered after the command", with(woken, rules{lateSleeper: true}), stuck},
		{"an attempt that is not undone", with(polled, rules{undoForgets: true}), lockedOut},
		{"a handover without end", with(crowded, rules{endlessHands: true}), lockedOut},
		{"a client that locks again and overtakes those who queue", with(turns, rules{overtakes: true}), robbed},
		{"a release that leaves no trace of the last it has woken", with(turns, rules{noMark: true}), robbed},
		// Only polls help if a key disappears without a release, because it expires or is undone.
		{"no polls, and a holder dies", dying, stuck},
		{"no polls, and a client leaves that was granted the lock", ends, stuck},
		{"no polls, and each master grants the lock to another client", with(split, rules{noPolls: true}), stuck},
		{"no polls, and a message is lost", with(world{masters: 1, clients: 2, room: 4, calls: 2, loses: true}, rules{noPolls: true}), stuck},
	} {
		t.Run(v.name, func(t *testing.T) {
			r := v.world.explore()
			t.Log(r)
			if r.found != v.want {
				t.Errorf("found: %s, want: %s", r.found, v.want)
			}
		})
	}
}

// TestAClientThatLeavesPassesOnAWakeUpThatArrivesLate switches off a rule that another rule covers if there is one master: a
// client that leaves has passed on any wake-up that may still arrive. With several masters, a client may hold
// the lock while it is still in the queue of a master that has not woken it.
func TestAClientThatLeavesPassesOnAWakeUpThatArrivesLate(t *testing.T) {
	w := with(woken, rules{swallowsAtHome: true})
	if r := w.explore(); r.found != fine {
		t.Errorf("found: %s", r)
	}
}

// TestRulesThatPollsCover switches off rules in a world with polls. There no client waits for ever without
// these rules, since they only make waits short.
func TestRulesThatPollsCover(t *testing.T) {
	for name, r := range map[string]rules{
		"a release that wakes nobody":                      {silentRelease: true},
		"a wake-up that is not passed on":                  {swallowsAtHome: true},
		"a woken client that leaves without passing it on": {swallowsLeaves: true},
		"a sleeper that is registered late":                {lateSleeper: true},
		"clients that have died are woken":                 {wakesTheDead: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := with(mishaps, r)
			if found := w.explore(); found.found != fine {
				t.Errorf("found: %s", found)
			}
		})
	}
}
