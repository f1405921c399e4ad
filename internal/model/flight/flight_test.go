package flight

import (
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

func (w world) explore(off rules) explore.Result {
	w.rules = off
	initial := state{left: w}
	initial.left.rules = rules{}
	return explore.Model[state, string]{
		Initial:    initial,
		Successors: w.successors,
		Check:      func(s *state) string { return s.bad },
		Must: map[string]func(*state) bool{
			"a result that B can take": func(s *state) bool { return s.values>>s.claim&1 == 1 && s.claim != 0 && s.unseen },
		},
	}.Explore().Result()
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
	var cases []explore.Case[world, rules]
	for name, w := range worlds {
		cases = append(cases, explore.Case[world, rules]{Name: name, World: w, Floor: 1000})
	}
	explore.Check(t, cases, world.explore)
}

func TestEachRuleIsNeeded(t *testing.T) {
	explore.Check(t, []explore.Case[world, rules]{
		{Name: "a poll is not answered when the result is published", World: worlds["deleted"], Off: rules{ignoresPoll: true}, Want: stale},
		{Name: "a poll has found the claim missing", World: worlds["deleted"], Off: rules{ignoresNew: true}, Want: stale},
		{Name: "the subscription was lost", World: worlds["deaf"], Off: rules{ignoresDeaf: true}, Want: stale},
		{Name: "a heal was sent", World: worlds["healed"], Off: rules{ignoresHeal: true}, Want: stale},
		{Name: "a poll was lost with its connection", World: worlds["cut"], Off: rules{ignoresLink: true}, Want: stale},
		{Name: "the master has restarted while the function ran", World: worlds["restored"], Off: rules{ignoresLink: true}, Want: stale},
		{Name: "the master votes later", World: worlds["plain"], Off: rules{votesLate: true}, Want: stale},
		{Name: "the script does not look at the key", World: worlds["deleted"], Off: rules{publishesBlind: true}, Want: stale},
		{Name: "B does not wait for the answer", World: worlds["plain"], Off: rules{takesUnasked: true}, Want: stale},
		{Name: "B does not heed the answer", World: worlds["plain"], Off: rules{takesSeen: true}, Want: stale},
		{Name: "B believes an answer to a poll", World: worlds["cut off"], Off: rules{believesPolls: true}, Want: stale},
		{Name: "B takes a result that an earlier claim was sent", World: worlds["again"], Off: rules{takesAnyClaim: true}, Want: stale},
	}, world.explore)
}
