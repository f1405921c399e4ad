package crowd

import (
	"slices"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

const idle = "A LOCK IS IDLE FOR TOO LONG"

// explore visits all states, or ends at the first one in which the lock has been idle for longer than the bound, which must be exact.
func (w bounded) explore(off rules) explore.Result {
	w.rules = off
	return explore.Model[state, string]{
		Initial:    w.initial(),
		Successors: w.successors,
		Canonical:  canonical,
	}.Within(w.bound, func(s *state) uint8 { return s.idle }, idle)
}

// A bounded is a world, and how long a lock is idle there at most, in ticks.
type bounded struct {
	world
	bound uint8
}

var (
	orderly   = bounded{world{leaves: true}, 0}
	mortal    = bounded{world{leaves: true, deaths: 1}, 1} // the near ones poll
	mortals   = bounded{world{deaths: 2}, 2}               // one dies in the tick in which its poll is due
	lossy     = bounded{world{losses: 1}, 1}               // the other near one polls
	lossier   = bounded{world{losses: 1, deaths: 1}, 4}    // nobody near is left, and a far one polls
	halted    = bounded{world{stops: 1}, g}
	halting   = bounded{world{stops: 2}, 2*g + 1}        // one after the other is granted the lock, and stopped; a far one polls
	all       = bounded{world{stops: 3}, 3*g + 2}        // the same of all but the last one
	forgetful = bounded{world{restarts: 1}, first}       // a far one joins the queue again
	skipped   = bounded{world{silent: 1, unheard: 1}, 1} // all are told, and the live one polls
	expired   = bounded{world{unheard: 2}, g}            // one grant is wasted
	fast      = bounded{world{fast: true, leaves: true}, 0}
	fastDeath = bounded{world{fast: true, deaths: 1}, 2} // a client that was not told polls
	fastLoss  = bounded{world{fast: true, losses: 1}, 2}
	beside    = bounded{world{silent: 2, found: true, deaths: 1}, 1} // those behind silent ones are near
)

// TestAFreeLockIsHadWithinABound checks that some live client has the lock in time, and that the bounds are exact.
func TestAFreeLockIsHadWithinABound(t *testing.T) {
	explore.Check(t, []explore.Case[bounded, rules]{
		{Name: "no misfortune", World: orderly, Floor: 6_000},
		{Name: "a client dies", World: mortal, Floor: 25_000},
		{Name: "two clients die", World: mortals, Floor: 50_000},
		{Name: "a message is lost", World: lossy, Floor: 25_000},
		{Name: "a message is lost, a client dies", World: lossier, Floor: 90_000},
		{Name: "a client is stopped", World: halted, Floor: 40_000},
		{Name: "two are stopped", World: halting, Floor: 90_000},
		{Name: "all but one are stopped", World: all, Floor: 120_000},
		{Name: "a master loses its queue", World: forgetful, Floor: 30_000},
		{Name: "one that is silent, one that is far", World: skipped, Floor: 300},
		{Name: "two that are far are stopped", World: expired, Floor: 500},
		{Name: "two that are silent, a holder dies", World: beside, Floor: 80},
		{Name: "turns are fast", World: fast, Floor: 6_000},
		{Name: "turns are fast, a client dies", World: fastDeath, Floor: 20_000},
		{Name: "turns are fast, a message is lost", World: fastLoss, Floor: 20_000},
	}, bounded.explore)
}

// The same of a semaphore of two permits.
var (
	orderlyTwo   = bounded{world{limit: 2, leaves: true}, 0}
	mortalTwo    = bounded{world{limit: 2, leaves: true, deaths: 1}, 1}
	mortalsTwo   = bounded{world{limit: 2, deaths: 2}, 2}
	lossyTwo     = bounded{world{limit: 2, losses: 1}, 1}
	haltedTwo    = bounded{world{limit: 2, stops: 1}, g}
	forgetfulTwo = bounded{world{limit: 2, restarts: 1}, first}
	skippedTwo   = bounded{world{limit: 2, silent: 1, unheard: 1}, 1}
	expiredTwo   = bounded{world{limit: 2, unheard: 2}, 2 * g} // two grants are wasted, one after the other
	besideTwo    = bounded{world{limit: 2, silent: 2, found: true, deaths: 1}, 1}
)

// TestAFreePermitIsHadWithinABound checks that a client that waits has a permit in time, if fewer are held than the limit is. The bounds are
// those of a lock, but for two grants that are wasted one after the other.
func TestAFreePermitIsHadWithinABound(t *testing.T) {
	explore.Check(t, []explore.Case[bounded, rules]{
		{Name: "no misfortune", World: orderlyTwo, Floor: 30_000},
		{Name: "a client dies", World: mortalTwo, Floor: 90_000},
		{Name: "a message is lost", World: lossyTwo, Floor: 150_000},
		{Name: "a client is stopped", World: haltedTwo, Floor: 150_000},
		{Name: "a master loses its queue", World: forgetfulTwo, Floor: 200_000},
		{Name: "one that is silent, one that is far", World: skippedTwo, Floor: 1_500},
		{Name: "two that are far are stopped", World: expiredTwo, Floor: 1_000},
		{Name: "two that are silent, a holder dies", World: besideTwo, Floor: 1_000},
		{Name: "two clients die", World: mortalsTwo, Floor: 150_000},
	}, bounded.explore)
}

// TestEachRuleIsNeeded switches off one rule at a time, and finds a lock that is idle for longer.
func TestEachRuleIsNeeded(t *testing.T) {
	explore.Check(t, []explore.Case[bounded, rules]{
		{Name: "a grant does not tell who becomes near", World: mortal, Off: rules{quietGrant: true}, Want: idle},
		{Name: "a claim that leaves does not tell who becomes near", World: mortal, Off: rules{quietLeaving: true}, Want: idle},
		{Name: "a poll that gets the lock does not tell who becomes near", World: mortals, Off: rules{quietWin: true}, Want: idle},
		{Name: "who removes the dead does not tell who becomes near", World: mortals, Off: rules{quietRemoval: true}, Want: idle},
		{Name: "the answer that is read last says the place", World: mortal, Off: rules{lastAnswer: true}, Want: idle},
		{Name: "far clients do not poll", World: lossier, Off: rules{farSleep: true}, Want: idle},
		{Name: "a grant to a far client makes no poll", World: orderly, Off: rules{ignoresLate: true}, Want: idle},
		{Name: "a poll grants the lock to who has not polled lately", World: expired, Off: rules{waitsForFar: true}, Want: idle},
		{Name: "a release does so behind one that is silent", World: skipped, Off: rules{trustsFar: true}, Want: idle},
		{Name: "who was passed over stays among the near", World: beside, Off: rules{staysAhead: true}, Want: idle},
		{Name: "a far client is silent as soon as a near one is", World: orderly, Off: rules{farSilent: true}, Want: idle},
		{Name: "a master that comes up makes no claim poll", World: forgetful, Off: rules{deafToUp: true}, Want: idle},
		{Name: "a permit: a grant does not tell who becomes near", World: mortalTwo, Off: rules{quietGrant: true}, Want: idle},
		{Name: "a permit: a claim that leaves does not tell who becomes near", World: mortalTwo, Off: rules{quietLeaving: true}, Want: idle},
		{Name: "a permit: the answer that is read last says the place", World: mortalTwo, Off: rules{lastAnswer: true}, Want: idle},
		{Name: "a permit: a grant to a far client makes no poll", World: orderlyTwo, Off: rules{ignoresLate: true}, Want: idle},
		{Name: "a permit: a release does so behind one that is silent", World: skippedTwo, Off: rules{trustsFar: true}, Want: idle},
		{Name: "a permit: who was passed over stays among the near", World: besideTwo, Off: rules{staysAhead: true}, Want: idle},
		{Name: "a permit: a far client is silent as soon as a near one is", World: orderlyTwo, Off: rules{farSilent: true}, Want: idle},
		{Name: "a permit: a master that comes up makes no claim poll", World: forgetfulTwo, Off: rules{deafToUp: true}, Want: idle},
		{Name: "a client that expects its turn soon polls as late as others", World: fastDeath, Off: rules{lateFirst: true}, Want: idle},
	}, bounded.explore)
}

// TestTheHeadOfAMasterPollsOftenWhateverTheOrders checks how often a claim polls that has a place on each of three masters. It is near if it
// is the head at most of them, and polls in each step. Otherwise it polls each master once in as many steps as the harmonic mean of the numbers
// ahead of it, times the number of masters. In some orders nobody is near, but the head of each master polls it at least once in nine steps. All claims
// together poll a fifth more often at most than if the orders were the same.
func TestTheHeadOfAMasterPollsOftenWhateverTheOrders(t *testing.T) {
	const near = 1
	const clients, masters = 4, 3
	// pause returns after how many steps a claim with so many ahead of it polls a master again.
	pause := func(places []int) float64 {
		first, rate := 0, 0.0
		for _, ahead := range places {
			if ahead < near {
				first++
			}
			rate += 1 / float64(max(ahead, 1))
		}
		if 2*first > masters {
			return 1
		}
		return masters * masters / rate
	}
	together := func(second, third []int) (polls float64, somebodyNear bool) {
		for c := range clients { // the first master has them in the order of their numbers
			places := []int{c, second[c], third[c]}
			d := pause(places)
			if slices.Min(places) == 0 && d > masters*masters {
				t.Fatalf("%v, %v: a head polls every %.1f steps", second, third, d)
			}
			polls, somebodyNear = polls+1/d, somebodyNear || d == 1
		}
		return polls, somebodyNear
	}
	perms := permutations(clients)
	most, _ := together([]int{0, 1, 2, 3}, []int{0, 1, 2, 3})
	nobody := 0
	for _, second := range perms {
		for _, third := range perms {
			polls, somebodyNear := together(second, third)
			if polls > most*6/5 {
				t.Fatalf("%v, %v: %.2f polls in a step, %.2f if the orders are the same", second, third, polls, most)
			}
			if !somebodyNear {
				nobody++
			}
		}
	}
	if nobody == 0 {
		t.Error("somebody is near in all orders")
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
