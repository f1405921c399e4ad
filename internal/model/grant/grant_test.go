package grant

import (
	"flag"
	"testing"
)

var large = flag.Bool("large", false, "explore the larger worlds too: minutes, and some gigabytes")

// The worlds that every run explores. Those that begin with a holder have few acquisitions left.
var (
	locks     = world{masters: 3, clients: 2, room: 3, leaves: true, polls: true, loses: true, expires: true}
	behind    = world{masters: 3, clients: 2, room: 3, leaves: true, loses: true, expires: true}
	mixed     = world{masters: 3, clients: 2, room: 2, calls: 2, held: true, leaves: true, tries: true, loses: true, expires: true}
	crowd     = world{masters: 3, clients: 3, room: 2, calls: 1, held: true, leaves: true, polls: true, expires: true}
	forgetful = world{masters: 3, clients: 2, room: 2, leaves: true, polls: true, loses: true, expires: true, restarts: 1}
	restored  = world{masters: 3, clients: 2, room: 2, calls: 1, held: true, leaves: true, loses: true, expires: true, restarts: 1, snapshots: true}
	third     = world{masters: 3, clients: 3, room: 2, calls: 1, held: true, leaves: true, polls: true, expires: true, restarts: 1}
	renewed   = world{masters: 3, clients: 2, room: 2, calls: 2, held: true, leaves: true, loses: true, expires: true, renewals: true}
	shaken    = world{masters: 3, clients: 2, room: 2, calls: 1, held: true, polls: true, expires: true, renewals: true, restarts: 1}
	asleep    = world{masters: 3, clients: 2, room: 3, calls: 1, held: true, polls: true, latePolls: true, renewals: true, sleeps: true}
	aged      = world{masters: 3, clients: 2, room: 2, calls: 1, held: true, expires: true, ages: true}
	raised    = world{masters: 3, clients: 2, room: 2, calls: 1, held: true, expires: true, ages: true, fences: true, spread: 1}
	fenced    = world{masters: 3, clients: 2, room: 2, calls: 1, held: true, leaves: true, expires: true, fences: true, spread: 1}
	anew      = world{masters: 3, clients: 2, room: 2, calls: 1, held: true, leaves: true, expires: true, fences: true, spread: 1, restarts: 1}
	numbered  = world{masters: 3, clients: 2, room: 2, calls: 1, held: true, polls: true, expires: true, fences: true, spread: 1, restarts: 1}

	// Without polls: what a lock that is free waits for is under way, or a short timer.
	pair   = world{masters: 2, clients: 2, room: 4, calls: 3, live: true, settles: true, tries: true}
	three  = world{masters: 3, clients: 2, room: 4, calls: 3, live: true, settles: true}
	queue  = world{masters: 1, clients: 3, room: 4, calls: 4, live: true, settles: true, leaves: true, opens: true}
	mortal = world{masters: 1, clients: 3, room: 4, calls: 4, live: true, settles: true, crashes: 1}
	slow   = world{masters: 1, clients: 3, room: 4, calls: 4, live: true, settles: true, leaves: true, silences: 3}
	slower = world{masters: 2, clients: 2, room: 4, calls: 3, live: true, settles: true, silences: 2}
	halted = world{masters: 1, clients: 3, room: 4, calls: 4, live: true, settles: true, crashes: 1, stops: true}
	street = world{masters: 1, clients: 3, room: 3, live: true, settles: true, opens: true, busy: true, prompt: true}
)

// Two clients that reach one master each.
var apart = world{masters: 3, clients: 3, room: 4, calls: 3, live: true, settles: true, cut: true}

// A master that never answers. The others must agree.
var (
	maimed   = world{masters: 3, clients: 2, room: 4, calls: 3, live: true, settles: true, dead: true}
	crippled = world{masters: 3, clients: 2, room: 3, leaves: true, loses: true, expires: true, dead: true}
)

type explored struct {
	name  string
	world world
	floor int
}

var holdingWorlds = []explored{
	{"locks", locks, 150_000},
	{"SETs beside registrations", mixed, 30_000},
	{"three clients", crowd, 100_000},
	{"a master that restarts", forgetful, 150_000},
	{"a master that wakes with a snapshot", restored, 30_000},
	{"renewals", renewed, 30_000},
	{"renewals, a master that restarts", shaken, 30_000},
	{"renewals, holders that sleep", asleep, 50_000},
	{"ages", aged, 150_000},
	{"fences", fenced, 20_000},
	{"fences, ages", raised, 50_000},
	{"fences, a master that restarts", anew, 100_000},
	{"fences, a master that restarts, polls", numbered, 400_000},
	{"waiting, masters that split their votes", pair, 20_000},
	{"waiting, three masters", three, 50_000},
	{"waiting, three clients", queue, 30_000},
	{"waiting, clients that die", mortal, 5_000},
	{"waiting, clients that are taken for silent", slow, 30_000},
	{"waiting, masters that take clients for silent", slower, 20_000},
	{"waiting, clients that are stopped", halted, 5_000},
	{"waiting, a client that only tries", street, 3_000},
	{"waiting, clients that are cut off", apart, 100_000},
	{"waiting, a dead master", maimed, 5_000},
	{"a dead master", crippled, 10_000},
}

