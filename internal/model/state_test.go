package model

// Sizes of the model.
const (
	nMasters = 3
	nClients = 2
	majority = nMasters/2 + 1
	maxRoom  = 4
)

// A state is all there is to know at one moment. It is comparable, and equal
// states have equal futures.
type state struct {
	masters [nMasters]master
	clients [nClients]client

	highest   uint8    // fence committed so far
	committed uint16   // set of them, where keys vanish and order is not enough
	clock     uint8    // least proposal of a client that looks at its clock now
	attempts  uint8    // acquisitions still to come, where they are bounded
	restarts  uint8    // still to come
	broken    property // what the last step broke
}

// A master is one server, and everything that concerns it: permuting masters
// then is permuting these, which is what makes them interchangeable.
type master struct {
	owner owner // whose key is there
	cover cover // how long that key is sure to stay
	fence uint8 // highest seen
	past  uint8 // highest fence committed with the help of a life that is forgotten

	quarantined bool
	earlier     rounds // those that began before the restart and are still open
	lanes       [nClients]lane
}

// A lane is one client's connection to one master, in both directions.
type lane struct {
	queue [maxRoom]command // under way, the oldest first
	vote  vote             // of the client's open round
	ack   uint8            // the fence that came with it
}

// A client is one process that wants the lock over and over.
type client struct {
	phase phase
	want  uint8 // the fence of the second round; 0 in the first
	fence uint8 // of the lease
	floor uint8 // highest fence committed when the acquisition began
	drawn uint8 // clock when the acquisition began

	over      bool // the lease's validity has ended and the client does not know
	openOver  bool // the same for its undecided renewal
	overtaken bool // another client has acquired since this lease was acquired
	doomed    bool // it had when the renewal began
}

// A phase is what a client is doing.
type phase uint8

const (
	idle      phase = iota // to acquiring
	acquiring              // to holding by a quorum, to idle without
	holding                // to renewing, to idle by release or by the end of validity
	renewing               // to holding by a quorum or by giving up, to idle as above
)

func (p phase) holds() bool { return p == holding || p == renewing }

// An owner says whose token a key holds. Tokens need no numbers: what a client
// sends is executed in order and each SET is followed by its release, so a key
// of the client that the release does not delete cannot be found by its next
// SET. Only a client that dies leaves one, and that becomes nobody's.
type owner uint8

const (
	free   owner = 0
	orphan owner = nClients + 1
)

func ownerOf(c int) owner { return owner(c + 1) }

// A cover is the promise under which a key stays: a master lets it go when its
// TTL has run out, and that is after the end of the validity of the round that
// set or extended it last, because the validity is counted from before that
// round was sent and is shorter by the drift.
type cover uint8

const (
	loose   cover = iota // that round has ended or has been superseded: any moment
	byLease              // not before the lease ends or a later round takes its place
	byRound              // not before the undecided round ends
)

// A vote is a master's answer to the open round. Only grants are kept: refusals
// and failures only make a client give up, which it may do at any moment.
type vote uint8

const (
	none    vote = iota
	pending      // granted; the probe behind it has not been executed
	counted      // granted, and the master's memory was known and old enough
)

// rounds is a set: each client's lease (the round that it rests on) and its
// undecided round.
type rounds uint8

func leaseOf(c int) rounds { return 1 << (2 * c) }
func roundOf(c int) rounds { return 2 << (2 * c) }

// A command is one entry of a queue: a kind, and for raise and heal a fence.
type command uint8

const (
	nothing command = iota
	set             // SET NX, with the acquire script's fence
	raise           // the second round of an acquisition
	extend          // get == token, then pexpire
	heal            // SET NX of a lease's missing key
	release         // get == token, then del
)

const kinds = 8 // below the fence in a command

func (k command) with(fence uint8) command { return k + command(fence)*kinds }
func (k command) kind() command            { return k % kinds }
func (k command) fence() uint8             { return uint8(k / kinds) }

func (l *lane) len() int {
	n := 0
	for n < maxRoom && l.queue[n] != nothing {
		n++
	}
	return n
}

// drop takes the i-th command out of the queue.
func (l *lane) drop(i int) {
	copy(l.queue[i:], l.queue[i+1:])
	l.queue[maxRoom-1] = nothing
}

// has reports whether a command of that kind is under way.
func (l *lane) has(kind command) bool {
	for _, k := range l.queue {
		if k.kind() == kind && k != nothing {
			return true
		}
	}
	return false
}

// current reports whether what stands at the head of the queue belongs to what
// the client is doing now: nothing of an acquisition follows its release.
func (l *lane) current() bool { return !l.has(release) }

// send queues a command if there is room for it and for the release that will
// follow. If not it is lost, as with a full queue or a master that is down.
func (w *world) send(l *lane, k command) {
	if n := l.len(); n+2 <= w.room {
		l.queue[n] = k
	}
}

// sendRelease queues the release, whose place was kept. Directly behind another
// release, which says that nothing has been sent since, it would do nothing.
func (l *lane) sendRelease() {
	switch n := l.len(); {
	case n > 0 && l.queue[n-1] == release:
	case n < maxRoom:
		l.queue[n] = release
	default:
		panic("model: bug: no place was kept for a release")
	}
}
