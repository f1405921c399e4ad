package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A fault is one entry of the schedule.
type fault struct {
	at      time.Duration // after the beginning of the run
	length  time.Duration
	kind    *kind
	masters []int         // the affected masters
	client  int           // the affected client; -1 for none
	amount  time.Duration // its meaning depends on the kind
}

func (f fault) String() string {
	s := fmt.Sprintf("%7.3fs %s", f.at.Seconds(), f.kind.name)
	if f.client >= 0 {
		s += fmt.Sprintf(" client %d", f.client)
	}
	if len(f.masters) > 0 {
		s += " masters " + strings.Trim(fmt.Sprint(f.masters), "[]")
	}
	if f.length > 0 {
		s += fmt.Sprintf(" for %v", f.length.Round(time.Millisecond))
	}
	if f.amount != 0 {
		s += fmt.Sprintf(" by %v", f.amount.Round(time.Millisecond))
	}
	return s
}

// A stretch is a part of a run with a certain mix of faults.
type stretch struct {
	name string
	odds int
	most int             // how many masters may be away at once
	gap  time.Duration   // the average time between two faults
	pick func(*kind) int // the odds of a kind; nil for kind.odds
}

// stretches are the kinds of stretches. In most of them a majority of masters stays available.
var stretches = []stretch{
	{name: "quiet", odds: 1, most: 1, gap: 900 * time.Millisecond},
	{name: "minority", odds: 6, most: (masters - 1) / 2, gap: 250 * time.Millisecond},
	{name: "majority", odds: 2, most: masters, gap: 150 * time.Millisecond},
	{name: "subtle", odds: 2, most: masters, gap: 200 * time.Millisecond, pick: func(k *kind) int { return k.subtle }},
}

// A plan has the settings of a schedule.
type plan struct {
	seed    uint64
	length  time.Duration
	clients int
	ttl     time.Duration
	only    *regexp.Regexp // matches the kinds of faults to use; nil for all
}

// quarantine returns how long redlock does not count the votes of a master that has lost its data.
func (p plan) quarantine() time.Duration { return p.ttl + 2*time.Second }

// A scheduler draws faults at random, and keeps track of what they affect.
type scheduler struct {
	plan
	rng   *rand.Rand
	kinds []*kind // that may be drawn

	away   [masters]time.Duration // until when each master is away
	offset [masters]time.Duration // of each master's clock
	busy   []time.Duration        // until when each client is stopped, or starting
	linked []time.Duration        // until when each client's links have a fault
	subtle time.Duration          // until when clients and links must have no fault
}

// schedule returns the faults of a run, by time. It depends on the plan only.
func schedule(p plan) []fault {
	s := &scheduler{plan: p, rng: rand.New(rand.NewPCG(p.seed, 1)), busy: make([]time.Duration, p.clients), linked: make([]time.Duration, p.clients)}
	drawn := kinds
	if drawing {
		drawn = slices.Concat(kinds, settings)
	}
	for _, k := range drawn {
		if p.only == nil || p.only.MatchString(k.name) {
			s.kinds = append(s.kinds, k)
		}
	}
	var all []fault
	if len(s.kinds) == 0 {
		return nil
	}
	at := time.Second
	for at < p.length {
		st := s.stretch()
		end := min(at+time.Duration(3000+s.rng.IntN(5000))*time.Millisecond, p.length)
		if st.pick != nil {
			at = s.settle(at)
			end = min(at+6*time.Second, p.length)
		}
		for at += s.gap(st); at < end; at += s.gap(st) {
			all = append(all, s.draw(at, st)...)
		}
	}
	slices.SortStableFunc(all, func(a, b fault) int { return int(a.at - b.at) })
	return all
}

func (s *scheduler) stretch() stretch {
	n := 0
	for _, st := range stretches {
		n += st.odds
	}
	n = s.rng.IntN(n)
	for _, st := range stretches {
		if n -= st.odds; n < 0 {
			return st
		}
	}
	panic("not reached")
}

