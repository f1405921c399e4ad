package crowd

import (
	"fmt"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// rules are what a world leaves out of the protocol.
type rules struct {
	quietGrant   bool // "a grant tells the client that becomes near"
	quietLeaving bool // "a claim that leaves tells it, too"
	quietWin     bool // "a poll that gets the lock tells it, too"
	quietRemoval bool // "whoever finds that a client has ended, and removes it, tells it, too"
	lastAnswer   bool // "an answer to a command that was sent before the last such message does not change the place"
	farSleep     bool // "far clients poll, too"
	ignoresLate  bool // "a grant whose mark is old makes a poll"
	waitsForFar  bool // "a poll that finds the key free passes over clients that have not polled lately"
	trustsFar    bool // "so does a release that has found a silent client"
	staysAhead   bool // "who was passed over is behind all others until its next poll"
	farSilent    bool // "a far client is not silent before its next poll is overdue"
	deafToUp     bool // "a master that comes up makes all claims poll"
	lateFirst    bool // "a client that expects its turn soon, and so is not told at once, polls sooner"
}

// A world is the protocol with the misfortunes that may happen in it.
type world struct {
	rules
	stops, deaths, losses, restarts uint8
	leaves                          bool // claims may be given up
	limit                           int  // how many may hold at a time; 0: one, the holder of a lock
	fast                            bool // clients expect their turns soon: a grant does not tell those that have joined in the same tick or the one before
	silent, unheard                 int  // so many stopped clients are ahead in the queue at the beginning, if any
	found                           bool // they were passed over before
}

// initial returns the state before the first step. If stopped clients are ahead, one client has the lock, and one is behind
// them.
func (w *world) initial() (s state) {
	s.limit = max(w.limit, 1)
	s.stops, s.deaths, s.losses, s.restarts = w.stops, w.deaths, w.losses, w.restarts
	if s.limit == 1 {
		s.clients[clients-1].phase = dead
	}
	n := w.silent + w.unheard
	if n == 0 {
		return s
	}
	for c := range n {
		s.clients[c] = client{phase: stopped, queued: true, heard: patience + 1}
		if c >= w.silent {
			s.clients[c].allows = masters * farMost
		}
		s.clients[c].aside = w.found && !w.staysAhead
	}
	s.clients[n] = client{phase: waiting, queued: true, polled: true, timer: 1}
	if ahead := s.ahead(n); ahead >= near {
		s.clients[n].far, s.clients[n].timer, s.clients[n].allows = true, period(ahead), masters*farMost
	}
	for c := range s.limit {
		s.clients[n+1+c] = client{phase: holding, owns: true}
	}
	return s
}

// successors calls next for each step from s.
func (w *world) successors(s *state, next func(string, state)) {
	busy := false // something arrives before the next tick
	do := func(c int, what string, f func(n *state)) {
		n := *s
		f(&n)
		n.settle()
		next(fmt.Sprintf("%c %s", 'A'+c, what), n)
	}
	for c := range s.clients {
		cl := &s.clients[c]
		switch cl.phase {
		case out:
			do(c, "registers", func(n *state) { w.register(n, c) })
		case waiting:
			busy = busy || cl.answer > 0 || cl.nears || cl.granted || cl.timer == 0
			w.waits(s, c, do)
		case holding:
			do(c, "releases", func(n *state) { n.clients[c] = client{}; w.pass(n, -1) })
			if s.deaths > 0 {
				do(c, "dies with the lock", func(n *state) { n.deaths--; n.clients[c].phase = dead })
			}
		}
		if cl.owns && cl.phase != holding && cl.life == 0 {
			do(c, "'s key expires", func(n *state) { n.clients[c].owns = false })
		}
	}
	if s.restarts > 0 {
		w.restart(s, next)
	}
	if !busy {
		w.tick(s, next)
	}
}

// waits lets a client do what one that waits may do.
func (w *world) waits(s *state, c int, do func(int, string, func(*state))) {
	cl := &s.clients[c]
	if cl.timer == 0 && cl.answer == 0 {
		do(c, "polls", func(n *state) { w.poll(n, c) })
	}
	if cl.answer > 0 {
		do(c, "gets its answer", func(n *state) { w.answered(&n.clients[c]) })
	}
	if cl.nears {
		do(c, "is told that it is near", func(n *state) {
			cl := &n.clients[c]
			cl.nears, cl.far, cl.told, cl.timer = false, false, cl.answer > 0, min(cl.timer, 1)
		})
	}
	if cl.granted {
		do(c, "hears of its grant", func(n *state) {
			cl := &n.clients[c]
			cl.granted = false
			switch {
			case !cl.owns: // it is over
			case !cl.far:
				n.hold(c)
			case !w.ignoresLate:
				w.poll(n, c)
			}
		})
	}
	if s.losses > 0 && cl.nears {
		do(c, "is not told that it is near", func(n *state) { n.losses--; n.clients[c].nears = false })
	}
	if s.losses > 0 && cl.granted {
		do(c, "does not hear of its grant", func(n *state) { n.losses--; n.clients[c].granted = false })
	}
	if s.stops > 0 {
		do(c, "is stopped", func(n *state) { n.stops--; n.clients[c].quiet(stopped) })
	}
	if s.deaths > 0 {
		do(c, "dies", func(n *state) { n.deaths--; n.clients[c].quiet(dead) })
	}
	if w.leaves {
		do(c, "gives up", func(n *state) { w.giveUp(n, c) })
	}
}

// settle forgets what has no effect any more.
func (s *state) settle() {
	waits, served := false, 0
	for c := range s.clients {
		cl := &s.clients[c]
		waits = waits || cl.phase == waiting
		if cl.phase == holding || cl.owns && cl.phase == dead {
			served++
		}
		if cl.answer == 0 {
			cl.told = false
		}
		if cl.phase == dead && !cl.queued && !cl.owns {
			*cl = client{phase: dead}
		}
	}
	if !waits || served >= s.limit {
		s.idle = 0
	}
}

// tick lets time pass. Before that, all that was under way has arrived, and all polls that were due were made.
func (w *world) tick(s *state, next func(string, state)) {
	n := *s
	for c := range n.clients {
		cl := &n.clients[c]
		if cl.phase == waiting && cl.timer != never {
			cl.timer--
		}
		if cl.life > 0 {
			cl.life--
			cl.owns = cl.life > 0
		}
		if cl.queued {
			cl.heard = min(cl.heard+1, patience+masters*farMost+1)
		}
	}
	n.idle = min(n.idle+1, idleMost)
	n.settle()
	next("time passes", n)
}

// restart removes the queue of the master while somebody has the lock at the others. The clients learn that the master is
// up again.
func (w *world) restart(s *state, next func(string, state)) {
	if !s.held() {
		return
	}
	n := *s
	n.restarts--
	for c := range n.clients {
		n.leave(c)
		n.clients[c].answer = 0 // it is lost with the connection
		if cl := &n.clients[c]; cl.phase == waiting && !w.deafToUp {
			up := uint8(1)
			if cl.far {
				up = first
			}
			cl.timer = min(cl.timer, up)
		}
	}
	n.settle()
	next("the master loses its queue", n)
}

// register makes a claim.
func (w *world) register(s *state, c int) {
	if s.open() {
		s.hold(c)
		return
	}
	s.clients[c] = client{phase: waiting, timer: 1}
	w.join(s, c, first) // the master does not know who polls sooner
}

// join puts a client at the end of the queue, and answers.
func (w *world) join(s *state, c int, allows uint8) {
	at := explore.Join(s.clients[:], c, client.waits) // the names of the clients do not matter
	cl := &s.clients[at]
	cl.queued, cl.heard, cl.allows = true, 0, allows
	if w.farSilent {
		cl.allows = 0
	}
	cl.told = false
	cl.answer = 1 + uint8(s.ahead(at))
}

// poll repeats the registration. A far client of a lock polls one master at a time, once it has polled all of them. If that is another
// master, this one does not hear of it. If the lock is free there, it is here, and the client polls all.
func (w *world) poll(s *state, c int) {
	cl := &s.clients[c]
	allows := uint8(0)
	if cl.far {
		allows = masters * farMost
	}
	if one := s.limit == 1 && cl.far && cl.polled && cl.queued; one && !cl.owns && !s.free() {
		if cl.others = !cl.others; cl.others {
			cl.timer = period(s.ahead(c))
			return
		}
	}
	cl.polled, cl.others = true, false
	switch {
	case cl.owns:
		s.hold(c)
		return
	case !cl.queued && (len(s.order()) == 0 || s.limit > 1) && s.open():
		s.hold(c)
		return
	case !cl.queued:
		cl.timer = 1
		w.join(s, c, allows)
		return
	}
	cl.heard, cl.allows = 0, allows
	if w.farSilent {
		cl.allows = 0
	}
	cl.aside = false
	w.pass(s, c)
	if cl.phase == waiting {
		cl.told, cl.timer, cl.answer = false, 1, 0
		if cl.queued {
			cl.answer = 1 + uint8(s.ahead(c))
		}
	}
}

// answered takes in the answer to a registration or a poll.
func (w *world) answered(cl *client) {
	ahead := int(cl.answer) - 1
	cl.answer = 0
	if cl.told && !w.lastAnswer {
		cl.timer = 1
		return
	}
	cl.far, cl.timer = ahead >= near, 1
	switch {
	case !cl.far:
	case w.farSleep:
		cl.timer = never
	case !cl.polled && w.fast && !w.lateFirst:
		cl.timer = soon
	case !cl.polled:
		cl.timer = first
	default:
		cl.timer = period(ahead)
	}
}

// giveUp ends a claim. Its release leaves the queue, and passes on what was granted.
func (w *world) giveUp(s *state, c int) {
	at := s.ahead(c)
	s.clients[c] = client{}
	if at >= 0 && at < near && !w.quietLeaving {
		s.tell(1)
	}
	w.pass(s, -1)
}

// tell tells the clients that have become near, since so many have left the queue ahead of them.
func (s *state) tell(left int) {
	for at, c := range s.order() {
		if at >= near-left && at < near {
			s.tellOne(c)
		}
	}
}

func (s *state) tellOne(c int) {
	if cl := &s.clients[c]; cl.phase == waiting {
		cl.nears = true
	}
}

// pass passes on what is free, for a release, or for the poll of a client.
func (w *world) pass(s *state, poller int) {
	suspect := poller >= 0 && !w.waitsForFar
	for s.free() && w.passOne(s, poller, &suspect) {
	}
}

// passOne passes a free key or slot on, and reports whether it did. Clients that are gone are removed. A client that
// has not polled lately may be far and need not have, or be stopped. It is granted the lock by a release, as long as no
// other one was found silent. Otherwise the first client that has polled lately is granted it. Those that were passed over
// are told, and set behind all others until they poll.
func (w *world) passOne(s *state, poller int, suspect *bool) bool {
	var over []int
	chosen, left := -1, 0
	for _, c := range s.order() {
		l := s.clients[c].is()
		if l == gone {
			if aside := s.clients[c].aside; !aside {
				left++
			}
			s.leave(c)
			continue
		}
		if l == live || l == unheard && (!*suspect || w.trustsFar && poller < 0) {
			chosen = c
			break
		}
		over = append(over, c)
		*suspect = *suspect || l == silent
	}
	if w.quietRemoval {
		left = 0
	}
	if chosen < 0 {
		s.tell(left)
		for _, c := range over {
			s.tellOne(c)
		}
		return false
	}
	for _, c := range over {
		if !s.clients[c].aside && !w.staysAhead {
			s.clients[c].aside = true
			left++
		}
		s.tellOne(c)
	}
	s.leave(chosen)
	if chosen == poller {
		s.hold(chosen)
		if !w.quietWin {
			left++
		}
		s.tell(left)
		return true
	}
	if n := s.order(); len(n) >= near && left == 0 && w.fast && s.clients[n[near-1]].fresh() {
		left--
	}
	if !w.quietGrant {
		left++
	}
	s.tell(left)
	cl := &s.clients[chosen]
	cl.owns, cl.granted, cl.life = true, cl.phase == waiting, g
	return true
}
