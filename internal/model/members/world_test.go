package members

import (
	"fmt"
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
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

func (w *world) successors(s *state, next func(string, state)) {
	for c := range s.clients {
		w.clientSteps(s, c, next)
	}
	for i := range s.servers {
		if s.servers[i].life == up {
			w.serverSteps(s, i, next)
		}
	}
	w.operatorSteps(s, next)
}

// clientSteps are those of one client.
func (w *world) clientSteps(s *state, c int, next func(string, state)) {
	cl := &s.clients[c]
	for i := range s.servers {
		if cl.list.has(i) && s.servers[i].life == up && !s.servers[i].lanes[c].inspected {
			w.inspect(s, i, c, next)
		}
	}
	switch cl.phase {
	case idle:
		n := *s
		n.clients[c].phase = acquiring
		next(fmt.Sprintf("client %d asks its masters for the lock", c+1), n)
		w.restart(s, c, next)
	case acquiring:
		w.askAll(s, c, next)
		if s.votes(c) >= cl.list.need() {
			n := *s
			n.clients[c].phase = holding
			n.restOn(c)
			next(fmt.Sprintf("client %d has a quorum and HOLDS the lock", c+1), n)
		}
		w.end(s, c, next)
	case holding:
		if w.renewals {
			n := *s
			n.clients[c].phase = renewing
			next(fmt.Sprintf("client %d begins to renew", c+1), n)
			w.heal(s, c, next)
		}
		w.end(s, c, next)
	case renewing:
		w.renew(s, c, next)
		w.end(s, c, next)
	}
}

// inspect has a client read the record of a memory that is new to it. Without a record, a quarantine begins.
func (w *world) inspect(s *state, i, c int, next func(string, state)) {
	n := *s
	sv := &n.servers[i]
	if !sv.record {
		sv.record = true
		sv.quarantined, sv.earlier = true, s.open()
	}
	sv.lanes[c].inspected = true
	next(fmt.Sprintf("client %d inspects %s", c+1, serverNames[i]), n)
}

// askAll has each server execute a command of a client: a SET, or an extension.
func (w *world) askAll(s *state, c int, next func(string, state)) {
	set := s.clients[c].phase == acquiring
	for i := range s.servers {
		sv := &s.servers[i]
		l := &sv.lanes[c]
		if !s.clients[c].list.has(i) || sv.life != up || l.vote != none || !l.inspected {
			continue
		}
		if !w.probes && sv.quarantined { // the vote would not count
			continue
		}
		if set && sv.owner != free || !set && sv.owner != ownerOf(c) {
			continue
		}
		n := *s
		m := &n.servers[i]
		m.owner, m.cover = ownerOf(c), byRound
		m.lanes[c].vote = pending
		if !w.probes {
			n.probe(i, c)
		}
		if set {
			next(fmt.Sprintf("%s grants the SET of client %d", serverNames[i], c+1), n)
		} else {
			next(fmt.Sprintf("%s extends the key of client %d", serverNames[i], c+1), n)
		}
	}
}

// heal sets the key again. It does not count before a renewal has extended it.
func (w *world) heal(s *state, c int, next func(string, state)) {
	for i := range s.servers {
		if s.clients[c].list.has(i) && s.servers[i].life == up && s.servers[i].owner == free {
			n := *s
			n.servers[i].owner, n.servers[i].cover = ownerOf(c), loose
			next(fmt.Sprintf("%s is healed for client %d", serverNames[i], c+1), n)
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
	return explore.Count(s.servers[:], func(sv *server) bool { return sv.lanes[c].vote == counted })
}

// restOn begins a lease that rests on the votes of the client's round.
func (s *state) restOn(c int) {
	for i := range s.servers {
		sv := &s.servers[i]
		if sv.owner == ownerOf(c) {
			switch sv.cover {
			case byLease:
				sv.cover = loose
			case byRound:
				sv.cover = byLease
			}
		}
		sv.earlier = sv.earlier.rest(c)
		sv.lanes[c].vote = none
	}
	s.wait = s.wait.rest(c)
}

// rest replaces a round by the lease that begins with it.
func (r rounds) rest(c int) rounds {
	open := r&roundOf(c) != 0
	r &^= leaseOf(c) | roundOf(c)
	if open {
		r |= leaseOf(c)
	}
	return r
}

// renew are the steps of a renewal.
func (w *world) renew(s *state, c int, next func(string, state)) {
	w.askAll(s, c, next)
	if s.votes(c) >= s.clients[c].list.need() {
		n := *s
		n.clients[c].phase = holding
		n.restOn(c)
		next(fmt.Sprintf("client %d has a quorum and its lease is RENEWED", c+1), n)
	}
	n := *s
	for i := range n.servers {
		sv := &n.servers[i]
		if sv.owner == ownerOf(c) && sv.cover == byRound {
			sv.cover = byLease
		}
		sv.lanes[c].vote = none
	}
	n.close(roundOf(c))
	n.clients[c].phase = holding
	next(fmt.Sprintf("client %d fails to renew", c+1), n)
}

// end ends an attempt or a lease. The release arrives, or the key expires, at any later time.
func (w *world) end(s *state, c int, next func(string, state)) {
	n := *s
	n.clients[c].phase = idle
	n.close(leaseOf(c) | roundOf(c))
	for i := range n.servers {
		sv := &n.servers[i]
		if sv.owner == ownerOf(c) {
			sv.owner, sv.cover = orphan, loose
		}
		sv.lanes[c].vote = none
	}
	if s.clients[c].phase == acquiring {
		next(fmt.Sprintf("client %d gives up", c+1), n)
		return
	}
	next(fmt.Sprintf("the lease of client %d ENDS", c+1), n)
}

// restart starts an idle client anew, perhaps with the other list.
func (w *world) restart(s *state, c int, next func(string, state)) {
	for _, l := range []list{w.old, w.new} {
		if !w.freely && !(w.rolls && l == w.new && s.clients[c].list == w.old && w.mayRoll(s)) {
			continue
		}
		n := *s
		n.clients[c] = client{list: l}
		for i := range n.servers {
			n.servers[i].lanes[c] = lane{}
		}
		if n != *s {
			next(fmt.Sprintf("client %d is restarted with the %s list", c+1, map[bool]string{true: "NEW", false: "old"}[l == w.new]), n)
		}
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

// serverSteps are those of one server.
func (w *world) serverSteps(s *state, i int, next func(string, state)) {
	sv := &s.servers[i]
	for c := range sv.lanes {
		if sv.lanes[c].vote == pending {
			n := *s
			n.probe(i, c)
			next(fmt.Sprintf("the probe of client %d is executed at %s", c+1, serverNames[i]), n)
		}
	}
	if sv.owner != free && sv.cover == loose {
		n := *s
		n.servers[i].owner = free
		next(fmt.Sprintf("the key at %s is gone", serverNames[i]), n)
	}
	if s.losses > 0 && sv.record {
		n := *s
		n.losses--
		m := &n.servers[i]
		m.owner, m.cover, m.record, m.quarantined, m.earlier = free, loose, false, false, 0
		m.forget()
		next(fmt.Sprintf("%s LOSES ITS MEMORY", serverNames[i]), n)
	}
	if sv.quarantined && sv.earlier == 0 {
		n := *s
		n.servers[i].quarantined = false
		next(fmt.Sprintf("the quarantine of %s is over", serverNames[i]), n)
	}
}

// operatorSteps stop and start servers.
func (w *world) operatorSteps(s *state, next func(string, state)) {
	for i := range s.servers {
		sv := &s.servers[i]
		switch {
		case w.stops.has(i) && sv.life == up:
			n := *s
			n.wait = s.open()
			n.servers[i] = server{life: gone}
			for c := range sv.lanes { // a vote that was counted is not undone
				if sv.lanes[c].vote == counted {
					n.servers[i].lanes[c].vote = counted
				}
			}
			next(fmt.Sprintf("%s is STOPPED", serverNames[i]), n)
		case w.stops.has(i) && sv.life == gone && s.returns > 0:
			n := *s
			n.returns--
			n.servers[i].life = up
			next(fmt.Sprintf("%s COMES BACK", serverNames[i]), n)
		case sv.life == absent && w.mayStart(s):
			n := *s
			n.servers[i].life = up
			if w.adopts {
				w.adopt(&n.servers[i], s.open())
			}
			next(fmt.Sprintf("%s is STARTED", serverNames[i]), n)
		}
	}
}

// adopt writes the record of a server that is adopted with all others that are started. If the adoption does not hold for the
// clients, the record begins a quarantine.
func (w *world) adopt(sv *server, open rounds) {
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
