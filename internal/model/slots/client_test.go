package slots

import (
	"fmt"
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// A way has the steps from a state.
type way struct {
	*world
	explore.Way[state]
}

func (w *world) successors(s *state, next func(string, state)) {
	y := &way{w, explore.Way[state]{S: s, Next: next}}
	if w.patient && !s.frozen {
		y.Do("no holder releases any more", func(n *state) { n.frozen = true })
	}
	for c := range w.clients {
		y.client(c, string(rune('A'+c)))
	}
	for i := range s.masters {
		if w.alive(i) {
			y.hear(i)
			y.carryOut(i)
			y.expire(i)
		}
	}
}

func (w *way) client(c int, name string) {
	switch w.S.clients[c].phase {
	case idle:
		w.begin(c, name)
	case waiting:
		w.win(c, name)
		if w.patient {
			w.decide(c, name)
		} else {
			w.aimAnywhere(c, name)
		}
	case holding:
		w.tidy(c, name)
	}
	w.end(c, name)
	w.forget(c)
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

func (w *way) begin(c int, name string) {
	cl := w.S.clients[c]
	if cl.turns == w.turns || w.patient && w.S.releasing(c) {
		return
	}
	w.Try(name+" registers", func(n *state) bool {
		n.clients[c] = client{phase: waiting, turns: cl.turns + 1}
		return w.tell(n, c, register)
	})
}

// win has a client win a slot for which it has a quorum of votes. It leaves other slots.
func (w *way) win(c int, name string) {
	s, cl := w.S, w.S.clients[c]
	for x := range nSlots {
		votes := s.votes(c, x)
		if w.countsAnySlot {
			votes = s.voters(c)
		}
		if votes < quorum || !cl.heeds(x) && !w.countsOthers {
			continue
		}
		w.Try(fmt.Sprintf("%s wins slot %d", name, x), func(n *state) bool {
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
			return sent
		})
		if w.countsAnySlot {
			return
		}
	}
}

// aimAnywhere has a claim with votes aim at any slot at any moment.
func (w *way) aimAnywhere(c int, name string) {
	if w.S.clients[c].aim != 0 || w.S.aims == 0 || w.S.voters(c) == 0 {
		return
	}
	for x := range nSlots {
		w.Try(fmt.Sprintf("%s aims at %d", name, x), func(n *state) bool { n.aims--; return w.aim(n, c, x) })
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
func (w *way) decide(c int, name string) {
	s := w.S
	if s.busy(c) || slices.ContainsFunc(s.masters[:], func(m master) bool { return m.lanes[c].messages != 0 }) {
		return
	}
	for x := range nSlots {
		if s.votes(c, x) >= quorum {
			return
		}
	}
	switch at, beaten := w.judge(s, c); {
	case beaten && !w.noYield:
		w.Try(name+" registers anew", func(n *state) bool { return w.give(n, c) && w.tell(n, c, register) })
	case at >= 0 && !w.noAim:
		w.Try(fmt.Sprintf("%s aims at %d", name, at), func(n *state) bool { return w.aim(n, c, at) })
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
func (w *way) tidy(c int, name string) {
	if !w.patient || w.noTidy || w.S.busy(c) {
		return
	}
	for i := range w.S.masters {
		if w.alive(i) {
			w.Try(fmt.Sprintf("%s renews at %d", name, i), func(n *state) bool {
				w.aimAt(n, &n.masters[i], present(c), int(n.clients[c].slot))
				return *n != *w.S
			})
		}
	}
}

// end has a holder release its permit, or a claim be given up.
func (w *way) end(c int, name string) {
	s, cl := w.S, w.S.clients[c]
	ends := cl.phase == waiting && !w.patient || cl.phase == holding && !s.frozen && s.releases > 0
	if !ends || s.releasing(c) {
		return
	}
	w.Try(name+" ends", func(n *state) bool {
		if cl.phase == holding {
			n.releases--
		}
		n.clients[c] = client{phase: idle, turns: cl.turns}
		return w.give(n, c)
	})
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
func (w *way) forget(c int) {
	if w.patient || w.S.faults == 0 {
		return
	}
	for i := range w.S.masters {
		for x := range nSlots {
			if !w.S.masters[i].lanes[c].votes.has(x) {
				continue
			}
			w.Try(fmt.Sprintf("the vote of %d for %c in slot %d ends", i, 'A'+c, x), func(n *state) bool {
				n.masters[i].lanes[c].votes &^= only(x)
				n.faults--
				if cl := w.S.clients[c]; cl.phase == holding && n.votes(c, x) < quorum {
					n.clients[c] = client{phase: idle, turns: cl.turns}
					return !w.S.releasing(c) && w.give(n, c)
				}
				return true
			})
		}
	}
}

// carryOut has a master execute a command, or lose it.
func (w *way) carryOut(i int) {
	for c := range w.clients {
		l := &w.S.masters[i].lanes[c]
		if !l.busy() {
			continue
		}
		k := l.commands[0]
		picks := []int{-1}
		if k == register && (w.anySlot || w.overwrites) {
			picks = []int{0, 1}
		}
		for _, pick := range picks {
			w.Do(fmt.Sprintf("%d executes command %d of %c", i, k, 'A'+c), func(n *state) {
				explore.Drop(n.masters[i].lanes[c].commands[:], 0)
				w.execute(n, i, c, k, k != release && l.releasing() && !w.tokenTwice, pick)
			})
		}
		if k != release && !w.patient && w.S.faults > 0 {
			w.Do(fmt.Sprintf("%d loses command %d of %c", i, k, 'A'+c), func(n *state) {
				n.faults--
				explore.Drop(n.masters[i].lanes[c].commands[:], 0)
			})
		}
	}
}

// hear has a claim take an answer or a message of a master, or poll it.
func (w *way) hear(i int) {
	for c := range w.clients {
		if w.S.clients[c].phase != waiting {
			continue
		}
		l := &w.S.masters[i].lanes[c]
		for x := range nSlots {
			if l.messages.has(x) {
				w.Do(fmt.Sprintf("%c hears of slot %d at %d", 'A'+c, x, i), func(n *state) {
					n.masters[i].lanes[c].messages &^= only(x)
					if n.clients[c].heeds(x) || w.countsOthers {
						n.masters[i].lanes[c].votes |= only(x)
					}
				})
			}
		}
		if !w.quiet && !(l.busy() && w.patient) {
			w.Try(fmt.Sprintf("%c polls %d", 'A'+c, i), func(n *state) bool {
				w.poll(n, &n.masters[i], c)
				return *n != *w.S
			})
		}
	}
}

// expire has a slot expire whose token's client does not count the vote.
func (w *way) expire(i int) {
	if w.patient || w.S.faults == 0 {
		return
	}
	for x, o := range w.S.masters[i].owner {
		c, ok := o.client()
		if o == nobody || ok && w.S.masters[i].lanes[c].votes.has(x) {
			continue
		}
		w.Do(fmt.Sprintf("slot %d expires at %d", x, i), func(n *state) {
			n.faults--
			n.masters[i].owner[x] = nobody
			if ok {
				n.masters[i].lanes[c].messages &^= only(x)
			}
		})
	}
}
