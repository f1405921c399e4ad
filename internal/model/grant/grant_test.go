package grant

import (
	"flag"
	"testing"
)

var large = flag.Bool("large", false, "explore the larger worlds too: minutes, and some gigabytes")

// An explored world must have at least floor states, since a model that does nothing breaks no property
// either.
type explored struct {
	name  string
	world world
	floor int
}

var queueWorlds = []explored{
	{"locks", locksQ, 150_000},
	{"SETs beside registrations", mixedQ, 30_000},
	{"three clients", crowdQ, 100_000},
	{"a master that restarts", forgetfulQ, 150_000},
	{"a master that wakes with a snapshot", restoredQ, 30_000},
	{"renewals", renewedQ, 30_000},
	{"renewals, a master that restarts", shakenQ, 30_000},
	{"renewals, holders that sleep", asleepQ, 50_000},
	{"ages", agedQ, 150_000},
	{"fences", fencedQ, 20_000},
	{"fences, ages", raisedQ, 50_000},
	{"fences, a master that restarts", anewQ, 100_000},
	{"fences, a master that restarts, polls", numberedQ, 400_000},
	{"waiting, masters that split their votes", pairQ, 20_000},
	{"waiting, three masters", threeQ, 50_000},
	{"waiting, three clients", queueQ, 30_000},
	{"waiting, clients that die", mortalQ, 5_000},
	{"waiting, clients that are taken for silent", slowQ, 30_000},
	{"waiting, masters that take clients for silent", slowerQ, 20_000},
	{"waiting, clients that are stopped", haltedQ, 5_000},
	{"waiting, a client that only tries", streetQ, 3_000},
	{"waiting, clients that are cut off", apartQ, 100_000},
	{"waiting, a dead master", maimedQ, 5_000},
	{"a dead master", crippledQ, 10_000},
}

var laneWorlds = []explored{
	{"a reader and a writer", pair, 35_000},
	{"registrations behind releases", behind, 20_000},
	{"a writer, two readers wait", crowdR, 80_000},
	{"a reader, a writer and a reader wait", crowdW, 120_000},
	{"two readers and a writer", three, 50_000},
	{"a reader and two writers", writers, 70_000},
	{"clients that die", dying, 25_000},
	{"a master that restarts", forgetful, 40_000},
	{"a master that wakes with a snapshot", restored, 30_000},
	{"renewals", renewed, 50_000},
	{"renewals, a master that restarts", shaken, 30_000},
	{"renewals, holders that sleep", asleep, 100_000},
	{"ages, a reader waits", agedR, 200_000},
	{"fences, a reader waits", fencedR, 15_000},
	{"fences, a writer waits", fencedW, 20_000},
	{"fences, a writer and a reader wait", fencedS, 70_000},
	{"fences, polls", polledR, 40_000},
	{"fences, two readers wait", fencedRR, 300_000},
	{"fences, ages, a reader waits", raisedR, 60_000},
	{"fences, ages, a writer waits", raisedW, 60_000},
	{"fences, a master that restarts", anewW, 120_000},
	{"waiting, kept by readers", kept, 400_000},
	{"waiting, two readers and a writer", queueR, 5_000},
	{"waiting, a reader and two writers", queueW, 3_500},
	{"waiting, kept by writers", keptW, 3_000},
	{"waiting, kept by both", keptBoth, 9_000},
	{"waiting, clients that are far", far, 3_500},
	{"waiting, clients that are far, three masters", farAll, 9_000},
	{"waiting, releases that leave the key free", open, 6_000},
	{"waiting, a SET that is undone", undone, 20_000},
	{"waiting, an announcement beside two readers", lapsing, 4_000},
	{"waiting, an announcement beside a reader and a writer", lapsingW, 3_000},
	{"waiting, a dead master", maimed, 6_000},
	{"waiting, a dead master, two readers", maimedRR, 300_000},
	{"waiting, readers that are cut off", apartR, 120_000},
	{"waiting, a writer that dies", mortalW, 500},
	{"waiting, readers that die", mortalR, 800},
	{"waiting, a writer that is stopped", haltedW, 500},
	{"waiting, readers that are stopped", haltedR, 900},
	{"waiting, clients that are taken for silent", slow, 8_000},
	{"waiting, writers that are taken for silent", slowW, 8_000},
	{"turns, two readers and a writer", streetR, 70},
	{"turns, a reader and two writers", streetW, 70},
	{"turns, a client that only tries beside writers", streetT, 250},
	{"turns, a client that only tries beside readers", streetTR, 200},
	{"turns, a client that only tries beside a reader and a writer", streetRT, 400},
	{"turns, a reader that only tries beside writers", streetOpen, 250},
	{"turns, a reader that only tries beside a reader and a writer", streetMt, 250},
	{"turns, a client that only tries beside a writer", loneT, 10},
	{"turns, a client of another library beside a reader", loneS, 10},
}

