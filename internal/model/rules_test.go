package model

// rules are the rules of the protocol that can be switched off. The zero value is the complete protocol. Each
// field switches off one rule, which its comment quotes.
type rules struct {
	noQuarantine     bool // "a vote counts only if that master's incarnation is known to be older than MaxTTL + 2 s"
	shortQuarantine  bool // "MaxTTL: the longest TTL any client of these masters uses"
	heldOnly         bool // a quarantine outlasts leases and undecided rounds
	countQuarantined bool // "renewals and heals are sent but not counted" by a master in quarantine

	countAfterEnd bool // "a vote counts until the old validity ends", and no longer
	keepVotes     bool // a renewal's validity is counted from its first command, even if commands are repeated
	healAtOnce    bool // "the renewal never creates a key"
	healForRetry  bool // "only after a renewal succeeded are [missing keys] sent SET NX PX"

	healAfterRelease bool // "nothing of [a lease] follows its release"
	releaseOvertakes bool // "commands of one name are never reordered": CLIENT KILL is sent before owed releases
	forgetRefused    bool // "release on all masters, whatever they answered"
	dropOwed         bool // a release is owed as long as its SET may arrive, also after a restart

	anyAck          bool // "acknowledge only if it is now exactly m"
	noClock         bool // "the proposal is the client's clock": a counter alone is lost with the memory
	slowAcquisition bool // "a quarantine longer than acquisition", so that a proposal is never drawn long before the quarantine ends
	healKeepsFence  bool // "heals raise the fence to m"
}

// A world is the protocol together with the faults that may happen. Each field multiplies the states, so no
// world has all of them.
type world struct {
	rules

	room      int   // commands under way from one client to one master, at most
	attempts  uint8 // acquisitions in total; zero: no bound, for worlds without fences
	restarts  uint8 // losses of memory in total, or always
	snapshots bool  // a master may also return to an earlier state of its memory
	probes    bool  // the probe may be executed some time after its vote
	crashes   bool  // a client may die before it sends its releases
	renewals  bool  // leases are renewed, and keys healed
	sleeps    bool  // between renewals a holder may be stopped until its keys are gone, and none of its clocks shows it
	oneByOne  bool  // a holder may be stopped at any moment, and its keys disappear one by one
	fences    bool  // acquisitions are numbered
	spread    uint8 // clocks differ by fewer numbers than this
	vanish    bool  // keys vanish at any moment, so only the fences are reliable
}
