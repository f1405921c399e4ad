package grant

import (
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// without returns a world without some rules.
func (w world) without(off rules) world {
	w.rules = off
	return w
}

var struckOutOfTheQueue = []explore.Case[world]{
	{Name: "validity counts from the receipt", World: agedQ.without(rules{fromReceipt: true}), Want: apart},
	{Name: "validity counts from the last PING that was sent", World: agedQ.without(rules{lastPing: true}), Want: apart},
	{Name: "a lease begins at the latest mark of its votes", World: agedQ.without(rules{fromLatest: true}), Want: apart},
	{Name: "a message of a master in quarantine counts", World: thirdQ.without(rules{writerUnchecked: true}), Want: apart},
	{Name: "a master in quarantine votes", World: forgetfulQ.without(rules{noQuarantine: true}), Want: apart},
	{Name: "a claim counts that was given up", World: behindQ.without(rules{givenUpCounts: true}), Want: apart},
	{Name: "two claims with one token", World: twiceQ.without(rules{tokenTwice: true}), Want: apart},
	{Name: "a late poll finds the key gone, and the lease goes on", World: asleepQ.without(rules{ignoresLoss: true}), Want: honestLoss},
	{Name: "a grant where a key stands", World: crowdQ.without(rules{overwrites: true}), Want: apart},

	{Name: "a release that grants nobody", World: pairQ.without(rules{silentRelease: true}), Want: notStuck},
	{Name: "a claim that is given up, and passes nothing on", World: queueQ.without(rules{keepsToItself: true}), Want: notStuck},
	{Name: "a SET that is undone, and passes nothing on", World: pairQ.without(rules{quietUndo: true}), Want: notStuck},
	{Name: "a client gives up to whom the key was left open", World: queueQ.without(rules{onlyIfDeleted: true}), Want: notStuck},
	{Name: "a release that leaves its entry in the queue", World: threeQ.without(rules{staysQueued: true}), Want: nothingLeft},
	{Name: "a release overtakes the registration", World: threeQ.without(rules{quitOvertakes: true}), Want: nothingLeft},
	{Name: "a claim that is not released where it was refused", World: behindQ.without(rules{forgetsRefused: true}), Want: nothingLeft},
	{Name: "nobody asks again after a split vote", World: pairQ.without(rules{noSplitTimer: true}), Want: notStuck},
	{Name: "nobody gives up after a split vote", World: pairQ.without(rules{noYield: true}), Want: notLockedOut},
	{Name: "nobody gives up after a split vote beside a dead master", World: maimedQ.without(rules{noYield: true}), Want: notLockedOut},
	{Name: "nobody asks again after a split vote beside a dead master", World: maimedQ.without(rules{noSplitTimer: true}), Want: notStuck},
	{Name: "a release that grants nobody beside a dead master", World: maimedQ.without(rules{silentRelease: true}), Want: notStuck},
	{Name: "a claim counts that was given up, beside a dead master", World: crippledQ.without(rules{givenUpCounts: true}), Want: apart},
	{Name: "a claim that is kept by a client that is cut off", World: apartQ.without(rules{keepsMinority: true}), Want: notLockedOut},
	{Name: "the dead are granted the lock", World: mortalQ.without(rules{grantsTheDead: true}), Want: notStuck},
	{Name: "a client that is told to look and does not poll", World: queueQ.without(rules{deafToLooks: true}), Want: notStuck},
	{Name: "the stopped are granted the lock", World: haltedQ.without(rules{grantsTheDead: true}), Want: notStuck},
	{Name: "a silent client loses its place", World: slowQ.without(rules{forgetsSilent: true}), Want: notStuck},
	{Name: "all are silent, and none is told to look", World: slowQ.without(rules{leavesSilent: true}), Want: notStuck},
	{Name: "a newcomer waits for the silent", World: haltedQ.without(rules{waitsForSilent: true}), Want: notStuck},

	{Name: "no release leaves the key open", World: streetQ.without(rules{neverOpen: true}), Want: notLockedOut},
	{Name: "a newcomer closes what a release has left open", World: streetQ.without(rules{newcomersGrant: true}), Want: notLockedOut},

	{Name: "a second round that does not extend the key", World: raisedQ.without(rules{raisesOnly: true}), Want: fencesInOrder},
	// With all rules in force: what they do not achieve. Where nobody queues, a client's next registration
	// takes the key right behind its release. Clients that only try need a gap then.
	{Name: "all rules, and nobody queues beside a client that only tries", World: loneQ, Want: notLockedOut},

	{Name: "fences that need not be equal", World: fencedQ.without(rules{anyAck: true}), Want: fencesInOrder},
	{Name: "a number that is older than a quarantine", World: numberedQ.without(rules{oldNumbers: true}), Want: fencesInOrder},
}

var struckOutOfTheLanes = []explore.Case[world]{
	{Name: "a reader's validity counts from the receipt", World: agedR.without(rules{fromReceipt: true}), Want: apart},
	{Name: "a writer's validity counts from the receipt", World: agedW.without(rules{fromReceipt: true}), Want: apart},
	{Name: "a reader's validity counts from the last ping sent", World: agedR.without(rules{lastPing: true}), Want: apart},
	{Name: "a reader's lease ends with the latest of its votes", World: agedR.without(rules{fromLatest: true}), Want: apart},
	{Name: "a reader counts a message of a master in quarantine", World: thirdW.without(rules{readerUnchecked: true}), Want: apart},
	{Name: "a writer counts a message of a master in quarantine", World: thirdR.without(rules{writerUnchecked: true}), Want: apart},
	{Name: "a master in quarantine votes", World: forgetful.without(rules{noQuarantine: true}), Want: apart},
	{Name: "a quarantine does not outlast undecided rounds", World: forgetful.without(rules{heldOnly: true}), Want: apart},
	{Name: "renewals count in quarantine", World: shaken.without(rules{countQuarantined: true}), Want: apart},
	{Name: "a reader's claim counts that was given up", World: behind.without(rules{givenUpCounts: true}), Want: apart},
	{Name: "a late poll finds the reader's member gone, and the lease goes on", World: asleepR.without(rules{ignoresLoss: true}), Want: honestLoss},
	{Name: "a late poll finds the writer's key gone, and the lease goes on", World: asleepW.without(rules{ignoresLoss: true}), Want: honestLoss},
	{Name: "a writer is granted a key beside readers", World: crowdW.without(rules{overwrites: true}), Want: apart},
	{Name: "readers are granted a key beside a writer", World: crowdR.without(rules{overMarks: true}), Want: apart},
	{Name: "each reader's release deletes the marker", World: three.without(rules{releaseFrees: true}), Want: apart},
	{Name: "a renewal adds a member", World: asleepS.without(rules{renewalJoins: true}), Want: honestLoss},
	{Name: "a renewal adds a member and sets the marker", World: asleep.without(rules{renewalJoins: true, renewalMarks: true}), Want: honestLoss},
	{Name: "members that have passed count", World: asleep.without(rules{passedCounts: true}), Want: honestLoss},
	{Name: "the marker lives as long as the reader that set it last", World: sharing.without(rules{lastMarks: true}), Want: apart},
	{Name: "heals follow a renewal that failed", World: asleep.without(rules{healForRetry: true}), Want: honestLoss},

	{Name: "a release that grants nobody", World: live.without(rules{silentRelease: true}), Want: notStuck},
	{Name: "a claim that is given up finds the key free, and passes nothing on", World: open.without(rules{onlyIfDeleted: true}), Want: notStuck},
	{Name: "a SET that is undone, and passes nothing on", World: undone.without(rules{quietUndo: true}), Want: notStuck},
	{Name: "who is told to look does not poll", World: open.without(rules{deafToLooks: true}), Want: notStuck},
	{Name: "nobody looks when an announcement has ended", World: lapsing.without(rules{deafToLooks: true}), Want: notStuck},
	{Name: "a release leaves its entry in the queue", World: live.without(rules{staysQueued: true}), Want: nothingLeft},
	{Name: "a release overtakes the registration", World: live.without(rules{quitOvertakes: true}), Want: nothingLeft},
	{Name: "a claim that is not released where it was refused", World: behind.without(rules{forgetsRefused: true}), Want: nothingLeft},
	{Name: "a grant to the first reader only", World: queueR.without(rules{firstOnly: true}), Want: notStuck},
	{Name: "no recall", World: kept.without(rules{noRecall: true}), Want: notStuck},
	{Name: "no recall of a lock that is kept", World: keptBoth.without(rules{noRecall: true}), Want: notStuck},
	{Name: "a grant to readers does not tell of the writer", World: queueW.without(rules{quietGrant: true}), Want: notStuck},
	{Name: "a grant to a writer does not tell of the readers", World: keptW.without(rules{quietToWriter: true}), Want: notStuck},
	{Name: "a recall is forgotten that comes before the votes", World: kept.without(rules{forgetsEarly: true}), Want: notStuck},
	{Name: "nobody asks again after a split beside a dead master", World: maimed.without(rules{noSplitTimer: true}), Want: notStuck},
	{Name: "nobody yields beside a dead master", World: maimed.without(rules{noYield: true}), Want: notLockedOut},
	{Name: "a claim that is kept by a reader that is cut off", World: apartR.without(rules{keepsMinority: true}), Want: notLockedOut},
	{Name: "a reader with a vote waits behind a writer", World: maimedRR.without(rules{staysBehind: true}), Want: notLockedOut},
	{Name: "the dead are granted the lock", World: mortalR.without(rules{grantsTheDead: true}), Want: notStuck},
	{Name: "the stopped are granted the lock", World: haltedR.without(rules{grantsTheDead: true}), Want: notStuck},
	{Name: "a newcomer waits for a writer that is stopped", World: haltedW.without(rules{waitsForSilent: true}), Want: notStuck},
	{Name: "all are silent, and none is told", World: slow.without(rules{leavesSilent: true}), Want: notStuck},
	{Name: "a far reader that was told nothing but its grant does not poll", World: far.without(rules{ignoresLate: true}), Want: notStuck},

	{Name: "readers join others though a writer waits", World: streetR.without(rules{barges: true}), Want: notLockedOut},
	{Name: "behind readers, readers are next", World: streetR.without(rules{readersFirst: true}), Want: notLockedOut},
	{Name: "behind a writer, writers are next", World: streetW.without(rules{writersFirst: true}), Want: notLockedOut},
	{Name: "no release leaves the key free", World: streetT.without(rules{neverOpen: true}), Want: notLockedOut},
	{Name: "no release leaves the key free, beside readers", World: streetMt.without(rules{neverOpen: true}), Want: notLockedOut},
	{Name: "an open release, and the next registration of the same client behind it", World: loneT.without(rules{noGap: true}), Want: notLockedOut},
	{Name: "the same of a reader", World: loneS.without(rules{noGap: true}), Want: notLockedOut},
	{Name: "a newcomer grants the head what was left free", World: streetT.without(rules{newcomersGrant: true, noGap: true}), Want: notLockedOut},
	{Name: "a reader that only tries does not take a free key", World: streetOpen.without(rules{shutsOut: true, noGap: true}), Want: notLockedOut},
	{Name: "a client that only tries does not ask readers to leave", World: streetTR.without(rules{triesQuietly: true}), Want: notLockedOut},
	{Name: "readers come in though an announcement stands", World: streetTR.without(rules{passesBy: true}), Want: notLockedOut},
	{Name: "a writer's release leaves the announcement", World: streetRT.without(rules{staysAnnounced: true}), Want: notLockedOut},

	{Name: "a reader's second round does not extend its member", World: raisedR.without(rules{raisesOnly: true}), Want: fencesInOrder},
	{Name: "a writer's second round does not extend its key", World: raisedW.without(rules{raisesOnly: true}), Want: fencesInOrder},
	{Name: "a reader's number that no quorum has", World: spread.without(rules{anyAck: true}), Want: fencesInOrder},
	{Name: "a writer's number that no quorum has", World: fencedW.without(rules{anyAck: true}), Want: fencesInOrder},
	{Name: "a master with a higher fence acknowledges a reader's number", World: polledR.without(rules{acksLower: true}), Want: fencesInOrder},
	{Name: "the least number of the votes", World: fencedR.without(rules{leastNumber: true}), Want: fencesInOrder},
	{Name: "a writer's number is that of the readers before it", World: fencedW.without(rules{staysBelow: true}), Want: fencesInOrder},
	{Name: "a reader's number is older than a quarantine", World: numberR.without(rules{oldNumbers: true}), Want: fencesInOrder},
	{Name: "a writer's number is older than a quarantine", World: numberW.without(rules{oldNumbers: true}), Want: fencesInOrder},
}

// These tests switch off one rule at a time and find the violation that the rule prevents.
func TestEachRuleOfTheQueueIsNeeded(t *testing.T) { explore.Check(t, struckOutOfTheQueue, exploration) }
func TestEachRuleOfTheLanesIsNeeded(t *testing.T) { explore.Check(t, struckOutOfTheLanes, exploration) }

// TestRulesThatOtherRulesCover switches off rules in worlds where no property breaks without them. It checks
// what the documents claim about the purpose of these rules.
func TestRulesThatOtherRulesCover(t *testing.T) { explore.Check(t, covered, exploration) }

var covered = []explore.Case[world]{
	// A poll that takes a free key for itself overtakes those who queue, and does nothing worse.
	{Name: "a poll that takes the key for itself", World: queueQ.without(rules{pollsForItself: true})},
	{Name: "a poll that takes the key for itself, exclusion", World: locksQ.without(rules{pollsForItself: true})},
	// When the quarantine is over, so are all leases of the time before: what was granted in it, and has
	// not run out, excludes others like any other grant. But see oldNumbers.
	{Name: "a grant in quarantine counts behind it", World: thirdQ.without(rules{checkedOnReceipt: true}), Large: true},
	// With three masters that all answer, one of two clients always has two of them.
	{Name: "nobody gives up after a split vote of three masters", World: threeQ.without(rules{noYield: true})},

	// The readers that wait have been recalled with those who hold, and the release of the last of these lets all in. A poll of a
	// reader that finds no writer joins, too.
	{Name: "the last writer gives up, and the readers behind it are not let in", World: queueR.without(rules{quietQueue: true})},
	{Name: "readers are each other's rivals beside a dead master", World: maimedRR.without(rules{noAllies: true}), Large: true},
	// An announcement keeps readers out where a client only tries. Where others queue, one of them is told to look.
	{Name: "a registration behind an open release, where others queue", World: streetT.without(rules{noGap: true})},
	{Name: "a registration of a reader behind its open release, beside one that makes announcements", World: streetTR.opening().without(rules{noGap: true})},
	// A member that has not passed proves that the marker has stood since. The rules matter where a person deletes the marker.
	{Name: "a renewal of a member sets the marker", World: asleep.without(rules{renewalMarks: true}), Large: true},
	{Name: "a reader that finds no key leaves the set as it is", World: asleep.without(rules{keepsSet: true}), Large: true},
}

// opening returns a world in which some releases leave the key free.
func (w world) opening() world {
	w.opens = true
	return w
}
