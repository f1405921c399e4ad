package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
)

// These profiles look for clients that do not get their turns, while others use the lock without a pause. They draw what
// the other profiles keep constant: kinds of clients, their settings, rights and distances, and kinds of locks on one name.
// All processes lock again and again until plan.busy has passed.

// A kind is what a client can and cannot do. It decides how long the client may wait while others have their turns.
type kind int

const (
	usual      kind = iota // as in the other profiles: it has no bound here
	queueing               // its claim may be granted the lock
	unrenewed              // its leases are not renewed, or it is a writer, or locks several names
	deaf                   // it has no subscription
	throttled              // it is stopped again and again: it has no bound, but the others have
	idleReader             // it reads for no time, again and again
)

func (k kind) String() string {
	return [...]string{"usual", "queueing", "unrenewed", "deaf", "throttled", "idle reader"}[k]
}

// settings are those of one process that are not the plan's.
type settings struct {
	kind      kind
	drift     float64       // Options.DriftFactor
	renew     time.Duration // LockOptions.RenewEvery
	noWakeups bool          // Options.DisableWakeups
	denied    []string      // commands that the process has no right to use
}

func (s settings) String() string {
	return fmt.Sprintf("%v, drift %v, renewal %v, wake-ups %v, denied %q", s.kind, s.drift, s.renew, !s.noWakeups, strings.Join(s.denied, " "))
}

// turnsProfiles are not among profiles: TestTurns runs them, TestFlights runs flights, and TestPermits runs permits.
var turnsProfiles = []*profile{
	{name: "kinds", make: makeKinds, free: 3 * time.Second},
	{name: "far", make: makeFar, free: 5 * time.Second},
	{name: "mixed", make: makeMixed, free: 3 * time.Second},
	{name: "slowing", make: makeSlowing, free: 8 * time.Second},
	{name: "stopped", make: makeStopped, free: 2300 * time.Millisecond}, // see run.freeFor; the round trips are of 4 ms at most
	{name: "promotion", make: makePromotion, free: 2 * time.Second},
	{name: "stalls", make: makeStalls, free: 2 * time.Second},
	{name: "crowd", make: makeCrowd, free: crowdFree},
	{name: "flights", make: makeFlights, free: faultyFree},
	{name: "permits", make: makePermits, free: faultyFree},
	{name: "slow-master", make: makeSlowMaster, free: 5 * time.Second, throughput: 80},
}

// busyFor draws for how long all processes lock.
func (m *maker) busyFor() {
	m.lock.TTL, m.wakeups, m.automatic = 30*time.Second, true, true
	m.busyUntil = 12 * time.Second
}

// distant returns routes that take about one-way d, with the farthest master a quarter farther than the nearest.
func (m *maker) distant(d time.Duration) (routes []route) {
	for range m.masters {
		one := d + time.Duration(m.Int64N(int64(d)/4+1))
		routes = append(routes, route{delay: [2]time.Duration{one, one}, jitter: d / 50})
	}
	return routes
}

// loops adds a process with one goroutine that locks again and again.
func (m *maker) loops(s settings, ttl time.Duration, routes []route, c call) {
	c.name = "a"
	if c.think == 0 {
		c.think = m.between(0, 2*time.Millisecond)
	}
	m.processes = append(m.processes, processPlan{routes: routes, workers: [][]call{{c}}, ttl: ttl, settings: s})
}

// neighbours adds processes near the masters that use the lock without a pause.
func (m *maker) neighbours(n int) {
	for range n {
		m.loops(settings{kind: queueing}, 0, m.distant(m.between(200*time.Microsecond, 2*time.Millisecond)),
			call{kind: callLock, hold: m.between(10*time.Millisecond, 40*time.Millisecond)})
	}
}

// makeKinds: clients that differ in one setting or right, beside others near the masters.
func makeKinds(m *maker) {
	m.busyFor()
	m.neighbours(1 + m.IntN(3))
	near := m.distant(m.between(200*time.Microsecond, 5*time.Millisecond))
	c := call{kind: callLock, hold: m.between(time.Millisecond, 20*time.Millisecond)}
	switch m.IntN(6) {
	case 0:
		m.loops(settings{kind: deaf, denied: []string{"SUBSCRIBE"}}, 0, near, c)
	case 1:
		m.loops(settings{kind: deaf, noWakeups: true}, 0, near, c)
	case 2:
		m.loops(settings{kind: unrenewed, renew: -1}, 0, near, c)
	case 3: // much drift
		m.loops(settings{kind: queueing, drift: 0.5}, 400*time.Millisecond, near, c)
	case 4:
		m.loops(settings{kind: queueing, drift: 0.99, renew: 20 * time.Millisecond}, 10*time.Second, near, c)
	case 5:
		m.loops(settings{kind: queueing, denied: []string{[]string{"INFO", "ROLE", "CLIENT", "CONFIG", "ACL"}[m.IntN(5)]}}, 0, near, c)
	}
}

