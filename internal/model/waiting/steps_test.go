package waiting

import (
	"fmt"
	"slices"
)

// successors calls next for each state that may follow s, with a description of the step.
func (w *world) successors(s *state, next func(string, state)) {
	for c := range w.clients {
		if !s.clients[c].died {
			w.clientSteps(s, c, next)
		} else if !s.clients[c].missing {
			n := *s
			n.clients[c].missing = true
			next(name(c)+"'s subscriptions end", n)
		}
	}
	for i := range w.masters {
		w.masterSteps(s, i, next)
	}
}

func name(c int) string { return string(rune('A' + c)) }

// sendAll queues commands to every master, and reports whether there was room.
func (w *world) sendAll(s *state, c int, commands ...command) bool {
	for i := range w.masters {
		l := &s.masters[i].lanes[c]
		for _, k := range commands {
			if !w.send(l, k) {
				return false
			}
			if k.sets() {
				l.vote = none
			}
		}
	}
	return true
}

func (w *world) clientSteps(s *state, c int, next func(string, state)) {
	cl := s.clients[c]
	switch cl.phase {
	case idle:
		w.arrive(s, c, false, "locks", next)
		if w.tries {
			w.arrive(s, c, true, "tries to lock", next)
		}
	case trying, setting, asking:
		w.decide(s, c, next)
	case asleep:
		if cl.woken {
			n := *s
			n.clients[c].phase, n.clients[c].woken = setting, false
			if w.sendAll(&n, c, set) {
				next(name(c)+" wakes up and sends a SET", n)
			}
		}
		if !w.noPolls {
			n := *s
			n.clients[c].phase = asking
			if w.sendAll(&n, c, acquire) {
				next(name(c)+" has slept long enough and asks again", n)
			}
		}
	case holding:
		w.unlock(s, c, next)
	}
	if w.leaves && cl.phase.waits() && (!w.careful || !w.mayStand(s, c)) {
		w.leave(s, c, next)
	}
	if cl.polite && !cl.woke && w.answered(s, c) {
		n := *s
		n.clients[c].polite = false
		next(name(c)+" learns that its release has woken nobody", n)
	}
	w.hear(s, c, next)
	if s.crashes > 0 && cl.phase != idle {
		w.crash(s, c, next)
	}
}

// mayStand reports whether the client has a key at some master, or may still get one.
func (w *world) mayStand(s *state, c int) bool {
	for i := range w.masters {
		if m := &s.masters[i]; m.owner == ownerOf(c) || m.lanes[c].pending() {
			return true
		}
	}
	return false
}

// answered reports whether a quorum of masters has executed the client's releases.
func (w *world) answered(s *state, c int) bool {
	n := 0
	for i := range w.masters {
		if !slices.Contains(s.masters[i].lanes[c].commands[:], release) {
			n++
		}
	}
	return n >= w.majority()
}

// arrive calls TryLock if once, and Lock otherwise.
func (w *world) arrive(s *state, c int, once bool, words string, next func(string, state)) {
	if s.calls == 0 {
		return
	}
	n := *s
	n.calls--
	n.clients[c].local = w.busy && c == 0
	if w.sendAll(&n, c, n.clients[c].first(once)) {
		next(name(c)+" "+words, n)
	}
}

// first begins an attempt as partings.first does, and returns its command.
func (cl *client) first(once bool) command {
	switch {
	case once && cl.polite:
		cl.phase = trying
		return behindOnce
	case once:
		cl.phase = trying
	case cl.polite:
		cl.phase, cl.queues = asking, true
		return behind
	default:
		cl.phase = setting
	}
	return set
}

// decide counts the votes of an attempt.
func (w *world) decide(s *state, c int, next func(string, state)) {
	yes, no := 0, 0
	for i := range w.masters {
		switch s.masters[i].lanes[c].vote {
		case granted:
			yes++
		case refused:
			no++
		}
	}
	n := *s
	cl := &n.clients[c]
	if yes >= w.majority() {
		cl.end()
		cl.phase = holding
		next(name(c)+" has a quorum and HOLDS the lock", n)
		return
	}
	if no <= w.masters-w.majority() {
		return // not decided yet
	}
	commands := []command{undo}
	if w.undoForgets {
		commands = nil
	}
	words := name(c) + " is refused"
	switch cl.phase {
	case trying:
		cl.end()
		words += " and gives up"
	case setting:
		cl.phase = asking
		if !w.lateSleeper {
			cl.queues = true
		}
		commands = append(commands, acquire)
		words += " and joins the queues"
	case asking:
		cl.phase, cl.queues = asleep, true
		words += " and sleeps"
	}
	if w.sendAll(&n, c, commands...) {
		next(words, n)
	}
}

// unlock hands the lease over or releases it. The client's next goroutine then competes like a new one.
func (w *world) unlock(s *state, c int, next func(string, state)) {
	n := *s
	cl := &n.clients[c]
	if cl.local && (cl.handed < handoversMost || w.endlessHands) {
		cl.local = w.busy && c == 0
		cl.handed = min(cl.handed+1, handoversMost)
		next(name(c)+" hands the lock over inside", n)
		return
	}
	commands, words := []command{release}, name(c)+" releases the lock"
	again := cl.local
	*cl = client{polite: true}
	if again {
		cl.local = w.busy && c == 0
		commands, words = append(commands, cl.first(false)), words+", and its next goroutine locks"
	}
	if w.sendAll(&n, c, commands...) {
		next(words, n)
	}
}

// leave makes a client stop waiting.
func (w *world) leave(s *state, c int, next func(string, state)) {
	n := *s
	cl := &n.clients[c]
	var commands []command
	if cl.phase != asleep {
		commands = append(commands, undo) // undoes the attempt
	}
	if cl.queues {
		commands = append(commands, quit)
	}
	cl.end()
	if cl.local { // the gate lets the next goroutine in
		cl.local = w.busy && c == 0
		commands = append(commands, cl.first(false))
	}
	if w.sendAll(&n, c, commands...) {
		next(name(c)+" stops waiting", n)
	}
}

// hear receives a message: see Client.woken.
func (w *world) hear(s *state, c int, next func(string, state)) {
	for i := range w.masters {
		if !s.masters[i].lanes[c].message {
			continue
		}
		n := *s
		cl := &n.clients[c]
		n.masters[i].lanes[c].message = false
		words := fmt.Sprintf("master %d's message reaches %s", i+1, name(c))
		switch {
		case cl.queues:
			cl.woken = true
		case cl.phase == idle && !w.swallowsAtHome:
			if !w.send(&n.masters[i].lanes[c], wake) {
				continue
			}
			words += ", who passes it on"
		}
		next(words, n)
		if w.loses {
			n := *s
			n.masters[i].lanes[c].message = false
			next(fmt.Sprintf("master %d's message to %s is lost", i+1, name(c)), n)
		}
	}
}

// crash ends a client. Its keys stay until they expire. Its subscriptions end some time later.
func (w *world) crash(s *state, c int, next func(string, state)) {
	n := *s
	n.crashes--
	n.clients[c] = client{died: true}
	for i := range w.masters {
		m := &n.masters[i]
		m.lanes[c] = lane{}
		m.passed(ownerOf(c))
		if m.owner == ownerOf(c) {
			m.owner = dead
		}
	}
	next(name(c)+" DIES", n)
}
