package model

import (
	"flag"
	"testing"
)

var large = flag.Bool("large", false, "explore the larger worlds too: minutes, and some gigabytes")

// These worlds are explored by every run.
var (
	locks         = world{room: 3, crashes: true}
	restarts      = world{room: 2, restarts: 2}
	probed        = world{room: 2, restarts: 1, snapshots: true, probes: true}
	renewed       = world{room: 2, restarts: 1, renewals: true}
	awake         = world{room: 2, renewals: true}
	asleep        = world{room: 2, renewals: true, sleeps: true}
	fenced        = world{room: 2, attempts: 3, fences: true, spread: 1}
	fencedAnew    = world{room: 2, attempts: 2, restarts: 1, snapshots: true, fences: true, spread: 1}
	fencedOnly    = world{room: 2, attempts: 2, fences: true, spread: 2, vanish: true}
	holdingWorlds = []explored{
		{"locks, clients that die", locks, 10_000},
		{"locks, masters that restart", restarts, 100_000},
		{"locks, restarts to a snapshot, late probes", probed, 50_000},
		{"renewals", awake, 12_000},
		{"renewals, a master that restarts", renewed, 180_000},
		{"renewals, holders that sleep", asleep, 40_000},
		{"fences", fenced, 60_000},
		{"fences, a master that restarts", fencedAnew, 38_000},
		{"fences, keys that vanish", fencedOnly, 150_000},
	}
)

// largeWorlds are explored only with the flag -large.
var largeWorlds = []explored{
	{"locks, masters that restart without end", world{room: 2, restarts: always}, 180_000},
	{"locks, restarts to snapshots, late probes", world{room: 2, restarts: 2, snapshots: true, probes: true}, 440_000},
	{"renewals, clients that die, long queues", world{room: 4, renewals: true, crashes: true}, 1_500_000},
	{"renewals, a restart, late probes", world{room: 3, renewals: true, restarts: 1, probes: true}, 1_200_000},
	{"renewals, a restart to a snapshot, late probes, clients that die",
		world{room: 2, renewals: true, restarts: 1, snapshots: true, probes: true, crashes: true}, 890_000},
	{"renewals, two restarts", world{room: 2, renewals: true, restarts: 2}, 970_000},
	{"renewals, sleepers, longer queues", world{room: 3, renewals: true, sleeps: true}, 190_000},
	{"fences, a restart", world{room: 2, attempts: 3, fences: true, spread: 1, restarts: 1, snapshots: true}, 1_100_000},
	{"fences, renewals, two restarts", world{room: 2, attempts: 2, fences: true, spread: 1, restarts: 2, renewals: true}, 690_000},
	{"fences, keys that vanish, a third acquisition", world{room: 3, attempts: 3, fences: true, spread: 1, vanish: true}, 2_600_000},
	{"fences, keys that vanish, renewals", world{room: 2, attempts: 2, fences: true, spread: 1, vanish: true, renewals: true}, 1_700_000},
	{"fences, keys that vanish, a restart", world{room: 2, attempts: 2, fences: true, spread: 1, vanish: true, restarts: 1}, 160_000},
}

// An explored world must have at least floor states, since a model that does nothing breaks no property
// either.
type explored struct {
	name  string
	world world
	floor int
}

// TestTheProtocolHolds checks that no property is broken while all rules are in force.
func TestTheProtocolHolds(t *testing.T) {
	worlds := holdingWorlds
	if *large {
		worlds = append(worlds[:len(worlds):len(worlds)], largeWorlds...)
	} else {
		t.Log("the small worlds; go test ./internal/model -run Holds -v -timeout 30m -args -large explores larger ones")
	}
	for _, e := range worlds {
		t.Run(e.name, func(t *testing.T) {
			sizeable(t, e)
			if !*large {
				t.Parallel() // the large worlds run in turn, since each needs much memory
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

// verbs returns the kinds of steps that must occur in a world. A world without them would show nothing about
// them.
func (w *world) verbs() []verb {
	all := []verb{begins, commits, ends, executes, loses, expires}
	add := func(has bool, more ...verb) {
		if has {
			all = append(all, more...)
		}
	}
	add(w.restarts > 0, forgets, votesAgain)
	add(w.snapshots, restores)
	add(w.probes, probes)
	add(w.crashes, dies)
	add(w.renewals, renews, asksAgain, prolongs, givesUp)
	add(w.sleeps, sleeps)
	add(w.fences, raises)
	return all
}

// sizeable skips the worlds that are too large for -short.
func sizeable(t *testing.T, e explored) {
	if testing.Short() && e.floor > 50_000 {
		t.Skip("not with -short")
	}
}

// TestPermutationsLoseNothing explores a world without merging permutations, and checks that the states are
// the same up to permutation.
func TestPermutationsLoseNothing(t *testing.T) {
	w := world{room: 2, attempts: 2, restarts: 1}
	want := exploration(w).states
	m := w.model()
	m.Canonical = nil
	all := m.Explore().States
	canonical := make(map[state]bool)
	for _, s := range all {
		c := s.canonical()
		if c != c.canonical() {
			t.Fatalf("the representative of %v is not its own", c)
		}
		canonical[c] = true
	}
	t.Logf("%d states, %d up to permutation", len(all), len(canonical))
	if len(canonical) != want || len(all) < 4*want {
		t.Errorf("%d states up to permutation of %d, want %d", len(canonical), len(all), want)
	}
}
