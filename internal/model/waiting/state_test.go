package waiting

import "github.com/redlock-go/redlock/internal/model/explore"

// These are the sizes of the largest world.
const (
	mostMasters = 3
	mostClients = 3
	mostRoom    = 4 // commands under way from one client to one master
)

// A state is comparable, and equal states have equal futures.
type state struct {
	masters [mostMasters]master
	clients [mostClients]client
	crashes uint8 // crashes still to come
	calls   uint8 // calls of Lock and TryLock still to come
	robbed  bool  // a client has taken a key from one that its own release had woken
}

type master struct {
	owner owner
	queue [mostClients]owner // clients that wait, longest first; nobody marks the end
	mark  bool               // the member 'woken' stands at the end of the queue
	turn  owner              // the client that was woken last and has not tried yet; not part of the protocol
	lanes [mostClients]lane
}

// A lane is everything that is under way between a client and a master.
type lane struct {
	commands [mostRoom]command // oldest first
	vote     vote              // the answer to the attempt under way
	message  bool              // a wake-up for the client
}

// An owner is a client, counted from 1.
type owner uint8

const (
	nobody owner = 0
	dead   owner = mostClients + 1 // a client that died; its key will expire
)

func ownerOf(c int) owner { return owner(c + 1) }

type command uint8

const (
	nothing command = iota
	set
	acquire // as in batch.lua, like the rest
	behind
	behindOnce // behind, without joining the queue
	undo
	quit
	release
	wake
)

func (k command) String() string {
	return [...]string{"nothing", "SET", "acquire", "behind", "behind without joining", "undo", "quit", "release", "wake"}[k]
}

// sets reports whether the command may set the key.
func (k command) sets() bool { return k == set || k == acquire || k == behind || k == behindOnce }

type vote uint8

const (
	none vote = iota
	granted
	refused
)

type client struct {
	phase   phase
	polite  bool  // it has released the lock, and the masters have not answered that no client was woken
	woke    bool  // a master has answered that a client was woken
	queues  bool  // its sleeper is registered: it is past its first SET
	woken   bool  // it was woken, and has not tried yet
	local   bool  // another goroutine of it waits in the gate
	handed  uint8 // handovers since the masters granted the lease
	died    bool
	missing bool // it has died, and the masters have noticed it
}

type phase uint8

const (
	idle    phase = iota
	trying        // TryLock's SET, or what stands for it, is under way
	setting       // a SET is under way
	asking        // an acquisition that joins the queue is under way
	asleep
	holding
)

// end ends the client's present call. What it has learned about its last release stays.
func (cl *client) end() { *cl = client{polite: cl.polite, woke: cl.woke, local: cl.local} }

func (p phase) waits() bool { return p == setting || p == asking || p == asleep }

// send queues a command, and reports whether there was room.
func (w *world) send(l *lane, k command) bool {
	for i := range w.room {
		if l.commands[i] == nothing {
			l.commands[i] = k
			return true
		}
	}
	return false
}

// canonical returns the representative of the states that differ from s only by a permutation of masters.
func (s state) canonical(masters int) state {
	var codes [mostMasters]explore.Code
	for i := range masters {
		codes[i] = s.masters[i].code()
	}
	explore.Sort(s.masters[:masters], codes[:masters])
	return s
}

func (m *master) code() explore.Code {
	all := explore.Code{uint64(m.owner)<<8 | uint64(m.turn)<<1 | explore.Bit(m.mark)}
	for c := range m.lanes {
		l := &m.lanes[c]
		n := uint64(m.queue[c])<<8 | uint64(l.vote)<<1 | explore.Bit(l.message)
		for _, k := range l.commands {
			n = n<<4 | uint64(k)
		}
		all[1+c] = n
	}
	return all
}

// pop removes and returns the oldest command.
func (l *lane) pop() command {
	k := l.commands[0]
	copy(l.commands[:], l.commands[1:])
	l.commands[mostRoom-1] = nothing
	return k
}

// pending reports whether a command that may set the key is under way.
func (l *lane) pending() bool {
	for _, k := range l.commands {
		if k.sets() {
			return true
		}
	}
	return false
}

// join appends o to the queue unless it is there.
func (m *master) join(o owner) {
	for i := range m.queue {
		if m.queue[i] == o {
			return
		}
		if m.queue[i] == nobody {
			m.queue[i] = o
			return
		}
	}
}

// part removes o from the queue.
func (m *master) part(o owner) {
	for i := range m.queue {
		if m.queue[i] == o {
			copy(m.queue[i:], m.queue[i+1:])
			m.queue[mostClients-1] = nobody
			return
		}
	}
}
