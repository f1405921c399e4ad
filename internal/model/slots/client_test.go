package slots

import (
	"fmt"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// successors calls next for each step from a state.
func (w *world) successors(s *state, next func(string, state)) {
	if w.patient && !s.frozen {
		n := *s
		n.frozen = true
		next("no holder releases any more", n)
	}
	for c := range w.clients {
		switch s.clients[c].phase {
		case idle:
			w.begin(s, c, next)
		case waiting:
			w.win(s, c, next)
			if w.patient {
				w.decide(s, c, next)
			} else {
				w.aimAnywhere(s, c, next)
			}
		case holding:
			w.tidy(s, c, next)
		}
		w.end(s, c, next)
		w.forget(s, c, next)
	}
	for i := range s.masters {
		if w.alive(i) {
			w.hear(s, i, next)
			w.carryOut(s, i, next)
			w.expire(s, i, next)
		}
	}
}

// tell sends a command to all masters that live. It reports false if there is no room.
func (w *world) tell(s *state, c int, k command) bool {
	for i := range s.masters {
		if w.alive(i) && !explore.Push(s.masters[i].lanes[c].commands[:], k) {
			return false
		}
	}
	return true
}

func (w *world) begin(s *state, c int, next func(string, state)) {
	cl := s.clients[c]
	if cl.turns == w.turns || w.patient && s.releasing(c) {
		return
	}
	n := *s
	n.clients[c] = client{phase: waiting, turns: cl.turns + 1}
	if w.tell(&n, c, register) {
		next(fmt.Sprintf("%c registers", 'A'+c), n)
	}
}

// win has a client win a slot for which it has a quorum of votes. It leaves other slots.
func (w *world) win(s *state, c int, next func(string, state)) {
	cl := s.clients[c]
	for x := range nSlots {
		votes := s.votes(c, x)
		if w.countsAnySlot {
			votes = s.voters(c)
		}
		if votes < quorum || !cl.heeds(x) && !w.countsOthers {
			continue
		}
		n := *s
		n.clients[c].phase, n.clients[c].slot, n.clients[c].aim = holding, uint8(x), uint8(x+1)
		sent := true
		for i := range n.masters {
			l := &n.masters[i].lanes[c]
			clean := l.votes == only(x)
			l.votes &= only(x)
			l.messages = 0
			if !clean && w.alive(i) && !w.noTidy && int(cl.aim) != x+1 {
				sent = sent && explore.Push(l.commands[:], aim+command(x))
			}
		}
		if sent {
			next(fmt.Sprintf("%c wins slot %d", 'A'+c, x), n)
		}
		if w.countsAnySlot {
			return
		}
	}
}

// aimAnywhere has a claim with votes aim at any slot at any moment.
func (w *world) aimAnywhere(s *state, c int, next func(string, state)) {
	if s.clients[c].aim != 0 || s.aims == 0 || s.voters(c) == 0 {
		return
	}
	for x := range nSlots {
		n := *s
		n.aims--
		if w.aim(&n, c, x) {
			next(fmt.Sprintf("%c aims at %d", 'A'+c, x), n)
		}
	}
}

func (w *world) aim(n *state, c, x int) bool {
	n.clients[c].aim = uint8(x + 1)
	for i := range n.masters {
		if l := &n.masters[i].lanes[c]; !w.keepsCounted {
			l.votes &= only(x)
		}
	}
	return w.tell(n, c, aim+command(x))
}

// decide is what a claim does a round trip after its votes came, without a quorum.
func (w *world) decide(s *state, c int, next func(string, state)) {
	if s.busy(c) {
		return
	}
	for i := range s.masters {
		if s.masters[i].lanes[c].messages != 0 {
			return
		}
	}
	for x := range nSlots {
		if s.votes(c, x) >= quorum {
			return
		}
	}
	n := *s
	switch at, beaten := w.judge(s, c); {
	case beaten && !w.noYield:
		if w.give(&n, c) && w.tell(&n, c, register) {
			next(fmt.Sprintf("%c registers anew", 'A'+c), n)
		}
	case at >= 0 && !w.noAim:
		if w.aim(&n, c, at) {
			next(fmt.Sprintf("%c aims at %d", 'A'+c, at), n)
		}
	}
}

// judge returns the slot at which a claim without a quorum aims, or -1, and whether it is beaten, knowing what all masters
// that live have. In a slot, the token with the most keys is the best, of several the least.
func (w *world) judge(s *state, c int) (at int, beaten bool) {
	var keys [nSlots][nClients]int
	for i := range s.masters {
		for x, o := range s.masters[i].owner {
			if d, ok := o.client(); ok && w.alive(i) {
				keys[x][d]++
			}
		}
	}
	best := func(x int) bool {
		for d, n := range keys[x] {
			if n > keys[x][c] || n == keys[x][c] && n > 0 && d < c {
				return false
			}
		}
		return true
	}
	if aimed := s.clients[c].aim; aimed != 0 {
		return -1, !best(int(aimed) - 1)
	}
	at, most, stands := -1, 0, false
	for x := range nSlots {
		n := keys[x][c]
		stands = stands || n > 0
		if n > most && best(x) {
			at, most = x, n
		}
	}
	return at, stands && at < 0
}

// tidy is a renewal of a holder: it leaves other slots, and stands in its own.
func (w *world) tidy(s *state, c int, next func(string, state)) {
	if !w.patient || w.noTidy || s.busy(c) {
		return
	}
	for i := range s.masters {
		if !w.alive(i) {
			continue
		}
		n := *s
		w.aimAt(&n, &n.masters[i], present(c), int(s.clients[c].slot))
		if n != *s {
			next(fmt.Sprintf("%c renews at %d", 'A'+c, i), n)
		}
	}
}

// end has a holder release its permit, or a claim be given up.
func (w *world) end(s *state, c int, next func(string, state)) {
	cl := s.clients[c]
	ends := cl.phase == waiting && !w.patient || cl.phase == holding && !s.frozen && s.releases > 0
	if !ends || s.releasing(c) {
		return
	}
	n := *s
	if cl.phase == holding {
		n.releases--
	}
	n.clients[c] = client{phase: idle, turns: cl.turns}
	if w.give(&n, c) {
		next(fmt.Sprintf("%c ends", 'A'+c), n)
	}
}

// give gives the claim of a client up: its token is an earlier one from now on, and releases are sent.
func (w *world) give(s *state, c int) bool {
	for i := range s.masters {
		m := &s.masters[i]
		m.lanes[c].messages, m.lanes[c].votes = 0, 0
		m.aimed &^= 1 << c
		if w.tokenTwice {
			continue
		}
		for x := range nSlots {
			m.owner[x] = outdated(m.owner[x], c)
			m.wish[x] = outdated(m.wish[x], c)
		}
		for q := range m.queue {
			m.queue[q] = outdated(m.queue[q], c)
		}
	}
	s.clients[c].aim = 0
	return w.tell(s, c, release)
}

func outdated(o token, c int) token {
	if o == present(c) {
		return earlier(c)
	}
	return o
}

// forget has a vote of a client end. A holder without a quorum of votes has lost its permit.
func (w *world) forget(s *state, c int, next func(string, state)) {
	if w.patient || s.faults == 0 {
		return
	}
	for i := range s.masters {
		for x := range nSlots {
			if !s.masters[i].lanes[c].votes.has(x) {
				continue
			}
			n := *s
			n.masters[i].lanes[c].votes &^= only(x)
			n.faults--
			if cl := s.clients[c]; cl.phase == holding && n.votes(c, x) < quorum {
				n.clients[c] = client{phase: idle, turns: cl.turns}
				if s.releasing(c) || !w.give(&n, c) {
					continue
				}
			}
			next(fmt.Sprintf("the vote of %d for %c in slot %d ends", i, 'A'+c, x), n)
		}
	}
}

// carryOut has a master execute a command, or lose it.
func (w *world) carryOut(s *state, i int, next func(string, state)) {
	for c := range w.clients {
		l := &s.masters[i].lanes[c]
		if !l.busy() {
			continue
		}
		k := l.commands[0]
		picks := []int{-1}
		if k == register && (w.anySlot || w.overwrites) {
			picks = []int{0, 1}
		}
		for _, pick := range picks {
			n := *s
			explore.Drop(n.masters[i].lanes[c].commands[:], 0)
			w.execute(&n, i, c, k, k != release && l.releasing() && !w.tokenTwice, pick)
			next(fmt.Sprintf("%d executes command %d of %c", i, k, 'A'+c), n)
		}
		if k != release && !w.patient && s.faults > 0 {
			n := *s
			n.faults--
			explore.Drop(n.masters[i].lanes[c].commands[:], 0)
			next(fmt.Sprintf("%d loses command %d of %c", i, k, 'A'+c), n)
		}
	}
}

// hear has a claim take an answer or a message of a master, or poll it.
func (w *world) hear(s *state, i int, next func(string, state)) {
	for c := range w.clients {
		if s.clients[c].phase != waiting {
			continue
		}
		l := &s.masters[i].lanes[c]
		for x := range nSlots {
			if !l.messages.has(x) {
				continue
			}
			n := *s
			n.masters[i].lanes[c].messages &^= only(x)
			if s.clients[c].heeds(x) || w.countsOthers {
				n.masters[i].lanes[c].votes |= only(x)
			}
			next(fmt.Sprintf("%c hears of slot %d at %d", 'A'+c, x, i), n)
		}
		if w.quiet || l.busy() && w.patient {
			continue
		}
		n := *s
		w.poll(&n, &n.masters[i], c)
		if n != *s {
			next(fmt.Sprintf("%c polls %d", 'A'+c, i), n)
		}
	}
}

// expire has a slot expire whose token's client does not count the vote.
func (w *world) expire(s *state, i int, next func(string, state)) {
	if w.patient || s.faults == 0 {
		return
	}
	for x, o := range s.masters[i].owner {
		if o == nobody {
			continue
		}
		c, ok := o.client()
		if ok && s.masters[i].lanes[c].votes.has(x) {
			continue
		}
		n := *s
		n.faults--
		n.masters[i].owner[x] = nobody
		if ok {
			n.masters[i].lanes[c].messages &^= only(x)
		}
		next(fmt.Sprintf("slot %d expires at %d", x, i), n)
	}
}
