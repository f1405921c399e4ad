package members

import (
	"fmt"
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/model/rounds"
)

// A world says what may happen. Each field of rules switches off one rule.
type world struct {
	rules
	old, new list // the lists of clients
	rolls    bool // an idle client may be restarted with the new list, when the rules allow it
	freely   bool // an idle client may be restarted with either list at any time
	stops    list // servers that are stopped
	starts   list // servers that are started later
	adopts   bool // these are adopted, together, when they are started
	losses   uint8
	renewals bool
	probes   bool // the probe may come some time after its vote
}

type rules struct {
	rollEarly  bool // replace, shrink: "clients get the new list when the old servers are stopped"
	comesBack  bool // "for good"
	startEarly bool // replace: "the new server is started when the old one is stopped"; grow: "when no client has the old list"
	adopted    bool // "an adoption holds only for lists of as many servers as were adopted"
	dontWait   bool // shrink: "after one quarantine"
}

func (w *world) initial() state {
	s := state{losses: w.losses}
	if w.comesBack {
		s.returns = 1
	}
	for i := range s.servers {
		sv := &s.servers[i]
		switch {
		case w.starts.has(i):
			sv.life = absent
		case w.old.has(i):
			sv.record = true // in use since long ago
		case !w.new.has(i):
			sv.life = gone
		}
	}
	for c := range s.clients {
		s.clients[c].list = w.old
	}
	return s
}

// A way has the steps from a state.
type way struct {
	*world
	explore.Way[state]
}

func (w *world) successors(s *state, next func(string, state)) {
	y := &way{w, explore.Way[state]{S: s, Next: next}}
	for c := range s.clients {
		y.client(c, fmt.Sprintf("client %d", c+1))
	}
	for i := range s.servers {
		if s.servers[i].life == up {
			y.server(i)
		}
	}
	y.operator()
}

// client has the steps of one client.
func (w *way) client(c int, name string) {
	s, cl := w.S, &w.S.clients[c]
	for i := range s.servers {
		if cl.list.has(i) && s.servers[i].life == up && !s.servers[i].lanes[c].inspected {
			w.Do(name+" inspects "+serverNames[i], func(n *state) { n.inspect(i, c) })
		}
	}
	switch cl.phase {
	case idle:
		w.Do(name+" asks its masters for the lock", func(n *state) { n.clients[c].phase = acquiring })
		w.restart(c, name)
		return
	case acquiring:
		w.askAll(c, name)
		if s.votes(c) >= cl.list.need() {
			w.Do(name+" has a quorum and HOLDS the lock", func(n *state) { n.hold(c) })
		}
		w.Do(name+" gives up", func(n *state) { n.end(c) })
		return
	case holding:
		if w.renewals {
			w.Do(name+" begins to renew", func(n *state) { n.clients[c].phase = renewing })
			w.heal(c, name)
		}
	case renewing:
		w.renew(c, name)
	}
	w.Do("the lease of "+name+" ENDS", func(n *state) { n.end(c) })
}

// inspect has a client read the record of a memory that is new to it. Without a record, a quarantine begins.
func (s *state) inspect(i, c int) {
	sv := &s.servers[i]
	if !sv.record {
		sv.record = true
		sv.quarantined, sv.earlier = true, s.open()
	}
	sv.lanes[c].inspected = true
}

// askAll has each server execute a command of a client: a SET, or an extension.
func (w *way) askAll(c int, name string) {
	s := w.S
	needs, words := rounds.Free, " grants the SET of "
	if s.clients[c].phase == renewing {
		needs, words = rounds.Client(c), " extends the key of "
	}
	for i := range s.servers {
		sv := &s.servers[i]
		l := &sv.lanes[c]
		if !s.clients[c].list.has(i) || sv.life != up || l.vote != none || !l.inspected || sv.key.Owner != needs {
			continue
		}
		if !w.probes && sv.quarantined { // the vote would not count
			continue
		}
		w.Do(serverNames[i]+words+name, func(n *state) {
			m := &n.servers[i]
			m.key, m.lanes[c].vote = rounds.Key{Owner: rounds.Client(c), Cover: rounds.ByRound}, pending
			if !w.probes {
				n.probe(i, c)
			}
		})
	}
}

// heal sets the key again. It does not count before a renewal has extended it.
func (w *way) heal(c int, name string) {
	for i, sv := range w.S.servers {
		if w.S.clients[c].list.has(i) && sv.life == up && sv.key.Owner == rounds.Free {
			w.Do(serverNames[i]+" is healed for "+name, func(n *state) { n.servers[i].key = rounds.Key{Owner: rounds.Client(c)} })
		}
	}
}

// probe decides whether a vote counts.
func (s *state) probe(i, c int) {
	l := &s.servers[i].lanes[c]
	l.vote = none
	if !s.servers[i].quarantined {
		l.vote = counted
	}
}

// votes returns how many votes of a client's round count.
func (s *state) votes(c int) int {
	return explore.Count(s.servers[:], func(sv server) bool { return sv.lanes[c].vote == counted })
}

