package model

import (
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/model/rounds"
)

// Sizes of the model.
const (
	nMasters = 3
	nClients = 2
	majority = nMasters/2 + 1
	maxRoom  = 4
)

// A state is everything that determines what may happen next. It is comparable, and equal states have equal
// futures.
type state struct {
	masters [nMasters]master
	clients [nClients]client

	highest   uint8  // the highest fence committed so far
	committed uint16 // the set of committed fences, in worlds where keys vanish
	clock     uint8  // the least proposal of a client that reads its clock now
	attempts  uint8  // acquisitions still to come, if they are bounded
	restarts  uint8  // restarts still to come
	prolonged bool   // the last step has broken honestLoss
	unordered bool   // the last step has broken risingFences
}

// A master is one server with everything that concerns it. So permuting these values permutes the masters.
type master struct {
	key   rounds.Key
	fence uint8 // the highest fence seen
	past  uint8 // the highest fence committed with votes from a memory that is lost

	quarantined bool
	earlier     rounds.Set // rounds that began before the restart and are still open
	lanes       [nClients]lane
}

// A lane is one client's connection to one master, in both directions.
type lane struct {
	queue [maxRoom]command // commands under way, oldest first
	vote  vote             // the vote in the client's open round
	ack   uint8            // the fence that came with it
}

// A client is one process that acquires the lock over and over.
type client struct {
	phase phase
	want  uint8 // the fence of the second round; 0 in the first
	fence uint8 // the fence of the lease
	floor uint8 // highest fence committed when the acquisition began
	drawn uint8 // clock when the acquisition began

	over      bool // the lease's validity has ended and the client has not noticed
	openOver  bool // the same for the undecided renewal
	overtaken bool // another client has acquired since this lease was acquired
	doomed    bool // overtaken was true when the renewal began
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

// A vote is a master's answer in the open round. Only grants are stored. Refusals and failures only make a
// client give up, which it may do at any moment.
type vote uint8

const (
	none    vote = iota
	pending      // granted; the probe behind it has not been executed
	counted      // granted, and the master's memory was known and old enough
)

// A command is one entry of a queue: its kind, and for raise and heal a fence.
type command uint8

const (
	nothing command = iota
	set             // SET NX, with the acquire script's fence
	raise           // the second round of an acquisition
	extend          // get == token, then pexpire
	heal            // SET NX of a lease's missing key
	release         // get == token, then del
)

const kinds = 8 // the fence of a command is above these bits

func (k command) with(fence uint8) command { return k + command(fence)*kinds }
func (k command) kind() command            { return k % kinds }
func (k command) fence() uint8             { return uint8(k / kinds) }

// drop removes the i-th command from the queue.
func (l *lane) drop(i int) { explore.Drop(l.queue[:], i) }

// has reports whether a command of that kind is under way.
func (l *lane) has(kind command) bool {
	return slices.ContainsFunc(l.queue[:], func(k command) bool { return k.kind() == kind })
}

// current reports whether the command at the head of the queue belongs to what the client is doing now. It
// does if no release is in the queue, since nothing of an acquisition follows its release.
func (l *lane) current() bool { return !l.has(release) }

// send queues a command, and reports whether there was room for it and for the release that will follow. Otherwise the command
// is lost, as with a full queue or a master that is down.
func (w *world) send(l *lane, k command) bool { return explore.Push(l.queue[:w.room-1], k) }

// sendRelease queues the release. Room for it was kept. Directly after another release it would do nothing,
// since nothing has been sent in between.
func (l *lane) sendRelease() {
	if explore.Last(l.queue[:]) != release {
		explore.MustPush(l.queue[:], release)
	}
}
