package agree

import (
	"fmt"
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
	lost    int8 // how often a master has lost its memory, if that is bounded
}

type master struct {
	record    declared
	ripe      bool  // the short quarantine has passed since the record was written
	old       bool  // the record is older than any lease
	key       bool  // the holder's
	inspected bool  // the other client knows the record
	ended     bool  // the quarantine of the other client here has ended
	confirmed uint8 // the masters, as bits, whose records the other client has confirmed since this record was written
	settled   bool  // the quarantine does not begin again
	vote      bool  // of the other client, counted
	young     bool  // it has voted, and a larger MaxTTL may begin its quarantine again, or that of its next memory
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
	notAgain  bool // a quarantine that has ended begins again if a larger MaxTTL is seen
	settles   bool // unless the records of all other masters were confirmed since this one was written
	votesStay bool // an acquisition fails during which a quarantine has begun again
	connected bool // or would have, if the master had not lost its memory again, or its connection
}

// A world is the protocol, and what is true before the first step.
type world struct {
	rules
	reach      [masters]bool // masters that the holder is connected to
	acquainted bool          // the other client has seen the long MaxTTL before
	losses     int8          // how many memories are lost at most, all of master 1; 0: any number, of all masters
	without    [masters]bool // masters without the holder's key
	undeclared [masters]bool // masters whose record has the short MaxTTL
}

func (w *world) initial() state {
	s := state{seen: w.acquainted}
	for i := range s.masters {
		s.masters[i] = master{record: long, ripe: true, old: true, key: !w.without[i]}
		if w.undeclared[i] {
			s.masters[i].record = short
		}
	}
	return s
}

