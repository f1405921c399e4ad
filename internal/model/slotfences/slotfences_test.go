package slotfences

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

const (
	nMasters = 3
	nSlots   = 2
	nClients = 2
	quorum   = 2
)

// rules are the rules of the protocol; true: the rule is switched off.
type rules struct {
	needsNoToken  bool // a master acknowledges a fence only while the token stands in the slot
	inAnySlot     bool // it does so only for this slot
	notAbove      bool // the first round raises the number above the last one
	lowest        bool // the fence is not lower than the numbers of a quorum
	notAwaited    bool // the permit is held only when a quorum has acknowledged the fence
	one           bool // one acknowledgement is not enough
	countsExpired bool // an acknowledgement ends before its slot does
	firstExpired  bool // the slots of the first round's quorum have not expired when the permit is held
	forgets       bool // the clock of a master that has lost its memory has passed all fences
}

type world struct {
	rules
	turns    uint8 // claims of each client
	faults   uint8 // losses and expiries
	forgets1 uint8 // masters that lose their memory
	slots    int
}

// A token is that of a client's present claim, or of one that has ended.
type token uint8

const nobody token = 0

func present(c int) token { return token(c + 1) }
func ended(c int) token   { return token(c + 1 + nClients) }

type master struct {
	owner   [nSlots]token
	number  uint8
	out     uint8 // the clients, as bits, whose claims must end before it votes again
	command [nClients]command
	acked   [nClients]uint8 // the number that it has acknowledged to the present claim; 0: none that counts
	first   [nClients]bool  // its number in the first round counts for the fence, and the slot has not expired since
}

type command uint8

const (
	nothing command = iota
	fence
	commit
)

type phase uint8

const (
	idle phase = iota
	waiting
	asking     // for a fence
	committing // it
	holding
)

type client struct {
	phase    phase
	slot     uint8
	proposal uint8
	fence    uint8
	turns    uint8
}

type state struct {
	masters [nMasters]master
	clients [nClients]client
	last    [nSlots]uint8 // the greatest fence of the holders so far
	faults  uint8
	losses  uint8
	bad     string
}

// A way has the steps from a state.
type way struct {
	*world
	explore.Way[state]
}

func (w *world) successors(s *state, next func(string, state)) {
	y := &way{w, explore.Way[state]{S: s, Next: next}}
	for c := range s.clients {
		y.client(c, string(rune('A'+c)))
	}
	for i := range s.masters {
		y.master(i)
	}
}

func (s *state) stands(i, c int, slot uint8) bool { return s.masters[i].owner[slot] == present(c) }

func (w *way) client(c int, name string) {
	cl := w.S.clients[c]
	if cl.phase == idle {
		if cl.turns < w.turns {
			w.Do(name+" registers", func(n *state) { n.clients[c] = client{phase: waiting, turns: cl.turns + 1} })
		}
		return
	}
	w.Do(name+" ends", func(n *state) { n.end(c) })
	switch cl.phase {
	case waiting:
		for slot := range uint8(w.slots) {
			if explore.Count(w.S.masters[:], func(m master) bool { return m.owner[slot] == present(c) && m.out == 0 }) < quorum {
				continue
			}
			for _, proposal := range []uint8{1, 4} {
				w.Do(fmt.Sprintf("%s wins slot %d and proposes %d", name, slot, proposal), func(n *state) {
					n.clients[c].phase, n.clients[c].slot, n.clients[c].proposal = asking, slot, proposal
					n.tell(c, fence)
				})
			}
		}
	case asking, committing:
		w.count(c)
	}
}

// end ends the claim or the permit of a client.
func (s *state) end(c int) {
	s.clients[c] = client{turns: s.clients[c].turns}
	for i := range s.masters {
		m := &s.masters[i]
		m.command[c], m.acked[c], m.first[c] = nothing, 0, false
		m.out &^= 1 << c
		for x, o := range m.owner {
			if o == present(c) {
				m.owner[x] = ended(c)
			}
		}
	}
}

func (s *state) tell(c int, k command) {
	for i := range s.masters {
		s.masters[i].command[c], s.masters[i].acked[c] = k, 0
	}
}

