package names

import (
	"flag"
	"fmt"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

var large = flag.Bool("large", false, "explore the larger worlds too: minutes, and some gigabytes")

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

// A result is the outcome of an exploration.
type result struct {
	states int
	broken property
	trace  []string // the steps that break it
	did    [verbs]int
}

func (r result) String() string {
	return explore.Text(fmt.Sprintf("%d states: %s", r.states, r.broken), r.trace)
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

var exploration = explore.Once(func(w world) (r result) {
	search := explore.Model[state, action]{
		Initial:    state{restarts: w.restarts, deaths: w.deaths},
		Successors: w.successors,
		Canonical:  canonical,
		Broken:     func(s *state) bool { return w.check(s) != intact },
		Observe:    func(a action) { r.did[a.verb]++ },
		Progress:   w.patient,
	}.Explore()
	r.states = len(search.States)
	if search.Broken >= 0 {
		r.broken, r.trace = w.check(&search.States[search.Broken]), search.Trace(search.Broken)
		return r
	}
	for c := range w.roles {
		if !w.patient {
			break
		}
		waits := func(s *state) bool { return s.clients[c].phase != idle && s.clients[c].phase != holding }
		holds := func(s *state) bool { return s.clients[c].phase == holding }
		if at := search.Trapped(waits, holds); at >= 0 {
			r.broken, r.trace = notLockedOut, search.Trace(at)
			return r
		}
	}
	return r
})

// These worlds are explored by every run.
var (
	pair     = world{roles: "SA", room: 3, turns: 1}
	dying    = world{roles: "SA", room: 3, turns: 1, deaths: 1}
	alone    = world{roles: "S", room: 4, healing: true}
	patient  = world{roles: "SS", room: 3, turns: 1, patient: true}
	patients = world{roles: "SAB", room: 3, turns: 1, patient: true}

	holdingWorlds = []explored{
		{"a set and its first name, a client dies", dying, 110_000},
		{"a set whose first name is healed", alone, 45_000},
		{"two sets, nobody gives up", patient, 5_000},
		{"a set and each of its names, nobody gives up", patients, 150_000},
	}
)

// These worlds are explored only with the flag -large.
var (
	restarts = world{roles: "SA", room: 3, turns: 1, restarts: 1}

	largeWorlds = []explored{
		{"a set and its second name", world{roles: "SB", room: 3, turns: 1}, 110_000},
		{"a set and one that polls", world{roles: "SP", room: 3, turns: 1}, 300_000},
		{"a set and its first name, a master restarts", restarts, 800_000},
		{"a set and its first name, over and over", world{roles: "SA", room: 3}, 500_000},
		{"a set and its first name, more commands under way", world{roles: "SA", room: 4, turns: 1, healing: true}, 300_000},
		{"two sets", world{roles: "SS", room: 3, turns: 1}, 3_000_000},
		{"three sets, nobody gives up", world{roles: "SSS", room: 3, turns: 1, patient: true}, 350_000},
	}
)

// An explored world must have at least floor states, since a model that does nothing breaks no property
// either.
type explored struct {
	name  string
	world world
	floor int
}

func TestTheProtocolHolds(t *testing.T) {
	worlds := holdingWorlds
	if *large {
		worlds = append(worlds[:len(worlds):len(worlds)], largeWorlds...)
	}
	for _, e := range worlds {
		t.Run(e.name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("not with -short")
			}
			r := exploration(e.world)
			t.Log(r)
			if r.broken != intact {
				t.Errorf("the protocol does not hold")
			}
			if r.states < e.floor {
				t.Errorf("%d states, want at least %d: part of the model is not reached", r.states, e.floor)
			}
			for _, v := range e.world.verbs() {
				if r.did[v] == 0 {
					t.Errorf("never seen: %v", action{verb: v})
				}
			}
		})
	}
}

// verbs returns the kinds of steps that must occur in a world.
func (w *world) verbs() []verb {
	all := []verb{begins, advances, mergesNames, acquires, repeats, ends, executes}
	add := func(has bool, more ...verb) {
		if has {
			all = append(all, more...)
		}
	}
	add(!w.patient, lapses, loses, expires)
	add(w.healing, heals)
	add(w.deaths > 0, dies)
	add(w.restarts > 0, forgets, votesAgain)
	return all
}

// with returns a world with some rules switched off.
func with(w world, r rules) world {
	w.rules = r
	return w
}

// TestEachRuleIsNeeded switches off one rule at a time, and finds the shortest way to a broken property.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, v := range []struct {
		name  string
		world world
		want  property
		large bool
	}{
		{"a merger takes keys of others", with(pair, rules{takesForeign: true}), oneHolder, false},
		{"a master merges some of the names", with(pair, rules{partly: true}), oneHolder, false},
		{"a merger needs no votes", with(pair, rules{mergesAtOnce: true}), oneHolder, false},
		{"votes of several mergers are added up", with(pair, rules{sumsVotes: true}), oneHolder, false},
		{"a merger counts in quarantine", with(restarts, rules{countsQuarantined: true}), oneHolder, true},
		{"each client has an order of its own", with(patient, rules{anyOrder: true}), notLockedOut, false},
		{"a merger needs all keys of the single names", with(patient, rules{needsParts: true}), notLockedOut, false},
		{"a merger is not repeated", with(patient, rules{mergesOnce: true}), notLockedOut, false},
		{"single names are left where a merger was not granted", with(alone, rules{keepsParts: true}), nothingLeft, false},
		{"a merger that fails is not released", with(alone, rules{keepsMerged: true}), nothingLeft, false},
		{"a single name is healed after the merger", with(alone, rules{partsLiveOn: true}), nothingLeft, false},
	} {
		if v.large && !*large {
			t.Logf("%q is switched off only with -large", v.name)
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			r := exploration(v.world)
			t.Log(r)
			if r.broken != v.want {
				t.Errorf("found: %s, want: %s", r.broken, v.want)
			}
		})
	}
}
