package model

// rules are the sentences of the protocol that can be struck out. The zero value
// is the whole protocol; each field strikes out one sentence, quoted here.
type rules struct {
	noQuarantine     bool // "a vote counts only if that master's incarnation is known to be older than MaxTTL + 2 s"
	shortQuarantine  bool // "MaxTTL: the longest TTL any client of these masters uses"
	heldOnly         bool // a quarantine outlasts undecided rounds too, not only leases
	countQuarantined bool // "renewals and heals are sent but not counted" by a master in quarantine

	countAfterEnd bool // "a vote counts until the old validity ends", and no longer
	keepVotes     bool // a renewal's validity is counted from its first command, those asked again included
	healAtOnce    bool // "the renewal never creates a key"
	healForRetry  bool // "only after a renewal succeeded are [missing keys] sent SET NX PX"

	healAfterRelease bool // "nothing of [a lease] follows its release"
	releaseOvertakes bool // "commands of one name are never reordered": CLIENT KILL goes before what is owed
	forgetRefused    bool // "release on all masters, whatever they answered"
	dropOwed         bool // a release is owed as long as its SET may arrive, restart or not

	anyAck          bool // "acknowledge only if it is now exactly m"
	noClock         bool // "the proposal is the client's clock": a counter alone forgets
	slowAcquisition bool // "a quarantine longer than acquisition", so that a proposal is not drawn long before it ends
	healKeepsFence  bool // "heals raise the fence to m"
}

// A world is the protocol together with what may happen to it. Each field
// multiplies the states, so that no world has everything.
type world struct {
	rules

	room      int   // commands under way from one client to one master, at most
	attempts  uint8 // acquisitions, all told; 0: without bound, for worlds without fences
	restarts  uint8 // losses of memory, all told, or always
	snapshots bool  // a master may also wake with what it knew earlier
	probes    bool  // the incarnation probe is executed some time after its vote
	crashes   bool  // a client may die, its releases unsent
	renewals  bool  // leases are renewed, and keys healed
	sleeps    bool  // between its renewals a holder may be stopped until its keys are gone, and no clock of its tells
	oneByOne  bool  // it may be stopped at any moment, and its keys go one by one
	fences    bool  // acquisitions are numbered
	spread    uint8 // clocks differ by fewer numbers than this
	vanish    bool  // keys vanish at any moment, so that only the fences can be right
}
