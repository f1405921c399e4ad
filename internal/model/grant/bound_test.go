package grant

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// This file explores for how long a lock is unused that somebody waits for, at one master, in ticks of 100 ms. It complements package
// crowd, which has one queue. Commands are executed at once. The first client of the queue, and the first of the lane, are near and poll once a
// tick. The others are far: they poll seldom, and a message about a grant finds their mark too old, so that it makes a poll. A message
// comes within its tick, or never. A client may be stopped for good at any time. What a client has that was stopped as a holder does not count:
// it ends with its TTL.

const (
	crowdMost = 4 // clients
	near      = 1 // clients of the queue, and of the lane, that are near
	firstG    = 4 // how long what was granted lives
	patience  = 3 // how long after its last poll a near client counts as live
	farPoll   = 6 // the time between two polls of a far client
	lateMark  = 2 // a mark that is older makes a poll
	forLong   = 15
	ttlLeft   = 6 // how long that lives which a holder had that was stopped
	readers   = crowdMost + 1
)

// A timed is a world with a bound.
type timed struct {
	timedRules
	roles  string
	stops  uint8
	losses uint8
	silent int   // so many clients are stopped at the beginning, and silent; the next one has the lock
	bound  uint8 // ticks
}

// timedRules are rules that can be switched off.
type timedRules struct {
	oneReader    bool // rules.firstOnly
	ignoresLate  bool // rules.ignoresLate
	grantsSilent bool // rules.grantsTheDead
	waits        bool // rules.waitsForSilent
	noPolls      bool // "who waits polls"
	oneRank      bool // "near is who is among the first of the own lane"
	staysAhead   bool // "who was passed over is behind all others until its next poll"
	quietNear    bool // "whoever becomes near is told"
}

// A waiter is a client.
type waiter struct {
	name    uint8
	phase   phase
	stopped bool
	far     bool  // as far as it knows
	due     uint8 // until its next poll
	heard   uint8 // since its last command
	queued  bool
	aside   bool // it was passed over, and set behind all others
	told    bool // a message about a grant is under way
	nears   bool // the message that it is near is
	member  uint8
}

// A moment is a state. The clients that wait come first, in their order.
type moment struct {
	clients [crowdMost]waiter
	key     uint8 // 0: free; readers; else 1 + the name of a writer
	life    uint8
	left    bool // by a holder that was stopped
	stops   uint8
	losses  uint8
	unused  uint8
}

func (w *timed) reads(m *moment, c int) bool { return w.roles[m.clients[c].name] == 'R' }

func (w *timed) has(m *moment, c int) bool {
	if w.reads(m, c) {
		return m.key == readers && m.clients[c].member > 0
	}
	return m.key == 1+m.clients[c].name
}

func (c waiter) waits() bool { return c.queued }

func (c *waiter) silent() bool {
	if c.far {
		return c.heard > patience+farPoll
	}
	return c.heard > patience
}

func (c *waiter) unheard() bool { return c.heard > patience && !c.silent() }

// order returns the clients that wait, those that were set aside last.
func (m *moment) order() []int {
	return explore.Order(m.clients[:], waiter.waits, func(c waiter) bool { return c.aside })
}

// rank returns how many are ahead of a client in its lane.
func (w *timed) rank(m *moment, c int) (n int) {
	for _, o := range m.order() {
		if o == c {
			return n
		}
		if w.oneRank || w.reads(m, o) == w.reads(m, c) {
			n++
		}
	}
	return n
}

// tellNear tells those who have become near.
func (w *timed) tellNear(m *moment) {
	for c := range m.clients {
		if cl := &m.clients[c]; cl.queued && cl.far && !cl.stopped && w.rank(m, c) < near && !w.quietNear {
			cl.nears = true
		}
	}
}

// writerWaits reports whether a writer waits that is not silent; for a poll, it must be live: an unheard one does not count.
func (w *timed) writerWaits(m *moment, poll bool) bool {
	return slices.ContainsFunc(m.order(), func(c int) bool {
		cl := &m.clients[c]
		return !w.reads(m, c) && (!cl.silent() || w.waits) && (!poll || !cl.unheard())
	})
}

// give gives the lock to a client, and tells it unless it has asked.
func (w *timed) give(m *moment, c int, life uint8) {
	cl := &m.clients[c]
	cl.queued, cl.aside = false, false
	if w.reads(m, c) {
		m.key, cl.member = readers, life
	} else {
		m.key, m.life = 1+m.clients[c].name, life
	}
}

func (w *timed) grantTo(m *moment, c int) {
	w.give(m, c, firstG)
	m.clients[c].told = !m.clients[c].stopped
}

