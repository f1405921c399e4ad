package agree

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

const (
	masters  = 3
	majority = masters/2 + 1
)

// A state is comparable, and equal states have equal futures.
type state struct {
	masters [masters]master
	seen    bool // the other client has seen the long MaxTTL on these masters
}

type master struct {
	record    declared
	ripe      bool // the short quarantine has passed since the record was written
	key       bool // the holder's
	inspected bool // the other client knows the record
	ended     bool // the quarantine of the other client here has ended
	vote      bool // of the other client, counted
}

// declared is the largest MaxTTL in a record.
type declared uint8

const (
	missing declared = iota
	short
	long
)

// rules are the rules that can be switched off. The zero value is the complete protocol.
type rules struct {
	ownOnly   bool // the record's MaxTTL counts, too
	noRaise   bool // a client with a larger MaxTTL raises the record's
	noMemory  bool // the largest MaxTTL that a client has ever seen on these masters counts, too
	uncounted bool // a quarantine begins with the record that a client writes
}

// A world is the protocol, and what is true before the first step.
type world struct {
	rules
	reach      [masters]bool // masters that the holder is connected to
	acquainted bool          // the other client has seen the long MaxTTL before
}

func (w *world) initial() state {
	s := state{seen: w.acquainted}
	for i := range s.masters {
		s.masters[i] = master{record: long, ripe: true, key: true}
	}
	return s
}

func (w *world) successors(s *state, next func(string, state)) {
	for i := range s.masters {
		m, number := s.masters[i], fmt.Sprintf("master %d", i+1)
		if m.record != missing || m.key {
			n := *s
			n.masters[i] = master{vote: m.vote}
			next(number+" LOSES ITS MEMORY", n)
		}
		if w.reach[i] && m.record != long && !(w.noRaise && m.record == short) {
			n := *s
			n.masters[i].record = long
			next("the holder declares the long MaxTTL at "+number, n)
		}
		w.inspect(s, i, number, next)
		if m.inspected && !m.ended && w.passed(s, i) {
			n := *s
			n.masters[i].ended = true
			next("the other client's quarantine at "+number+" ends", n)
		}
		if m.ended && !m.key && !m.vote {
			n := *s
			n.masters[i].vote = true
			next(number+"'s vote for the other client counts", n)
		}
	}
	w.pass(s, next)
}

// inspect has the other client connect to a master, and inspect it.
func (w *world) inspect(s *state, i int, number string, next func(string, state)) {
	if s.masters[i].inspected && (s.masters[i].record != long || s.seen) {
		return
	}
	n := *s
	m := &n.masters[i]
	m.inspected = true
	words := "the other client inspects " + number
	switch {
	case m.record == missing && s.seen && !w.noMemory:
		m.record = long
		words += " and declares the long MaxTTL"
	case m.record == missing:
		m.record = short
		words += " and declares the short MaxTTL"
	case m.record == long:
		n.seen = true
		words += " and sees the long MaxTTL"
	}
	m.ripe = m.ripe || w.uncounted
	next(words, n)
}

// passed reports whether the other client sees the end of a quarantine: of the length that it
// knows now. One that has ended does not begin again when it sees a larger MaxTTL.
func (w *world) passed(s *state, i int) bool {
	m := &s.masters[i]
	isLong := m.record == long && !w.ownOnly || s.seen && !w.noMemory && !w.ownOnly
	return m.ripe && !isLong
}

// pass lets the time of a short quarantine pass.
func (w *world) pass(s *state, next func(string, state)) {
	n := *s
	for i := range n.masters {
		m := &n.masters[i]
		if w.reach[i] && (m.record == missing || m.record == short && !w.noRaise) {
			return // the holder inspects it before
		}
		m.ripe = m.ripe || m.record != missing
	}
	if n != *s {
		next("the time of a short quarantine passes", n)
	}
}

// broken reports whether the other client has a quorum.
func (s *state) broken() bool {
	votes := 0
	for i := range s.masters {
		if s.masters[i].vote {
			votes++
		}
	}
	return votes >= majority
}

// explore returns the number of states, and the shortest way to two holders. If there is none, it returns nil.
func (w *world) explore() (states int, trace []string) {
	found := explore.Model[state, string]{
		Initial: w.initial(), Successors: w.successors, Broken: (*state).broken,
	}.Explore()
	if found.Broken >= 0 {
		trace = found.Trace(found.Broken)
	}
	return len(found.States), trace
}

var (
	everywhere = [masters]bool{true, true, true}
	most       = [masters]bool{true, true, false}
	one        = [masters]bool{true, false, false}
	nowhere    [masters]bool
)

func TestClientsAgreeOnTheLongerQuarantine(t *testing.T) {
	for _, v := range []struct {
		name  string
		world world
	}{
		{"the holder reaches all masters", world{reach: everywhere}},
		{"the holder reaches a majority", world{reach: most}},
		{"the holder reaches a minority, the other has seen the long MaxTTL", world{reach: one, acquainted: true}},
		{"the holder reaches no master, the other has seen the long MaxTTL", world{reach: nowhere, acquainted: true}},
	} {
		t.Run(v.name, func(t *testing.T) {
			states, trace := v.world.explore()
			t.Logf("%d states", states)
			if trace != nil {
				t.Errorf("two hold the lock:\n%s", strings.Join(trace, "\n"))
			}
			if states < 20 {
				t.Error("part of the model is not reached")
			}
		})
	}
}

// TestEachRuleIsNeeded switches off one rule at a time and finds two holders. It also finds what
// remains with all rules: a holder that is cut off from a majority of the masters while they lose
// their memory, and another client that has never seen its MaxTTL.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, v := range []struct {
		name  string
		world world
	}{
		{"each client knows its own MaxTTL only", world{reach: everywhere, rules: rules{ownOnly: true}}},
		{"a record is not raised", world{reach: everywhere, rules: rules{noRaise: true}}},
		{"a client forgets what it has seen", world{reach: nowhere, acquainted: true, rules: rules{noMemory: true}}},
		{"votes count at once", world{reach: most, rules: rules{uncounted: true}}},

		{"all rules; the holder reaches a minority, the other is a stranger", world{reach: one}},
		{"all rules; the holder reaches no master, the other is a stranger", world{reach: nowhere}},
	} {
		t.Run(v.name, func(t *testing.T) {
			states, trace := v.world.explore()
			t.Logf("%d states; two hold the lock in %d steps\n\t%s", states, len(trace), strings.Join(trace, "\n\t"))
			if trace == nil {
				t.Error("nobody gets in")
			}
		})
	}
}