// hold begins a lease that rests on the votes of the client's round.
func (s *state) hold(c int) {
	s.clients[c].phase = holding
	for i := range s.servers {
		sv := &s.servers[i]
		sv.key.Rest(c)
		sv.earlier = sv.earlier.Rest(c)
		sv.lanes[c].vote = none
	}
	s.wait = s.wait.Rest(c)
}

// renew are the steps of a renewal.
func (w *way) renew(c int, name string) {
	w.askAll(c, name)
	if w.S.votes(c) >= w.S.clients[c].list.need() {
		w.Do(name+" has a quorum and its lease is RENEWED", func(n *state) { n.hold(c) })
	}
	w.Do(name+" fails to renew", func(n *state) {
		for i := range n.servers {
			sv := &n.servers[i]
			sv.key.GiveUp(c)
			sv.lanes[c].vote = none
		}
		n.close(rounds.Undecided(c))
		n.clients[c].phase = holding
	})
}

// end ends an attempt or a lease. The release arrives, or the key expires, at any later time.
func (s *state) end(c int) {
	s.clients[c].phase = idle
	s.close(rounds.Lease(c) | rounds.Undecided(c))
	for i := range s.servers {
		sv := &s.servers[i]
		if sv.key.Is(c) {
			sv.key = rounds.Key{Owner: rounds.Orphan}
		}
		sv.lanes[c].vote = none
	}
}

// restart starts an idle client anew, perhaps with the other list.
func (w *way) restart(c int, name string) {
	for _, l := range []list{w.old, w.new} {
		if !w.freely && !(w.rolls && l == w.new && w.S.clients[c].list == w.old && w.mayRoll(w.S)) {
			continue
		}
		w.Try(name+" is restarted with the "+map[bool]string{true: "NEW", false: "old"}[l == w.new]+" list", func(n *state) bool {
			n.clients[c] = client{list: l}
			for i := range n.servers {
				n.servers[i].lanes[c] = lane{}
			}
			return *n != *w.S
		})
	}
}

// mayRoll reports whether a client may have the new list now.
func (w *world) mayRoll(s *state) bool {
	return (!w.running(s) || w.rollEarly) && (w.new.need() >= w.old.need() || w.dontWait || s.wait == 0)
}

// running reports whether a server that is to be stopped can vote.
func (w *world) running(s *state) bool {
	for i := range s.servers {
		if w.stops.has(i) && s.servers[i].life == up {
			return true
		}
	}
	return false
}

// server has the steps of one server.
func (w *way) server(i int) {
	sv, name := &w.S.servers[i], serverNames[i]
	for c := range sv.lanes {
		if sv.lanes[c].vote == pending {
			w.Do(fmt.Sprintf("the probe of client %d is executed at %s", c+1, name), func(n *state) { n.probe(i, c) })
		}
	}
	if sv.key.Owner != rounds.Free && sv.key.Cover == rounds.Loose {
		w.Do("the key at "+name+" is gone", func(n *state) { n.servers[i].key = rounds.Key{} })
	}
	if w.S.losses > 0 && sv.record {
		w.Do(name+" LOSES ITS MEMORY", func(n *state) {
			n.losses--
			m := &n.servers[i]
			m.key, m.record, m.quarantined, m.earlier = rounds.Key{}, false, false, 0
			m.forget()
		})
	}
	if sv.quarantined && sv.earlier == 0 {
		w.Do("the quarantine of "+name+" is over", func(n *state) { n.servers[i].quarantined = false })
	}
}

// operator has the steps that stop and start servers.
func (w *way) operator() {
	s := w.S
	for i := range s.servers {
		sv, name := &s.servers[i], serverNames[i]
		switch {
		case w.stops.has(i) && sv.life == up:
			w.Do(name+" is STOPPED", func(n *state) {
				n.wait = s.open()
				n.servers[i] = server{life: gone}
				for c := range sv.lanes { // a vote that was counted is not undone
					if sv.lanes[c].vote == counted {
						n.servers[i].lanes[c].vote = counted
					}
				}
			})
		case w.stops.has(i) && sv.life == gone && s.returns > 0:
			w.Do(name+" COMES BACK", func(n *state) { n.returns--; n.servers[i].life = up })
		case sv.life == absent && w.mayStart(s):
			w.Do(name+" is STARTED", func(n *state) {
				n.servers[i].life = up
				if w.adopts {
					w.adopt(&n.servers[i], s.open())
				}
			})
		}
	}
}

// adopt writes the record of a server that is adopted with all others that are started. If the adoption does not hold for the
// clients, the record begins a quarantine.
func (w *world) adopt(sv *server, open rounds.Set) {
	sv.record = true
	if w.starts.size() != w.new.size() && !w.adopted {
		sv.quarantined, sv.earlier = true, open
	}
}

// mayStart reports whether a new server may be started now.
func (w *world) mayStart(s *state) bool {
	if w.startEarly {
		return true
	}
	if w.stops != 0 { // replace
		return !w.running(s)
	}
	return !slices.ContainsFunc(s.clients[:], func(c client) bool { return c.list == w.old })
}
