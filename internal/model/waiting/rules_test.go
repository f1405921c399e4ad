package waiting

// rules are the rules that can be switched off. The zero value is the complete protocol.
type rules struct {
	silentRelease  bool // a release wakes the first of the queue
	wakesTheDead   bool // a client without a subscriber is skipped
	swallowsAtHome bool // a client that is woken for a name that it does not wait for passes the wake-up on
	swallowsLeaves bool // a client that leaves passes on a wake-up that it may have received
	lateSleeper    bool // the sleeper is registered before the command that joins the queue is sent
	noPolls        bool // a client that sleeps tries again after some time
	endlessHands   bool // a lease is handed over for a bounded time only
	undoForgets    bool // a client that fails undoes its SET at every master
	overtakes      bool // the first attempt after a release does not overtake clients in the queue
	noMark         bool // a release that wakes the last of the queue leaves the member 'woken'
}

// A world is the protocol together with what may happen to it.
type world struct {
	rules
	masters, clients int
	room             int   // commands under way from one client to one master
	calls            uint8 // of Lock and TryLock, in total

	leaves  bool  // a client may stop waiting
	careful bool  // it stops only while it has no key, and no SET under way
	tries   bool  // clients also call TryLock
	loses   bool  // messages may be lost
	crashes uint8 // clients that may die, in total
	turns   bool  // the property robbed is checked
	busy    bool  // while the first client waits or holds, another of its goroutines waits too
}

// handoversMost replaces the time limit on handovers, since the model has no time.
const handoversMost = 2

func (w *world) majority() int { return w.masters/2 + 1 }
