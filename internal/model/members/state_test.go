package members

import (
	"math/bits"

	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/model/rounds"
)

const (
	nServers = 5
	nClients = 2

	a, b, oldA, newB, newC = 0, 1, 2, 3, 4 // replaced: a and b stay, oldA leaves, newB comes; or b leaves, too, and newC comes
)

var serverNames = [nServers]string{"a", "b", "A", "B", "C"}

// A list is a set of servers.
type list uint8

const (
	before list = 1<<a | 1<<b | 1<<oldA
	after  list = 1<<a | 1<<b | 1<<newB
)

func (l list) has(i int) bool { return l>>i&1 == 1 }
func (l list) size() int      { return bits.OnesCount8(uint8(l)) }
func (l list) need() int      { return l.size()/2 + 1 }

type state struct {
	servers [nServers]server
	clients [nClients]client
	losses  uint8      // of memory, still to come
	wait    rounds.Set // open when the last server was stopped, and still open
	returns uint8      // of a stopped server, still to come
}

// A life says whether a server runs.
type life uint8

const (
	up     life = iota
	absent      // not started yet
	gone        // stopped
)

type server struct {
	life        life
	key         rounds.Key
	quarantined bool
	earlier     rounds.Set // that the quarantine must outlast, and that are still open
	record      bool       // false: the next inspection writes one, and begins a quarantine
	lanes       [nClients]lane
}

// A lane is what a client and a server have to do with each other.
type lane struct {
	vote      vote
	inspected bool // the client has inspected this memory
}

type client struct {
	phase phase
	list  list
}

type phase uint8

const (
	idle phase = iota
	acquiring
	holding
	renewing
)

func (p phase) holds() bool { return p == holding || p == renewing }

type vote uint8

const (
	none    vote = iota
	pending      // its probe is still to come
	counted
)

// open returns the rounds and leases that a quarantine which begins now must outlast.
func (s *state) open() rounds.Set {
	var r rounds.Set
	for c := range s.clients {
		switch s.clients[c].phase {
		case acquiring:
			r |= rounds.Undecided(c)
		case renewing:
			r |= rounds.Undecided(c) | rounds.Lease(c)
		case holding:
			r |= rounds.Lease(c)
		}
	}
	return r
}

// close notes that rounds have ended.
func (s *state) close(r rounds.Set) {
	for i := range s.servers {
		s.servers[i].earlier &^= r
	}
	s.wait &^= r
}

// forget removes what clients know of a server: its memory is another one.
func (sv *server) forget() {
	for c := range sv.lanes {
		l := &sv.lanes[c]
		l.inspected = false
		if l.vote == pending {
			l.vote = none
		}
	}
}

// holders returns how many clients hold the lock.
func (s *state) holders() int {
	return explore.Count(s.clients[:], func(cl client) bool { return cl.phase.holds() })
}
