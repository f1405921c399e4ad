package grant

// Sizes of the largest world.
const (
	mostMasters = 3
	mostClients = 3
	mostRoom    = 4 // commands under way from one client to one master
)

// A state is everything that determines what may happen next. It is comparable, and equal states have equal
// futures.
type state struct {
	masters [mostMasters]master
	clients [mostClients]client

	calls    uint8    // acquisitions still to come, where they are bounded
	restarts uint8    // still to come
	crashes  uint8    // still to come
	silences uint8    // still to come
	clock    uint8    // the least fence that a clock proposes now
	highest  uint8    // fence committed so far
	broken   property // what the last step broke
}

// A master is one server with everything that concerns it. So permuting these values permutes the masters.
type master struct {
	owner       owner              // whose key is there
	queue       [mostClients]owner // the claims that wait, the oldest first; free ends it
	quarantined bool
	fence       uint8 // highest given
	past        uint8 // highest fence committed before a restart
	lanes       [mostClients]lane
}

// A lane is one client's connections to one master, in both directions.
type lane struct {
	commands [mostRoom]command // under way, the oldest first
	vote     vote
	fence    uint8   // of the vote
	said     message // the message under way on the subscription
	number   uint8   // the fence in that message
	view     owner   // whose key refused the last registration
	age      age
}

// An owner is the client whose token a key or an entry of a queue holds, counted from 1. Tokens need no
// numbers: commands of a client are executed in order, and the last command of each claim is its release. So a
// key or an entry belongs to the claim whose release is the first one under way.
type owner uint8

const (
	free   owner = 0
	orphan owner = mostClients + 1 // a token that no client uses any more
)

func ownerOf(c int) owner { return owner(c + 1) }

// A client is one process that acquires the lock over and over.
type client struct {
	phase phase
	died  bool
	want  uint8 // the fence of the second round; 0 in the first
	rank  uint8 // the order of its token's hash
	asked bool  // it has asked again after a first grant

	over      bool // the lease's validity has ended and the client does not know
	overtaken bool // another client has acquired the lock since
	doomed    bool // it had when the renewal began
}

// A phase is what a client is doing.
type phase uint8

const (
	idle     phase = iota
	trying         // a plain SET is under way, as TryLock and other libraries send it
	waiting        // its claim is registered, or on the way
	holding        // it has the lock
	renewing       // it has the lock, and a renewal is under way
)

func (p phase) holds() bool { return p == holding || p == renewing }

// A vote is what a client has from one master.
type vote uint8

const (
	granted   vote = 1 << iota // the key was set or extended for the claim, or for the renewal under way
	past                       // by a memory that was lost since
	rests                      // the lease rests on this master
	restsPast                  // on a memory that was lost since
	void                       // a late poll has found the key gone: the master's vote in the next renewal does not count
)

// A message is what a master has published to one client, and the client has not received.
type message uint8

const (
	tells   message = 1 << iota // the key was set for the claim
	checked                     // by a memory that is known and out of quarantine
	lost                        // by a memory that was lost since
	looks                       // the key was deleted, and left open
)

// An age is what world.ages adds to a lane. There are two marks: at mark 0 the registration was sent, at mark 1
// a PING or a poll. A mark ends after some time: a validity that is counted from it is over.
type age struct {
	ping   ping
	ended  uint8 // marks that have ended: 0, 1 or 2
	mark   uint8 // the last mark before the key was set or extended
	bound  uint8 // the mark that the vote's validity is counted from; receipt for none
	behind bool  // the message was published after the PING was executed
}

// last returns the last mark.
func (a *age) last() uint8 {
	if a.ping == unsent {
		return 0
	}
	return 1
}

// receipt is later than all marks.
const receipt = 2

// A ping is the state of the one PING of a claim, on the subscription.
type ping uint8

const (
	unsent ping = iota
	sent
	answered // the PONG is under way
	received
	poll // a poll was sent instead
)

// A command is one entry of a queue of commands: a kind, and for raise a fence.
type command uint8

const (
	nothing command = iota
	set             // SET NX
	acquire         // the registration of a claim: set the key or join the queue
	again           // the same as a poll
	raise           // the second round for the fence, which extends the key
	extend          // get == token, then pexpire
	heal            // SET NX of a lease's missing key
	release         // delete the key if it is mine, leave the queue, grant the head
	undo            // release that grants nobody: see rules.keepsToItself
)

const (
	kinds    = 16 // below the fence in a command
	maxFence = 15
)

func (k command) with(fence uint8) command { return k + command(fence)*kinds }
func (k command) kind() command            { return k % kinds }
func (k command) fence() uint8             { return uint8(k / kinds) }

func (l *lane) len() int {
	n := 0
	for n < mostRoom && l.commands[n] != nothing {
		n++
	}
	return n
}

// drop removes the i-th command.
func (l *lane) drop(i int) {
	copy(l.commands[i:], l.commands[i+1:])
	l.commands[mostRoom-1] = nothing
}

func (l *lane) has(kind command) bool {
	for _, k := range l.commands {
		if k.kind() == kind && k != nothing {
			return true
		}
	}
	return false
}

// current reports whether a key or an entry of the client at this master belongs to its present
// claim.
func (l *lane) current() bool { return !l.has(release) && !l.has(undo) }

// clearVote removes the votes of a claim or a renewal that is not decided.
func (l *lane) clearVote() { l.vote, l.fence, l.age.bound = l.vote&^(granted|past), 0, 0 }

// clearMessage drops a grant that is under way.
func (l *lane) clearMessage() {
	l.said, l.number, l.age.behind = l.said&^(tells|checked|lost), 0, false
}

// join appends o to the queue unless it is there.
func (m *master) join(o owner) {
	for i := range m.queue {
		if m.queue[i] == o {
			return
		}
		if m.queue[i] == free {
			m.queue[i] = o
			return
		}
	}
}

// queued reports whether o is in the queue.
func (m *master) queued(o owner) bool {
	for _, q := range m.queue {
		if q == o {
			return true
		}
	}
	return false
}

// queuedLive reports whether a claim is in the queue whose client is not stopped.
func (m *master) queuedLive() bool {
	for _, q := range m.queue {
		if q != free && q != orphan {
			return true
		}
	}
	return false
}

// part removes o from the queue.
func (m *master) part(o owner) {
	for i := range m.queue {
		if m.queue[i] == o {
			copy(m.queue[i:], m.queue[i+1:])
			m.queue[mostClients-1] = free
			return
		}
	}
}