// makeFar: a client of any kind far from the masters, up to 500 ms there and back, beside others near them.
func makeFar(m *maker) {
	m.busyFor()
	m.neighbours(2)
	far := m.distant(m.between(20*time.Millisecond, 200*time.Millisecond))
	c := call{kind: callLock, hold: m.between(time.Millisecond, 20*time.Millisecond)}
	switch m.IntN(3) {
	case 0:
		m.loops(settings{kind: queueing}, 0, far, c)
	case 1:
		m.loops(settings{kind: unrenewed, renew: -1}, 0, far, c)
	case 2:
		m.loops(settings{kind: unrenewed}, 0, far, call{kind: callLock, side: writer, hold: c.hold})
		for i := range m.processes {
			m.processes[i].workers[0][0].side = writer
		}
	}
}

// makeMixed: several kinds of locks on one name, and sets with it.
func makeMixed(m *maker) {
	m.busyFor()
	for i := range 2 + m.IntN(3) {
		c := call{kind: callLock, hold: m.between(time.Millisecond, 20*time.Millisecond), think: m.between(time.Millisecond, 100*time.Millisecond)}
		s := settings{kind: queueing}
		switch m.IntN(4) {
		case 0:
			s.kind, c.side = unrenewed, writer
		case 1:
			s.kind, c.more = unrenewed, []string{"b"}
		}
		if i == 0 {
			c.side, c.more, c.think = reader, nil, m.between(50*time.Millisecond, 250*time.Millisecond)
			s.kind, c.hold = idleReader, 0
		}
		m.loops(s, 10*time.Second, m.distant(m.between(200*time.Microsecond, 5*time.Millisecond)), c)
	}
}

// makeSlowing: the distance of a client changes while it waits.
func makeSlowing(m *maker) {
	m.busyFor()
	m.neighbours(2)
	m.loops(settings{kind: queueing}, 0, m.distant(m.between(time.Millisecond, 20*time.Millisecond)),
		call{kind: callLock, hold: m.between(time.Millisecond, 20*time.Millisecond)})
	m.add(fault{kind: slowLink, at: m.between(time.Second, 2*time.Second), lasts: 20 * time.Second, process: 2, masters: m.everywhere(),
		amount: m.between(100*time.Millisecond, 300*time.Millisecond)})
}

// makeStopped: clients are stopped while they wait, for the rest of the run, or again and again. Those that are stopped
// for good take no turns from the others. Those that run now and then hold the lock while they are stopped, so the bound
// does not hold for them.
func makeStopped(m *maker) {
	m.busyFor()
	m.neighbours(2)
	throttles := m.one(3)
	for range 2 + m.IntN(5) {
		m.loops(settings{kind: throttled}, 0, m.distant(m.between(200*time.Microsecond, 2*time.Millisecond)),
			call{kind: callLock, hold: time.Millisecond})
		f := fault{kind: pauseProcess, at: m.between(500*time.Millisecond, 600*time.Millisecond), lasts: 11 * time.Second, process: len(m.processes) - 1}
		if throttles {
			f.kind, f.amount = throttleProcess, m.between(300*time.Millisecond, 600*time.Millisecond)
		}
		m.add(f)
	}
}

// makePromotion: the addresses of masters lead to other servers with the same memory, one after the other. The subscriptions
// of one client remain at the old servers.
func makePromotion(m *maker) {
	m.busyFor()
	m.spare = true
	m.neighbours(2)
	m.loops(settings{kind: queueing}, 0, m.distant(m.between(200*time.Microsecond, 5*time.Millisecond)),
		call{kind: callLock, hold: m.between(time.Millisecond, 20*time.Millisecond)})
	for i := range m.masters {
		m.add(fault{kind: promoteReplica, at: time.Second + time.Duration(i)*300*time.Millisecond, process: 2, masters: []int{i}})
	}
}

// makeStalls: single links stall for up to a second, one at a time. A quorum of masters answers everybody all the time, so
// no lease may be lost.
func makeStalls(m *maker) {
	m.busyFor()
	for i := range 4 { // the first holds for longer than a stall
		hold := [2]time.Duration{30 * time.Millisecond, 80 * time.Millisecond}
		if i == 0 {
			hold = [2]time.Duration{600 * time.Millisecond, 1200 * time.Millisecond}
		}
		m.loops(settings{kind: queueing}, 0, m.distant(m.between(2*time.Millisecond, 20*time.Millisecond)),
			call{kind: callLock, hold: m.between(hold[0], hold[1])})
	}
	for at := time.Second; at < m.busyUntil; at += 900 * time.Millisecond {
		m.add(fault{kind: []faultKind{cutLink, cutLinkOneWay}[m.IntN(2)], at: at + m.between(0, 200*time.Millisecond), lasts: m.between(400*time.Millisecond, 690*time.Millisecond),
			process: 0, masters: m.someMasters(1), way: direction(m.IntN(2))})
	}
	m.lossless = true
}

