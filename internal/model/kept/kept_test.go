package kept

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/occupancy"
)

const untold = "A CLIENT WAITS FOR A LEASE THAT IS KEPT, AND NOTHING TELLS THE KEEPER"

// check returns what is wrong with a state, or nothing.
func (w *world) check(s *state) string {
	if s.bad != "" {
		return s.bad
	}
	quiet := s.toMaster.Empty() && s.fromM.Empty() && s.wOut.Empty() && s.wIn.Empty() && s.recall == 0 && s.decider == out && !s.lossTook
	if !quiet || s.ended && !(s.told && s.released) {
		return ""
	}
	calm, waits, follows := true, false, false // calm: no goroutine is between two steps
	for _, p := range s.goers[:w.goers] {
		calm = calm && (p == out || p == waiting || p == following)
		waits = waits || p == waiting
		follows = follows || p == following
	}
	idle := s.st != occupancy.None && !s.st.Held() && !s.st.Taken()
	switch {
	case !calm:
	case idle && !s.ended && waits:
		return "A GOROUTINE SLEEPS AT THE GATE OF A LEASE THAT IS KEPT"
	case idle && s.valid > 0 && s.w == waiting && s.inQueue(s.wToken) && s.key == s.token && !w.polls:
		return untold
	case follows && !s.leading:
		return "A READER WAITS, AND NONE LEADS"
	case s.key != 0 && s.key < wToken && (s.key != s.token || s.ended):
		return "A KEY IS LEFT BEHIND"
	}
	return ""
}

func (w world) explore(off rules) explore.Result {
	w.rules = off
	entered, held := false, false // a goroutine has entered a kept lease; W has the lock
	m := explore.Model[state, string]{
		Initial: state{calls: w.calls, others: w.others, ticks: w.ticks, renewals: w.renewals, loses: w.loses,
			deletes: w.deletes, restarts: w.restarts, ended: true, told: true, released: true},
		Successors: w.successors,
		Check:      w.check,
		Observe: func(s string) {
			entered = entered || strings.HasSuffix(s, " enters")
			held = held || s == "W unlocks"
		},
	}
	if w.polls { // they must end each wait
		m.Goals = []explore.Goal[state]{{
			Property: untold,
			Waits:    func(s *state) bool { return s.w == waiting },
			Done:     func(s *state) bool { return s.w != waiting },
		}}
	}
	r := m.Explore().Result()
	if !entered || held != (w.others > 0) {
		r.Missed = fmt.Sprintf("entered: %v, W had the lock: %v", entered, held)
	}
	return r
}

var worlds = map[string]world{
	"recalled":  {goers: 2, calls: 3, others: 1},
	"twice":     {goers: 1, calls: 3, others: 2},
	"aged":      {goers: 2, calls: 2, others: 1, ticks: 5, renewals: 1},
	"deleted":   {goers: 1, calls: 2, others: 1, ticks: 2, renewals: 2, deletes: 1},
	"restarted": {goers: 1, calls: 2, others: 1, ticks: 4, renewals: 1, restarts: 1},
	"lossy":     {goers: 1, calls: 3, others: 1, loses: 1, polls: true},
	"gate":      {goers: 3, calls: 5},
	"stranger":  {goers: 2, calls: 4, stranger: true},
	"expiring":  {goers: 1, calls: 2, others: 1, ticks: 5},

	"readers":          {goers: 3, calls: 4, others: 1, many: true},
	"readers, aged":    {goers: 2, calls: 3, others: 1, ticks: 4, many: true},
	"readers, deleted": {goers: 2, calls: 3, others: 1, ticks: 1, renewals: 1, deletes: 1, many: true},
	"readers, lossy":   {goers: 2, calls: 3, others: 1, loses: 1, polls: true, many: true},
	"readers, writer":  {goers: 3, calls: 4, stranger: true, many: true},

	// These worlds are explored only with the flag -large.
	"large: goroutines":    {goers: 3, calls: 5, others: 2},
	"large: stranger":      {goers: 3, calls: 4, others: 1, ticks: 2, stranger: true},
	"large: aged":          {goers: 2, calls: 3, others: 1, ticks: 6, renewals: 2},
	"large: deleted":       {goers: 2, calls: 3, others: 1, ticks: 3, renewals: 1, deletes: 1},
	"large: restarted":     {goers: 2, calls: 2, others: 1, ticks: 5, renewals: 1, restarts: 1},
	"large: lossy":         {goers: 2, calls: 3, others: 2, ticks: 2, loses: 2, polls: true},
	"large: readers":       {goers: 3, calls: 4, others: 1, ticks: 2, renewals: 1, many: true},
	"large: readers, late": {goers: 3, calls: 3, others: 1, ticks: 3, deletes: 1, many: true, stranger: true},
}

func TestAKeptLockHolds(t *testing.T) {
	var cases []explore.Case[world, rules]
	for name, w := range worlds {
		cases = append(cases, explore.Case[world, rules]{Name: name, World: w, Floor: 100, Large: strings.HasPrefix(name, "large")})
	}
	explore.Check(t, cases, world.explore)
}

// TestALateRenewalDoesNoHarm switches off a rule that another rule covers: a renewal makes no key.
func TestALateRenewalDoesNoHarm(t *testing.T) {
	explore.Check(t, []explore.Case[world, rules]{{Name: "aged", World: worlds["aged"], Off: rules{renewsLate: true}}}, world.explore)
}

