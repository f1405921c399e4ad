package grant

import (
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

var queueWorlds = []explore.Case[world, rules]{
	{Name: "locks", World: locksQ, Floor: 150_000},
	{Name: "SETs beside registrations", World: mixedQ, Floor: 30_000},
	{Name: "three clients", World: crowdQ, Floor: 100_000},
	{Name: "a master that restarts", World: forgetfulQ, Floor: 150_000},
	{Name: "a master that wakes with a snapshot", World: restoredQ, Floor: 30_000},
	{Name: "renewals", World: renewedQ, Floor: 30_000},
	{Name: "renewals, a master that restarts", World: shakenQ, Floor: 30_000},
	{Name: "renewals, holders that sleep", World: asleepQ, Floor: 50_000},
	{Name: "ages", World: agedQ, Floor: 150_000},
	{Name: "fences", World: fencedQ, Floor: 20_000},
	{Name: "fences, ages", World: raisedQ, Floor: 50_000},
	{Name: "fences, a master that restarts", World: anewQ, Floor: 100_000},
	{Name: "fences, a master that restarts, polls", World: numberedQ, Floor: 400_000},
	{Name: "waiting, masters that split their votes", World: pairQ, Floor: 20_000},
	{Name: "waiting, three masters", World: threeQ, Floor: 50_000},
	{Name: "waiting, three clients", World: queueQ, Floor: 30_000},
	{Name: "waiting, clients that die", World: mortalQ, Floor: 5_000},
	{Name: "waiting, clients that are taken for silent", World: slowQ, Floor: 30_000},
	{Name: "waiting, masters that take clients for silent", World: slowerQ, Floor: 20_000},
	{Name: "waiting, clients that are stopped", World: haltedQ, Floor: 5_000},
	{Name: "waiting, a client that only tries", World: streetQ, Floor: 3_000},
	{Name: "waiting, clients that are cut off", World: apartQ, Floor: 100_000},
	{Name: "waiting, a dead master", World: maimedQ, Floor: 5_000},
	{Name: "a dead master", World: crippledQ, Floor: 10_000},

	{Name: "SETs beside registrations, from the beginning", World: world{masters: 3, roles: "QQ", room: 2, leaves: true, sets: true, loses: true, expires: true}, Floor: 300_000, Large: true},
	{Name: "three clients, a restart, polls", World: thirdQ, Floor: 1_000_000, Large: true},
	{Name: "three clients, registrations behind releases", World: world{masters: 3, roles: "QQQ", room: 3, calls: 2, held: true, leaves: true, loses: true, expires: true}, Floor: 400_000, Large: true},
	{Name: "late polls", World: world{masters: 3, roles: "QQ", room: 2, calls: 2, held: true, leaves: true, polls: true, latePolls: true, loses: true, expires: true}, Floor: 100_000, Large: true},
	{Name: "a snapshot, polls", World: world{masters: 3, roles: "QQ", room: 2, calls: 1, held: true, leaves: true, polls: true, loses: true, expires: true, restarts: 1, snapshots: true}, Floor: 100_000, Large: true},
	{Name: "two restarts", World: world{masters: 3, roles: "QQ", room: 2, leaves: true, polls: true, loses: true, expires: true, restarts: 2}, Floor: 700_000, Large: true},
	{Name: "ages, PINGs to all masters", World: world{masters: 3, roles: "QQ", room: 2, calls: 1, held: true, expires: true, ages: true, latePolls: true}, Floor: 800_000, Large: true},
	{Name: "ages, polls of two masters", World: world{masters: 2, roles: "QQ", room: 2, calls: 1, held: true, expires: true, ages: true, polls: true, latePolls: true}, Floor: 400_000, Large: true},
	{Name: "fences, from the beginning", World: world{masters: 3, roles: "QQ", room: 2, calls: 3, leaves: true, expires: true, fences: true, spread: 1}, Floor: 300_000, Large: true},
	{Name: "waiting, split votes of three clients", World: world{masters: 2, roles: "QQQ", room: 4, calls: 1, held: true, live: true, settles: true}, Floor: 1_500_000, Large: true},
	{Name: "waiting, three masters that take clients for silent", World: world{masters: 3, roles: "QQ", room: 4, calls: 3, live: true, settles: true, silences: 2}, Floor: 2_000_000, Large: true},
	{Name: "waiting, three masters, a SET", World: world{masters: 3, roles: "QQ", room: 4, calls: 3, live: true, settles: true, sets: true}, Floor: 100_000, Large: true},
}

var laneWorlds = []explore.Case[world, rules]{
	{Name: "a reader and a writer", World: pair, Floor: 35_000},
	{Name: "registrations behind releases", World: behind, Floor: 20_000},
	{Name: "a writer, two readers wait", World: crowdR, Floor: 80_000},
	{Name: "a reader, a writer and a reader wait", World: crowdW, Floor: 120_000},
	{Name: "two readers and a writer", World: three, Floor: 50_000},
	{Name: "a reader and two writers", World: writers, Floor: 70_000},
	{Name: "clients that die", World: dying, Floor: 25_000},
	{Name: "a master that restarts", World: forgetful, Floor: 40_000},
	{Name: "a master that wakes with a snapshot", World: restored, Floor: 30_000},
	{Name: "renewals", World: renewed, Floor: 50_000},
	{Name: "renewals, a master that restarts", World: shaken, Floor: 30_000},
	{Name: "renewals, holders that sleep", World: asleep, Floor: 100_000},
	{Name: "ages, a reader waits", World: agedR, Floor: 200_000},
	{Name: "fences, a reader waits", World: fencedR, Floor: 15_000},
	{Name: "fences, a writer waits", World: fencedW, Floor: 20_000},
	{Name: "fences, a writer and a reader wait", World: fencedS, Floor: 70_000},
	{Name: "fences, polls", World: polledR, Floor: 40_000},
	{Name: "fences, two readers wait", World: fencedRR, Floor: 300_000},
	{Name: "fences, ages, a reader waits", World: raisedR, Floor: 60_000},
	{Name: "fences, ages, a writer waits", World: raisedW, Floor: 60_000},
	{Name: "fences, a master that restarts", World: anewW, Floor: 120_000},
	{Name: "waiting, kept by readers", World: kept, Floor: 400_000},
	{Name: "waiting, two readers and a writer", World: queueR, Floor: 5_000},
	{Name: "waiting, a reader and two writers", World: queueW, Floor: 3_500},
	{Name: "waiting, kept by writers", World: keptW, Floor: 3_000},
	{Name: "waiting, kept by both", World: keptBoth, Floor: 9_000},
	{Name: "waiting, clients that are far", World: far, Floor: 3_500},
	{Name: "waiting, clients that are far, three masters", World: farAll, Floor: 9_000},
	{Name: "waiting, releases that leave the key free", World: open, Floor: 6_000},
	{Name: "waiting, a SET that is undone", World: undone, Floor: 20_000},
	{Name: "waiting, an announcement beside two readers", World: lapsing, Floor: 4_000},
	{Name: "waiting, an announcement beside a reader and a writer", World: lapsingW, Floor: 3_000},
	{Name: "waiting, a dead master", World: maimed, Floor: 6_000},
	{Name: "waiting, a dead master, two readers", World: maimedRR, Floor: 300_000},
	{Name: "waiting, readers that are cut off", World: apartR, Floor: 120_000},
	{Name: "waiting, a writer that dies", World: mortalW, Floor: 500},
	{Name: "waiting, readers that die", World: mortalR, Floor: 800},
	{Name: "waiting, a writer that is stopped", World: haltedW, Floor: 500},
	{Name: "waiting, readers that are stopped", World: haltedR, Floor: 900},
	{Name: "waiting, clients that are taken for silent", World: slow, Floor: 8_000},
	{Name: "waiting, writers that are taken for silent", World: slowW, Floor: 8_000},
	{Name: "turns, two readers and a writer", World: streetR, Floor: 70},
	{Name: "turns, a reader and two writers", World: streetW, Floor: 70},
	{Name: "turns, a client that only tries beside writers", World: streetT, Floor: 250},
	{Name: "turns, a client that only tries beside readers", World: streetTR, Floor: 200},
	{Name: "turns, a client that only tries beside a reader and a writer", World: streetRT, Floor: 400},
	{Name: "turns, a reader that only tries beside writers", World: streetOpen, Floor: 250},
	{Name: "turns, a reader that only tries beside a reader and a writer", World: streetMt, Floor: 250},
	{Name: "turns, a client that only tries beside a writer", World: loneT, Floor: 10},
	{Name: "turns, a client of another library beside a reader", World: loneS, Floor: 10},

	{Name: "a reader and a writer, registrations behind releases, losses", World: world{masters: 3, roles: "RW", room: 3, leaves: true, loses: true, expires: true}, Floor: 250_000, Large: true},
	{Name: "a reader and a writer, a restart, losses", World: world{masters: 3, roles: "RW", room: 2, leaves: true, polls: true, loses: true, expires: true, restarts: 1}, Floor: 350_000, Large: true},
	{Name: "a reader and a writer, a snapshot", World: world{masters: 3, roles: "RW", room: 2, loses: true, expires: true, restarts: 1, snapshots: true}, Floor: 400_000, Large: true},
	{Name: "a reader and a writer, two restarts", World: world{masters: 3, roles: "RW", room: 2, leaves: true, expires: true, restarts: 2}, Floor: 50_000, Large: true},
	{Name: "renewals, a restart to a snapshot", World: world{masters: 3, roles: "RW", room: 2, expires: true, restarts: 1, snapshots: true, renewals: true}, Floor: 100_000, Large: true},
	{Name: "two readers and a writer, members that linger", World: sharing, Floor: 300_000, Large: true},
	{Name: "two readers and a writer, four acquisitions", World: world{masters: 3, roles: "RRW", room: 2, calls: 4, expires: true}, Floor: 200_000, Large: true},
	{Name: "three clients, a restart, polls", World: thirdW, Floor: 900_000, Large: true},
	{Name: "three clients, a restart, polls, a writer waits", World: thirdR, Floor: 900_000, Large: true},
	{Name: "renewals, readers that sleep, late polls", World: asleepR, Floor: 400_000, Large: true},
	{Name: "ages, a writer waits", World: agedW, Floor: 200_000, Large: true},
	{Name: "fences, clocks that differ", World: spread, Floor: 150_000, Large: true},
	{Name: "fences, a writer and two readers", World: world{masters: 3, roles: "WRR", room: 2, calls: 1, held: true, expires: true, fences: true, spread: 1}, Floor: 300_000, Large: true},
	{Name: "fences, a master that restarts, a reader waits", World: anewR, Floor: 200_000, Large: true},
	{Name: "fences, a master that restarts, polls, a reader waits", World: numberR, Floor: 700_000, Large: true},
	{Name: "fences, a master that restarts, polls, a writer waits", World: numberW, Floor: 600_000, Large: true},
	{Name: "waiting, three masters", World: live, Floor: 400_000, Large: true},
	{Name: "waiting, three masters, kept by both", World: world{masters: 3, roles: "RW", room: 4, calls: 3, live: true, settles: true, readersIn: true, writersIn: true}, Floor: 400_000, Large: true},
}

// These tests check that no property is broken while all rules are in force.
func TestTheProtocolOfAQueueHolds(t *testing.T) { explore.Check(t, queueWorlds, exploration) }
func TestTheProtocolOfLanesHolds(t *testing.T)  { explore.Check(t, laneWorlds, exploration) }

// verbs says which kinds of steps must occur in a world.
func (w *world) verbs() map[explore.Verb]bool {
	subscribed, splits := w.ages && !w.fences, w.settles && w.masters > 1
	return map[explore.Verb]bool{
		registers: true, commits: true, ends: true, hears: true, executes: !w.prompt, gives: w.leaves,
		tries: w.sets || w.isBarger(w.clients()-1), stays: w.sets, polls: w.polls && w.latePolls, loses: w.loses, expires: w.expires, lapses: w.lapses,
		forgets: w.restarts > 0, votesAgain: w.restarts > 0, restores: w.snapshots, dies: w.crashes > 0,
		sleeps: w.sleeps, renews: w.renewals, repeats: w.repeats, prolongs: w.renewals, fails: w.renewals, raises: w.fences,
		pings: subscribed, pongs: subscribed, hearsPong: subscribed, ages: w.ages,
		asksAgain: splits, yields: splits, insists: w.settles && w.masters == 2 && w.oneQueue(),
		isRecalled: w.readersIn || w.writersIn, isToLook: w.opens && w.queueing() > 1 || w.lapses, hearsLate: w.stales > 0,
	}
}

func TestPermutationsLoseNothing(t *testing.T) {
	for _, w := range []world{
		{masters: 3, roles: "QQ", room: 2, calls: 2, leaves: true, expires: true},
		{masters: 3, roles: "RRW", room: 2, calls: 2, leaves: true, expires: true, lingers: true},
	} {
		explore.CheckPermutations(t, w.model(), 2)
	}
}
