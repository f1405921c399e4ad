package lanes

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
}

var struckOut = []strike{
	{"a reader's validity counts from the receipt", agedR, rules{fromReceipt: true}, apart},
	{"a writer's validity counts from the receipt", agedW, rules{fromReceipt: true}, apart},
	{"a reader's validity counts from the last ping sent", agedR, rules{lastPing: true}, apart},
	{"a reader's lease ends with the latest of its votes", agedR, rules{fromLatest: true}, apart},
	{"a reader counts a message of a master in quarantine", thirdW, rules{readerUnchecked: true}, apart},
	{"a writer counts a message of a master in quarantine", thirdR, rules{writerUnchecked: true}, apart},
	{"a master in quarantine votes", forgetful, rules{noQuarantine: true}, apart},
	{"a quarantine does not outlast undecided rounds", forgetful, rules{heldOnly: true}, apart},
	{"renewals count in quarantine", shaken, rules{countQuarantined: true}, apart},
	{"a reader's claim counts that was given up", behind, rules{givenUpCounts: true}, apart},
	{"a late poll finds the reader's member gone, and the lease goes on", asleepR, rules{ignoresLoss: true}, honestLoss},
	{"a late poll finds the writer's key gone, and the lease goes on", asleepW, rules{ignoresLoss: true}, honestLoss},
	{"a writer is granted a key beside readers", crowdW, rules{overwrites: true}, apart},
	{"readers are granted a key beside a writer", crowdR, rules{overMarks: true}, apart},
	{"each reader's release deletes the marker", three, rules{releaseFrees: true}, apart},
	{"a renewal adds a member", asleepS, rules{renewalJoins: true}, honestLoss},
	{"a renewal adds a member and sets the marker", asleep, rules{renewalJoins: true, renewalMarks: true}, honestLoss},
	{"members that have passed count", asleep, rules{passedCounts: true}, honestLoss},
	{"the marker lives as long as the reader that set it last", sharing, rules{lastMarks: true}, apart},
	{"heals follow a renewal that failed", asleep, rules{healForRetry: true}, honestLoss},

	{"a release that grants nobody", live, rules{silentRelease: true}, notStuck},
	{"a claim that is given up finds the key free, and passes nothing on", open, rules{onlyIfDeleted: true}, notStuck},
	{"a SET that is undone, and passes nothing on", undone, rules{quietUndo: true}, notStuck},
	{"who is told to look does not poll", open, rules{deafToLooks: true}, notStuck},
	{"nobody looks when an announcement has ended", lapsing, rules{deafToLooks: true}, notStuck},
	{"a release leaves its entry in the queue", live, rules{staysQueued: true}, nothingLeft},
	{"a release overtakes the registration", live, rules{quitOvertakes: true}, nothingLeft},
	{"a claim that is not released where it was refused", behind, rules{forgetsRefused: true}, nothingLeft},
	{"a grant to the first reader only", queueR, rules{firstOnly: true}, notStuck},
	{"no recall", kept, rules{noRecall: true}, notStuck},
	{"no recall of a lock that is kept", keptBoth, rules{noRecall: true}, notStuck},
	{"a grant to readers does not tell of the writer", queueW, rules{quietGrant: true}, notStuck},
	{"a grant to a writer does not tell of the readers", keptW, rules{quietToWriter: true}, notStuck},
	{"a recall is forgotten that comes before the votes", kept, rules{forgetsEarly: true}, notStuck},
	{"nobody asks again after a split beside a dead master", maimed, rules{noSplitTimer: true}, notStuck},
	{"nobody yields beside a dead master", maimed, rules{noYield: true}, notLockedOut},
	{"a claim that is kept by a reader that is cut off", apartR, rules{keepsMinority: true}, notLockedOut},
	{"a reader with a vote waits behind a writer", maimedRR, rules{staysBehind: true}, notLockedOut},
	{"the dead are granted the lock", mortalR, rules{grantsTheDead: true}, notStuck},
	{"the stopped are granted the lock", haltedR, rules{grantsTheDead: true}, notStuck},
	{"a newcomer waits for a writer that is stopped", haltedW, rules{waitsForSilent: true}, notStuck},
	{"all are silent, and none is told", slow, rules{leavesSilent: true}, notStuck},
	{"a far reader that was told nothing but its grant does not poll", far, rules{ignoresLate: true}, notStuck},

	{"readers join others though a writer waits", streetR, rules{barges: true}, notLockedOut},
	{"behind readers, readers are next", streetR, rules{readersFirst: true}, notLockedOut},
	{"behind a writer, writers are next", streetW, rules{writersFirst: true}, notLockedOut},
	{"no release leaves the key free", streetT, rules{neverOpen: true}, notLockedOut},
	{"no release leaves the key free, beside readers", streetMt, rules{neverOpen: true}, notLockedOut},
	{"an open release, and the next registration of the same client behind it", loneT, rules{noGap: true}, notLockedOut},
	{"the same of a reader", loneS, rules{noGap: true}, notLockedOut},
	{"a newcomer grants the head what was left free", streetT, rules{newcomersGrant: true, noGap: true}, notLockedOut},
	{"a reader that only tries does not take a free key", streetOpen, rules{shutsOut: true, noGap: true}, notLockedOut},
	{"a client that only tries does not ask readers to leave", streetTR, rules{triesQuietly: true}, notLockedOut},
	{"readers come in though an announcement stands", streetTR, rules{passesBy: true}, notLockedOut},
	{"a writer's release leaves the announcement", streetRT, rules{staysAnnounced: true}, notLockedOut},

	{"a reader's second round does not extend its member", raisedR, rules{raisesOnly: true}, fencesInOrder},
	{"a writer's second round does not extend its key", raisedW, rules{raisesOnly: true}, fencesInOrder},
	{"a reader's number that no quorum has", spread, rules{anyAck: true}, fencesInOrder},
	{"a writer's number that no quorum has", fencedW, rules{anyAck: true}, fencesInOrder},
	{"a master with a higher fence acknowledges a reader's number", polledR, rules{acksLower: true}, fencesInOrder},
	{"the least number of the votes", fencedR, rules{leastNumber: true}, fencesInOrder},
	{"a writer's number is that of the readers before it", fencedW, rules{staysBelow: true}, fencesInOrder},
	{"a reader's number is older than a quarantine", numberR, rules{oldNumbers: true}, fencesInOrder},
	{"a writer's number is older than a quarantine", numberW, rules{oldNumbers: true}, fencesInOrder},
}

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
	// The readers that wait have been recalled with those who hold, and the release of the last of these lets all in. A poll of a
	// reader that finds no writer joins, too.
	{"the last writer gives up, and the readers behind it are not let in", queueR, rules{quietQueue: true}, intact},
	{"readers are each other's rivals beside a dead master", maimedRR, rules{noAllies: true}, intact},
	// An announcement keeps readers out where a client only tries. Where others queue, one of them is told to look.
	{"a registration behind an open release, where others queue", streetT, rules{noGap: true}, intact},
	{"a registration of a reader behind its open release, beside one that makes announcements", streetTR.opening(), rules{noGap: true}, intact},
	// A member that has not passed proves that the marker has stood since. The rules matter where a person deletes the marker.
	{"a renewal of a member sets the marker", asleep, rules{renewalMarks: true}, intact},
	{"a reader that finds no key leaves the set as it is", asleep, rules{keepsSet: true}, intact},
}

// opening returns a world in which some releases leave the key free.
func (w world) opening() world {
	w.opens = true
	return w
}

// TestRulesThatOtherRulesCover switches off rules in worlds where no property breaks without them.
func TestRulesThatOtherRulesCover(t *testing.T) {
	for _, v := range covered {
		t.Run(v.name, func(t *testing.T) {
			if v.world == asleep && !*large || v.world == maimedRR && !*large {
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