// The worlds behind the flag.
var largeWorlds = []explored{
	{"SETs beside registrations, from the beginning", world{masters: 3, clients: 2, room: 2, leaves: true, tries: true, loses: true, expires: true}, 300_000},
	{"three clients, a restart, polls", third, 1_000_000},
	{"three clients, registrations behind releases", world{masters: 3, clients: 3, room: 3, calls: 2, held: true, leaves: true, loses: true, expires: true}, 400_000},
	{"late polls", world{masters: 3, clients: 2, room: 2, calls: 2, held: true, leaves: true, polls: true, latePolls: true, loses: true, expires: true}, 100_000},
	{"a snapshot, polls", world{masters: 3, clients: 2, room: 2, calls: 1, held: true, leaves: true, polls: true, loses: true, expires: true, restarts: 1, snapshots: true}, 100_000},
	{"two restarts", world{masters: 3, clients: 2, room: 2, leaves: true, polls: true, loses: true, expires: true, restarts: 2}, 700_000},
	{"ages, PINGs to all masters", world{masters: 3, clients: 2, room: 2, calls: 1, held: true, expires: true, ages: true, latePolls: true}, 800_000},
	{"ages, polls of two masters", world{masters: 2, clients: 2, room: 2, calls: 1, held: true, expires: true, ages: true, polls: true, latePolls: true}, 400_000},
	{"fences, from the beginning", world{masters: 3, clients: 2, room: 2, calls: 3, leaves: true, expires: true, fences: true, spread: 1}, 300_000},
	{"waiting, split votes of three clients", world{masters: 2, clients: 3, room: 4, calls: 1, held: true, live: true, settles: true}, 1_500_000},
	{"waiting, three masters that take clients for silent", world{masters: 3, clients: 2, room: 4, calls: 3, live: true, settles: true, silences: 2}, 2_000_000},
	{"waiting, three masters, a SET", world{masters: 3, clients: 2, room: 4, calls: 3, live: true, settles: true, tries: true}, 100_000},
}