func (w *world) successors(s *state, next func(string, state)) {
	for i := range s.masters {
		m, number := s.masters[i], fmt.Sprintf("master %d", i+1)
		if (m.record != missing || m.key) && (w.losses == 0 || s.lost < w.losses && i == 0) {
			n := *s
			if w.losses > 0 {
				n.lost++
			}
			n.masters[i] = master{vote: m.vote, young: m.young}
			next(number+" LOSES ITS MEMORY", n)
		}
		if w.reach[i] && m.record != long && !(w.noRaise && m.record == short) {
			n := *s
			if m.record == missing {
				n.masters[i].confirmed = 0
			}
			n.masters[i].record = long
			next("the holder declares the long MaxTTL at "+number, n)
		}
		w.inspect(s, i, number, next)
		if m.inspected && !m.ended && w.passed(s, i) {
			n := *s
			n.masters[i].ended = true
			next("the other client's quarantine at "+number+" ends", n)
		}
		if m.inspected && m.record != missing && (m.record != long || s.seen) {
			n := *s
			n.confirm(i)
			if n != *s {
				next("the other client confirms the record of "+number, n)
			}
		}
		if m.ended && !m.settled && (w.settles || m.confirmed|1<<i == 1<<masters-1) {
			n := *s
			n.masters[i].settled, n.masters[i].young = true, false
			next("the quarantine at "+number+" is settled", n)
		}
		if m.ended && !m.key && !m.vote {
			n := *s
			n.masters[i].vote, n.masters[i].young = true, !m.old && !m.settled
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
		m.record, m.confirmed = long, 0
		words += " and declares the long MaxTTL"
	case m.record == missing:
		m.record, m.confirmed = short, 0
		words += " and declares the short MaxTTL"
	case m.record == long:
		w.see(&n)
		words += " and sees the long MaxTTL"
	}
	m.ripe = m.ripe || w.uncounted
	n.confirm(i)
	next(words, n)
}

// confirm notes that the other client has confirmed the record of a master.
func (s *state) confirm(i int) {
	for j := range s.masters {
		if m := &s.masters[j]; m.record != missing {
			m.confirmed |= 1 << i
		}
	}
}

// see has the other client see the long MaxTTL.
func (w *world) see(n *state) {
	again := false
	for i := range n.masters {
		m := &n.masters[i]
		if n.seen || w.notAgain {
			continue
		}
		again = again || m.young && !w.connected || m.ended && m.young
		m.ended = m.ended && (m.settled || m.old)
	}
	n.seen = true
	for i := range n.masters {
		if again && !w.votesStay {
			n.masters[i].vote = false
		}
	}
}

// passed reports whether the other client sees the end of a quarantine: of the length that it
// knows now. One that has ended may begin again when it sees a larger MaxTTL.
func (w *world) passed(s *state, i int) bool {
	m := &s.masters[i]
	isLong := m.record == long && !w.ownOnly || s.seen && !w.noMemory && !w.ownOnly
	return m.old || m.ripe && !isLong
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

const two = "two hold the lock"

// broken reports whether the other client has a quorum beside the holder.
func (s *state) broken() string {
	votes := 0
	for i := range s.masters {
		if s.masters[i].vote {
			votes++
		}
	}
	if votes >= majority {
		return two
	}
	return ""
}

func (w world) explore(off rules) explore.Result {
	w.rules = off
	return explore.Model[state, string]{Initial: w.initial(), Successors: w.successors, Check: (*state).broken}.Explore().Result()
}

var (
	everywhere = [masters]bool{true, true, true}
	most       = [masters]bool{true, true, false}
	one        = [masters]bool{true, false, false}
	last       = [masters]bool{false, false, true}
	nowhere    [masters]bool
)

func TestClientsAgreeOnTheLongerQuarantine(t *testing.T) {
	explore.Check(t, []explore.Case[world, rules]{
		{Name: "the holder reaches all masters", World: world{reach: everywhere}, Floor: 20},
		{Name: "the holder reaches a majority", World: world{reach: most}, Floor: 20},
		{Name: "the holder reaches a minority, the other has seen the long MaxTTL", World: world{reach: one, acquainted: true}, Floor: 20},
		{Name: "the holder reaches no master, the other has seen the long MaxTTL", World: world{reach: nowhere, acquainted: true}, Floor: 20},
		{Name: "one master loses its memory, the other is a stranger, a third master lacks the key", World: world{losses: 1, without: last}, Floor: 20},
		{Name: "the same, and the holder reaches the first master", World: world{reach: one, losses: 1, without: last}, Floor: 20},
		{Name: "the master loses its memory again", World: world{losses: 3, without: last}, Floor: 20},
	}, world.explore)
}

// TestEachRuleIsNeeded switches off one rule at a time and finds two holders. It also finds what
// remains with all rules: a holder that is cut off from a majority of the masters while they lose
// their memory, and another client that has never seen its MaxTTL; or a holder that has never reached a
// minority of the masters, and another client that has reached none of the masters that know its MaxTTL.
func TestEachRuleIsNeeded(t *testing.T) {
	explore.Check(t, []explore.Case[world, rules]{
		{Name: "each client knows its own MaxTTL only", World: world{reach: everywhere}, Off: rules{ownOnly: true}, Want: two},
		{Name: "a record is not raised", World: world{reach: everywhere}, Off: rules{noRaise: true}, Want: two},
		{Name: "a client forgets what it has seen", World: world{reach: nowhere, acquainted: true}, Off: rules{noMemory: true}, Want: two},
		{Name: "votes count at once", World: world{reach: most}, Off: rules{uncounted: true}, Want: two},
		{Name: "a quarantine that has ended does not begin again", World: world{losses: 1, without: last}, Off: rules{notAgain: true}, Want: two},
		{Name: "it does not, whether or not the records of other masters were confirmed", World: world{losses: 1, without: last}, Off: rules{settles: true}, Want: two},
		{Name: "votes from before it begins again are used", World: world{losses: 1, without: last}, Off: rules{votesStay: true}, Want: two},
		{Name: "votes of a master that has lost its memory again meanwhile are used", World: world{losses: 2, without: last}, Off: rules{connected: true}, Want: two},

		{Name: "all rules; the holder reaches a minority, the other is a stranger", World: world{reach: one}, Want: two},
		{Name: "all rules; the holder reaches no master, the other is a stranger", World: world{reach: nowhere}, Want: two},
		{Name: "all rules; one master loses its memory, a third lacks the key and the long MaxTTL", World: world{losses: 1, without: last, undeclared: last}, Want: two},
	}, world.explore)
}