// pass passes a free key on, behind a writer, behind a reader, or for a poll.
func (w *timed) pass(m *moment, behindWriter, behindReader, poll bool) {
	m.left = false
	writer, reader, first := -1, -1, -1
	var over []int
	for _, c := range m.order() {
		cl := &m.clients[c]
		if !w.grantsSilent && (cl.silent() || poll && cl.unheard()) {
			over = append(over, c)
			continue
		}
		if first < 0 {
			first = c
		}
		if w.reads(m, c) && reader < 0 {
			reader = c
		} else if !w.reads(m, c) && writer < 0 {
			writer = c
		}
	}
	switch {
	case first < 0:
	case behindWriter && reader >= 0, !(behindReader && writer >= 0) && w.reads(m, first):
		w.letIn(m)
	default:
		w.grantTo(m, writer)
	}
	for _, c := range over {
		cl := &m.clients[c]
		cl.aside = !w.staysAhead && first >= 0
		cl.nears = cl.nears || !cl.stopped
	}
	w.tellNear(m)
}

// letIn grants the lock to all readers that wait and are not silent.
func (w *timed) letIn(m *moment) {
	for _, c := range m.order() {
		if w.reads(m, c) && (!m.clients[c].silent() || w.grantsSilent) {
			w.grantTo(m, c)
			if w.oneReader {
				return
			}
		}
	}
}

// ask executes a registration or a poll.
func (w *timed) ask(m *moment, c int, poll bool) {
	cl := &m.clients[c]
	cl.heard, cl.aside = 0, false
	others := slices.ContainsFunc(m.order(), func(o int) bool { return o != c && (!m.clients[o].silent() || w.waits) })
	switch {
	case w.has(m, c):
	case m.key == 0 && !others, m.key == readers && w.reads(m, c) && !w.writerWaits(m, poll):
		m.left = m.left && m.key == readers
		w.give(m, c, firstG)
	default:
		w.join(m, c)
		if m.key == 0 && poll {
			w.pass(m, false, false, true)
		}
		return
	}
	w.enter(m, c)
	w.tellNear(m)
}

// join has a client wait, behind all others, and answers whether it is near.
func (w *timed) join(m *moment, c int) {
	if !m.clients[c].queued {
		c = explore.Join(m.clients[:], c, waiter.waits)
		m.clients[c].queued = true
	}
	cl := &m.clients[c]
	cl.far, cl.nears, cl.due = w.rank(m, c) >= near, false, 1
	if cl.far {
		cl.due = farPoll
	}
}

func (w *timed) enter(m *moment, c int) {
	cl := &m.clients[c]
	*cl = waiter{name: cl.name, phase: holding, member: cl.member}
	m.unused = 0
	w.give(m, c, forLong)
}

// leave ends a lease.
func (w *timed) leave(m *moment, c int) {
	read := w.reads(m, c)
	m.clients[c] = waiter{name: m.clients[c].name}
	if read && slices.ContainsFunc(m.clients[:], func(o waiter) bool { return o.member > 0 }) {
		return
	}
	m.key, m.life = 0, 0
	w.pass(m, !read, read, false)
}

func (w *timed) successors(s *moment, next func(string, moment)) {
	ticks := true
	for c := range len(w.roles) {
		cl := &s.clients[c]
		do := func(what string, f func(n *moment)) {
			n := *s
			f(&n)
			next(fmt.Sprintf("%c %s", 'A'+s.clients[c].name, what), n)
		}
		switch {
		case cl.stopped:
			continue
		case cl.phase == idle:
			do("registers", func(n *moment) { n.clients[c].phase = waiting; w.ask(n, c, false) })
		case cl.phase == waiting:
			ticks = w.waiting(s, c, do) && ticks
		case cl.phase == holding:
			do("leaves", func(n *moment) { w.leave(n, c) })
		}
		if s.stops > 0 && cl.phase != idle {
			do("IS STOPPED", func(n *moment) { w.stop(n, c) })
		}
	}
	if ticks {
		w.tick(s, next)
	}
}

// waiting lets a client do what one that waits may do, and reports whether time may pass.
func (w *timed) waiting(s *moment, c int, do func(string, func(*moment))) (ticks bool) {
	cl := &s.clients[c]
	ticks = true
	if cl.told {
		ticks = false
		do("is told", func(n *moment) {
			n.clients[c].told = false
			switch late := cl.heard > lateMark; {
			case late && w.ignoresLate:
			case late:
				w.ask(n, c, true)
			case w.has(n, c):
				w.enter(n, c)
			}
		})
	}
	if cl.nears {
		ticks = false
		do("is told that it is near", func(n *moment) {
			n.clients[c].nears, n.clients[c].far, n.clients[c].due = false, false, min(cl.due, 1)
		})
	}
	if s.losses > 0 && (cl.told || cl.nears) {
		do("is not told", func(n *moment) { n.losses--; n.clients[c].told, n.clients[c].nears = false, false })
	}
	if cl.due == 0 && !w.noPolls {
		ticks = false
		do("polls", func(n *moment) { w.ask(n, c, true) })
	}
	return ticks
}

func (w *timed) stop(m *moment, c int) {
	cl := &m.clients[c]
	m.stops--
	cl.stopped, cl.told, cl.nears = true, false, false
	if cl.phase != holding {
		return
	}
	m.left = true
	if w.reads(m, c) {
		cl.member = ttlLeft
	} else {
		m.life = ttlLeft
	}
}

