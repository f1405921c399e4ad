package slots

import (
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
)

const (
	nMasters = 3
	nSlots   = 2
	nClients = 3
	quorum   = 2
	room     = 3 // for commands of one client that one master has not executed
)

// A token is that of a client's present claim, or of an earlier one.
type token uint8

const nobody token = 0

func present(c int) token { return token(c + 1) }
func earlier(c int) token { return token(c + 1 + nClients) }

// client returns the client whose present claim has the token.
func (o token) client() (c int, ok bool) { return int(o) - 1, o >= 1 && o <= nClients }

// slots is a set of slots.
type slots uint8

func only(s int) slots { return 1 << s }

func (x slots) has(s int) bool { return x>>s&1 == 1 }

// A command is one of a client to a master.
type command uint8

const (
	nothing command = iota
	register
	release
	aim // aim+s: at slot s
)

type state struct {
	masters  [nMasters]master
	clients  [nClients]client
	releases uint8 // of holders, still to come
	faults   uint8 // losses and expiries, still to come
	aims     uint8 // at any moment, still to come
	frozen   bool  // no holder releases any more
}

type master struct {
	owner [nSlots]token
	wish  [nSlots]token
	queue [nClients]token // the head first; nobody behind the last
	aimed uint8           // clients, as bits, whose present token has aimed here
	lanes [nClients]lane
}

// A lane is what is under way between a client and a master, and what the client knows of it.
type lane struct {
	commands [room]command // in the order of the connection
	messages slots         // answers and messages that say "you stand in this slot"
	votes    slots         // counted by the client. The slot does not expire before
}

type phase uint8

const (
	idle phase = iota
	waiting
	holding
)

type client struct {
	phase phase
	slot  uint8 // that it holds
	aim   uint8 // the slot that it aims at, plus 1; 0: none
	turns uint8 // how many claims it has begun for a permit
}

// heeds reports whether votes for a slot may count for the client.
func (cl client) heeds(s int) bool { return cl.aim == 0 || int(cl.aim) == s+1 }

func (l *lane) busy() bool { return l.commands[0] != nothing }

func (l *lane) releasing() bool { return slices.Contains(l.commands[:], release) }

// votes returns how many masters have voted for a slot of a client.
func (s *state) votes(c, slot int) int {
	return explore.Count(s.masters[:], func(m master) bool { return m.lanes[c].votes.has(slot) })
}

// voters returns how many masters have voted for any slot of a client.
func (s *state) voters(c int) int {
	return explore.Count(s.masters[:], func(m master) bool { return m.lanes[c].votes != 0 })
}

func (s *state) holders() int {
	return explore.Count(s.clients[:], func(cl client) bool { return cl.phase == holding })
}

// waits reports whether a client waits.
func (s *state) waits() bool {
	return slices.ContainsFunc(s.clients[:], func(cl client) bool { return cl.phase == waiting })
}

// busy reports whether a command of a client is under way.
func (s *state) busy(c int) bool {
	return slices.ContainsFunc(s.masters[:], func(m master) bool { return m.lanes[c].busy() })
}

func (s *state) releasing(c int) bool {
	return slices.ContainsFunc(s.masters[:], func(m master) bool { return m.lanes[c].releasing() })
}