// makeSlowMaster: one master is slow, or hangs. The others are a quorum, so the clients are about as fast as without it.
func makeSlowMaster(m *maker) {
	m.busyFor()
	m.masters, m.busyUntil = 3+2*m.IntN(2), 4*time.Second
	m.timeouts = []time.Duration{0, time.Second, 2 * time.Second}[m.IntN(3)]
	m.lock.TTL = 40 * time.Second // NodeTimeout is at most a twentieth of it
	s := settings{kind: queueing}
	if m.one(2) {
		s.kind, s.renew = unrenewed, -1
	}
	for range 3 {
		m.loops(s, 0, m.distant(m.between(200*time.Microsecond, 2*time.Millisecond)), call{kind: callLock, hold: 10 * time.Millisecond})
	}
	m.slow.master = m.IntN(m.masters)
	switch m.IntN(4) {
	case 0:
		m.slow.hung = true
	default:
		m.slow.late = []time.Duration{40, 600, 900}[m.IntN(3)] * time.Millisecond
	}
}

// checkThroughput carries out a plan again, but without its slow master, and checks that this makes no large difference.
func checkThroughput(t *testing.T, p *plan, o *outcome) {
	if o.failed() || p.profile.throughput == 0 {
		return
	}
	healthy, same := *p, *p.profile
	same.throughput = 0
	healthy.profile, healthy.slow = &same, slowMaster{}
	all := simulate(t, &healthy)
	o.violations = all.violations
	if most := all.figures.busy; !all.failed() && 100*o.figures.busy < p.profile.throughput*most {
		o.violations = append(o.violations, violation{o.figures.took, "throughput", fmt.Sprintf("the lock was had %d times with %v, and %d times without",
			o.figures.busy, p.slow, most)})
	}
}

// demand is what a waiting client may demand: it has a violation when it has waited for longer than within, and at least
// turns others have entered meanwhile. ok is false if the client may demand nothing.
//
//   - The clients that queue take turns. A client that is far away misses those that begin and end while its messages travel.
//   - A client that polls has the lock left free for it after a second.
func (r *run) demand(w *waiter) (turns int, within time.Duration, ok bool) {
	trip, others := w.turn.life.quorumAway(), len(r.plan.processes)
	switch w.turn.process.plan.settings.kind {
	case queueing:
		return 8 * others, 2*time.Second + 16*trip, true
	case unrenewed:
		return 8 * others, 3*time.Second + 16*trip, true
	case deaf:
		return 8 * others, 5*time.Second + 16*trip, true
	}
	return 0, 0, false
}

// turnLocked notes that h has entered while w waits.
func (j *judge) turnLocked(w *waiter, h *holding, now time.Time) {
	l := w.turn.life
	if h.turn.life == l || l.process.present() != l || !j.reachesLocked(l) {
		return
	}
	if w.turns++; w.turns == 1 {
		w.ready = now
	}
	turns, within, ok := j.run.demand(w)
	if waited := now.Sub(w.ready); ok && w.turns > turns && waited > within {
		j.failLocked("turns", fmt.Sprintf("%s (%v) has waited for %q for %v, and others have entered %d times", w.turn.name, l.process.plan.settings, w.turn.call.names(), ms(waited), w.turns))
	}
}

// reachesLocked reports whether a quorum of masters answers a process.
func (j *judge) reachesLocked(l *life) bool {
	n := 0
	for i, s := range l.client.Masters() {
		if j.run.states[i].out == 0 && s.State == redlock.MasterUp && l.links[i].passable(2*time.Second) {
			n++
		}
	}
	return n > len(j.run.states)/2
}

// switchedOff are the profiles that TestTurns leaves out, with the reasons.
var switchedOff = map[string]string{
	"slowing": "in 1 of 16 runs a client whose round trip has become twenty times as long is granted the lock in vain for 8 s",
}

// turnsQuick are the profiles of which TestTurns runs a seed: those that take a second. Their seeds all take longer than
// those of TestSeeds, so the nightly job runs the others.
var turnsQuick = []string{"mixed", "stalls"}

// TestTurns runs a few seeds of the profiles that look for clients without turns. More:
//
//	go test ./internal/simulation -run 'TestSeeds$' -v -args -profile kinds -seeds 100
func TestTurns(t *testing.T) {
	for _, p := range turnsProfiles {
		if switchedOff[p.name] != "" || !slices.Contains(turnsQuick, p.name) {
			continue
		}
		if o := simulate(t, makePlanOf(0, p)); o.failed() {
			t.Errorf("%v\n%s -profile %s", o.violations[0], command(o.plan, nil), p.name)
		}
	}
}