// count has a client count the acknowledgements of its current round.
func (w *way) count(c int) {
	s, cl := w.S, w.S.clients[c]
	var numbers []uint8
	for i := range s.masters {
		if a := s.masters[i].acked[c]; a != 0 {
			numbers = append(numbers, a)
		}
	}
	need := quorum
	if w.one {
		need = 1
	}
	if len(numbers) < need {
		return
	}
	slices.Sort(numbers)
	n := *s
	if cl.phase == asking {
		cl.fence = numbers[need-1]
		if w.lowest {
			cl.fence = numbers[0]
		}
		n.clients[c].fence = cl.fence
		for i := range n.masters {
			a := n.masters[i].acked[c]
			n.masters[i].first[c] = a != 0 && a <= cl.fence
		}
	}
	first := explore.Count(n.masters[:], func(m master) bool { return m.first[c] })
	if first < quorum && cl.phase == committing && !w.firstExpired {
		return // it is over
	}
	have := explore.Count(numbers, func(a uint8) bool { return a >= cl.fence })
	if have < need && !w.notAwaited {
		n.clients[c].phase = committing
		n.tell(c, commit)
		w.Next(fmt.Sprintf("%c commits %d", 'A'+c, cl.fence), n)
		return
	}
	n.clients[c].phase = holding
	if cl.fence <= n.last[cl.slot] {
		n.bad = falls
	}
	n.last[cl.slot] = cl.fence
	w.Next(fmt.Sprintf("%c holds slot %d with fence %d", 'A'+c, cl.slot, cl.fence), n)
}

func (w *way) master(i int) {
	s, m := w.S, &w.S.masters[i]
	for x, o := range m.owner[:w.slots] {
		for c, cl := range s.clients {
			if o == nobody && (cl.phase == waiting || cl.phase != idle && int(cl.slot) == x) {
				w.Do(fmt.Sprintf("%d gives slot %d to %c", i, x, 'A'+c), func(n *state) { n.masters[i].owner[x] = present(c) })
			}
		}
		if o > nClients {
			w.Do(fmt.Sprintf("%d hears that %c has ended", i, 'A'+int(o)-1-nClients), func(n *state) { n.masters[i].owner[x] = nobody })
		} else if c := int(o) - 1; o != nobody && s.faults > 0 {
			w.Do(fmt.Sprintf("slot %d of %c expires at %d", x, 'A'+c, i), func(n *state) {
				n.faults--
				n.masters[i].owner[x] = nobody
				if int(n.clients[c].slot) == x && !w.countsExpired {
					n.forget(i, c)
				}
			})
		}
	}
	for c, k := range m.command {
		if k == nothing {
			continue
		}
		words := fmt.Sprintf("%d executes command %d of %c", i, k, 'A'+c)
		w.Do(words, func(n *state) { w.execute(n, i, c) })
		if s.faults > 0 {
			w.Do(words+", and the answer is lost", func(n *state) {
				w.execute(n, i, c)
				n.faults--
				n.masters[i].acked[c] = 0
			})
		}
	}
	if m.out == 0 && s.losses > 0 {
		w.Do(fmt.Sprintf("%d loses its memory", i), func(n *state) { n.lose(i) })
	}
	if m.out == 1<<7 { // all claims of that time have ended
		w.Do(fmt.Sprintf("%d votes again", i), func(n *state) {
			l := &n.masters[i]
			l.out, l.number = 0, 0
			if !w.forgets {
				l.number = max(s.last[0], s.last[1])
			}
		})
	}
}

// lose has a master lose its memory.
func (s *state) lose(i int) {
	s.losses--
	m, before := &s.masters[i], s.clients
	m.owner, m.out = [nSlots]token{}, 1<<7
	for c, cl := range before {
		s.forget(i, c)
		if s.clients[c].phase != idle && cl.phase != idle {
			m.out |= 1 << c
		}
	}
}

