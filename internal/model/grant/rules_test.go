package grant

import "strings"

// rules are the rules of the protocol that can be switched off. The zero value is the complete protocol. Each
// field switches off one rule, which its comment quotes.
type rules struct {
	// Exclusion.
	fromReceipt      bool // "a grant's validity counts from what the waiter itself had sent before the grant", for a reader, too
	lastPing         bool // "of the PINGs only one whose PONG came before the message counts"
	fromLatest       bool // "a lease is valid until the earliest of its votes ends"
	readerUnchecked  bool // "a message counts only if it comes from a memory that is known and out of quarantine", to a reader
	writerUnchecked  bool // the same rule, to a writer
	noQuarantine     bool // "votes of a master in quarantine do not count"
	heldOnly         bool // "a quarantine outlasts undecided rounds, too"
	countQuarantined bool // "a renewal does not count at a master in quarantine"
	checkedOnReceipt bool // "the quarantine must have ended before the grant": it is not enough that it has by the receipt
	tokenTwice       bool // "each claim has a fresh token"
	givenUpCounts    bool // "a claim that was given up never counts again"
	ignoresLoss      bool // "what a late poll finds gone counts again only behind a renewal that succeeds without it"
	overwrites       bool // "a grant to a writer is a SET NX": it is none where readers stand
	overMarks        bool // "a grant to readers sets the marker with NX, or finds it": it is none where a writer's key stands
	releaseFrees     bool // "only the release of the last reader that stands deletes the marker"
	renewalJoins     bool // "a renewal adds no member"
	renewalMarks     bool // "a renewal sets no marker"
	passedCounts     bool // "a member that has passed does not stand"
	keepsSet         bool // "a reader that finds no key empties the set first"
	lastMarks        bool // "the marker lives as long as the member that stands longest"
	healForRetry     bool // "a heal follows a renewal that has succeeded"

	// Progress.
	silentRelease  bool // "what leaves the key free grants the lock to those who are next"
	onlyIfDeleted  bool // "a release that finds the key free does so, too"
	keepsToItself  bool // the same rule, for a claim that is given up
	quietUndo      bool // the same rule, for a plain SET without a quorum
	deafToLooks    bool // "who is told to look polls"
	quietQueue     bool // "what takes the last writer out of the queue beside readers lets in those who wait"
	staysQueued    bool // "a release leaves the queue, or the lane, where the key is not its own"
	quitOvertakes  bool // "a release travels behind the registration"
	forgetsRefused bool // "a claim is released at all masters, whatever they answered"
	firstOnly      bool // "a grant to readers is one to all readers that wait"
	noRecall       bool // "the registration of a writer recalls the readers that stand", and any registration a lock that is kept
	quietGrant     bool // "a grant to readers says that a writer waits"
	quietToWriter  bool // "a grant to a writer says that somebody waits", in whichever lane
	forgetsEarly   bool // "a recall counts that comes before the votes"
	noSplitTimer   bool // "a claim with some votes asks again after a moment"
	noYield        bool // "after a split vote, all but one side give up"
	keepsMinority  bool // "a claim that fewer than a quorum of masters answer is released"
	noAllies       bool // "readers are no rivals of each other"
	staysBehind    bool // "a reader with votes joins the readers of other masters although a writer waits there"
	grantsTheDead  bool // "a client that has ended, or is silent, is skipped"
	waitsForSilent bool // "a newcomer overtakes clients that are silent"
	forgetsSilent  bool // "a client that is silent is skipped, and stays in the queue"
	leavesSilent   bool // "if all that wait are silent, one of them is told to look"
	ignoresLate    bool // "a message about a grant whose mark is too old makes a poll"

	// Turns.
	barges         bool // "a reader that comes while a writer waits joins the lane"
	writersFirst   bool // "behind a writer, the readers that wait are next"
	readersFirst   bool // "behind readers, the first writer is next"
	neverOpen      bool // "some releases leave the key free, and tell the first that waits to look"
	noGap          bool // "a client whose release has left the key free registers again when that release is answered"
	newcomersGrant bool // "a newcomer that finds the key free and others waiting joins them, and grants nobody"
	pollsForItself bool // "a poll that finds the key free grants the first that waits"
	shutsOut       bool // "a reader that only tries takes a free key although others wait"
	triesQuietly   bool // "a client that only tries, and finds readers, asks them to leave": it makes an announcement
	passesBy       bool // "readers that come, and readers that wait, stay out while an announcement stands"
	staysAnnounced bool // "a writer that has made the announcement ends it, and so does the release of one that lets readers in"

	// Fences.
	oldNumbers  bool // "a number that is older than a quarantine is not committed": a second round raises it to the clock
	raisesOnly  bool // "the second round extends the key, or the member, too"
	anyAck      bool // "a number is committed when a quorum has it"
	leastNumber bool // "the number of an acquisition is the largest of its votes"
	acksLower   bool // "a master acknowledges a number only if it is exactly the last one", that of a reader, too
	staysBelow  bool // "the number of a writer is above the last one", be that a reader's
}

