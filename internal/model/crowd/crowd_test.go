package crowd

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// A result is the outcome of an exploration.
type result struct {
	states int
	idle   uint8 // the longest time
	trace  []string
}

func (r result) String() string {
	return explore.Text(fmt.Sprintf("%d states, a lock idle for up to %d ticks", r.states, r.idle), r.trace)
}

// explore visits all states, or ends at the first one in which the lock has been idle for longer than bound.
func (w world) explore(bound uint8) (r result) {
	search := explore.Model[state, step]{
		Initial:    w.initial(),
		Successors: w.successors,
		Canonical:  canonical,
		Broken: func(s *state) bool {
			r.idle = max(r.idle, s.idle)
			return s.idle > bound
		},
	}.Explore()
	r.states = len(search.States)
	if search.Broken >= 0 {
		r.trace = search.Trace(search.Broken)
	}
	return r
}

// A bounded is a world, and how long a lock is idle there at most, in ticks.
type bounded struct {
	world
	bound uint8
	floor int // so many states at least, else a part of the model is not reached
}

var (
	orderly   = bounded{world{leaves: true}, 0, 6_000}
	mortal    = bounded{world{leaves: true, deaths: 1}, 1, 25_000} // the near ones poll
	mortals   = bounded{world{deaths: 2}, 2, 50_000}               // one dies in the tick in which its poll is due
	lossy     = bounded{world{losses: 1}, 1, 25_000}               // the other near one polls
	lossier   = bounded{world{losses: 1, deaths: 1}, 4, 90_000}    // nobody near is left, and a far one polls
	halted    = bounded{world{stops: 1}, g, 40_000}
	halting   = bounded{world{stops: 2}, 2*g + 1, 90_000}     // one after the other is granted the lock, and stopped; a far one polls
	all       = bounded{world{stops: 3}, 3*g + 2, 120_000}    // the same of all but the last one
	forgetful = bounded{world{restarts: 1}, first, 30_000}    // a far one joins the queue again
	skipped   = bounded{world{silent: 1, unheard: 1}, 1, 300} // all are told, and the live one polls
	expired   = bounded{world{unheard: 2}, g, 500}            // one grant is wasted
	fast      = bounded{world{fast: true, leaves: true}, 0, 6_000}
	fastDeath = bounded{world{fast: true, deaths: 1}, 2, 20_000} // a client that was not told polls
	fastLoss  = bounded{world{fast: true, losses: 1}, 2, 20_000}
	beside    = bounded{world{silent: 2, found: true, deaths: 1}, 1, 80} // those behind silent ones are near
)

// TestAFreeLockIsHadWithinABound checks that some live client has the lock in time, and that the bounds are exact.
func TestAFreeLockIsHadWithinABound(t *testing.T) {
	for name, w := range map[string]bounded{
		"no misfortune": orderly, "a client dies": mortal, "two clients die": mortals, "a message is lost": lossy,
		"a message is lost, a client dies": lossier, "a client is stopped": halted, "two are stopped": halting,
		"all but one are stopped": all, "a master loses its queue": forgetful, "one that is silent, one that is far": skipped,
		"two that are far are stopped": expired, "two that are silent, a holder dies": beside,
		"turns are fast": fast, "turns are fast, a client dies": fastDeath, "turns are fast, a message is lost": fastLoss,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.explore(w.bound)
			if t.Log(r); r.idle != w.bound || r.states < w.floor {
				t.Errorf("%d states, idle for up to %d ticks; want %d at least, %d exactly", r.states, r.idle, w.floor, w.bound)
			}
		})
	}
}

// The same of a semaphore of two permits.
var (
	orderlyTwo   = bounded{world{limit: 2, leaves: true}, 0, 30_000}
	mortalTwo    = bounded{world{limit: 2, leaves: true, deaths: 1}, 1, 90_000}
	mortalsTwo   = bounded{world{limit: 2, deaths: 2}, 2, 150_000}
	lossyTwo     = bounded{world{limit: 2, losses: 1}, 1, 150_000}
	haltedTwo    = bounded{world{limit: 2, stops: 1}, g, 150_000}
	forgetfulTwo = bounded{world{limit: 2, restarts: 1}, first, 200_000}
	skippedTwo   = bounded{world{limit: 2, silent: 1, unheard: 1}, 1, 1_500}
	expiredTwo   = bounded{world{limit: 2, unheard: 2}, 2 * g, 1_000} // two grants are wasted, one after the other
	besideTwo    = bounded{world{limit: 2, silent: 2, found: true, deaths: 1}, 1, 1_000}
)

