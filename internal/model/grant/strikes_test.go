package grant

import "testing"

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

var struckOutOfTheQueue = []strike{
	{"validity counts from the receipt", agedQ, rules{fromReceipt: true}, apart, false},
	{"validity counts from the last PING that was sent", agedQ, rules{lastPing: true}, apart, false},
	{"a lease begins at the latest mark of its votes", agedQ, rules{fromLatest: true}, apart, false},
	{"a message of a master in quarantine counts", thirdQ, rules{writerUnchecked: true}, apart, false},
	{"a master in quarantine votes", forgetfulQ, rules{noQuarantine: true}, apart, false},
	{"a claim counts that was given up", behindQ, rules{givenUpCounts: true}, apart, false},
	{"two claims with one token", twiceQ, rules{tokenTwice: true}, apart, false},
	{"a late poll finds the key gone, and the lease goes on", asleepQ, rules{ignoresLoss: true}, honestLoss, false},
	{"a grant where a key stands", crowdQ, rules{overwrites: true}, apart, false},

	{"a release that grants nobody", pairQ, rules{silentRelease: true}, notStuck, false},
	{"a claim that is given up, and passes nothing on", queueQ, rules{keepsToItself: true}, notStuck, false},
	{"a SET that is undone, and passes nothing on", pairQ, rules{quietUndo: true}, notStuck, false},
	{"a client gives up to whom the key was left open", queueQ, rules{onlyIfDeleted: true}, notStuck, false},
	{"a release that leaves its entry in the queue", threeQ, rules{staysQueued: true}, nothingLeft, false},
	{"a release overtakes the registration", threeQ, rules{quitOvertakes: true}, nothingLeft, false},
	{"a claim that is not released where it was refused", behindQ, rules{forgetsRefused: true}, nothingLeft, false},
	{"nobody asks again after a split vote", pairQ, rules{noSplitTimer: true}, notStuck, false},
	{"nobody gives up after a split vote", pairQ, rules{noYield: true}, notLockedOut, false},
	{"nobody gives up after a split vote beside a dead master", maimedQ, rules{noYield: true}, notLockedOut, false},
	{"nobody asks again after a split vote beside a dead master", maimedQ, rules{noSplitTimer: true}, notStuck, false},
	{"a release that grants nobody beside a dead master", maimedQ, rules{silentRelease: true}, notStuck, false},
	{"a claim counts that was given up, beside a dead master", crippledQ, rules{givenUpCounts: true}, apart, false},
	{"a claim that is kept by a client that is cut off", apartQ, rules{keepsMinority: true}, notLockedOut, false},
	{"the dead are granted the lock", mortalQ, rules{grantsTheDead: true}, notStuck, false},
	{"a client that is told to look and does not poll", queueQ, rules{deafToLooks: true}, notStuck, false},
	{"the stopped are granted the lock", haltedQ, rules{grantsTheDead: true}, notStuck, false},
	{"a silent client loses its place", slowQ, rules{forgetsSilent: true}, notStuck, false},
	{"all are silent, and none is told to look", slowQ, rules{leavesSilent: true}, notStuck, false},
	{"a newcomer waits for the silent", haltedQ, rules{waitsForSilent: true}, notStuck, false},

	{"no release leaves the key open", streetQ, rules{neverOpen: true}, notLockedOut, false},
	{"a newcomer closes what a release has left open", streetQ, rules{newcomersGrant: true}, notLockedOut, false},

	{"a second round that does not extend the key", raisedQ, rules{raisesOnly: true}, fencesInOrder, false},
	// With all rules in force: what they do not achieve. Where nobody queues, a client's next registration
	// takes the key right behind its release. Clients that only try need a gap then.
	{"all rules, and nobody queues beside a client that only tries", loneQ, rules{}, notLockedOut, false},

	{"fences that need not be equal", fencedQ, rules{anyAck: true}, fencesInOrder, false},
	{"a number that is older than a quarantine", numberedQ, rules{oldNumbers: true}, fencesInOrder, false},
}

