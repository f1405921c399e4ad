package members

import (
	"fmt"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// A step describes what happens.
type step string

func stepf(format string, args ...any) step { return step(fmt.Sprintf(format, args...)) }

// A result is the outcome of an exploration.
type result struct {
	states int
	two    bool // two clients hold the lock
	trace  []string
	held   [2]bool // clients have held the lock with the old list, with the new list
	voted  list    // servers whose votes have counted
}

func (r result) String() string {
	return explore.Text(fmt.Sprintf("%d states: two hold the lock %t", r.states, r.two), r.trace)
}

func (w world) explore() (r result) {
	search := explore.Model[state, step]{
		Initial:    w.initial(),
		Successors: w.successors,
		Canonical:  w.canonical,
		Broken:     func(s *state) bool { return s.holders() > 1 },
	}.Explore()
	r.states = len(search.States)
	for _, s := range search.States {
		for c, cl := range s.clients {
			for i := range s.servers {
				if s.servers[i].lanes[c].vote == counted {
					r.voted |= 1 << i
				}
			}
			if cl.phase.holds() {
				r.held[0] = r.held[0] || cl.list == w.old
				r.held[1] = r.held[1] || cl.list == w.new
			}
		}
	}
	if search.Broken >= 0 {
		r.two, r.trace = true, search.Trace(search.Broken)
	}
	return r
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
	return explore.Code{uint64(m.life)<<32 | uint64(m.owner)<<24 | uint64(m.cover)<<16 | uint64(m.earlier)<<8 |
		explore.Bit(m.record)<<1 | explore.Bit(m.quarantined), lanes}
}

func (s *state) swapClients() {
	s.clients[0], s.clients[1] = s.clients[1], s.clients[0]
	s.wait = s.wait.swapped()
	for i := range s.servers {
		m := &s.servers[i]
		m.lanes[0], m.lanes[1] = m.lanes[1], m.lanes[0]
		m.earlier = m.earlier.swapped()
		switch m.owner {
		case ownerOf(0):
			m.owner = ownerOf(1)
		case ownerOf(1):
			m.owner = ownerOf(0)
		}
	}
}

func (r rounds) swapped() rounds { return r>>2&3 | r&3<<2 }

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
	for _, v := range []struct {
		name  string
		world world
	}{
		{"the old server is stopped before clients change", stopped},
		{"the same with renewals", stopped.with(renewed)},
		{"the same with a loss of memory", stopped.with(losing)},
		{"replace", replaced},
		{"replace with renewals", replaced.with(renewed)},
		{"replace with a loss of memory", replaced.with(losing)},
		{"replace with late probes", replaced.with(probing)},
		{"replace, and the new server is adopted", replaced.with(adopting)},
		{"replace two at once", replacedTwo},
		{"replace two at once, and both are adopted", replacedTwo.with(adopting)},
		{"grow, and the new servers are adopted", grown.with(adopting)},
		{"grow", grown},
		{"grow with renewals", grown.with(renewed)},
		{"grow with late probes", grown.with(probing)},
		{"shrink", shrunk},
		{"shrink with renewals", shrunk.with(renewed)},
		{"shrink with late probes", shrunk.with(probing)},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			r := v.world.explore()
			if t.Log(r); r.two {
				t.Error("two hold the lock")
			}
			if r.held != [2]bool{true, true} || r.voted != v.world.old|v.world.new {
				t.Errorf("held by the old and the new list: %v, votes of %04b; part of the model is not reached", r.held, r.voted)
			}
		})
	}
}

func TestEachRuleIsNeeded(t *testing.T) {
	for _, v := range []struct {
		name  string
		world world
		off   rules
		steps int
	}{
		{"a client has the new list before the old server is stopped", stopped, rules{rollEarly: true}, 14},
		{"the old server comes back, and the new one ran before", stopped, rules{comesBack: true}, 17},
		{"the new server is started before the old one is stopped", replaced, rules{startEarly: true}, 15},
		{"the new server is adopted, for clients with any list", replaced.with(adopting), rules{adopted: true}, 15},
		{"two new servers are adopted, for clients with any list", replacedTwo.with(adopting), rules{adopted: true}, 16},
		{"grow: new servers are started while a client has the old list", grown, rules{startEarly: true}, 15},
		{"shrink: clients change before a quarantine has passed", shrunk, rules{dontWait: true}, 13},
		{"shrink: clients change before the servers are stopped", shrunk, rules{rollEarly: true}, 11},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			w := v.world
			w.rules = v.off
			r := w.explore()
			if t.Log(r); !r.two || len(r.trace) != v.steps {
				t.Errorf("two hold the lock: %v, in %d steps; want %d", r.two, len(r.trace), v.steps)
			}
		})
	}
}
