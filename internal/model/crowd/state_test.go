package crowd

import (
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
)

const (
	clients = 5 // of a semaphore; of a lock one less
	near    = 2 // how many clients at the front of the queue are near

	// In ticks. In one tick, each near client polls.
	g        = 3  // how long a granted key lives: longer than a client that waits counts as live without a poll
	patience = 2  // how long after its last poll a near client counts as live
	first    = 3  // when a far client polls first
	soon     = 2  // when one does that expects its turn soon
	farMost  = 6  // the longest time between two polls of a far client
	masters  = 2  // a far client polls one master at a time, so that each hears every second poll
	never    = 15 // it does not poll
	idleMost = 14 // a longer time is not counted
)

// period is the time between two polls of a far client with so many ahead of it.
func period(ahead int) uint8 { return min(uint8(2*ahead), farMost) }

// A state is everything that determines what may happen next. The clients in the queue come first, in the order of their
// joining.
type state struct {
	clients [clients]client
	limit   int   // how many may hold at a time: of a semaphore; 1: of a lock
	idle    uint8 // for how long a live client has waited while fewer than the limit held that are live, or dead, and their keys stand

	stops, deaths, losses, restarts uint8 // misfortunes still to come
}

// A phase is what a client is doing.
type phase uint8

const (
	out     phase = iota
	waiting       // it has a claim
	holding
	stopped // for good; its subscription stands
	dead    // its subscription is gone
)

// A client is one process, with its entry in the queue and what is under way to it.
type client struct {
	phase  phase
	far    bool  // it is not near, as far as it knows
	polled bool  // it has polled since it registered
	others bool  // it polls another master next
	timer  uint8 // when its next poll is due
	told   bool  // it was told that it is near, behind the command whose answer is under way

	// At the master:
	owns   bool  // the key has its token, or a slot has
	life   uint8 // how long what was granted lives that is not used yet
	queued bool  // it is in the queue
	aside  bool  // it was passed over, and set behind all others
	heard  uint8 // the time since its last command
	allows uint8 // beyond patience, until it is silent

	// Under way:
	answer  uint8 // 1 + how many are ahead of it in the queue
	nears   bool  // the message that it is near
	granted bool  // the message that it was granted the lock
}

// A life says what the master knows of a client.
type life uint8

const (
	live    life = iota
	unheard      // it is far, and need not have polled
	silent       // it should have polled
	gone         // it has no subscription
)

func (c *client) is() life {
	switch {
	case c.phase == dead:
		return gone
	case c.heard <= patience:
		return live
	case c.heard <= patience+c.allows:
		return unheard
	}
	return silent
}

// fresh reports whether the client has joined the queue in this tick, or in the one before.
func (c *client) fresh() bool { return c.heard <= 1 && !c.polled }

func (c client) waits() bool { return c.queued }

// quiet ends what the client knows and awaits.
func (c *client) quiet(p phase) {
	*c = client{phase: p, owns: c.owns, life: c.life, queued: c.queued, aside: c.aside, heard: c.heard, allows: c.allows}
}

// hold makes the client the holder.
func (s *state) hold(c int) {
	s.clients[c] = client{phase: holding, owns: true}
}

// free reports whether the lock is free, or a slot is.
func (s *state) free() bool {
	return explore.Count(s.clients[:], func(c client) bool { return c.owns }) < s.limit
}

// open reports whether a newcomer takes what is free. For a lock it looks whether somebody is live ahead of it. For a semaphore, it
// only looks whether the head was set aside.
func (s *state) open() bool {
	if !s.free() {
		return false
	}
	if s.limit == 1 {
		return !slices.ContainsFunc(s.clients[:], func(o client) bool { return o.queued && o.is() <= unheard })
	}
	all := s.order()
	return len(all) == 0 || s.clients[all[0]].aside
}

// held reports whether a live client has the lock.
func (s *state) held() bool {
	return slices.ContainsFunc(s.clients[:], func(c client) bool { return c.phase == holding })
}

// order returns the queue, those that were set aside last.
func (s *state) order() []int {
	return explore.Order(s.clients[:], client.waits, func(c client) bool { return c.aside })
}

// ahead returns how many clients are ahead of one in the queue.
func (s *state) ahead(c int) int { return slices.Index(s.order(), c) }

// leave takes a client out of the queue.
func (s *state) leave(c int) {
	e := &s.clients[c]
	e.queued, e.aside, e.heard, e.allows = false, false, 0, 0
}

// canonical returns the representative of the states that differ only by the names of the clients.
func canonical(s state) state {
	explore.SortLine(s.clients[:], client.waits, client.code)
	return s
}

func (c client) code() uint64 {
	bit := explore.Bit
	return uint64(c.phase) | uint64(c.timer)<<4 | uint64(c.answer)<<8 | bit(c.far)<<12 | bit(c.polled)<<13 | bit(c.told)<<14 |
		bit(c.owns)<<15 | bit(c.nears)<<16 | bit(c.granted)<<17 | uint64(c.life)<<18 | bit(c.others)<<20
}