var struckOutOfTheLanes = []strike{
	{"a reader's validity counts from the receipt", agedR, rules{fromReceipt: true}, apart, false},
	{"a writer's validity counts from the receipt", agedW, rules{fromReceipt: true}, apart, false},
	{"a reader's validity counts from the last ping sent", agedR, rules{lastPing: true}, apart, false},
	{"a reader's lease ends with the latest of its votes", agedR, rules{fromLatest: true}, apart, false},
	{"a reader counts a message of a master in quarantine", thirdW, rules{readerUnchecked: true}, apart, false},
	{"a writer counts a message of a master in quarantine", thirdR, rules{writerUnchecked: true}, apart, false},
	{"a master in quarantine votes", forgetful, rules{noQuarantine: true}, apart, false},
	{"a quarantine does not outlast undecided rounds", forgetful, rules{heldOnly: true}, apart, false},
	{"renewals count in quarantine", shaken, rules{countQuarantined: true}, apart, false},
	{"a reader's claim counts that was given up", behind, rules{givenUpCounts: true}, apart, false},
	{"a late poll finds the reader's member gone, and the lease goes on", asleepR, rules{ignoresLoss: true}, honestLoss, false},
	{"a late poll finds the writer's key gone, and the lease goes on", asleepW, rules{ignoresLoss: true}, honestLoss, false},
	{"a writer is granted a key beside readers", crowdW, rules{overwrites: true}, apart, false},
	{"readers are granted a key beside a writer", crowdR, rules{overMarks: true}, apart, false},
	{"each reader's release deletes the marker", three, rules{releaseFrees: true}, apart, false},
	{"a renewal adds a member", asleepS, rules{renewalJoins: true}, honestLoss, false},
	{"a renewal adds a member and sets the marker", asleep, rules{renewalJoins: true, renewalMarks: true}, honestLoss, false},
	{"members that have passed count", asleep, rules{passedCounts: true}, honestLoss, false},
	{"the marker lives as long as the reader that set it last", sharing, rules{lastMarks: true}, apart, false},
	{"heals follow a renewal that failed", asleep, rules{healForRetry: true}, honestLoss, false},

	{"a release that grants nobody", live, rules{silentRelease: true}, notStuck, false},
	{"a claim that is given up finds the key free, and passes nothing on", open, rules{onlyIfDeleted: true}, notStuck, false},
	{"a SET that is undone, and passes nothing on", undone, rules{quietUndo: true}, notStuck, false},
	{"who is told to look does not poll", open, rules{deafToLooks: true}, notStuck, false},
	{"nobody looks when an announcement has ended", lapsing, rules{deafToLooks: true}, notStuck, false},
	{"a release leaves its entry in the queue", live, rules{staysQueued: true}, nothingLeft, false},
	{"a release overtakes the registration", live, rules{quitOvertakes: true}, nothingLeft, false},
	{"a claim that is not released where it was refused", behind, rules{forgetsRefused: true}, nothingLeft, false},
	{"a grant to the first reader only", queueR, rules{firstOnly: true}, notStuck, false},
	{"no recall", kept, rules{noRecall: true}, notStuck, false},
	{"no recall of a lock that is kept", keptBoth, rules{noRecall: true}, notStuck, false},
	{"a grant to readers does not tell of the writer", queueW, rules{quietGrant: true}, notStuck, false},
	{"a grant to a writer does not tell of the readers", keptW, rules{quietToWriter: true}, notStuck, false},
	{"a recall is forgotten that comes before the votes", kept, rules{forgetsEarly: true}, notStuck, false},
	{"nobody asks again after a split beside a dead master", maimed, rules{noSplitTimer: true}, notStuck, false},
	{"nobody yields beside a dead master", maimed, rules{noYield: true}, notLockedOut, false},
	{"a claim that is kept by a reader that is cut off", apartR, rules{keepsMinority: true}, notLockedOut, false},
	{"a reader with a vote waits behind a writer", maimedRR, rules{staysBehind: true}, notLockedOut, false},
	{"the dead are granted the lock", mortalR, rules{grantsTheDead: true}, notStuck, false},
	{"the stopped are granted the lock", haltedR, rules{grantsTheDead: true}, notStuck, false},
	{"a newcomer waits for a writer that is stopped", haltedW, rules{waitsForSilent: true}, notStuck, false},
	{"all are silent, and none is told", slow, rules{leavesSilent: true}, notStuck, false},
	{"a far reader that was told nothing but its grant does not poll", far, rules{ignoresLate: true}, notStuck, false},

	{"readers join others though a writer waits", streetR, rules{barges: true}, notLockedOut, false},
	{"behind readers, readers are next", streetR, rules{readersFirst: true}, notLockedOut, false},
	{"behind a writer, writers are next", streetW, rules{writersFirst: true}, notLockedOut, false},
	{"no release leaves the key free", streetT, rules{neverOpen: true}, notLockedOut, false},
	{"no release leaves the key free, beside readers", streetMt, rules{neverOpen: true}, notLockedOut, false},
	{"an open release, and the next registration of the same client behind it", loneT, rules{noGap: true}, notLockedOut, false},
	{"the same of a reader", loneS, rules{noGap: true}, notLockedOut, false},
	{"a newcomer grants the head what was left free", streetT, rules{newcomersGrant: true, noGap: true}, notLockedOut, false},
	{"a reader that only tries does not take a free key", streetOpen, rules{shutsOut: true, noGap: true}, notLockedOut, false},
	{"a client that only tries does not ask readers to leave", streetTR, rules{triesQuietly: true}, notLockedOut, false},
	{"readers come in though an announcement stands", streetTR, rules{passesBy: true}, notLockedOut, false},
	{"a writer's release leaves the announcement", streetRT, rules{staysAnnounced: true}, notLockedOut, false},

	{"a reader's second round does not extend its member", raisedR, rules{raisesOnly: true}, fencesInOrder, false},
	{"a writer's second round does not extend its key", raisedW, rules{raisesOnly: true}, fencesInOrder, false},
	{"a reader's number that no quorum has", spread, rules{anyAck: true}, fencesInOrder, false},
	{"a writer's number that no quorum has", fencedW, rules{anyAck: true}, fencesInOrder, false},
	{"a master with a higher fence acknowledges a reader's number", polledR, rules{acksLower: true}, fencesInOrder, false},
	{"the least number of the votes", fencedR, rules{leastNumber: true}, fencesInOrder, false},
	{"a writer's number is that of the readers before it", fencedW, rules{staysBelow: true}, fencesInOrder, false},
	{"a reader's number is older than a quarantine", numberR, rules{oldNumbers: true}, fencesInOrder, false},
	{"a writer's number is older than a quarantine", numberW, rules{oldNumbers: true}, fencesInOrder, false},
}

