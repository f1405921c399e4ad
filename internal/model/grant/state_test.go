package grant

import (
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
)

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

	calls     uint8 // acquisitions still to come, where they are bounded
	restarts  uint8 // still to come, and so on
	crashes   uint8 //
	silences  uint8 //
	stales    uint8 //
	clock     uint8 // the least fence that a clock proposes now
	written   uint8 // the highest fence that a writer has committed so far
	read      uint8 // the same of readers
	prolonged bool  // the last step has broken honestLoss
	unordered bool  // the last step has broken fencesInOrder
}

// A master is one server with everything that concerns it. So permuting these values permutes the masters.
type master struct {
	owner       owner              // what the key holds: nothing, a writer's token, or the marker
	set         members            // the readers that stand
	passed      members            // the readers whose members have expired, and are still in the set
	last        owner              // the reader that has set the marker last; only in worlds with lastMarks
	queue       [mostClients]owner // the claims that wait, the oldest first; free ends it. The writers among them are the queue, the readers the lane
	announced   bool               // an announcement stands
	quarantined bool
	fence       uint8 // highest given
	past        uint8 // highest fence committed before a restart
	links       [mostClients]link
}

// members is a set of readers, as bits.
type members uint8

const dead members = 1 << mostClients // a reader that has died

func memberOf(c int) members { return 1 << c }

func (s members) has(c int) bool { return s>>c&1 == 1 }

// A link is one client's connections to one master, in both directions.
type link struct {
	commands [mostRoom]command // under way, the oldest first
	vote     vote
	fence    uint8   // of the vote
	said     message // the messages under way on the subscription
	number   uint8   // the fence in a message about a grant
	view     owner   // what the key held that refused the last registration
	age      age
}

// An owner is what a key holds, or an entry of a queue: the client whose token it is, counted from 1. Tokens need no
// numbers: commands of a client are executed in order, and the last command of each claim is its release. So a
// key or an entry belongs to the claim whose release is the first one under way.
type owner uint8

const (
	free   owner = 0
	orphan owner = mostClients + 1 // of a client that has died
	marker owner = mostClients + 2 // readers hold the key
)

func ownerOf(c int) owner { return owner(c + 1) }

// A client is one process that acquires the lock over and over.
type client struct {
	phase    phase
	died     bool
	want     uint8 // the fence of the second round; 0 in the first
	rank     uint8 // the order of its token's hash
	asked    bool  // it has asked again after a first grant
	recalled bool  // it knows that another waits that it keeps out

	over      bool // the lease's validity has ended and the client does not know
	overtaken bool // a client that the lease excludes has acquired the lock since
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
	granted   vote = 1 << iota // the key or the member was set or extended for the claim, or for the renewal under way
	past                       // by a memory that was lost since
	rests                      // the lease rests on this master
	restsPast                  // on a memory that was lost since
	void                       // a late poll has found the key or the member gone: the vote in the next renewal does not count
)

// A message is what a master has published to one client, and the client has not received.
type message uint8

const (
	tells   message = 1 << iota // the lock was granted to the claim
	checked                     // by a memory that is known and out of quarantine
	lost                        // by a memory that was lost since
	waits                       // with tells: somebody waits whom the grant keeps out
	recalls                     // somebody waits: leave
	looks                       // look now
)

const grant = tells | checked | lost | waits

// An age is what world.ages adds to a link. There are two marks: at mark 0 the registration was sent, at mark 1
// a PING or a poll. A mark ends after some time: a validity that is counted from it is over.
type age struct {
	ping   ping
	ended  uint8 // marks that have ended: 0, 1 or 2
	mark   uint8 // the last mark before the key or the member was set or extended
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
	acquire         // the registration of a claim: take the lock, or wait. Of a client that only tries, a plain SET, or a read that waits nowhere
	again           // a poll
	asks            // a poll of a claim with votes
	raise           // the second round for the fence, which extends the key or the member
	extend          // a renewal
	heal            // a lease's missing key or member
	release         // delete what is mine, wait no longer, grant the lock
	openly          // a release that leaves the key free, and tells the first that waits to look
	undo            // a release that grants nobody: see rules.keepsToItself
)

const (
	kinds    = 16 // below the fence in a command
	maxFence = 15
)

