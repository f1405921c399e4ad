package main

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/proxy"
)

// A kind is a kind of fault: how one is drawn, and how it is done.
//
// Two kinds are subtle: a step of a master's clock, and swapped databases. The library finds them
// only through a client that was connected before, which inspects the master within a second, and
// promises nothing until then. So no client starts, stops or loses a link around these.
type kind struct {
	name   string
	odds   int
	subtle int // the odds in a stretch of subtle faults; 0 where it cannot be
	draw   func(*scheduler, *fault, stretch) bool
	do     func(*run, fault) error
}

// maxOffset is how much a master's clock may be wrong. It is below half a second, the limit for
// fences.
const maxOffset = 450 * time.Millisecond

// tailLost is the name of the fault that has a master lose the tail of its file.
const tailLost = "restart-tail-lost"

var kinds = []*kind{
	{"restart-empty", 6, 3, drawCrash, func(r *run, f fault) error { return r.fleet[f.masters[0]].crash(rememberNothing, 0, f.length) }},
	{tailLost, 5, 2, drawTail, func(r *run, f fault) error { return r.fleet[f.masters[0]].crash(rememberOld, f.amount, f.length) }},
	{"restart-with-data", 4, 2, drawCrash, func(r *run, f fault) error { return r.fleet[f.masters[0]].crash(rememberAll, 0, f.length) }},
	{"freeze", 10, 3, drawFreeze, func(r *run, f fault) error { return r.fleet[f.masters[0]].freeze(f.length) }},
	{"flushall", 4, 2, drawForget, command("FLUSHALL")},
	{"swapdb", 0, 15, drawSubtle, subtle(command("SWAPDB", 0, 1))},
	{"clock-step", 0, 25, drawStep, subtle(stepClock)},
	{"script-flush", 3, 2, drawTouch, command("SCRIPT", "FLUSH")},
	{"client-kill", 4, 2, drawTouch, command("CLIENT", "KILL", "TYPE", "normal")},
	{"pubsub-kill", 3, 1, drawTouch, command("CLIENT", "KILL", "TYPE", "pubsub")},

	{"late", 8, 0, drawLink(50, 2500), ways(proxy.Holds, proxy.Holds)},
	{"late-requests", 4, 0, drawLink(50, 2500), ways(proxy.Holds, proxy.Passes)},
	{"late-replies", 6, 0, drawLink(50, 2500), ways(proxy.Passes, proxy.Holds)},
	{"lost", 5, 0, drawLink(50, 2500), ways(proxy.Loses, proxy.Loses)},
	{"lost-requests", 4, 0, drawLink(50, 1500), ways(proxy.Loses, proxy.Passes)},
	{"lost-replies", 6, 0, drawLink(50, 1500), ways(proxy.Passes, proxy.Loses)},
	{"flapping", 8, 0, drawFlapping, flap},
	{"slow", 6, 0, drawSlow, slowLinks},
	{"reset", 5, 0, drawLink(0, 1), onLinks((*proxy.Proxy).Reset)},
	{"half-open", 4, 0, drawLink(0, 1), onLinks((*proxy.Proxy).Silence)},

	{"pause", 10, 0, drawPause, func(r *run, f fault) error { return r.clients[f.client].pause(f.length) }},
	{"stutter", 5, 0, drawStutter, func(r *run, f fault) error { return r.clients[f.client].stutter(f.length, f.amount) }},
	{"kill", 4, 0, drawKill, func(r *run, f fault) error { return r.restartClient(f, true) }},
	{"quit", 3, 0, drawKill, func(r *run, f fault) error { return r.restartClient(f, false) }},
}

// settings are kinds of faults that are drawn with -traits only: somebody changes the settings of a server, or the clock of a client,
// while it runs.
var settings = []*kind{
	{"memory-full", 4, 2, drawFull, fillMemory},
	{"evict", 4, 2, drawEvict, evict},
	{"evict-locks", 6, 0, drawEvictLocks, evictLocks},
	{"client-clock", 6, 0, drawClientClock, setClientClock},
}

// maxClientOffset is how much a client's clock may be wrong. A lease of a second ends a quarter earlier. With maxOffset at a master, both
// clocks differ by less than 0.75 s, for which fences have room.
const maxClientOffset = 250 * time.Millisecond

// plenty is more memory than a master uses.
const plenty = 1 << 30

// noticed is how long after a change of settings clients that are connected have noticed it.
const noticed = 1500 * time.Millisecond

// forgetting returns how long a master that loses its data counts as away.
func (s *scheduler) forgetting(length time.Duration) time.Duration {
	return length + s.quarantine() + 200*time.Millisecond
}

