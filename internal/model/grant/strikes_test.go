package grant

import (
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

var struckOutOfTheQueue = []explore.Case[world, rules]{
	{Name: "validity counts from the receipt", World: agedQ, Off: rules{fromReceipt: true}, Want: apart},
	{Name: "validity counts from the last PING that was sent", World: agedQ, Off: rules{lastPing: true}, Want: apart},
	{Name: "a lease begins at the latest mark of its votes", World: agedQ, Off: rules{fromLatest: true}, Want: apart},
	{Name: "a message of a master in quarantine counts", World: thirdQ, Off: rules{writerUnchecked: true}, Want: apart},
	{Name: "a master in quarantine votes", World: forgetfulQ, Off: rules{noQuarantine: true}, Want: apart},
	{Name: "a claim counts that was given up", World: behindQ, Off: rules{givenUpCounts: true}, Want: apart},
	{Name: "two claims with one token", World: twiceQ, Off: rules{tokenTwice: true}, Want: apart},
	{Name: "a late poll finds the key gone, and the lease goes on", World: asleepQ, Off: rules{ignoresLoss: true}, Want: honestLoss},
	{Name: "a grant where a key stands", World: crowdQ, Off: rules{overwrites: true}, Want: apart},

	{Name: "a release that grants nobody", World: pairQ, Off: rules{silentRelease: true}, Want: notStuck},
	{Name: "a claim that is given up, and passes nothing on", World: queueQ, Off: rules{keepsToItself: true}, Want: notStuck},
	{Name: "a SET that is undone, and passes nothing on", World: pairQ, Off: rules{quietUndo: true}, Want: notStuck},
	{Name: "a client gives up to whom the key was left open", World: queueQ, Off: rules{onlyIfDeleted: true}, Want: notStuck},
	{Name: "a release that leaves its entry in the queue", World: threeQ, Off: rules{staysQueued: true}, Want: nothingLeft},
	{Name: "a release overtakes the registration", World: threeQ, Off: rules{quitOvertakes: true}, Want: nothingLeft},
	{Name: "a claim that is not released where it was refused", World: behindQ, Off: rules{forgetsRefused: true}, Want: nothingLeft},
	{Name: "nobody asks again after a split vote", World: pairQ, Off: rules{noSplitTimer: true}, Want: notStuck},
	{Name: "nobody gives up after a split vote", World: pairQ, Off: rules{noYield: true}, Want: notLockedOut},
	{Name: "nobody gives up after a split vote beside a dead master", World: maimedQ, Off: rules{noYield: true}, Want: notLockedOut},
	{Name: "nobody asks again after a split vote beside a dead master", World: maimedQ, Off: rules{noSplitTimer: true}, Want: notStuck},
	{Name: "a release that grants nobody beside a dead master", World: maimedQ, Off: rules{silentRelease: true}, Want: notStuck},
	{Name: "a claim counts that was given up, beside a dead master", World: crippledQ, Off: rules{givenUpCounts: true}, Want: apart},
	{Name: "a claim that is kept by a client that is cut off", World: apartQ, Off: rules{keepsMinority: true}, Want: notLockedOut},
	{Name: "the dead are granted the lock", World: mortalQ, Off: rules{grantsTheDead: true}, Want: notStuck},
	{Name: "a client that is told to look and does not poll", World: queueQ, Off: rules{deafToLooks: true}, Want: notStuck},
	{Name: "the stopped are granted the lock", World: haltedQ, Off: rules{grantsTheDead: true}, Want: notStuck},
	{Name: "a silent client loses its place", World: slowQ, Off: rules{forgetsSilent: true}, Want: notStuck},
	{Name: "all are silent, and none is told to look", World: slowQ, Off: rules{leavesSilent: true}, Want: notStuck},
	{Name: "a newcomer waits for the silent", World: haltedQ, Off: rules{waitsForSilent: true}, Want: notStuck},

	{Name: "no release leaves the key open", World: streetQ, Off: rules{neverOpen: true}, Want: notLockedOut},
	{Name: "a newcomer closes what a release has left open", World: streetQ, Off: rules{newcomersGrant: true}, Want: notLockedOut},

	{Name: "a second round that does not extend the key", World: raisedQ, Off: rules{raisesOnly: true}, Want: fencesInOrder},
	// With all rules in force: what they do not achieve. Where nobody queues, a client's next registration
	// takes the key right behind its release. Clients that only try need a gap then.
	{Name: "all rules, and nobody queues beside a client that only tries", World: loneQ, Want: notLockedOut},

	{Name: "fences that need not be equal", World: fencedQ, Off: rules{anyAck: true}, Want: fencesInOrder},
	{Name: "a number that is older than a quarantine", World: numberedQ, Off: rules{oldNumbers: true}, Want: fencesInOrder},
}

var struckOutOfTheLanes = []explore.Case[world, rules]{
	{Name: "a reader's validity counts from the receipt", World: agedR, Off: rules{fromReceipt: true}, Want: apart},
	{Name: "a writer's validity counts from the receipt", World: agedW, Off: rules{fromReceipt: true}, Want: apart},
	{Name: "a reader's validity counts from the last ping sent", World: agedR, Off: rules{lastPing: true}, Want: apart},
	{Name: "a reader's lease ends with the latest of its votes", World: agedR, Off: rules{fromLatest: true}, Want: apart},
	{Name: "a reader counts a message of a master in quarantine", World: thirdW, Off: rules{readerUnchecked: true}, Want: apart},
	{Name: "a writer counts a message of a master in quarantine", World: thirdR, Off: rules{writerUnchecked: true}, Want: apart},
	{Name: "a master in quarantine votes", World: forgetful, Off: rules{noQuarantine: true}, Want: apart},
	{Name: "a quarantine does not outlast undecided rounds", World: forgetful, Off: rules{heldOnly: true}, Want: apart},
	{Name: "renewals count in quarantine", World: shaken, Off: rules{countQuarantined: true}, Want: apart},
	{Name: "a reader's claim counts that was given up", World: behind, Off: rules{givenUpCounts: true}, Want: apart},
	{Name: "a late poll finds the reader's member gone, and the lease goes on", World: asleepR, Off: rules{ignoresLoss: true}, Want: honestLoss},
	{Name: "a late poll finds the writer's key gone, and the lease goes on", World: asleepW, Off: rules{ignoresLoss: true}, Want: honestLoss},
	{Name: "a writer is granted a key beside readers", World: crowdW, Off: rules{overwrites: true}, Want: apart},
	{Name: "readers are granted a key beside a writer", World: crowdR, Off: rules{overMarks: true}, Want: apart},
	{Name: "each reader's release deletes the marker", World: three, Off: rules{releaseFrees: true}, Want: apart},
	{Name: "a renewal adds a member", World: asleepS, Off: rules{renewalJoins: true}, Want: honestLoss},
	{Name: "a renewal adds a member and sets the marker", World: asleep, Off: rules{renewalJoins: true, renewalMarks: true}, Want: honestLoss},
	{Name: "members that have passed count", World: asleep, Off: rules{passedCounts: true}, Want: honestLoss},
	{Name: "the marker lives as long as the reader that set it last", World: sharing, Off: rules{lastMarks: true}, Want: apart},
	{Name: "heals follow a renewal that failed", World: asleep, Off: rules{healForRetry: true}, Want: honestLoss},

	{Name: "a release that grants nobody", World: live, Off: rules{silentRelease: true}, Want: notStuck},
	{Name: "a claim that is given up finds the key free, and passes nothing on", World: open, Off: rules{onlyIfDeleted: true}, Want: notStuck},
	{Name: "a SET that is undone, and passes nothing on", World: undone, Off: rules{quietUndo: true}, Want: notStuck},
	{Name: "who is told to look does not poll", World: open, Off: rules{deafToLooks: true}, Want: notStuck},
	{Name: "nobody looks when an announcement has ended", World: lapsing, Off: rules{deafToLooks: true}, Want: notStuck},
	{Name: "a release leaves its entry in the queue", World: live, Off: rules{staysQueued: true}, Want: nothingLeft},
	{Name: "a release overtakes the registration", World: live, Off: rules{quitOvertakes: true}, Want: nothingLeft},
	{Name: "a claim that is not released where it was refused", World: behind, Off: rules{forgetsRefused: true}, Want: nothingLeft},
	{Name: "a grant to the first reader only", World: queueR, Off: rules{firstOnly: true}, Want: notStuck},
	{Name: "no recall", World: kept, Off: rules{noRecall: true}, Want: notStuck},
	{Name: "no recall of a lock that is kept", World: keptBoth, Off: rules{noRecall: true}, Want: notStuck},
	{Name: "a grant to readers does not tell of the writer", World: queueW, Off: rules{quietGrant: true}, Want: notStuck},
	{Name: "a grant to a writer does not tell of the readers", World: keptW, Off: rules{quietToWriter: true}, Want: notStuck},
	{Name: "a recall is forgotten that comes before the votes", World: kept, Off: rules{forgetsEarly: true}, Want: notStuck},
	{Name: "nobody asks again after a split beside a dead master", World: maimed, Off: rules{noSplitTimer: true}, Want: notStuck},
	{Name: "nobody yields beside a dead master", World: maimed, Off: rules{noYield: true}, Want: notLockedOut},
	{Name: "a claim that is kept by a reader that is cut off", World: apartR, Off: rules{keepsMinority: true}, Want: notLockedOut},
	{Name: "a reader with a vote waits behind a writer", World: maimedRR, Off: rules{staysBehind: true}, Want: notLockedOut},
	{Name: "the dead are granted the lock", World: mortalR, Off: rules{grantsTheDead: true}, Want: notStuck},
	{Name: "the stopped are granted the lock", World: haltedR, Off: rules{grantsTheDead: true}, Want: notStuck},
	{Name: "a newcomer waits for a writer that is stopped", World: haltedW, Off: rules{waitsForSilent: true}, Want: notStuck},
	{Name: "all are silent, and none is told", World: slow, Off: rules{leavesSilent: true}, Want: notStuck},
	{Name: "a far reader that was told nothing but its grant does not poll", World: far, Off: rules{ignoresLate: true}, Want: notStuck},

	{Name: "readers join others though a writer waits", World: streetR, Off: rules{barges: true}, Want: notLockedOut},
	{Name: "behind readers, readers are next", World: streetR, Off: rules{readersFirst: true}, Want: notLockedOut},
	{Name: "behind a writer, writers are next", World: streetW, Off: rules{writersFirst: true}, Want: notLockedOut},
	{Name: "no release leaves the key free", World: streetT, Off: rules{neverOpen: true}, Want: notLockedOut},
	{Name: "no release leaves the key free, beside readers", World: streetMt, Off: rules{neverOpen: true}, Want: notLockedOut},
	{Name: "an open release, and the next registration of the same client behind it", World: loneT, Off: rules{noGap: true}, Want: notLockedOut},
	{Name: "the same of a reader", World: loneS, Off: rules{noGap: true}, Want: notLockedOut},
	{Name: "a newcomer grants the head what was left free", World: streetT, Off: rules{newcomersGrant: true, noGap: true}, Want: notLockedOut},
	{Name: "a reader that only tries does not take a free key", World: streetOpen, Off: rules{shutsOut: true, noGap: true}, Want: notLockedOut},
	{Name: "a client that only tries does not ask readers to leave", World: streetTR, Off: rules{triesQuietly: true}, Want: notLockedOut},
	{Name: "readers come in though an announcement stands", World: streetTR, Off: rules{passesBy: true}, Want: notLockedOut},
	{Name: "a writer's release leaves the announcement", World: streetRT, Off: rules{staysAnnounced: true}, Want: notLockedOut},

	{Name: "a reader's second round does not extend its member", World: raisedR, Off: rules{raisesOnly: true}, Want: fencesInOrder},
	{Name: "a writer's second round does not extend its key", World: raisedW, Off: rules{raisesOnly: true}, Want: fencesInOrder},
	{Name: "a reader's number that no quorum has", World: spread, Off: rules{anyAck: true}, Want: fencesInOrder},
	{Name: "a writer's number that no quorum has", World: fencedW, Off: rules{anyAck: true}, Want: fencesInOrder},
	{Name: "a master with a higher fence acknowledges a reader's number", World: polledR, Off: rules{acksLower: true}, Want: fencesInOrder},
	{Name: "the least number of the votes", World: fencedR, Off: rules{leastNumber: true}, Want: fencesInOrder},
	{Name: "a writer's number is that of the readers before it", World: fencedW, Off: rules{staysBelow: true}, Want: fencesInOrder},
	{Name: "a reader's number is older than a quarantine", World: numberR, Off: rules{oldNumbers: true}, Want: fencesInOrder},
	{Name: "a writer's number is older than a quarantine", World: numberW, Off: rules{oldNumbers: true}, Want: fencesInOrder},
}

// These tests switch off one rule at a time and find the violation that the rule prevents.
func TestEachRuleOfTheQueueIsNeeded(t *testing.T) { explore.Check(t, struckOutOfTheQueue, exploration) }
func TestEachRuleOfTheLanesIsNeeded(t *testing.T) { explore.Check(t, struckOutOfTheLanes, exploration) }

// TestRulesThatOtherRulesCover switches off rules in worlds where no property breaks without them. It checks
// what the documents claim about the purpose of these rules.
func TestRulesThatOtherRulesCover(t *testing.T) { explore.Check(t, covered, exploration) }

var covered = []explore.Case[world, rules]{
	// A poll that takes a free key for itself overtakes those who queue, and does nothing worse.
	{Name: "a poll that takes the key for itself", World: queueQ, Off: rules{pollsForItself: true}},
	{Name: "a poll that takes the key for itself, exclusion", World: locksQ, Off: rules{pollsForItself: true}},
	// When the quarantine is over, so are all leases of the time before: what was granted in it, and has
	// not run out, excludes others like any other grant. But see oldNumbers.
	{Name: "a grant in quarantine counts behind it", World: thirdQ, Off: rules{checkedOnReceipt: true}, Large: true},
	// With three masters that all answer, one of two clients always has two of them.
	{Name: "nobody gives up after a split vote of three masters", World: threeQ, Off: rules{noYield: true}},

	// The readers that wait have been recalled with those who hold, and the release of the last of these lets all in. A poll of a
	// reader that finds no writer joins, too.
	{Name: "the last writer gives up, and the readers behind it are not let in", World: queueR, Off: rules{quietQueue: true}},
	{Name: "readers are each other's rivals beside a dead master", World: maimedRR, Off: rules{noAllies: true}, Large: true},
	// An announcement keeps readers out where a client only tries. Where others queue, one of them is told to look.
	{Name: "a registration behind an open release, where others queue", World: streetT, Off: rules{noGap: true}},
	{Name: "a registration of a reader behind its open release, beside one that makes announcements", World: streetTR.opening(), Off: rules{noGap: true}},
	// A member that has not passed proves that the marker has stood since. The rules matter where a person deletes the marker.
	{Name: "a renewal of a member sets the marker", World: asleep, Off: rules{renewalMarks: true}, Large: true},
	{Name: "a reader that finds no key leaves the set as it is", World: asleep, Off: rules{keepsSet: true}, Large: true},
}

// opening returns a world in which some releases leave the key free.
func (w world) opening() world {
	w.opens = true
	return w
}
