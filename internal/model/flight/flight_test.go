package flight

import (
	"fmt"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// A result is the outcome of an exploration.
type result struct {
	states int
	found  string
	trace  []string
	fresh  bool // in some state, B could take a result
}

func (r result) String() string {
	return explore.Text(fmt.Sprintf("%d states: %q", r.states, r.found), r.trace)
}

func (w world) explore() (r result) {
	initial := state{left: w}
	initial.left.rules = rules{}
	search := explore.Model[state, step]{
		Initial:    initial,
		Successors: w.successors,
		Broken: func(s *state) bool {
			r.fresh = r.fresh || s.values>>s.claim&1 == 1 && s.claim != 0 && s.unseen
			return s.bad != ""
		},
	}.Explore()
	r.states = len(search.States)
	if search.Broken >= 0 {
		r.found, r.trace = search.States[search.Broken].bad, search.Trace(search.Broken)
	}
	return r
}

var worlds = map[string]world{
	"plain":     {calls: 1, polls: 1},
	"deleted":   {calls: 1, polls: 2, deletes: 2},
	"healed":    {calls: 1, polls: 1, deletes: 1, heals: 1},
	"cut":       {calls: 1, polls: 1, deletes: 1, breaks: 1},
	"cut off":   {calls: 1, pollsOfB: 1, breaksOfB: 1, polls: 1},
	"deaf":      {calls: 1, polls: 2, deletes: 1, deaf: 1},
	"again":     {calls: 2, polls: 1, pollsOfB: 1},
	"restored":  {calls: 1, polls: 1, deletes: 1, saves: 1, restores: 1},
	"forgetful": {calls: 1, polls: 1, pollsOfB: 1, forgets: 1, heals: 1},
}

func TestAResultIsNeverOlderThanTheCall(t *testing.T) {
	for name, w := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.explore()
			if t.Log(r); r.found != "" {
				t.Errorf("found: %s", r.found)
			}
			if r.states < 1000 || !r.fresh {
				t.Errorf("%d states, a result could be taken: %v; part of the model is not reached", r.states, r.fresh)
			}
		})
	}
}

var struckOut = []struct {
	name string
	in   string
	off  rules
}{
	{"a poll is not answered when the result is published", "deleted", rules{ignoresPoll: true}},
	{"a poll has found the claim missing", "deleted", rules{ignoresNew: true}},
	{"the subscription was lost", "deaf", rules{ignoresDeaf: true}},
	{"a heal was sent", "healed", rules{ignoresHeal: true}},
	{"a poll was lost with its connection", "cut", rules{ignoresLink: true}},
	{"the master has restarted while the function ran", "restored", rules{ignoresLink: true}},
	{"the master votes later", "plain", rules{votesLate: true}},
	{"the script does not look at the key", "deleted", rules{publishesBlind: true}},
	{"B does not wait for the answer", "plain", rules{takesUnasked: true}},
	{"B does not heed the answer", "plain", rules{takesSeen: true}},
	{"B believes an answer to a poll", "cut off", rules{believesPolls: true}},
	{"B takes a result that an earlier claim was sent", "again", rules{takesAnyClaim: true}},
}

func TestEachRuleIsNeeded(t *testing.T) {
	for _, v := range struckOut {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			w := worlds[v.in]
			w.rules = v.off
			r := w.explore()
			if t.Log(r); r.found != stale {
				t.Errorf("found: %q, want %q", r.found, stale)
			}
		})
	}
}
