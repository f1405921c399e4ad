package names

import (
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// rules are the rules of the protocol that can be switched off. The zero value is the complete protocol. Each
// field switches off one rule, which its comment states.
type rules struct {
	takesForeign      bool // a master merges only keys that are free or the client's own
	partly            bool // a master merges all names or none
	mergesAtOnce      bool // a merger needs a quorum of votes, as if nothing had been acquired before
	sumsVotes         bool // each attempt to merge has votes of its own
	countsQuarantined bool // a merger does not count at a master in quarantine

	anyOrder   bool // all clients acquire the names in the same order
	needsParts bool // a master merges names whose keys are free, too
	mergesOnce bool // a merger that fails is repeated

	keepsParts  bool // after a merger, the single names are undone where it was not granted
	keepsMerged bool // a merger that fails is released
	partsLiveOn bool // when the merger begins, nothing of the single names is sent but what ends them
}

// A world is the protocol together with the clients and the faults that may happen.
type world struct {
	rules

	roles    string // of the clients: S for a set of both names, P for a set that polls, A and B for one name
	room     int    // commands under way from one client to one master, at most
	turns    uint8  // how often each client begins; 0: over and over
	restarts uint8  // losses of memory in total
	deaths   uint8  // deaths of clients before they send their releases, in total
	healing  bool   // the first name is healed
	patient  bool   // nobody gives up, and leases last until they are released
}

// successors calls next for each step from s.
func (w *world) successors(s *state, next func(action, state)) {
	settled := func(a action, n state) {
		w.settle(&n)
		next(a, n)
	}
	for c := range w.roles {
		w.clientSteps(s, c, settled)
	}
	for i := range s.masters {
		w.masterSteps(s, i, settled)
	}
}

func (w world) explore(off rules) explore.Result {
	w.rules = off
	m := explore.Model[state, action]{
		Initial:    state{restarts: w.restarts, deaths: w.deaths},
		Successors: w.successors,
		Canonical:  canonical,
		Check:      w.check,
	}
	for c := range w.roles {
		if w.patient {
			m.Goals = append(m.Goals, explore.Goal[state]{
				Property: notLockedOut,
				Waits:    func(s *state) bool { return s.clients[c].phase != idle && s.clients[c].phase != holding },
				Done:     func(s *state) bool { return s.clients[c].phase == holding },
			})
		}
	}
	return m.Reach(func(a action) explore.Verb { return a.verb }, w.verbs())
}

var (
	pair     = world{roles: "SA", room: 3, turns: 1}
	dying    = world{roles: "SA", room: 3, turns: 1, deaths: 1}
	alone    = world{roles: "S", room: 4, healing: true}
	patient  = world{roles: "SS", room: 3, turns: 1, patient: true}
	patients = world{roles: "SAB", room: 3, turns: 1, patient: true}
	restarts = world{roles: "SA", room: 3, turns: 1, restarts: 1}
)

func TestTheProtocolHolds(t *testing.T) {
	explore.Check(t, []explore.Case[world, rules]{
		{Name: "a set and its first name, a client dies", World: dying, Floor: 110_000},
		{Name: "a set whose first name is healed", World: alone, Floor: 45_000},
		{Name: "two sets, nobody gives up", World: patient, Floor: 5_000},
		{Name: "a set and each of its names, nobody gives up", World: patients, Floor: 150_000},

		{Name: "a set and its second name", World: world{roles: "SB", room: 3, turns: 1}, Floor: 110_000, Large: true},
		{Name: "a set and one that polls", World: world{roles: "SP", room: 3, turns: 1}, Floor: 300_000, Large: true},
		{Name: "a set and its first name, a master restarts", World: restarts, Floor: 800_000, Large: true},
		{Name: "a set and its first name, over and over", World: world{roles: "SA", room: 3}, Floor: 500_000, Large: true},
		{Name: "a set and its first name, more commands under way", World: world{roles: "SA", room: 4, turns: 1, healing: true}, Floor: 300_000, Large: true},
		{Name: "two sets", World: world{roles: "SS", room: 3, turns: 1}, Floor: 3_000_000, Large: true},
		{Name: "three sets, nobody gives up", World: world{roles: "SSS", room: 3, turns: 1, patient: true}, Floor: 350_000, Large: true},
	}, world.explore)
}

// verbs says which kinds of steps must occur in a world.
func (w *world) verbs() map[explore.Verb]bool {
	return map[explore.Verb]bool{
		begins: true, advances: true, mergesNames: true, acquires: true, repeats: true, ends: true, executes: true,
		lapses: !w.patient, loses: !w.patient, expires: !w.patient,
		heals: w.healing, dies: w.deaths > 0, forgets: w.restarts > 0, votesAgain: w.restarts > 0,
	}
}

// TestEachRuleIsNeeded switches off one rule at a time, and finds the shortest way to a broken property.
func TestEachRuleIsNeeded(t *testing.T) {
	explore.Check(t, []explore.Case[world, rules]{
		{Name: "a merger takes keys of others", World: pair, Off: rules{takesForeign: true}, Want: oneHolder},
		{Name: "a master merges some of the names", World: pair, Off: rules{partly: true}, Want: oneHolder},
		{Name: "a merger needs no votes", World: pair, Off: rules{mergesAtOnce: true}, Want: oneHolder},
		{Name: "votes of several mergers are added up", World: pair, Off: rules{sumsVotes: true}, Want: oneHolder},
		{Name: "a merger counts in quarantine", World: restarts, Off: rules{countsQuarantined: true}, Want: oneHolder, Large: true},
		{Name: "each client has an order of its own", World: patient, Off: rules{anyOrder: true}, Want: notLockedOut},
		{Name: "a merger needs all keys of the single names", World: patient, Off: rules{needsParts: true}, Want: notLockedOut},
		{Name: "a merger is not repeated", World: patient, Off: rules{mergesOnce: true}, Want: notLockedOut},
		{Name: "single names are left where a merger was not granted", World: alone, Off: rules{keepsParts: true}, Want: nothingLeft},
		{Name: "a merger that fails is not released", World: alone, Off: rules{keepsMerged: true}, Want: nothingLeft},
		{Name: "a single name is healed after the merger", World: alone, Off: rules{partsLiveOn: true}, Want: nothingLeft},
	}, world.explore)
}