// The worlds behind the flag.
var largeQueueWorlds = []explored{
	{"SETs beside registrations, from the beginning", world{masters: 3, roles: "QQ", room: 2, leaves: true, sets: true, loses: true, expires: true}, 300_000},
	{"three clients, a restart, polls", thirdQ, 1_000_000},
	{"three clients, registrations behind releases", world{masters: 3, roles: "QQQ", room: 3, calls: 2, held: true, leaves: true, loses: true, expires: true}, 400_000},
	{"late polls", world{masters: 3, roles: "QQ", room: 2, calls: 2, held: true, leaves: true, polls: true, latePolls: true, loses: true, expires: true}, 100_000},
	{"a snapshot, polls", world{masters: 3, roles: "QQ", room: 2, calls: 1, held: true, leaves: true, polls: true, loses: true, expires: true, restarts: 1, snapshots: true}, 100_000},
	{"two restarts", world{masters: 3, roles: "QQ", room: 2, leaves: true, polls: true, loses: true, expires: true, restarts: 2}, 700_000},
	{"ages, PINGs to all masters", world{masters: 3, roles: "QQ", room: 2, calls: 1, held: true, expires: true, ages: true, latePolls: true}, 800_000},
	{"ages, polls of two masters", world{masters: 2, roles: "QQ", room: 2, calls: 1, held: true, expires: true, ages: true, polls: true, latePolls: true}, 400_000},
	{"fences, from the beginning", world{masters: 3, roles: "QQ", room: 2, calls: 3, leaves: true, expires: true, fences: true, spread: 1}, 300_000},
	{"waiting, split votes of three clients", world{masters: 2, roles: "QQQ", room: 4, calls: 1, held: true, live: true, settles: true}, 1_500_000},
	{"waiting, three masters that take clients for silent", world{masters: 3, roles: "QQ", room: 4, calls: 3, live: true, settles: true, silences: 2}, 2_000_000},
	{"waiting, three masters, a SET", world{masters: 3, roles: "QQ", room: 4, calls: 3, live: true, settles: true, sets: true}, 100_000},
}

var largeLaneWorlds = []explored{
	{"a reader and a writer, registrations behind releases, losses", world{masters: 3, roles: "RW", room: 3, leaves: true, loses: true, expires: true}, 250_000},
	{"a reader and a writer, a restart, losses", world{masters: 3, roles: "RW", room: 2, leaves: true, polls: true, loses: true, expires: true, restarts: 1}, 350_000},
	{"a reader and a writer, a snapshot", world{masters: 3, roles: "RW", room: 2, loses: true, expires: true, restarts: 1, snapshots: true}, 400_000},
	{"a reader and a writer, two restarts", world{masters: 3, roles: "RW", room: 2, leaves: true, expires: true, restarts: 2}, 50_000},
	{"renewals, a restart to a snapshot", world{masters: 3, roles: "RW", room: 2, expires: true, restarts: 1, snapshots: true, renewals: true}, 100_000},
	{"two readers and a writer, members that linger", sharing, 300_000},
	{"two readers and a writer, four acquisitions", world{masters: 3, roles: "RRW", room: 2, calls: 4, expires: true}, 200_000},
	{"three clients, a restart, polls", thirdW, 900_000},
	{"three clients, a restart, polls, a writer waits", thirdR, 900_000},
	{"renewals, readers that sleep, late polls", asleepR, 400_000},
	{"ages, a writer waits", agedW, 200_000},
	{"fences, clocks that differ", spread, 150_000},
	{"fences, a writer and two readers", world{masters: 3, roles: "WRR", room: 2, calls: 1, held: true, expires: true, fences: true, spread: 1}, 300_000},
	{"fences, a master that restarts, a reader waits", anewR, 200_000},
	{"fences, a master that restarts, polls, a reader waits", numberR, 700_000},
	{"fences, a master that restarts, polls, a writer waits", numberW, 600_000},
	{"waiting, three masters", live, 400_000},
	{"waiting, three masters, kept by both", world{masters: 3, roles: "RW", room: 4, calls: 3, live: true, settles: true, readersIn: true, writersIn: true}, 400_000},
}