func drawCrash(s *scheduler, f *fault, st stretch) bool {
	f.length = s.between(0, 50*time.Millisecond)
	if s.rng.IntN(2) == 0 {
		f.length = s.between(0, 1500*time.Millisecond)
	}
	return s.takeAway(f, st, s.forgetting(f.length))
}

func drawTail(s *scheduler, f *fault, st stretch) bool {
	f.length, f.amount = s.between(0, 500*time.Millisecond), s.between(50*time.Millisecond, 2*s.ttl)
	return s.takeAway(f, st, s.forgetting(f.length+f.amount))
}

func drawForget(s *scheduler, f *fault, st stretch) bool {
	return s.takeAway(f, st, s.forgetting(0))
}

func drawFull(s *scheduler, f *fault, st stretch) bool {
	f.length = s.between(50*time.Millisecond, 3*s.ttl)
	return s.takeAway(f, st, f.length+1500*time.Millisecond) // until a probe has found that it has memory again
}

func drawEvict(s *scheduler, f *fault, st stretch) bool {
	f.length = s.between(50*time.Millisecond, time.Second)
	return s.takeAway(f, st, s.forgetting(f.length+noticed))
}

func drawEvictLocks(s *scheduler, f *fault, st stretch) bool {
	if st.most < masters {
		return false
	}
	for _, i := range s.rng.Perm(masters) {
		if s.away[i] <= f.at && len(f.masters) <= masters/2 {
			f.masters = append(f.masters, i)
		}
	}
	if len(f.masters) <= masters/2 {
		return false
	}
	for _, i := range f.masters {
		s.away[i] = f.at + s.forgetting(noticed)
	}
	slices.Sort(f.masters)
	return true
}

func drawClientClock(s *scheduler, f *fault, _ stretch) bool {
	f.client = s.rng.IntN(s.clients)
	f.amount = s.between(-maxClientOffset, maxClientOffset)
	return drawTraits(s.seed, f.client, s.ttl).Stepped
}

func drawFreeze(s *scheduler, f *fault, st stretch) bool {
	f.length = s.between(50*time.Millisecond, 3*s.ttl)
	return s.takeAway(f, st, f.length+100*time.Millisecond)
}

func drawTouch(s *scheduler, f *fault, st stretch) bool {
	f.masters = []int{s.rng.IntN(masters)}
	return s.away[f.masters[0]] <= f.at
}

func drawSubtle(s *scheduler, f *fault, st stretch) bool {
	return s.subtly(f) && s.takeAway(f, st, s.forgetting(0))
}

func drawStep(s *scheduler, f *fault, st stretch) bool {
	if !drawSubtle(s, f, st) {
		return false
	}
	// A step must be longer than a round trip to be detected, so the clock has one of three
	// offsets that are far apart.
	i := f.masters[0]
	to := []time.Duration{-maxOffset, 0, maxOffset}[s.rng.IntN(3)]
	if to == s.offset[i] {
		to = -to
		if to == 0 {
			to = maxOffset
		}
	}
	s.offset[i], f.amount = to, to
	return true
}

func drawLink(from, to int) func(*scheduler, *fault, stretch) bool {
	return func(s *scheduler, f *fault, _ stretch) bool {
		return s.linkFault(f, time.Duration(from)*time.Millisecond, time.Duration(to)*time.Millisecond)
	}
}

func drawFlapping(s *scheduler, f *fault, _ stretch) bool {
	f.amount = s.between(50*time.Millisecond, s.ttl)
	ok := s.linkFault(f, s.ttl, 4*s.ttl)
	f.masters = s.rng.Perm(masters)[:2+s.rng.IntN(masters-1)]
	slices.Sort(f.masters)
	return ok
}

func drawSlow(s *scheduler, f *fault, _ stretch) bool {
	f.amount = s.between(5*time.Millisecond, 80*time.Millisecond)
	return s.linkFault(f, 500*time.Millisecond, 4*time.Second)
}

func drawPause(s *scheduler, f *fault, _ stretch) bool {
	f.length = s.between(20*time.Millisecond, s.ttl)
	if s.rng.IntN(2) == 0 {
		f.length = s.between(s.ttl, 3*s.ttl)
	}
	return s.freeClient(f, f.at+f.length)
}

func drawStutter(s *scheduler, f *fault, _ stretch) bool {
	f.length, f.amount = s.between(s.ttl, 3*s.ttl), s.between(20*time.Millisecond, s.ttl)
	return s.freeClient(f, f.at+f.length+f.amount)
}

func drawKill(s *scheduler, f *fault, _ stretch) bool {
	f.length = s.between(0, time.Second)
	return s.freeClient(f, f.at+f.length+500*time.Millisecond)
}