func (k command) with(fence uint8) command { return k + command(fence)*kinds }
func (k command) kind() command            { return k % kinds }
func (k command) fence() uint8             { return uint8(k / kinds) }
func (k command) releases() bool           { return k == release || k == openly || k == undo }

// drop removes the i-th command.
func (l *link) drop(i int) { explore.Drop(l.commands[:], i) }

func (l *link) has(kind command) bool {
	return slices.ContainsFunc(l.commands[:], func(k command) bool { return k.kind() == kind })
}

// acquires reports whether a registration or a poll is under way.
func (l *link) acquires() bool { return l.has(acquire) || l.has(again) || l.has(asks) }

// current reports whether what the client has at this master belongs to its present claim.
func (l *link) current() bool { return !slices.ContainsFunc(l.commands[:], command.releases) }

// clearVote removes the votes of a claim or a renewal that is not decided.
func (l *link) clearVote() { l.vote, l.fence, l.age.bound = l.vote&^(granted|past), 0, 0 }

// clearGrant drops a message about a grant that is under way.
func (l *link) clearGrant() { l.said, l.number, l.age.behind = l.said&^grant, 0, false }

// granted returns how many masters have voted for a client.
func (s *state) granted(c int) int {
	return explore.Count(s.masters[:], func(m master) bool { return m.links[c].vote&granted != 0 })
}

// join appends o to those who wait, unless it waits.
func (m *master) join(o owner) {
	if !m.queued(o) {
		explore.Push(m.queue[:], o)
	}
}

// queued reports whether o waits.
func (m *master) queued(o owner) bool { return slices.Contains(m.queue[:], o) }

// part removes o from those who wait, and reports whether it waited.
func (m *master) part(o owner) bool { return explore.Remove(m.queue[:], o) }

// anyLive reports whether anybody waits who has not stopped, other than o.
func (m *master) anyLive(o owner) bool {
	return slices.ContainsFunc(m.queue[:], func(q owner) bool { return q != free && q != orphan && q != o })
}

// writes reports whether an entry of a queue is a writer's.
func (w *world) writes(o owner) bool {
	return o != free && (o == orphan && w.deadWrites || o != orphan && !w.reads(int(o)-1))
}

// writerWaits reports whether a writer waits that has not stopped, other than o.
func (w *world) writerWaits(m *master, o owner) bool {
	return slices.ContainsFunc(m.queue[:], func(q owner) bool { return q != o && w.writes(q) && (q != orphan || w.grantsTheDead || !w.stops) })
}

// keepsOut reports whether somebody waits whom client c keeps out as a holder.
func (w *world) keepsOut(m *master, c int) bool {
	if w.reads(c) {
		return w.writerWaits(m, free) || m.announced
	}
	return m.anyLive(ownerOf(c))
}

// mine reports whether the master has the lock for client c.
func (w *world) mine(m *master, c int) bool {
	if w.reads(c) {
		return m.owner == marker && m.set.has(c)
	}
	return m.owner == ownerOf(c)
}

// give gives the lock to client c at a master.
func (w *world) give(m *master, c int) {
	if !w.reads(c) {
		m.owner = ownerOf(c)
		return
	}
	w.mark(m, memberOf(c))
	if w.lastMarks {
		m.last = ownerOf(c)
	}
}

// mark adds members to the set, and sets the marker.
func (w *world) mark(m *master, more members) {
	switch {
	case m.owner != marker && !w.keepsSet:
		m.set, m.passed = 0, 0
	case m.owner == marker && !w.passedCounts:
		m.passed = 0
	}
	m.owner = marker
	m.set |= more
	m.passed &^= more
}

// drop takes the lock from client c, and reports whether that leaves the key free.
func (w *world) drop(m *master, c int) (freed bool) {
	if !w.reads(c) {
		if m.owner != ownerOf(c) {
			return false
		}
		m.owner = free
		return true
	}
	had := (m.set | m.passed).has(c)
	m.set &^= memberOf(c)
	m.passed &^= memberOf(c)
	if !had || m.owner != marker || m.set != 0 && !w.releaseFrees {
		return false
	}
	m.owner, m.set, m.passed, m.last = free, 0, 0, free
	return true
}
