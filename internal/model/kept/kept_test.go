package kept

import (
	"flag"
	"fmt"
	"maps"
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
	quiet := s.toMaster.empty() && s.fromM.empty() && s.wOut.empty() && s.wIn.empty() && s.recall == 0 && s.decider == out && !s.lossTook
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

// A result is the outcome of an exploration.
type result struct {
	states  int
	found   string
	trace   []string
	entered bool // in some state, a goroutine has entered a kept lease
	waited  bool // in some state, W has the lock
}

func (r result) String() string {
	return explore.Text(fmt.Sprintf("%d states: %q", r.states, r.found), r.trace)
}

func (w world) explore() (r result) {
	search := explore.Model[state, step]{
		Initial: state{calls: w.calls, others: w.others, ticks: w.ticks, renewals: w.renewals, loses: w.loses,
			deletes: w.deletes, restarts: w.restarts, ended: true, told: true, released: true},
		Successors: w.successors,
		Broken:     func(s *state) bool { return w.check(s) != "" },
		Progress:   w.polls,
		Observe: func(s step) {
			r.entered = r.entered || strings.HasSuffix(string(s), " enters")
			r.waited = r.waited || s == "W unlocks"
		},
	}.Explore()
	r.states = len(search.States)
	if search.Broken >= 0 {
		r.found, r.trace = w.check(&search.States[search.Broken]), search.Trace(search.Broken)
	} else if w.polls { // they must end each wait
		waits, not := func(s *state) bool { return s.w == waiting }, func(s *state) bool { return s.w != waiting }
		if at := search.Trapped(waits, not); at >= 0 {
			r.found, r.trace = untold, search.Trace(at)
		}
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
}

var large = flag.Bool("large", false, "explore larger worlds, too")

// These worlds are explored only with the flag -large.
var largeWorlds = map[string]world{
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
	worlds := maps.Clone(worlds)
	if *large {
		maps.Copy(worlds, largeWorlds)
	}
	for name, w := range worlds {
		t.Run(name, func(t *testing.T) {
			r := w.explore()
			if t.Log(r); r.found != "" {
				t.Errorf("found: %s", r.found)
			}
			if r.states < 100 || !r.entered || r.waited != (w.others > 0) {
				t.Errorf("%d states, entered: %v, W had the lock: %v; part of the model is not reached", r.states, r.entered, r.waited)
			}
		})
	}
}

// TestALateRenewalDoesNoHarm switches off a rule that another rule covers: a renewal makes no key.
func TestALateRenewalDoesNoHarm(t *testing.T) {
	w := worlds["aged"]
	w.renewsLate = true
	if r := w.explore(); r.found != "" {
		t.Errorf("found: %s", r)
	}
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
	for _, v := range []struct {
		name  string
		world world
		off   rules
		want  string
	}{
		{"the lease is taken in two steps", worlds["recalled"], rules{looseEnter: true}, two},
		{"a lease that is not idle is entered", worlds["recalled"], rules{entersGone: true}, two},
		{"an idle lease is given up without taking it", worlds["recalled"], rules{looseGiveUp: true}, late},
		{"the release is queued before the lease is taken", worlds["recalled"], rules{releasesFirst: true}, late},
		{"a recall releases a lease that a goroutine holds", worlds["recalled"], rules{givesHeld: true}, late},
		{"the clocks are read before the lease is taken", worlds["aged"], rules{checksFirst: true}, over},
		{"the clocks are not read", worlds["aged"], rules{checksNone: true}, over},
		{"the bits are not looked at", worlds["deleted"], rules{checksNoBit: true}, recalled},
		{"the release of a lost lease is queued before the keeper is told", worlds["deleted"], rules{marksLate: true}, late},
		{"the keeper is not told of a loss", worlds["deleted"], rules{lossSilent: true}, late},
		{"a recall while the lease is held is dropped", worlds["recalled"], rules{forgetsAsk: true}, waits},
		{"a recall before the lease is held is dropped", worlds["recalled"], rules{forgetsSoon: true}, waits},
		{"a registration sends no recall", worlds["recalled"], rules{silent: true}, waits},
		{"a recall is lost, and there are no polls", noPolls, rules{}, waits},
		{"a recall is lost, and polls send none", worlds["lossy"], rules{silentPolls: true}, waits},
		{"Unlock ignores the bits", worlds["twice"], rules{blindUnlock: true}, waits},
		{"a goroutine at the gate leaves no bit", worlds["gate"], rules{noMark: true}, sleeps},
		{"a goroutine that was handed the lease does not look for others", worlds["gate"], rules{oneMark: true}, sleeps},
		{"the bit of the gate is cleared late", worlds["gate"], rules{clearsLate: true}, sleeps},
		{"a lease is kept beside a goroutine that it cannot be handed to", worlds["stranger"], rules{keepsBeside: true}, sleeps},
		{"readers: a lease that is not idle is given up", worlds["readers"], rules{givesHeld: true}, late},
		{"readers: the clocks are read before the lease is entered", worlds["readers, aged"], rules{checksFirst: true}, over},
		{"readers: the clocks are not read", worlds["readers, aged"], rules{checksNone: true}, over},
		{"readers: the bits are not looked at", worlds["readers"], rules{checksNoBit: true}, recalled},
		{"readers: the release of a lost lease is queued first", worlds["readers, deleted"], rules{marksLate: true}, late},
		{"readers: nobody is told of a loss", worlds["readers, deleted"], rules{lossSilent: true}, late},
		{"readers: a recall while the lease is held is dropped", worlds["readers"], rules{forgetsAsk: true}, waits},
		{"readers: a recall before the lease is held is dropped", worlds["readers"], rules{forgetsSoon: true}, waits},
		{"readers: the last one that leaves ignores the bits", worlds["readers"], rules{blindUnlock: true}, sleeps},
		{"readers: a writer at the gate leaves no bit", worlds["readers, writer"], rules{noMark: true}, sleeps},
		{"readers: a lease is given up without taking it", worlds["readers"], rules{looseGiveUp: true}, late},
		{"a lease begins later than it was seen to last", worlds["deleted"], rules{looksEarly: true}, late},
		{"readers: a lease begins later than it was seen to last", worlds["readers, deleted"], rules{looksEarly: true}, late},
		{"a heal follows the release", worlds["aged"], rules{healsLate: true}, left},
		{"a renewal that sets the key follows the release", worlds["aged"], rules{renewsLate: true, renewSets: true}, left},
		{"there is no quarantine", worlds["restarted"], rules{noQuarantine: true}, clients},
	} {
		t.Run(v.name, func(t *testing.T) {
			w := v.world
			w.rules = v.off
			r := w.explore()
			if t.Log(r); r.found != v.want {
				t.Errorf("found: %q, want %q", r.found, v.want)
			}
		})
	}
}
