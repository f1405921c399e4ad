package names

import (
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/model/rounds"
)

// Sizes of the model.
const (
	nMasters = 3
	nNames   = 2
	mClients = 3 // at most
	majority = nMasters/2 + 1
	maxRoom  = 4
)

// A state is everything that determines what may happen next. It is comparable, and equal states have equal
// futures.
type state struct {
	masters  [nMasters]master
	clients  [mClients]client
	restarts uint8 // restarts still to come
	deaths   uint8 // deaths still to come
}

// A master is one server with everything that concerns it.
type master struct {
	keys        [nNames]token
	covered     [nNames]bool // an undecided round or a lease rests on the key, so it does not expire
	quarantined bool
	earlier     rounds.Set // rounds that began before the restart, and that a lease may yet rest on
	lanes       [mClients]lane
}

// A lane is one client's connection to one master, in both directions.
type lane struct {
	queue [maxRoom]command // commands under way, oldest first
	vote  bool             // a grant in the client's open round that counts
}

// A client is one process that acquires its names over and over.
type client struct {
	phase phase
	turns uint8 // begun so far; only in worlds that bound it
	over  bool  // second: the validity of the lease of the first name has ended, and the client has not noticed
}

// A phase is what a client is doing.
type phase uint8

const (
	idle    phase = iota // to first; of a client that polls, to merging
	first                // acquires its first name; to second, or with one name to holding
	second               // has a lease of the first name, and acquires the second; to merging
	merging              // acquires all names with a token of their own; to holding
	holding              // to idle by the release, or by the end of validity
)

// A token is what a key holds: nothing, the token of one name of a client, or that of all its names.
type token uint8

const (
	free   token = 0
	orphan token = 2*mClients + 1 // the token of a client that has died
)

func partOf(c int) token  { return token(2*c + 1) }
func wholeOf(c int) token { return token(2*c + 2) }

type command uint8

const (
	nothing      command = iota
	setFirst             // SET NX of the first name; when the client has it already, a heal
	setSecond            // SET NX of the second name
	undoFirst            // deletes the first name's key if it holds the token of that name
	undoSecond           // the same for the second name
	merge                // sets all keys to the token of all, unless another client has one of them
	undoParts            // undoFirst and undoSecond
	releaseWhole         // deletes the keys that hold the token of all
	releaseAll           // deletes the keys that hold any token of the client
)

func (k command) String() string {
	return [...]string{"nothing", "SET of the first name", "SET of the second name", "undoing of the first name",
		"undoing of the second name", "merger", "undoing of the single names", "release", "release of all"}[k]
}

// ends reports whether the command only deletes. Such commands are sent until they are executed.
func (k command) ends() bool { return k != nothing && k != setFirst && k != setSecond && k != merge }

// drop removes the oldest command.
func (l *lane) drop() { explore.Drop(l.queue[:], 0) }

func (l *lane) has(k command) bool { return slices.Contains(l.queue[:], k) }

// send queues a command, and reports whether there was room for it and for two that may have to follow, which undo it. Otherwise the
// command is lost.
func (w *world) send(l *lane, k command) bool { return explore.Push(l.queue[:w.room-2], k) }

// order returns the names of a client in the order in which it acquires them.
func (w *world) order(c int) []int {
	switch w.roles[c] {
	case 'A':
		return []int{0}
	case 'B':
		return []int{1}
	case 'S':
		if w.anyOrder && c%2 == 1 {
			return []int{1, 0}
		}
	}
	return []int{0, 1}
}

// holds returns how many of its names a client has a valid lease of.
func (w *world) holds(s *state, c int) int {
	switch cl := &s.clients[c]; {
	case cl.phase == second && !cl.over:
		return 1
	case cl.phase == holding:
		return len(w.order(c))
	}
	return 0
}

// What must hold in every state breaks as follows.
const (
	oneHolder    = "TWO CLIENTS HOLD A NAME"
	nothingLeft  = "A KEY IS LEFT BEHIND"
	notLockedOut = "A CLIENT IS LOCKED OUT"
)

// check returns the property that s breaks, if any.
func (w *world) check(s *state) string {
	var holders [nNames]int
	for c := range w.roles {
		for _, name := range w.order(c)[:w.holds(s, c)] {
			if holders[name]++; holders[name] > 1 {
				return oneHolder
			}
		}
	}
	for i := range s.masters {
		for c := range w.roles {
			if w.left(s, i, c) {
				return nothingLeft
			}
		}
	}
	return ""
}

// left reports whether a master has a key that a client left behind.
func (w *world) left(s *state, i, c int) bool {
	m, phase := &s.masters[i], s.clients[c].phase
	if m.lanes[c].queue[0] != nothing {
		return false
	}
	merged := phase == holding && w.several(c) && !w.mergesAtOnce
	return slices.Contains(m.keys[:], partOf(c)) && (phase == idle || merged) ||
		slices.Contains(m.keys[:], wholeOf(c)) && phase == idle
}

// several reports whether a client wants both names.
func (w *world) several(c int) bool { return len(w.order(c)) > 1 }

// canonical returns the representative of the permutations of masters.
func canonical(s state) state {
	explore.SortBy(s.masters[:], master.code)
	return s
}

func (m master) code() explore.Code {
	own := uint64(m.earlier)<<1 | explore.Bit(m.quarantined)
	for i, key := range m.keys {
		own = own<<5 | uint64(key)<<1 | explore.Bit(m.covered[i])
	}
	lanes := uint64(0)
	for i := range m.lanes {
		for _, k := range m.lanes[i].queue {
			lanes = lanes<<4 | uint64(k)
		}
		lanes = lanes<<1 | explore.Bit(m.lanes[i].vote)
	}
	return explore.Code{own, lanes}
}

// An action is a step.
type action struct {
	verb    explore.Verb
	client  int
	master  int
	command command
}

const (
	begins      = "%[1]s begins"
	advances    = "%[1]s HAS THE FIRST NAME"
	mergesNames = "%[1]s has the second name, and merges them"
	acquires    = "%[1]s HOLDS THE LOCK"
	repeats     = "%[1]s repeats its attempt"
	lapses      = "%[1]s sleeps until its lease of the first name is over"
	heals       = "%[1]s heals the first name at master %[2]d"
	ends        = "%[1]s ends its wait or lease"
	dies        = "%[1]s DIES"
	executes    = "master %[2]d executes the %[3]v of %[1]s"
	loses       = "the %[3]v of %[1]s to master %[2]d is lost"
	expires     = "at master %[2]d a key expires"
	forgets     = "master %[2]d LOSES ITS MEMORY"
	votesAgain  = "master %[2]d votes again"
)

func (a action) String() string { return a.verb.Say(string(rune('A'+a.client)), a.master, a.command) }