// A world is the protocol together with what may happen in it. Each field multiplies the states, so no world has
// all of them.
type world struct {
	rules

	masters int
	roles   string // by client, see below
	room    int    // commands under way from one client to one master, at most
	calls   uint8  // acquisitions, all told; 0: without bound
	held    bool   // the exploration begins where A has the lock and the others wait for it
	live    bool   // the progress of each client is checked

	leaves     bool  // a waiter may give up
	polls      bool  // a waiter registers again whenever it likes
	latePolls  bool  // a poll is executed some time after it was sent
	loses      bool  // commands may be lost
	expires    bool  // keys and members expire
	lingers    bool  // a member that has passed stays in the set, and the marker stays for a moment
	ages       bool  // validity is counted from marks
	restarts   uint8 // losses of memory, all told
	snapshots  bool  // a master may also return to an earlier state of its memory
	crashes    uint8 // clients that may die, all told
	deadWrites bool  // those that die are writers; else they are readers
	allDie     bool  // they are of both sides
	stops      bool  // a client that dies keeps its subscription: it is stopped, and silent from then on
	silences   uint8 // how often a master may take a waiter for silent that is not stopped, all told
	stales     uint8 // messages about grants whose mark is too old, all told: those to clients that are far
	renewals   bool  // leases are renewed, and keys and members healed
	repeats    bool  // a renewal asks a master again
	sleeps     bool  // a holder may be stopped until its keys and members are gone, and none of its clocks shows it
	fences     bool  // acquisitions are numbered
	spread     uint8 // clocks differ by fewer numbers than this
	rises      bool  // it is checked that a reader's fence is not below that of an earlier reader, either, which is not promised

	sets      bool // a client with the role Q may send a plain SET first
	settles   bool // a waiter with some grants asks again, and may give up in favour of another
	readersIn bool // a reader leaves only when it knows that a writer waits
	writersIn bool // a writer leaves only when it knows that somebody waits: it keeps the lock
	opens     bool // some releases leave the key free
	busy      bool // all clients but those that only try register again with each release
	lapses    bool // announcements end
	cut       bool // all clients but the first reach one master each
	dead      bool // the last master never answers
	prompt    bool // commands are executed at once
}

// The roles. A lock with one queue has clients Q, and maybe B. All others share a lock with lanes: R reads, W writes. These only try: t
// reads, T writes, S writes and makes no announcement, as other libraries do. B sends a plain SET, and waits in the queue once it
// has held the lock.

// oneQueue reports whether the lock has one queue, and no lanes: then nobody reads.
func (w *world) oneQueue() bool { return w.roles[0] == 'Q' }

func (w *world) clients() int { return len(w.roles) }

func (w *world) reads(c int) bool { return w.roles[c] == 'R' || w.roles[c] == 't' }

// isBarger reports whether a client begins with a plain SET.
func (w *world) isBarger(c int) bool { return w.roles[c] == 'B' }

// tries reports whether a client waits in no queue.
func (w *world) tries(c int) bool { return strings.IndexByte("tTS", w.roles[c]) >= 0 }

// queueing returns how many clients wait in a queue.
func (w *world) queueing() (n int) {
	for c := range w.clients() {
		if !w.tries(c) {
			n++
		}
	}
	return n
}

// keeps reports whether a client holds the lock until it knows that another waits.
func (w *world) keeps(c int) bool {
	return w.roles[c] == 'R' && w.readersIn || w.roles[c] == 'W' && w.writersIn
}

func (w *world) majority() int { return w.masters/2 + 1 }

// reaches reports whether a client's commands arrive at a master.
func (w *world) reaches(c, i int) bool {
	return (!w.cut || c == 0 || i == c-1) && (!w.dead || i < w.masters-1)
}