// forget has an acknowledgement of a master end. A holder without a quorum of them has lost its permit.
func (s *state) forget(i, c int) {
	s.masters[i].acked[c], s.masters[i].first[c] = 0, false
	left := explore.Count(s.masters[:], func(m master) bool { return m.acked[c] >= s.clients[c].fence && m.acked[c] > 0 })
	if s.clients[c].phase == holding && left < quorum {
		s.end(c)
	}
}

func (w *world) execute(s *state, i, c int) {
	m, cl := &s.masters[i], s.clients[c]
	k := m.command[c]
	m.command[c] = nothing
	is := s.stands(i, c, cl.slot) || w.inAnySlot && s.stands(i, c, 1-cl.slot) || w.needsNoToken
	if !is || m.out != 0 {
		return
	}
	switch {
	case k == commit:
		m.number = max(m.number, cl.fence)
	case w.notAbove:
		m.number = max(m.number, cl.proposal)
	default:
		m.number = max(m.number+1, cl.proposal)
	}
	m.acked[c] = m.number
}

const (
	two   = "two hold a slot"
	falls = "a fence does not rise"
)

func (s *state) broken() string {
	holders := [nSlots]int{}
	for _, cl := range s.clients {
		if cl.phase == holding {
			if holders[cl.slot]++; holders[cl.slot] > 1 {
				return two
			}
		}
	}
	return s.bad
}

func (m master) code() (code explore.Code) {
	code[0] = uint64(m.owner[0])<<32 | uint64(m.owner[1])<<24 | uint64(m.number)<<16 | uint64(m.out)
	for c := range nClients {
		code[1] = code[1]<<16 | uint64(m.command[c])<<8 | uint64(m.acked[c])
		code[2] |= explore.Bit(m.first[c]) << c
	}
	return code
}

func canonical(s state) state {
	explore.SortBy(s.masters[:], master.code)
	return s
}

func (w world) explore(off rules) explore.Result {
	w.rules = off
	return explore.Model[state, string]{
		Initial:    state{faults: w.faults, losses: w.forgets1},
		Successors: w.successors,
		Canonical:  canonical,
		Check:      (*state).broken,
		Must: map[string]func(*state) bool{
			"a second round": func(s *state) bool {
				return explore.Count(s.clients[:], func(cl client) bool { return cl.phase == committing }) > 0
			},
		},
	}.Explore().Result()
}

var (
	oneSlot   = world{turns: 1, faults: 2, slots: 1}
	twoSlots  = world{turns: 1, slots: 2}
	forgetful = world{turns: 1, forgets1: 2, slots: 1}
)

func TestFencesRiseBySlot(t *testing.T) {
	explore.Check(t, []explore.Case[world, rules]{
		{Name: "one slot", World: oneSlot, Floor: 1},
		{Name: "two slots", World: twoSlots, Floor: 1},
		{Name: "a master loses its memory", World: forgetful, Floor: 1},
	}, world.explore)
}

func TestEachRuleIsNeeded(t *testing.T) {
	explore.Check(t, []explore.Case[world, rules]{
		{Name: "a master acknowledges a fence without the token in the slot", World: oneSlot, Off: rules{needsNoToken: true}, Want: two},
		{Name: "a master acknowledges a fence for another slot", World: world{turns: 1, faults: 1, slots: 2}, Off: rules{inAnySlot: true}, Want: two},
		{Name: "a number is not above the last one", World: oneSlot, Off: rules{notAbove: true}, Want: falls},
		{Name: "the lowest number is the fence", World: oneSlot, Off: rules{lowest: true}, Want: falls},
		{Name: "the commit is not awaited", World: oneSlot, Off: rules{notAwaited: true}, Want: falls},
		{Name: "one acknowledgement is enough", World: oneSlot, Off: rules{one: true}, Want: two},
		{Name: "an acknowledgement counts when its slot has expired", World: oneSlot, Off: rules{countsExpired: true}, Want: two},
		{Name: "the first round has expired when the second ends", World: oneSlot, Off: rules{firstExpired: true}, Want: falls},
		{Name: "a master that has lost its number begins anew", World: forgetful, Off: rules{forgets: true}, Want: falls},
	}, world.explore)
}