func TestEachRuleIsNeeded(t *testing.T) {
	const (
		two      = "TWO GOROUTINES ARE INSIDE"
		late     = "A GOROUTINE ENTERS A LEASE WHOSE RELEASE WAS QUEUED"
		over     = "A GOROUTINE ENTERS A LEASE THAT IS OVER"
		recalled = "A GOROUTINE ENTERS A LEASE THAT WAS RECALLED BEFORE"
		sleeps   = "A GOROUTINE SLEEPS AT THE GATE OF A LEASE THAT IS KEPT"
		waits    = untold
		left     = "A KEY IS LEFT BEHIND"
		clients  = "TWO CLIENTS HAVE THE LOCK"
	)
	noPolls := worlds["lossy"]
	noPolls.polls = false
	explore.Check(t, []explore.Case[world, rules]{
		{Name: "the lease is taken in two steps", World: worlds["recalled"], Off: rules{looseEnter: true}, Want: two},
		{Name: "a lease that is not idle is entered", World: worlds["recalled"], Off: rules{entersGone: true}, Want: two},
		{Name: "an idle lease is given up without taking it", World: worlds["recalled"], Off: rules{looseGiveUp: true}, Want: late},
		{Name: "the release is queued before the lease is taken", World: worlds["recalled"], Off: rules{releasesFirst: true}, Want: late},
		{Name: "a recall releases a lease that a goroutine holds", World: worlds["recalled"], Off: rules{givesHeld: true}, Want: late},
		{Name: "the clocks are read before the lease is taken", World: worlds["aged"], Off: rules{checksFirst: true}, Want: over},
		{Name: "the clocks are not read", World: worlds["aged"], Off: rules{checksNone: true}, Want: over},
		{Name: "the bits are not looked at", World: worlds["deleted"], Off: rules{checksNoBit: true}, Want: recalled},
		{Name: "the release of a lost lease is queued before the keeper is told", World: worlds["deleted"], Off: rules{marksLate: true}, Want: late},
		{Name: "the keeper is not told of a loss", World: worlds["deleted"], Off: rules{lossSilent: true}, Want: late},
		{Name: "a recall while the lease is held is dropped", World: worlds["recalled"], Off: rules{forgetsAsk: true}, Want: waits},
		{Name: "a recall before the lease is held is dropped", World: worlds["recalled"], Off: rules{forgetsSoon: true}, Want: waits},
		{Name: "a registration sends no recall", World: worlds["recalled"], Off: rules{silent: true}, Want: waits},
		{Name: "a recall is lost, and there are no polls", World: noPolls, Want: waits},
		{Name: "a recall is lost, and polls send none", World: worlds["lossy"], Off: rules{silentPolls: true}, Want: waits},
		{Name: "Unlock ignores the bits", World: worlds["twice"], Off: rules{blindUnlock: true}, Want: waits},
		{Name: "a goroutine at the gate leaves no bit", World: worlds["gate"], Off: rules{noMark: true}, Want: sleeps},
		{Name: "a goroutine that was handed the lease does not look for others", World: worlds["gate"], Off: rules{oneMark: true}, Want: sleeps},
		{Name: "the bit of the gate is cleared late", World: worlds["gate"], Off: rules{clearsLate: true}, Want: sleeps},
		{Name: "a lease is kept beside a goroutine that it cannot be handed to", World: worlds["stranger"], Off: rules{keepsBeside: true}, Want: sleeps},
		{Name: "readers: a lease that is not idle is given up", World: worlds["readers"], Off: rules{givesHeld: true}, Want: late},
		{Name: "readers: the clocks are read before the lease is entered", World: worlds["readers, aged"], Off: rules{checksFirst: true}, Want: over},
		{Name: "readers: the clocks are not read", World: worlds["readers, aged"], Off: rules{checksNone: true}, Want: over},
		{Name: "readers: the bits are not looked at", World: worlds["readers"], Off: rules{checksNoBit: true}, Want: recalled},
		{Name: "readers: the release of a lost lease is queued first", World: worlds["readers, deleted"], Off: rules{marksLate: true}, Want: late},
		{Name: "readers: nobody is told of a loss", World: worlds["readers, deleted"], Off: rules{lossSilent: true}, Want: late},
		{Name: "readers: a recall while the lease is held is dropped", World: worlds["readers"], Off: rules{forgetsAsk: true}, Want: waits},
		{Name: "readers: a recall before the lease is held is dropped", World: worlds["readers"], Off: rules{forgetsSoon: true}, Want: waits},
		{Name: "readers: the last one that leaves ignores the bits", World: worlds["readers"], Off: rules{blindUnlock: true}, Want: sleeps},
		{Name: "readers: a writer at the gate leaves no bit", World: worlds["readers, writer"], Off: rules{noMark: true}, Want: sleeps},
		{Name: "readers: a lease is given up without taking it", World: worlds["readers"], Off: rules{looseGiveUp: true}, Want: late},
		{Name: "a lease begins later than it was seen to last", World: worlds["deleted"], Off: rules{looksEarly: true}, Want: late},
		{Name: "readers: a lease begins later than it was seen to last", World: worlds["readers, deleted"], Off: rules{looksEarly: true}, Want: late},
		{Name: "a heal follows the release", World: worlds["aged"], Off: rules{healsLate: true}, Want: left},
		{Name: "a renewal that sets the key follows the release", World: worlds["aged"], Off: rules{renewsLate: true, renewSets: true}, Want: left},
		{Name: "there is no quarantine", World: worlds["restarted"], Off: rules{noQuarantine: true}, Want: clients},
	}, world.explore)
}
