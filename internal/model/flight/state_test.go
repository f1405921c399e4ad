package flight

import "github.com/redlock-go/redlock/internal/model/explore"

// rules are the rules that can be switched off. The zero value is the complete protocol.
type rules struct {
	// Of the holder:
	ignoresPoll    bool // all registrations and polls were answered when the result is published
	ignoresNew     bool // no poll has found the claim missing from the queue
	ignoresHeal    bool // no heal was sent
	ignoresLink    bool // the connection has lasted from the registration until the result is published
	ignoresDeaf    bool // the subscription has, too
	votesLate      bool // the master had voted when the holder got the lock
	publishesBlind bool // the script publishes only if the key holds the token

	// Of the client that waits:
	takesUnasked  bool // its registration was answered
	takesSeen     bool // the answer said that the key did not hold that token
	believesPolls bool // only the answer to the registration says so
	takesAnyClaim bool // the message names its claim
}

// A world is the protocol together with what may happen to it.
type world struct {
	rules
	polls, pollsOfB          uint8
	calls                    uint8 // by B
	deletes, heals           uint8
	breaks, breaksOfB        uint8 // connections that may be lost
	deaf                     uint8 // subscriptions of R that may be lost
	saves, restores, forgets uint8 // copies of the memory, restarts with such a copy, restarts without memory
}

// Tokens: R has one, and B has one for each call. S stands for all others.
const (
	nobody = iota
	ofR
	ofS
	ofB // and ofB+1
)

// A kind is that of a command.
type kind uint8

const (
	register kind = iota + 1
	poll
	heal
	publish
	release
)

// A command is on its way to the master. deaf: it was sent without a subscription.
type command struct {
	kind  kind
	token uint8
	deaf  bool
}

// An answer is that to a registration or a poll.
type answer struct {
	kind    kind
	token   uint8
	granted bool // the key holds the token
	sawR    bool // the key holds that of R
	isNew   bool // the claim had not been in the queue
}

// A client is R or B: what is on its way to the master, on the last connection and on the one before, and back.
type client struct {
	out, stray explore.Lane[command]
	in         explore.Lane[answer]
	pending    uint8 // registrations and polls that are not answered
	cuts       uint8 // connections that were lost since it registered
}

// A memory is that of the master.
type memory struct {
	key   uint8
	queue uint8 // tokens, as bits
}

func (m *memory) queued(token uint8) bool { return m.queue>>token&1 == 1 }

// A phase is that of R.
type phase uint8

const (
	idle    phase = iota
	waiting       // it has registered
	inside        // it has the lock, and its function runs
	over          // the function has returned
)

type state struct {
	memory
	saved  memory
	copied bool  // saved is a copy
	told   bool  // the message about a grant is on its way to R
	values uint8 // claims, as bits, to which a message with the result is on its way

	r       client
	phase   phase
	voted   bool // R counts the master's vote
	missed  bool // a poll has found the claim missing
	deaf    bool // the subscription was lost since the registration
	sure    bool // R may publish
	healed  bool
	noSub   bool // R has no subscription
	b       client
	claim   uint8 // the token of B's call; 0: there is none
	late    bool  // the call began after the function
	unseen  bool  // the answer to the registration has come, and the key did not hold the token of R
	answers bool  // the answer has come

	left world // what may still happen

	bad string // what is wrong
}
