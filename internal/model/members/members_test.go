package members

import (
	"slices"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

const two = "two hold the lock"

func (w world) explore(off rules) explore.Result {
	w.rules = off
	must := make(map[string]func(*state) bool)
	for what, l := range map[string]list{"the old list": w.old, "the new list": w.new} {
		must["held by "+what] = func(s *state) bool {
			return slices.ContainsFunc(s.clients[:], func(cl client) bool { return cl.phase.holds() && cl.list == l })
		}
	}
	for i, name := range serverNames {
		if (w.old | w.new).has(i) {
			must["a vote of "+name] = func(s *state) bool {
				return slices.ContainsFunc(s.servers[i].lanes[:], func(l lane) bool { return l.vote == counted })
			}
		}
	}
	return explore.Model[state, string]{
		Initial:    w.initial(),
		Successors: w.successors,
		Canonical:  w.canonical,
		Must:       must,
		Check: func(s *state) string {
			if s.holders() > 1 {
				return two
			}
			return ""
		},
	}.Explore().Result()
}

// canonical exchanges a and b, if both lists have both or neither, and the clients.
func (w *world) canonical(s state) state {
	swapped := s
	swapped.swapClients()
	alike := w.old.has(a) == w.old.has(b) && w.new.has(a) == w.new.has(b)
	mine, others := s.sort(alike), swapped.sort(alike)
	if explore.Compare(others[:], mine[:]) < 0 {
		return swapped
	}
	return s
}

// sort sorts a and b, if they are alike, and returns the state as numbers.
func (s *state) sort(alike bool) (codes [nServers + 1]explore.Code) {
	for i := range s.servers {
		codes[i] = s.servers[i].code()
	}
	if alike {
		explore.Sort(s.servers[:2], codes[:2])
	}
	clients := &codes[nServers]
	clients[0] = uint64(s.wait)
	for c, cl := range s.clients {
		clients[1+c] = uint64(cl.phase)<<8 | uint64(cl.list)
	}
	return codes
}

func (m *server) code() explore.Code {
	lanes := uint64(0)
	for _, l := range m.lanes {
		lanes = lanes<<8 | uint64(l.vote)<<1 | explore.Bit(l.inspected)
	}
	return explore.Code{uint64(m.life)<<32 | uint64(m.key.Owner)<<24 | uint64(m.key.Cover)<<16 | uint64(m.earlier)<<8 |
		explore.Bit(m.record)<<1 | explore.Bit(m.quarantined), lanes}
}

func (s *state) swapClients() {
	s.clients[0], s.clients[1] = s.clients[1], s.clients[0]
	s.wait = s.wait.Swapped()
	for i := range s.servers {
		m := &s.servers[i]
		m.lanes[0], m.lanes[1] = m.lanes[1], m.lanes[0]
		m.earlier, m.key = m.earlier.Swapped(), m.key.Swapped()
	}
}

var (
	// A is stopped, then clients are restarted with the new list. B runs from the beginning.
	stopped = world{old: before, new: after, rolls: true, stops: 1 << oldA}
	// A is stopped, then B is started. Clients are restarted with either list at any time.
	replaced = world{old: before, new: after, freely: true, stops: 1 << oldA, starts: 1 << newB}
	// A and b are stopped, then B and C are started, in any order.
	replacedTwo = world{old: before, new: 1<<a | 1<<newB | 1<<newC, freely: true, stops: 1<<b | 1<<oldA, starts: 1<<newB | 1<<newC}
	// From one master to three, and from three to one.
	grown  = world{old: 1 << a, new: before, rolls: true, starts: 1<<b | 1<<oldA}
	shrunk = world{old: before, new: 1 << oldA, rolls: true, stops: 1<<a | 1<<b}
)

// with changes a world.
func (w world) with(change func(*world)) world {
	change(&w)
	return w
}

func adopting(w *world) { w.adopts = true }
func renewed(w *world)  { w.renewals = true }
func losing(w *world)   { w.losses = 1 }
func probing(w *world)  { w.probes = true }

func TestTheListIsChangedSafely(t *testing.T) {
	explore.Check(t, []explore.Case[world, rules]{
		{Name: "the old server is stopped before clients change", World: stopped, Floor: 1},
		{Name: "the same with renewals", World: stopped.with(renewed), Floor: 1},
		{Name: "the same with a loss of memory", World: stopped.with(losing), Floor: 1},
		{Name: "replace", World: replaced, Floor: 1},
		{Name: "replace with renewals", World: replaced.with(renewed), Floor: 1},
		{Name: "replace with a loss of memory", World: replaced.with(losing), Floor: 1},
		{Name: "replace with late probes", World: replaced.with(probing), Floor: 1},
		{Name: "replace, and the new server is adopted", World: replaced.with(adopting), Floor: 1},
		{Name: "replace two at once", World: replacedTwo, Floor: 1},
		{Name: "replace two at once, and both are adopted", World: replacedTwo.with(adopting), Floor: 1},
		{Name: "grow, and the new servers are adopted", World: grown.with(adopting), Floor: 1},
		{Name: "grow", World: grown, Floor: 1},
		{Name: "grow with renewals", World: grown.with(renewed), Floor: 1},
		{Name: "grow with late probes", World: grown.with(probing), Floor: 1},
		{Name: "shrink", World: shrunk, Floor: 1},
		{Name: "shrink with renewals", World: shrunk.with(renewed), Floor: 1},
		{Name: "shrink with late probes", World: shrunk.with(probing), Floor: 1},
	}, world.explore)
}

func TestEachRuleIsNeeded(t *testing.T) {
	explore.Check(t, []explore.Case[world, rules]{
		{Name: "a client has the new list before the old server is stopped", World: stopped, Off: rules{rollEarly: true}, Want: two, Steps: 14},
		{Name: "the old server comes back, and the new one ran before", World: stopped, Off: rules{comesBack: true}, Want: two, Steps: 17},
		{Name: "the new server is started before the old one is stopped", World: replaced, Off: rules{startEarly: true}, Want: two, Steps: 15},
		{Name: "the new server is adopted, for clients with any list", World: replaced.with(adopting), Off: rules{adopted: true}, Want: two, Steps: 15},
		{Name: "two new servers are adopted, for clients with any list", World: replacedTwo.with(adopting), Off: rules{adopted: true}, Want: two, Steps: 16},
		{Name: "grow: new servers are started while a client has the old list", World: grown, Off: rules{startEarly: true}, Want: two, Steps: 15},
		{Name: "shrink: clients change before a quarantine has passed", World: shrunk, Off: rules{dontWait: true}, Want: two, Steps: 13},
		{Name: "shrink: clients change before the servers are stopped", World: shrunk, Off: rules{rollEarly: true}, Want: two, Steps: 11},
	}, world.explore)
}