func TestTheProtocolOfAQueueHolds(t *testing.T) { hold(t, queueWorlds, largeQueueWorlds) }
func TestTheProtocolOfLanesHolds(t *testing.T)  { hold(t, laneWorlds, largeLaneWorlds) }

// hold checks that no property is broken while all rules are in force.
func hold(t *testing.T, worlds, more []explored) {
	if *large {
		worlds = append(worlds[:len(worlds):len(worlds)], more...)
	}
	for _, e := range worlds {
		t.Run(e.name, func(t *testing.T) {
			if testing.Short() && e.floor > 50_000 {
				t.Skip("not with -short")
			}
			if !*large {
				t.Parallel() // the large worlds run in turn, since each needs much memory
			}
			r := exploration(e.world)
			t.Log(r)
			if r.broken != intact {
				t.Errorf("the protocol does not hold")
			}
			if r.states < e.floor || r.grants+r.lets == 0 && !e.world.prompt {
				t.Errorf("%d states, %d and %d grants, want at least %d states: part of the model is not reached", r.states, r.grants, r.lets, e.floor)
			}
			for _, v := range e.world.verbs() {
				if r.did[v] == 0 {
					t.Errorf("never seen: %v", step{verb: v})
				}
			}
		})
	}
}

// verbs returns the kinds of steps that must occur in a world. A world without them would show nothing about
// them.
func (w *world) verbs() []verb {
	all := []verb{registers, commits, ends, hears}
	for v, has := range map[verb]bool{
		executes: !w.prompt, gives: w.leaves, tries: w.sets || w.isBarger(w.clients()-1), stays: w.sets, polls: w.polls && w.latePolls, loses: w.loses, expires: w.expires, lapses: w.lapses,
		forgets: w.restarts > 0, votesAgain: w.restarts > 0, restores: w.snapshots, dies: w.crashes > 0,
		sleeps: w.sleeps, renews: w.renewals, repeats: w.repeats, prolongs: w.renewals, fails: w.renewals, raises: w.fences,
		pings: w.ages && !w.fences, pongs: w.ages && !w.fences, hearsPong: w.ages && !w.fences, ages: w.ages,
		asksAgain: w.settles && w.masters > 1, yields: w.settles && w.masters > 1, insists: w.settles && w.masters == 2 && w.oneQueue(), isRecalled: w.readersIn || w.writersIn, isToLook: w.opens && w.queueing() > 1 || w.lapses,
		hearsLate: w.stales > 0,
	} {
		if has {
			all = append(all, v)
		}
	}
	return all
}

// TestPermutationsLoseNothing explores worlds without merging permutations, and checks that the states are
// the same up to permutation.
func TestPermutationsLoseNothing(t *testing.T) {
	for _, w := range []world{
		{masters: 3, roles: "QQ", room: 2, calls: 2, leaves: true, expires: true},
		{masters: 3, roles: "RRW", room: 2, calls: 2, leaves: true, expires: true, lingers: true},
	} {
		want := exploration(w).states
		m := w.model()
		m.Canonical = nil
		all := m.Explore().States
		canonical := make(map[state]bool)
		for _, s := range all {
			canonical[w.canonical(s)] = true
		}
		if t.Logf("%d states, %d up to permutation", len(all), len(canonical)); len(canonical) != want || len(all) <= 2*want {
			t.Errorf("%s: %d states up to permutation of %d, want %d", w.roles, len(canonical), len(all), want)
		}
	}
}
