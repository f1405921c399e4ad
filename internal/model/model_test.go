package model

import (
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// Most tests explore these worlds.
var (
	locks      = world{room: 3, crashes: true}
	restarts   = world{room: 2, restarts: 2}
	probed     = world{room: 2, restarts: 1, snapshots: true, probes: true}
	renewed    = world{room: 2, restarts: 1, renewals: true}
	awake      = world{room: 2, renewals: true}
	asleep     = world{room: 2, renewals: true, sleeps: true}
	fenced     = world{room: 2, attempts: 3, fences: true, spread: 1}
	fencedAnew = world{room: 2, attempts: 2, restarts: 1, snapshots: true, fences: true, spread: 1}
	fencedOnly = world{room: 2, attempts: 2, fences: true, spread: 2, vanish: true}
)

// TestTheProtocolHolds checks that no property is broken while all rules are in force.
func TestTheProtocolHolds(t *testing.T) {
	explore.Check(t, []explore.Case[world, rules]{
		{Name: "locks, clients that die", World: locks, Floor: 10_000},
		{Name: "locks, masters that restart", World: restarts, Floor: 100_000},
		{Name: "locks, restarts to a snapshot, late probes", World: probed, Floor: 50_000},
		{Name: "renewals", World: awake, Floor: 12_000},
		{Name: "renewals, a master that restarts", World: renewed, Floor: 180_000},
		{Name: "renewals, holders that sleep", World: asleep, Floor: 40_000},
		{Name: "fences", World: fenced, Floor: 60_000},
		{Name: "fences, a master that restarts", World: fencedAnew, Floor: 38_000},
		{Name: "fences, keys that vanish", World: fencedOnly, Floor: 150_000},

		{Name: "locks, masters that restart without end", World: world{room: 2, restarts: always}, Floor: 180_000, Large: true},
		{Name: "locks, restarts to snapshots, late probes", World: world{room: 2, restarts: 2, snapshots: true, probes: true}, Floor: 440_000, Large: true},
		{Name: "renewals, clients that die, long queues", World: world{room: 4, renewals: true, crashes: true}, Floor: 1_500_000, Large: true},
		{Name: "renewals, a restart, late probes", World: world{room: 3, renewals: true, restarts: 1, probes: true}, Floor: 1_200_000, Large: true},
		{Name: "renewals, a restart to a snapshot, late probes, clients that die", World: world{room: 2, renewals: true, restarts: 1, snapshots: true, probes: true, crashes: true}, Floor: 890_000, Large: true},
		{Name: "renewals, two restarts", World: world{room: 2, renewals: true, restarts: 2}, Floor: 970_000, Large: true},
		{Name: "renewals, sleepers, longer queues", World: world{room: 3, renewals: true, sleeps: true}, Floor: 190_000, Large: true},
		{Name: "fences, a restart", World: world{room: 2, attempts: 3, fences: true, spread: 1, restarts: 1, snapshots: true}, Floor: 1_100_000, Large: true},
		{Name: "fences, renewals, two restarts", World: world{room: 2, attempts: 2, fences: true, spread: 1, restarts: 2, renewals: true}, Floor: 690_000, Large: true},
		{Name: "fences, keys that vanish, a third acquisition", World: world{room: 3, attempts: 3, fences: true, spread: 1, vanish: true}, Floor: 2_600_000, Large: true},
		{Name: "fences, keys that vanish, renewals", World: world{room: 2, attempts: 2, fences: true, spread: 1, vanish: true, renewals: true}, Floor: 1_700_000, Large: true},
		{Name: "fences, keys that vanish, a restart", World: world{room: 2, attempts: 2, fences: true, spread: 1, vanish: true, restarts: 1}, Floor: 160_000, Large: true},
	}, exploration)
}

// verbs says which kinds of steps must occur in a world.
func (w *world) verbs() map[explore.Verb]bool {
	return map[explore.Verb]bool{
		begins: true, commits: true, gives: true, ends: true, executes: true, loses: true, expires: true,
		forgets: w.restarts > 0, votesAgain: w.restarts > 0, restores: w.snapshots, probes: w.probes, dies: w.crashes,
		renews: w.renewals, asksAgain: w.renewals, prolongs: w.renewals, givesUp: w.renewals, sleeps: w.sleeps, raises: w.fences,
	}
}

func TestPermutationsLoseNothing(t *testing.T) {
	w := world{room: 2, attempts: 2, restarts: 1}
	explore.CheckPermutations(t, w.model(), 4)
}