// These tests switch off one rule at a time and find the violation that the rule prevents.
func TestEachRuleOfTheQueueIsNeeded(t *testing.T) { strikeOut(t, struckOutOfTheQueue) }
func TestEachRuleOfTheLanesIsNeeded(t *testing.T) { strikeOut(t, struckOutOfTheLanes) }

// TestRulesThatOtherRulesCover switches off rules in worlds where no property breaks without them. It checks
// what the documents claim about the purpose of these rules.
func TestRulesThatOtherRulesCover(t *testing.T) { strikeOut(t, covered) }

func strikeOut(t *testing.T, all []strike) {
	for _, v := range all {
		t.Run(v.name, func(t *testing.T) {
			if v.large && !*large {
				return // a test that skips is a failure in CI
			}
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
	{"a poll that takes the key for itself", queueQ, rules{pollsForItself: true}, intact, false},
	{"a poll that takes the key for itself, exclusion", locksQ, rules{pollsForItself: true}, intact, false},
	// When the quarantine is over, so are all leases of the time before: what was granted in it, and has
	// not run out, excludes others like any other grant. But see oldNumbers.
	{"a grant in quarantine counts behind it", thirdQ, rules{checkedOnReceipt: true}, intact, true},
	// With three masters that all answer, one of two clients always has two of them.
	{"nobody gives up after a split vote of three masters", threeQ, rules{noYield: true}, intact, false},

	// The readers that wait have been recalled with those who hold, and the release of the last of these lets all in. A poll of a
	// reader that finds no writer joins, too.
	{"the last writer gives up, and the readers behind it are not let in", queueR, rules{quietQueue: true}, intact, false},
	{"readers are each other's rivals beside a dead master", maimedRR, rules{noAllies: true}, intact, true},
	// An announcement keeps readers out where a client only tries. Where others queue, one of them is told to look.
	{"a registration behind an open release, where others queue", streetT, rules{noGap: true}, intact, false},
	{"a registration of a reader behind its open release, beside one that makes announcements", streetTR.opening(), rules{noGap: true}, intact, false},
	// A member that has not passed proves that the marker has stood since. The rules matter where a person deletes the marker.
	{"a renewal of a member sets the marker", asleep, rules{renewalMarks: true}, intact, true},
	{"a reader that finds no key leaves the set as it is", asleep, rules{keepsSet: true}, intact, true},
}

// opening returns a world in which some releases leave the key free.
func (w world) opening() world {
	w.opens = true
	return w
}