// TestTheProtocolHolds checks that no property is broken while all rules are in force.
func TestTheProtocolHolds(t *testing.T) {
	worlds := holdingWorlds
	if *large {
		worlds = append(worlds[:len(worlds):len(worlds)], largeWorlds...)
	} else {
		t.Log("the small worlds; go test ./internal/model/grant -run Holds -v -timeout 30m -args -large explores larger ones")
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
			if r.states < e.floor || r.grants == 0 && !e.world.prompt {
				t.Errorf("%d states, %d grants, want at least %d states: part of the model is not reached", r.states, r.grants, e.floor)
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
		executes: !w.prompt, gives: w.leaves, tries: w.tries || w.busy, stays: w.tries, polls: w.polls && w.latePolls, loses: w.loses, expires: w.expires,
		forgets: w.restarts > 0, votesAgain: w.restarts > 0, restores: w.snapshots, dies: w.crashes > 0,
		sleeps: w.sleeps, renews: w.renewals, prolongs: w.renewals, fails: w.renewals, raises: w.fences,
		pings: w.ages && !w.fences, pongs: w.ages && !w.fences, hearsPong: w.ages && !w.fences, ages: w.ages,
		asksAgain: w.settles && w.masters > 1, yields: w.settles && w.masters > 1, insists: w.settles && w.masters == 2,
	} {
		if has {
			all = append(all, v)
		}
	}
	return all
}

// with returns a world without some rules.
func (w world) with(r rules) world {
	w.rules = r
	return w
}

// A strike is a world with some rules switched off, and the property that breaks there. It is intact if other
// rules cover them.
type strike struct {
	name  string
	world world
	rules rules
	want  property
	large bool // explored with the flag only
}

var struckOut = []strike{
	{"validity counts from the receipt", aged, rules{fromReceipt: true}, oneHolder, false},
	{"validity counts from the last PING that was sent", aged, rules{lastPing: true}, oneHolder, false},
	{"a lease begins at the latest mark of its votes", aged, rules{fromLatest: true}, oneHolder, false},
	{"a message of a master in quarantine counts", third, rules{memoryUnchecked: true}, oneHolder, false},
	{"a master in quarantine votes", forgetful, rules{noQuarantine: true}, oneHolder, false},
	{"a claim counts that was given up", behind, rules{givenUpCounts: true}, oneHolder, false},
	{"two claims with one token", twice, rules{tokenTwice: true}, oneHolder, false},
	{"a late poll finds the key gone, and the lease goes on", asleep, rules{ignoresLoss: true}, honestLoss, false},
	{"a grant where a key stands", crowd, rules{overwrites: true}, oneHolder, false},

	{"a release that grants nobody", pair, rules{silentRelease: true}, notStuck, false},
	{"a claim that is given up, and passes nothing on", queue, rules{keepsToItself: true}, notStuck, false},
	{"a SET that is undone, and passes nothing on", pair, rules{quietUndo: true}, notStuck, false},
	{"a client gives up to whom the key was left open", queue, rules{onlyIfDeleted: true}, notStuck, false},
	{"a release that leaves its entry in the queue", three, rules{staysQueued: true}, nothingLeft, false},
	{"a release overtakes the registration", three, rules{quitOvertakes: true}, nothingLeft, false},
	{"a claim that is not released where it was refused", behind, rules{forgetsRefused: true}, nothingLeft, false},
	{"nobody asks again after a split vote", pair, rules{noSplitTimer: true}, notStuck, false},
	{"nobody gives up after a split vote", pair, rules{noYield: true}, notLockedOut, false},
	{"nobody gives up after a split vote beside a dead master", maimed, rules{noYield: true}, notLockedOut, false},
	{"nobody asks again after a split vote beside a dead master", maimed, rules{noSplitTimer: true}, notStuck, false},
	{"a release that grants nobody beside a dead master", maimed, rules{silentRelease: true}, notStuck, false},
	{"a claim counts that was given up, beside a dead master", crippled, rules{givenUpCounts: true}, oneHolder, false},
	{"a claim that is kept by a client that is cut off", apart, rules{keepsMinority: true}, notLockedOut, false},
	{"the dead are granted the lock", mortal, rules{grantsTheDead: true}, notStuck, false},
	{"a client that is told to look and does not poll", queue, rules{ignoresLook: true}, notStuck, false},
	{"the stopped are granted the lock", halted, rules{grantsTheDead: true}, notStuck, false},
	{"a silent client loses its place", slow, rules{forgetsSilent: true}, notStuck, false},
	{"all are silent, and none is told to look", slow, rules{leavesSilent: true}, notStuck, false},
	{"a newcomer waits for the silent", halted, rules{waitsForSilent: true}, notStuck, false},

	{"no release leaves the key open", street, rules{neverOpen: true}, notLockedOut, false},
	{"a newcomer closes what a release has left open", street, rules{newcomersGrant: true}, notLockedOut, false},

	{"a second round that does not extend the key", raised, rules{raisesOnly: true}, risingFences, false},
	// With all rules in force: what they do not achieve. Where nobody queues, a client's next registration
	// takes the key right behind its release. Clients that only try need a gap then.
	{"all rules, and nobody queues beside a client that only tries", lone, rules{}, notLockedOut, false},

	{"fences that need not be equal", fenced, rules{anyAck: true}, risingFences, false},
	{"a number that is older than a quarantine", numbered, rules{oldNumbers: true}, risingFences, false},
}

// Worlds for one strike each.
var (
	lone  = world{masters: 1, clients: 2, room: 3, live: true, settles: true, opens: true, busy: true, prompt: true}
	twice = world{masters: 3, clients: 2, room: 3, calls: 2, held: true, leaves: true}
)

// TestEachRuleIsNeeded switches off one rule at a time and finds the violation that the rule prevents.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, v := range struckOut {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			r := exploration(v.world.with(v.rules))
			t.Log(r)
			if r.broken != v.want {
				t.Errorf("found: %s, want: %s", r.broken, v.want)
			}
		})
	}
}

var covered = []strike{
	// A poll that takes a free key for itself overtakes those who queue, and does nothing worse.
	{"a poll that takes the key for itself", queue, rules{pollsForItself: true}, intact, false},
	{"a poll that takes the key for itself, exclusion", locks, rules{pollsForItself: true}, intact, false},
	// When the quarantine is over, so are all leases of the time before: what was granted in it, and has
	// not run out, excludes others like any other grant. But see oldNumbers.
	{"a grant in quarantine counts behind it", third, rules{checkedOnReceipt: true}, intact, true},
	// With three masters that all answer, one of two clients always has two of them.
	{"nobody gives up after a split vote of three masters", three, rules{noYield: true}, intact, false},
}

// TestRulesThatOtherRulesCover switches off rules in worlds where no property breaks without them. It checks
// what the documents claim about the purpose of these rules.
func TestRulesThatOtherRulesCover(t *testing.T) {
	for _, v := range covered {
		t.Run(v.name, func(t *testing.T) {
			if v.large && !*large {
				return // a test that skips is a failure in CI
			}
			t.Parallel()
			r := exploration(v.world.with(v.rules))
			t.Log(r)
			if r.broken != intact {
				t.Errorf("found: %s", r.broken)
			}
		})
	}
}

// TestPermutationsLoseNothing explores a world without merging permutations, and checks that the states are
// the same up to permutation.
func TestPermutationsLoseNothing(t *testing.T) {
	w := world{masters: 3, clients: 2, room: 2, calls: 2, leaves: true, expires: true}
	want := exploration(w).states
	m := w.model()
	m.Canonical = nil
	all := m.Explore().States
	canonical := make(map[state]bool)
	for _, s := range all {
		canonical[w.canonical(s)] = true
	}
	if len(canonical) != want || len(all) <= 2*want {
		t.Errorf("%d states up to permutation of %d, want %d", len(canonical), len(all), want)
	}
}