// TestAFreePermitIsHadWithinABound checks that a client that waits has a permit in time, if fewer are held than the limit is. The bounds are
// those of a lock, but for two grants that are wasted one after the other.
func TestAFreePermitIsHadWithinABound(t *testing.T) {
	for name, w := range map[string]bounded{
		"no misfortune": orderlyTwo, "a client dies": mortalTwo, "a message is lost": lossyTwo, "a client is stopped": haltedTwo,
		"a master loses its queue": forgetfulTwo, "one that is silent, one that is far": skippedTwo, "two that are far are stopped": expiredTwo,
		"two that are silent, a holder dies": besideTwo, "two clients die": mortalsTwo,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.explore(w.bound)
			if t.Log(r); r.idle != w.bound || r.states < w.floor {
				t.Errorf("%d states, idle for up to %d ticks; want %d at least, %d exactly", r.states, r.idle, w.floor, w.bound)
			}
		})
	}
}

// A strike is a world without a rule, in which a lock is idle for longer than with it.
type strike struct {
	name  string
	in    bounded
	rules rules
}

var struckOut = []strike{
	{"a grant does not tell who becomes near", mortal, rules{quietGrant: true}},
	{"a claim that leaves does not tell who becomes near", mortal, rules{quietLeaving: true}},
	{"a poll that gets the lock does not tell who becomes near", mortals, rules{quietWin: true}},
	{"who removes the dead does not tell who becomes near", mortals, rules{quietRemoval: true}},
	{"the answer that is read last says the place", mortal, rules{lastAnswer: true}},
	{"far clients do not poll", lossier, rules{farSleep: true}},
	{"a grant to a far client makes no poll", orderly, rules{ignoresLate: true}},
	{"a poll grants the lock to who has not polled lately", expired, rules{waitsForFar: true}},
	{"a release does so behind one that is silent", skipped, rules{trustsFar: true}},
	{"who was passed over stays among the near", beside, rules{staysAhead: true}},
	{"a far client is silent as soon as a near one is", orderly, rules{farSilent: true}},
	{"a master that comes up makes no claim poll", forgetful, rules{deafToUp: true}},

	{"a permit: a grant does not tell who becomes near", mortalTwo, rules{quietGrant: true}},
	{"a permit: a claim that leaves does not tell who becomes near", mortalTwo, rules{quietLeaving: true}},
	{"a permit: the answer that is read last says the place", mortalTwo, rules{lastAnswer: true}},
	{"a permit: a grant to a far client makes no poll", orderlyTwo, rules{ignoresLate: true}},
	{"a permit: a release does so behind one that is silent", skippedTwo, rules{trustsFar: true}},
	{"a permit: who was passed over stays among the near", besideTwo, rules{staysAhead: true}},
	{"a permit: a far client is silent as soon as a near one is", orderlyTwo, rules{farSilent: true}},
	{"a permit: a master that comes up makes no claim poll", forgetfulTwo, rules{deafToUp: true}},
	{"a client that expects its turn soon polls as late as others", fastDeath, rules{lateFirst: true}},
}

// TestEachRuleIsNeeded switches off one rule at a time, and finds a lock that is idle for longer.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, v := range struckOut {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			w := v.in.world
			w.rules = v.rules
			r := w.explore(v.in.bound)
			if t.Log(r); r.idle <= v.in.bound {
				t.Errorf("a lock is idle for up to %d ticks, as with the rule", r.idle)
			}
		})
	}
}

// TestSomebodyIsNearWhateverTheOrders checks the rule by which a claim is near that has a place on each of three masters:
// one of them says so. If it took a quorum, nobody might be near. A claim that is near at one of them only polls a third as often. All that
// are near send as many polls together as if the orders were the same, at least, and as many more as there are masters beyond, at most.
func TestSomebodyIsNearWhateverTheOrders(t *testing.T) {
	const near = 1
	const clients = 4
	perms := permutations(clients)
	nobody := 0
	for _, second := range perms {
		for _, third := range perms {
			atOne, atQuorum := 0, 0
			for c := range second { // the first master has them in the order of their numbers
				says := 0
				for _, place := range []int{c, second[c], third[c]} {
					if place < near {
						says++
					}
				}
				if says > 0 {
					atOne++
				}
				if says > 1 {
					atQuorum++
				}
			}
			if atOne < near {
				t.Fatalf("%v, %v: %d are near", second, third, atOne)
			}
			if thirds := 3*atQuorum + (atOne - atQuorum); thirds < 3*near || thirds > 3*near+2 {
				t.Fatalf("%v, %v: they send %d thirds of the polls of a claim", second, third, thirds)
			}
			if atQuorum == 0 {
				nobody++
			}
		}
	}
	if nobody == 0 {
		t.Error("somebody is near at a quorum of masters in all orders: the rule is not needed")
	}
}

// permutations returns the permutations of the numbers below n.
func permutations(n int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for _, p := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(p), at, n-1))
		}
	}
	return all
}
