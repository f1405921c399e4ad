package readers

import (
	"fmt"
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// Sizes of the model.
const (
	nMasters = 3
	mClients = 3 // at most
	majority = nMasters/2 + 1
	maxRoom  = 3
)

// A state is everything that determines what may happen next. It is comparable, and equal states have equal
// futures.
type state struct {
	masters  [nMasters]master
	clients  [mClients]client
	restarts uint8    // restarts still to come
	broken   property // the property that the last step broke
}

// A master is one server with everything that concerns it.
type master struct {
	key     key
	cover   cover           // of a writer's key
	members [mClients]cover // of the readers
	orphan  cover           // of the members of readers that have died
	last    uint8           // the reader whose command set the marker last; only in worlds with lastMarks

	quarantined bool
	earlier     rounds // rounds that began before the restart and are still open
	lanes       [mClients]lane
}

// A lane is one client's connection to one master, in both directions.
type lane struct {
	queue [maxRoom]command // commands under way, oldest first
	vote  bool             // a grant in the client's open round that counts
}

// A client is one process that acquires the lock over and over.
type client struct {
	phase     phase
	over      bool // the lease's validity has ended and the client has not noticed
	openOver  bool // the same for the undecided renewal
	overtaken bool // a client that excludes the lease has acquired since
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

// A key is what the lock's key holds at a master: nothing, the marker, or a writer's token. As in package
// model, tokens need no numbers.
type key uint8

const (
	free   key = 0
	orphan key = mClients + 1 // the token of a writer that has died
	marker key = mClients + 2
)

func ownerOf(c int) key { return key(c + 1) }

// A cover is the condition under which a writer's key or a reader's member must stay: see package model.
type cover uint8

const (
	absent  cover = iota // there is no such member
	loose                // it may expire at any moment
	byLease              // it stays until the lease ends or a later round replaces its round
	byRound              // it stays until the undecided round ends
	passed               // a member that has expired, and is still in the set
)

func (c cover) stands() bool { return c == loose || c == byLease || c == byRound }

// rounds is a set of rounds: see package model.
type rounds uint8

func leaseOf(c int) rounds { return 1 << (2 * c) }
func roundOf(c int) rounds { return 2 << (2 * c) }

type command uint8

const (
	nothing command = iota
	set             // SET NX, or a read vote
	extend          // a renewal
	heal            // a lease's missing key or member
	release
)

func (k command) String() string {
	return [...]string{"nothing", "vote", "renewal", "heal", "release"}[k]
}

func (l *lane) len() int {
	n := slices.Index(l.queue[:], nothing)
	if n < 0 {
		return maxRoom
	}
	return n
}

// drop removes the i-th command from the queue.
func (l *lane) drop(i int) {
	copy(l.queue[i:], l.queue[i+1:])
	l.queue[maxRoom-1] = nothing
}

func (l *lane) has(k command) bool { return slices.Contains(l.queue[:], k) }

// current reports whether the command at the head of the queue belongs to what the client is doing now.
func (l *lane) current() bool { return !l.has(release) }

// send queues a command if there is room for it and for the release that will follow. Otherwise the command
// is lost.
func (w *world) send(l *lane, k command) {
	if n := l.len(); n+2 <= w.room {
		l.queue[n] = k
	}
}

// sendRelease queues the release. Room for it was kept.
func (l *lane) sendRelease() {
	if n := l.len(); n == 0 || l.queue[n-1] != release {
		l.queue[n] = release
	}
}

// own returns the cover of what client c has at the master: a key or a member.
func (m *master) own(c int, w *world) *cover {
	if w.reads(c) {
		return &m.members[c]
	}
	if m.key == ownerOf(c) {
		return &m.cover
	}
	return new(cover) // absent
}

// anyStands reports whether the member of a reader stands.
func (m *master) anyStands() bool {
	return m.orphan.stands() || slices.ContainsFunc(m.members[:], cover.stands)
}

// canonical returns the representative of the permutations of masters, and of clients with the same role.
func (w *world) canonical(s state) state {
	var codes, others [nMasters + mClients]explore.Code
	s.sort(codes[:])
	a, b := w.alike()
	if a == b {
		return s
	}
	o := s
	o.swap(a, b)
	o.sort(others[:])
	if explore.Compare(others[:], codes[:]) < 0 {
		return o
	}
	return s
}

// alike returns two clients with the same role, or the same client twice.
func (w *world) alike() (a, b int) {
	for b := range w.roles {
		if a := slices.Index([]byte(w.roles), w.roles[b]); a != b {
			return a, b
		}
	}
	return 0, 0
}

func (s *state) sort(codes []explore.Code) {
	for i := range s.masters {
		codes[i] = s.masters[i].code()
	}
	explore.Sort(s.masters[:], codes[:nMasters])
	for c := range s.clients {
		cl := &s.clients[c]
		codes[nMasters+c] = explore.Code{uint64(cl.phase)<<4 | explore.Bit(cl.over)<<3 | explore.Bit(cl.openOver)<<2 |
			explore.Bit(cl.overtaken)<<1 | explore.Bit(cl.doomed)}
	}
}

func (s *state) swap(a, b int) {
	s.clients[a], s.clients[b] = s.clients[b], s.clients[a]
	for i := range s.masters {
		m := &s.masters[i]
		m.lanes[a], m.lanes[b] = m.lanes[b], m.lanes[a]
		m.members[a], m.members[b] = m.members[b], m.members[a]
		if of := m.earlier>>(2*a)&3 ^ m.earlier>>(2*b)&3; of != 0 {
			m.earlier ^= of<<(2*a) | of<<(2*b)
		}
		switch m.key {
		case ownerOf(a):
			m.key = ownerOf(b)
		case ownerOf(b):
			m.key = ownerOf(a)
		}
		switch int(m.last) {
		case a:
			m.last = uint8(b)
		case b:
			m.last = uint8(a)
		}
	}
}

func (m *master) code() explore.Code {
	own := uint64(m.key)<<8 | uint64(m.cover)
	for _, c := range m.members {
		own = own<<3 | uint64(c)
	}
	own = own<<16 | uint64(m.orphan)<<12 | uint64(m.last)<<8 | uint64(m.earlier)<<1 | explore.Bit(m.quarantined)
	lanes := uint64(0)
	for i := range m.lanes {
		for _, k := range m.lanes[i].queue {
			lanes = lanes<<3 | uint64(k)
		}
		lanes = lanes<<1 | explore.Bit(m.lanes[i].vote)
	}
	return explore.Code{own, lanes}
}

// A property must hold in every state.
type property uint8

const (
	intact property = iota
	apart
	honestLoss
	nothingLeft
)

func (p property) String() string {
	return [...]string{
		"all properties hold",
		"A WRITER IS NOT ALONE",
		"A LEASE IS PROLONGED THOUGH A CLIENT THAT IT EXCLUDES HELD THE LOCK MEANWHILE",
		"A KEY OR A MEMBER IS LEFT BEHIND",
	}[p]
}

// check returns the property that s breaks, or intact.
func (w *world) check(s *state) property {
	if s.broken != intact {
		return s.broken
	}
	readers, writers := 0, 0
	for c := range w.roles {
		if cl := &s.clients[c]; cl.phase.holds() && !cl.over {
			if w.reads(c) {
				readers++
			} else {
				writers++
			}
		}
	}
	if writers > 1 || writers == 1 && readers > 0 {
		return apart
	}
	for i := range s.masters {
		for c := range w.roles {
			m := &s.masters[i]
			if s.clients[c].phase == idle && m.lanes[c].queue[0] == nothing && *m.own(c, w) != absent {
				return nothingLeft
			}
		}
	}
	return intact
}

// A verb is a kind of step.
type verb uint8

const (
	begins verb = iota
	commits
	ends
	renews
	asksAgain
	prolongs
	givesUp
	dies
	sleeps
	executes
	loses
	passes
	expires
	forgets
	restores
	votesAgain
	verbs
)

// An action is a step.
type action struct {
	verb    verb
	client  int
	master  int
	command command
	roles   string
}

func (a action) String() string {
	who := fmt.Sprintf("client %d", a.client+1)
	if a.client < len(a.roles) {
		who = map[byte]string{'R': "reader ", 'W': "writer "}[a.roles[a.client]] + fmt.Sprint(a.client+1)
	}
	at := fmt.Sprintf("master %d", a.master+1)
	switch a.verb {
	case executes:
		return fmt.Sprintf("%s executes the %v of %s", at, a.command, who)
	case loses:
		return fmt.Sprintf("the %v of %s to %s is lost", a.command, who, at)
	case passes:
		return fmt.Sprintf("at %s the member of %s expires", at, who)
	case expires:
		return "at " + at + " the key expires"
	case forgets:
		return at + " LOSES ITS MEMORY"
	case restores:
		return at + " RETURNS TO AN EARLIER MEMORY"
	case votesAgain:
		return at + " votes again"
	case asksAgain:
		return who + " repeats the renewal to " + at
	}
	return who + " " + [...]string{
		begins: "begins to acquire", commits: "HOLDS THE LOCK", ends: "ends its attempt or lease", renews: "begins to renew",
		prolongs: "has renewed its lease", givesUp: "gives its renewal up", dies: "DIES", sleeps: "SLEEPS",
	}[a.verb]
}
