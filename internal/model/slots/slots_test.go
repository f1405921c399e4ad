package slots

import (
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// rules are the rules of the protocol; true: the rule is switched off.
type rules struct {
	overwrites     bool // a slot is given only if it is free
	countsAnySlot  bool // votes for several slots are not added up
	countsOthers   bool // after an aim, votes for other slots never count
	keepsCounted   bool // before an aim is sent, the votes for other slots are dropped
	aimOverwrites  bool // an aim waits for a slot that another token has
	swapsAtOnce    bool // nobody is taken out of a slot by another's aim
	tokenTwice     bool // a new claim has a new token
	silentRelease  bool // a release passes its slot on
	silentPoll     bool // a poll passes free slots on
	noTidy         bool // a winner, and its renewals, leave other slots and stand in its own
	noWish         bool // an aim at a slot that another has leaves a wish
	noPartner      bool // the slot that an aim leaves goes to the token that has the slot aimed at
	noExchange     bool // a claim that stands in a slot that another one wishes is given the next free slot, too
	noAim          bool // a claim without a quorum aims at the slot where it has the most keys
	noYield        bool // a claim that is beaten in all its slots is released and registers anew
	staysQueued    bool // a release leaves the queue
	newcomersTake  bool // a newcomer joins the queue if others wait
	keepsWishes    bool // a release removes the wishes
	staysElsewhere bool // an aim leaves the other slots
}

type world struct {
	rules
	clients  int
	turns    uint8 // of each client
	releases uint8 // of holders
	aims     uint8 // at any moment
	faults   uint8
	patient  bool // there are no faults, and nobody gives up; a claim decides when it knows all
	deadOne  bool // the last master is down
	anySlot  bool // a registration is given any free slot; else the first
	quiet    bool // there are no polls
}

func (w *world) alive(i int) bool { return !w.deadOne || i != nMasters-1 }

// broken returns which property a state breaks, if any.
func (w *world) broken(s *state) string {
	if s.holders() > nSlots {
		return many
	}
	var holders [nSlots]int
	for _, cl := range s.clients {
		if cl.phase == holding {
			holders[cl.slot]++
		}
	}
	for _, n := range holders {
		if n > 1 && !w.countsAnySlot { // where several slots count for one, the number of a slot says nothing
			return two
		}
	}
	for c := range w.clients {
		if s.busy(c) || s.clients[c].phase != idle {
			return ""
		}
	}
	for i := range s.masters {
		if m := &s.masters[i]; m.owner != [nSlots]token{} || m.wish != [nSlots]token{} || m.queue != [nClients]token{} {
			return left
		}
	}
	return ""
}

func (m master) code() (all explore.Code) {
	for s := range nSlots {
		all[0] = all[0]<<8 | uint64(m.owner[s])<<4 | uint64(m.wish[s])
	}
	all[0] = all[0]<<8 | uint64(m.aimed)
	for c, l := range m.lanes {
		all[0] = all[0]<<4 | uint64(m.queue[c])
		for _, k := range l.commands {
			all[1+c] = all[1+c]<<4 | uint64(k)
		}
		all[1+c] = all[1+c]<<16 | uint64(l.messages)<<8 | uint64(l.votes)
	}
	return all
}

// canonical exchanges the masters, unless one of them is down.
func (w *world) canonical(s state) state {
	if !w.deadOne {
		explore.SortBy(s.masters[:], master.code)
	}
	return s
}

const (
	lost = "a permit is lost"
	two  = "two hold a slot"
	many = "more than K hold"
	left = "something is left"
)

func (w world) explore(off rules) explore.Result {
	w.rules = off
	m := explore.Model[state, string]{
		Initial:    state{releases: w.releases, faults: w.faults, aims: w.aims},
		Successors: w.successors,
		Canonical:  w.canonical,
		Check:      w.broken,
		Must:       map[string]func(*state) bool{"all permits are held": func(s *state) bool { return s.holders() == nSlots }},
	}
	for h := range nSlots {
		if w.patient {
			m.Goals = append(m.Goals, explore.Goal[state]{
				Property: lost,
				Waits:    func(s *state) bool { return s.frozen && s.holders() == h && s.waits() },
				Done:     func(s *state) bool { return s.frozen && s.holders() == h+1 },
			})
		}
	}
	return m.Explore().Result()
}

var (
	// Commands and keys are lost, a claim is given up or aims at any moment.
	aimed  = world{clients: 2, turns: 1, releases: 1, aims: 1, quiet: true}
	faulty = world{clients: 2, turns: 1, releases: 1, faults: 1, aims: 1}
	cut    = world{clients: 2, turns: 1, releases: 1, faults: 1, aims: 1, deadOne: true, anySlot: true}
	twice  = world{clients: 2, turns: 2, releases: 1, aims: 1}
	// No faults: no permit is lost.
	calm      = world{clients: 2, turns: 1, releases: 1, patient: true}
	calmTwice = world{clients: 2, turns: 2, releases: 1, patient: true}
	calmCut   = world{clients: 2, turns: 2, releases: 2, patient: true, deadOne: true}
	calmThree = world{clients: 3, turns: 1, patient: true, deadOne: true}
	calmLeft  = world{clients: 3, turns: 1, releases: 2, patient: true, deadOne: true}
	calmFull  = world{clients: 3, turns: 1, patient: true}
)

func TestNeverMoreThanKAndNoPermitIsLost(t *testing.T) {
	explore.Check(t, []explore.Case[world, rules]{
		{Name: "aims at any moment", World: aimed, Floor: 40_000},
		{Name: "faults, one master down, any slot", World: cut, Floor: 100_000},
		{Name: "two clients", World: calm, Floor: 9_000},
		{Name: "two clients twice", World: calmTwice, Floor: 40_000},
		{Name: "two clients twice, one master down", World: calmCut, Floor: 25_000},
		{Name: "three clients, one master down", World: calmThree, Floor: 300_000},
		{Name: "faults", World: faulty, Floor: 1, Large: true},
		{Name: "each client twice, aims at any moment", World: twice, Floor: 1, Large: true},
		{Name: "three clients, two releases, one master down", World: calmLeft, Floor: 1, Large: true},
		{Name: "three clients, nobody releases", World: calmFull, Floor: 1, Large: true},
	}, world.explore)
}
