package readers

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
	passedCounts bool // a renewal counts only if the member has not passed, and a read vote removes those that have
	lastMarks    bool // the marker lives as long as the longest member, not as long as the one set last
	renewalMarks bool // a renewal counts only where the marker stands; it does not set the marker
	renewalJoins bool // a renewal adds no member
	anyKey       bool // a renewal counts only where the key is the marker
	keepsSet     bool // where there is no key, a read vote empties the set first
	releaseFrees bool // a reader's release deletes the marker only with the last member
	healForRetry bool // only a renewal that succeeded is followed by heals

	noQuarantine     bool // a master that has lost its memory is quarantined
	heldOnly         bool // a quarantine outlasts leases and undecided rounds
	countQuarantined bool // a renewal does not count at a master in quarantine
}

// A world is the protocol together with the clients and the faults that may happen.
type world struct {
	rules

	roles     string // of the clients: R for a reader, W for a writer
	room      int    // commands under way from one client to one master, at most
	restarts  uint8  // losses of memory in total
	snapshots bool   // a master may also return to an earlier state of its memory
	crashes   bool   // a client may die before it sends its releases
	renewals  bool   // leases are renewed, and healed
	sleeps    bool   // a holder may be stopped until its keys are gone, and none of its clocks shows it
	oneByOne  bool   // its keys then disappear one by one
	turns     bool   // a writer's release may leave the marker
}

func (w *world) reads(c int) bool { return c < len(w.roles) && w.roles[c] == 'R' }

func (w *world) action(v verb, c, i int) action {
	return action{verb: v, client: c, master: i, roles: w.roles}
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

// settle executes releases that have no effect now and cannot have one later.
func (w *world) settle(s *state) {
	for i := range s.masters {
		m := &s.masters[i]
		for c := range w.roles {
			for l := &m.lanes[c]; l.queue[0] == release && *m.own(c, w) == absent; {
				l.drop(0)
			}
		}
	}
}

var exploration = explore.Once(func(w world) (r result) {
	search := explore.Model[state, action]{
		Initial:    state{restarts: w.restarts},
		Successors: w.successors,
		Canonical:  w.canonical,
		Broken:     func(s *state) bool { return w.check(s) != intact },
		Observe:    func(a action) { r.did[a.verb]++ },
	}.Explore()
	r.states = len(search.States)
	if search.Broken >= 0 {
		r.broken, r.trace = w.check(&search.States[search.Broken]), search.Trace(search.Broken)
	}
	return r
})

// These worlds are explored by every run.
var (
	pair     = world{roles: "RW", room: 2, renewals: true, turns: true}
	dying    = world{roles: "RW", room: 3, crashes: true, turns: true}
	restarts = world{roles: "RW", room: 2, restarts: 1, snapshots: true}
	asleep   = world{roles: "RW", room: 2, renewals: true, sleeps: true}

	holdingWorlds = []explored{
		{"a reader and a writer", pair, 100_000},
		{"a reader and a writer that die", dying, 400_000},
		{"a reader and a writer, a master that restarts to a snapshot", restarts, 200_000},
		{"a reader and a writer that sleep", asleep, 250_000},
	}
)

// These worlds are explored only with the flag -large.
var (
	three   = world{roles: "RRW", room: 2}
	renewed = world{roles: "RW", room: 2, restarts: 1, renewals: true}

	largeWorlds = []explored{
		{"two readers and a writer", three, 1_500_000},
		{"a reader and two writers", world{roles: "RWW", room: 2}, 250_000},
		{"a reader and a writer, two restarts", world{roles: "RW", room: 2, restarts: 2}, 500_000},
		{"renewals, a restart", renewed, 900_000},
		{"renewals, a restart to a snapshot", world{roles: "RW", room: 2, renewals: true, restarts: 1, snapshots: true}, 3_000_000},
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
					t.Errorf("never seen: %v", e.world.action(v, 0, 0))
				}
			}
		})
	}
}

// verbs returns the kinds of steps that must occur in a world.
func (w *world) verbs() []verb {
	all := []verb{begins, commits, ends, executes, loses, passes, expires}
	add := func(has bool, more ...verb) {
		if has {
			all = append(all, more...)
		}
	}
	add(w.renewals, renews, asksAgain, prolongs, givesUp)
	add(w.sleeps, sleeps)
	add(w.crashes, dies)
	add(w.restarts > 0, forgets, votesAgain)
	add(w.snapshots, restores)
	return all
}

// with returns a world with some rules switched off.
func with(w world, r rules) world {
	w.rules = r
	return w
}

// TestEachRuleIsNeeded switches off one rule at a time, and finds the shortest way to a broken property.
func TestEachRuleIsNeeded(t *testing.T) {
	once := world{roles: "RW", room: 2, restarts: 1}
	for _, v := range []struct {
		name  string
		world world
		want  property
		large bool
	}{
		{"members that have passed count", with(asleep, rules{passedCounts: true}), honestLoss, false},
		{"the marker lives as long as the reader that set it last", with(three, rules{lastMarks: true}), apart, true},
		{"a renewal adds a member", with(asleep, rules{renewalJoins: true}), honestLoss, false},
		{"a renewal adds a member and sets the marker", with(asleep, rules{renewalJoins: true, renewalMarks: true}), honestLoss, false},
		{"each reader's release deletes the marker", with(three, rules{releaseFrees: true}), apart, false},
		{"heals follow a renewal that failed", with(asleep, rules{healForRetry: true}), honestLoss, false},
		{"no quarantine", with(once, rules{noQuarantine: true}), apart, false},
		{"a quarantine does not outlast undecided rounds", with(once, rules{heldOnly: true}), apart, false},
		{"renewals count in quarantine", with(renewed, rules{countQuarantined: true}), apart, false},
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

// TestRulesThatOtherRulesCover switches off rules without which the properties still hold. A member that has not
// passed proves that the marker has stood since, and one that has passed does not count. The rules matter where
// a person deletes the marker.
func TestRulesThatOtherRulesCover(t *testing.T) {
	if !*large {
		t.Log("only with -large: the whole world is explored for each rule")
		return
	}
	for name, r := range map[string]rules{
		"a renewal counts whatever the key holds":                  {anyKey: true},
		"a renewal of a member sets the marker":                    {renewalMarks: true},
		"a read vote does not empty the set where there is no key": {keepsSet: true},
	} {
		t.Run(name, func(t *testing.T) {
			if found := exploration(with(asleep, r)); found.broken != intact {
				t.Errorf("found: %s", found)
			}
		})
	}
}
