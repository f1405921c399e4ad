package grant

// rules are the rules of the protocol that can be switched off. The zero value is the complete protocol. Each
// field switches off one rule, which its comment quotes.
type rules struct {
	// Exclusion.
	fromReceipt      bool // "a grant's validity counts from what the waiter itself had sent before the grant"
	lastPing         bool // "of the PINGs only one whose PONG came before the message counts"
	fromLatest       bool // "a lease begins at the earliest mark of its votes"
	memoryUnchecked  bool // "a message counts only if it comes from a memory that is known and out of quarantine"
	checkedOnReceipt bool // "the quarantine must have ended before the grant": it is not enough that it has by the receipt
	noQuarantine     bool // "votes of a master in quarantine do not count"
	givenUpCounts    bool // "a claim that was given up never counts again"
	tokenTwice       bool // "each claim has a fresh token"
	ignoresLoss      bool // "a key that a late poll finds gone counts again only behind a renewal that succeeds without it"
	overwrites       bool // "a grant is a SET NX": no script grants where a key stands

	// Progress.
	silentRelease  bool // "what deletes the key grants the head of the queue"
	keepsToItself  bool // the same rule, for a claim that is given up
	quietUndo      bool // the same rule, for a plain SET without a quorum
	onlyIfDeleted  bool // "a release that finds the key free grants the head, too"
	staysQueued    bool // "a release leaves the queue where the key is not its own"
	quitOvertakes  bool // "a release travels behind the registration"
	forgetsRefused bool // "a claim is released at all masters, whatever they answered"
	noSplitTimer   bool // "a waiter with some grants asks again after a moment"
	noYield        bool // "after a split vote all but one give up in favour of that one"
	keepsMinority  bool // "a claim that fewer than a quorum of masters answer is released"
	grantsTheDead  bool // "a client without a subscriber is skipped"
	ignoresLook    bool // "a waiter that is told to look polls"
	forgetsSilent  bool // "a client that is silent is skipped, and stays in the queue"
	leavesSilent   bool // "if all clients of a queue are silent, the first of them is told to look"
	waitsForSilent bool // "a newcomer overtakes clients that are silent"

	// Fairness.
	neverOpen      bool // "some releases leave the key open"
	newcomersGrant bool // "a newcomer that finds the key free and others in the queue joins them, and grants nobody"
	pollsForItself bool // "a poll that finds the key free grants the head"

	// Fences.
	oldNumbers bool // "a number that is older than a quarantine is not committed": a second round raises it to the clock
	raisesOnly bool // "the second round extends the key, too"
	anyAck     bool // "a quorum of exactly one number commits it"
}

// A world is the protocol together with the faults that may happen. Each field multiplies the states, so no
// world has all of them.
type world struct {
	rules

	masters, clients int
	room             int   // commands under way from one client to one master, at most
	calls            uint8 // acquisitions, all told; 0: without bound
	held             bool  // the exploration begins where A has the lock and the others wait for it
	live             bool  // the progress of each client is checked

	leaves    bool  // a waiter may give up
	tries     bool  // there are plain SETs, too
	polls     bool  // a waiter registers again whenever it likes
	latePolls bool  // a poll is executed some time after it was sent
	loses     bool  // commands may be lost
	expires   bool  // keys expire
	ages      bool  // validity is counted from marks
	restarts  uint8 // losses of memory, all told
	snapshots bool  // a master may also return to an earlier state of its memory
	crashes   uint8 // clients that may die, all told
	stops     bool  // a client that dies keeps its subscription: it is stopped, and silent from then on
	silences  uint8 // how often a master may take a waiter for silent that is not stopped, all told
	renewals  bool  // leases are renewed, and keys healed
	sleeps    bool  // a holder may be stopped until its keys are gone, and none of its clocks shows it
	fences    bool  // acquisitions are numbered
	spread    uint8 // clocks differ by fewer numbers than this

	settles bool // a waiter with some grants asks again, and may give up in favour of another
	opens   bool // some releases leave the key open
	busy    bool // all clients but the last register again with each release; the last one only tries
	cut     bool // all clients but the first reach one master each
	dead    bool // the last master never answers
	prompt  bool // commands are executed at once
}

func (w *world) majority() int { return w.masters/2 + 1 }

// reaches reports whether a client's commands arrive at a master.
func (w *world) reaches(c, i int) bool {
	return (!w.cut || c == 0 || i == c-1) && (!w.dead || i < w.masters-1)
}