func (s *scheduler) gap(st stretch) time.Duration {
	return time.Duration(s.rng.ExpFloat64() * float64(st.gap))
}

// between returns a random duration from a to b.
func (s *scheduler) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.rng.Int64N(int64(b-a)))
}

// draw draws a fault for the time at. In a stretch in which all masters may be away, the fault may
// hit several of them within 400 ms.
func (s *scheduler) draw(at time.Duration, st stretch) []fault {
	k := s.kind(st)
	if k == nil {
		return nil
	}
	f := fault{at: at, kind: k, client: -1}
	if !k.draw(s, &f, st) {
		return nil
	}
	all := []fault{f}
	if st.most < masters || f.client >= 0 || s.rng.IntN(2) == 0 {
		return all
	}
	for range 1 + s.rng.IntN(masters-1) {
		at += s.between(0, 100*time.Millisecond)
		if f := (fault{at: at, kind: k, client: -1}); k.draw(s, &f, st) {
			all = append(all, f)
		}
	}
	return all
}

// kind draws a kind of fault. It returns nil if the plan has none for this stretch.
func (s *scheduler) kind(st stretch) *kind {
	odds := st.pick
	if odds == nil {
		odds = func(k *kind) int { return k.odds }
	}
	n := 0
	for _, k := range s.kinds {
		n += odds(k)
	}
	if n == 0 {
		return nil
	}
	n = s.rng.IntN(n)
	for _, k := range s.kinds {
		if n -= odds(k); n < 0 {
			return k
		}
	}
	panic("not reached")
}

// takeAway chooses a master for a fault that takes it away for so long. It reports false if the
// stretch does not allow another master to be away.
func (s *scheduler) takeAway(f *fault, st stretch, for_ time.Duration) bool {
	gone := 0
	var may []int
	for i, until := range s.away {
		if until > f.at {
			gone++
		} else {
			may = append(may, i)
		}
	}
	if gone >= st.most || len(may) == 0 {
		return false
	}
	i := may[s.rng.IntN(len(may))]
	f.masters = []int{i}
	s.away[i] = f.at + for_
	return true
}

// anyMasters chooses some masters, one most often.
func (s *scheduler) anyMasters(f *fault) {
	n := 1 + min(s.rng.IntN(masters), s.rng.IntN(masters))
	f.masters = s.rng.Perm(masters)[:n]
	slices.Sort(f.masters)
}

// freeClient chooses a client, which is busy until then. It reports false if too many clients are
// busy.
func (s *scheduler) freeClient(f *fault, until time.Duration) bool {
	var may []int
	for i, busy := range s.busy {
		if busy <= f.at {
			may = append(may, i)
		}
	}
	if len(may) <= len(s.busy)/2 || f.at < s.subtle {
		return false
	}
	f.client = may[s.rng.IntN(len(may))]
	s.busy[f.client] = until
	return true
}

// linkFault chooses a client and the masters of the links, and a length.
func (s *scheduler) linkFault(f *fault, from, to time.Duration) bool {
	if f.at < s.subtle {
		return false
	}
	f.client = s.rng.IntN(s.clients)
	f.length = s.between(from, to)
	s.linked[f.client] = max(s.linked[f.client], f.at+f.length)
	s.anyMasters(f)
	return true
}

// settle returns when a stretch of subtle faults may begin: clients and links must have had no
// fault for a while.
func (s *scheduler) settle(at time.Duration) time.Duration {
	return max(at, slices.Max(s.busy), slices.Max(s.linked)) + settled
}

// subtly reports whether a subtle fault may happen, and keeps clients and links free of faults
// after it.
func (s *scheduler) subtly(f *fault) bool {
	if f.at < s.subtle || s.settle(0) > f.at {
		return false
	}
	s.subtle = f.at + settled
	return true
}

// settled is how long before and after a subtle fault clients and links have no fault.
const settled = 2500 * time.Millisecond