func (w *timed) tick(s *moment, next func(string, moment)) {
	n := *s
	used, waits := false, false
	for c := range len(w.roles) {
		cl := &n.clients[c]
		runs := !cl.stopped
		holds := runs && cl.phase == holding
		used = used || holds
		waits = waits || runs && cl.phase == waiting
		if cl.phase == waiting {
			cl.due, cl.heard = cl.due-min(cl.due, 1), min(cl.heard+1, patience+farPoll+1)
		}
		if cl.member > 0 && !holds {
			cl.member--
		}
		if n.key == 1+cl.name && !holds {
			n.life--
		}
	}
	if n.key == readers && !slices.ContainsFunc(n.clients[:], func(o waiter) bool { return o.member > 0 }) || n.key != 0 && n.key != readers && n.life == 0 {
		n.key, n.left = 0, false
	}
	n.unused++
	if used || !waits || s.left {
		n.unused = 0
	}
	next("a tick", n)
}

// canonicalMoment puts the clients that do not wait behind those that do, in the order of their names.
func canonicalMoment(m moment) moment {
	explore.SortLine(m.clients[:], waiter.waits, func(c waiter) uint64 { return uint64(c.name) })
	return m
}

func (w *timed) initial() (m moment) {
	m.stops, m.losses = w.stops, w.losses
	for c := range m.clients {
		m.clients[c].name = uint8(c)
	}
	if w.silent == 0 {
		return m
	}
	for c := range w.silent {
		m.clients[c] = waiter{name: uint8(c), phase: waiting, stopped: true, queued: true, heard: patience + farPoll + 1, aside: !w.staysAhead} // it was passed over before
	}
	m.clients[w.silent].phase = holding
	w.give(&m, w.silent, forLong)
	return m
}

const unused = "A LOCK IS UNUSED FOR TOO LONG"

var timedExploration = explore.Once(func(w timed, off timedRules) explore.Result {
	w.timedRules = off
	return explore.Model[moment, string]{
		Initial:    w.initial(),
		Successors: w.successors,
		Canonical:  canonicalMoment,
	}.Within(w.bound, func(s *moment) uint8 { return s.unused }, unused)
})

// The worlds. Their bounds are exact.
var (
	orderly   = timed{roles: "RRRW", bound: 0}
	lossy     = timed{roles: "RRW", losses: 1, bound: farPoll} // a far reader learns of its grant by its next poll, when that is over
	haltedOne = timed{roles: "RRW", stops: 1, bound: firstG}
	haltedTwo = timed{roles: "RRW", stops: 2, bound: 10} // one after the other is granted the lock; then a far one polls
	writer    = timed{roles: "RWW", stops: 1, bound: firstG}
	besideOne = timed{roles: "RWR", silent: 1, stops: 1, bound: firstG + 1}
	besideTwo = timed{roles: "RWRR", silent: 1, stops: 1, bound: firstG + 1}
	skipped   = timed{roles: "WRR", silent: 1, bound: 0}
)

// TestALockThatSomebodyWaitsForIsUsedWithinABound checks that some client that runs has the lock in time, and that the bounds are exact.
func TestALockThatSomebodyWaitsForIsUsedWithinABound(t *testing.T) {
	explore.Check(t, []explore.Case[timed, timedRules]{
		{Name: "no misfortune", World: orderly, Floor: 1},
		{Name: "a message is lost", World: lossy, Floor: 1},
		{Name: "a client is stopped", World: haltedOne, Floor: 1},
		{Name: "two are stopped", World: haltedTwo, Floor: 1},
		{Name: "a client beside two writers is stopped", World: writer, Floor: 1},
		{Name: "a client beside a silent one is stopped", World: besideOne, Floor: 1},
		{Name: "the same of two readers", World: besideTwo, Floor: 1},
		{Name: "a writer is silent", World: skipped, Floor: 1},
	}, timedExploration)
}

// TestEachRuleOfTheBoundIsNeeded switches off one rule at a time, and finds a lock that is unused for longer.
func TestEachRuleOfTheBoundIsNeeded(t *testing.T) {
	explore.Check(t, []explore.Case[timed, timedRules]{
		{Name: "a grant to the first reader only", World: orderly, Off: timedRules{oneReader: true}, Want: unused},
		{Name: "a grant to a far reader makes no poll", World: orderly, Off: timedRules{ignoresLate: true}, Want: unused},
		{Name: "readers make a writer far", World: orderly, Off: timedRules{oneRank: true}, Want: unused},
		{Name: "the silent are granted the lock", World: skipped, Off: timedRules{grantsSilent: true}, Want: unused},
		{Name: "the silent are granted the lock, beside a writer", World: besideOne, Off: timedRules{grantsSilent: true}, Want: unused},
		{Name: "a newcomer waits for the silent", World: haltedOne, Off: timedRules{waits: true}, Want: unused},
		{Name: "who waits does not poll", World: haltedOne, Off: timedRules{noPolls: true}, Want: unused},
		{Name: "a reader that was passed over stays ahead in the lane", World: besideTwo, Off: timedRules{staysAhead: true}, Want: unused},
		{Name: "who becomes near is not told", World: writer, Off: timedRules{quietNear: true}, Want: unused},
	}, timedExploration)
}
