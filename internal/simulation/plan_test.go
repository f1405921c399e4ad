package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
)

// nodeTimeout is Options.NodeTimeout of most plans. The farthest master is 80 ms away, there and
// back, and jitter comes on top.
const nodeTimeout = 150 * time.Millisecond

// A plan is everything about a run that its seed decides.
type plan struct {
	seed      uint64
	profile   *profile
	masters   int
	lock      redlock.LockOptions // the TTL is the largest of all processes
	wakeups   bool
	automatic bool // NodeTimeout follows the network
	processes []processPlan
	faults    []fault
	lossless  bool // nothing happens for which a lease may be lost
	slow      slowMaster
	spare     bool          // there is one more server, for subscriptions that are left behind
	timeouts  time.Duration // Options.NodeTimeout of an automatic plan; zero: it follows the network
	busyUntil time.Duration // until then each goroutine makes its calls again and again; zero: once
}

// A slowMaster is a master that all processes find slow; the zero slowMaster is not slow.
type slowMaster struct {
	master int
	late   time.Duration // how much later each answer comes
	hung   bool          // it neither executes nor answers, from hungFrom on
}

func (s slowMaster) String() string {
	switch {
	case s.hung:
		return fmt.Sprintf("master %d hung", s.master+1)
	case s.late > 0:
		return fmt.Sprintf("master %d slower by %v", s.master+1, s.late)
	}
	return "no master slow"
}

// hungFrom is when a master hangs: all processes are connected.
const hungFrom = 500 * time.Millisecond

// A processPlan is one process: where it is, and what its goroutines do.
type processPlan struct {
	routes   []route // by master
	workers  [][]call
	absent   bool          // it was left out of the plan, and does not even connect
	ttl      time.Duration // if it differs from the plan's, which is the largest
	settings settings
}

// A callKind is how a goroutine locks.
type callKind int

const (
	callLock        callKind = iota
	callLockContext          // with a context that ends after call.within
	callTryLock
	callDo
	callFlight // SingleFlight
)

func (k callKind) String() string {
	return [...]string{"Lock", "LockContext", "TryLock", "Do", "SingleFlight"}[k]
}

// A side is which kind of lock a goroutine uses.
type side int

const (
	alone  side = iota // a Locker
	writer             // an RWLocker, for writing
	reader             // an RWLocker, for reading
)

func (s side) String() string { return [...]string{"", " (write)", " (read)"}[s] }

// A call is one turn of a goroutine: think, lock, hold, unlock.
type call struct {
	think  time.Duration
	kind   callKind
	side   side
	name   string
	more   []string      // further names: the call locks all of them
	within time.Duration // see callLockContext; zero for a context that does not end
	hold   time.Duration
	heeds  bool          // stops when the lease ends
	extend bool          // renews by Lease.Extend
	unlock time.Duration // the deadline of UnlockContext; zero: Unlock; negative: a context that has ended
	slots  int           // how many permits of a semaphore; 0: it is a lock
	limit  int           // of the semaphore, as this process has it
}

// names returns all names that the call locks.
func (c call) names() []string { return append([]string{c.name}, c.more...) }

func (c call) String() string {
	s := fmt.Sprintf("%v%v of %q after %v", c.kind, c.side, c.names(), ms(c.think))
	if c.slots > 0 {
		s += fmt.Sprintf(", %d of %d permits", c.slots, c.limit)
	}
	if c.within > 0 {
		s += fmt.Sprintf(", within %v", ms(c.within))
	}
	return s + fmt.Sprintf(", for %v", ms(c.hold))
}

// timeout is the longest that a client may wait for one round.
func (p *plan) timeout() time.Duration {
	if !p.automatic {
		return nodeTimeout
	}
	var far time.Duration // there and back
	for _, proc := range p.processes {
		far = max(far, proc.farthest())
	}
	for _, f := range p.faults {
		if f.kind == slowLink {
			far += 2 * f.amount
		}
	}
	return max(50*time.Millisecond, p.lock.TTL/20, min(5*far/2, p.lock.TTL/5)) // of two round trips, and jitter
}

// everywhere returns the indices of all masters.
func (p *plan) everywhere() (all []int) {
	for i := range p.masters {
		all = append(all, i)
	}
	return all
}

// ms shortens a duration for reading.
func ms(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// A maker draws a plan from a seed.
type maker struct {
	*rand.Rand
	*plan
	busy map[int][]span // when a master has a fault
}

// A span is a stretch of a run.
type span struct{ from, to time.Duration }

// makePlan returns the plan of a seed.
func makePlan(seed uint64) *plan {
	return makePlanOf(seed, profiles[seed%uint64(len(profiles))])
}

func makePlanOf(seed uint64, p *profile) *plan {
	m := &maker{
		Rand: rand.New(rand.NewPCG(seed, 0x5eed)),
		plan: &plan{seed: seed, profile: p, masters: 5, wakeups: true},
		busy: map[int][]span{},
	}
	p.make(m)
	m.lock.Keep = keepOf(seed)
	return m.plan
}

// keepOf returns LockOptions.Keep of a seed's plan: half of the plans keep locks. It is not drawn with the rest of the plan, so
// that a plan is the same but for that.
func keepOf(seed uint64) time.Duration {
	r := rand.New(rand.NewPCG(seed, 0x6b656570))
	return []time.Duration{0, 0, 3 * time.Second, 20 * time.Second}[r.IntN(4)]
}

// between returns a duration of at least low and below high, to the nanosecond: events rarely
// coincide.
func (m *maker) between(low, high time.Duration) time.Duration {
	return low + time.Duration(m.Int64N(int64(high-low)))
}

// one reports true once in n times.
func (m *maker) one(n int) bool { return m.IntN(n) == 0 }

func (m *maker) someMasters(n int) []int { return m.Perm(m.masters)[:n] }

// A distance is how far a master may be, one way.
type distance struct{ low, high time.Duration }

var (
	near   = distance{50 * time.Microsecond, 2 * time.Millisecond}
	middle = distance{2 * time.Millisecond, 15 * time.Millisecond}
	far    = distance{15 * time.Millisecond, 40 * time.Millisecond}
)

// routes draws the distances of one process. Ways there and back differ by up to a half.
func (m *maker) routes() (routes []route) {
	everywhere := []distance{near, middle, far, {}}[m.IntN(4)]
	for range m.masters {
		d := everywhere
		if d == (distance{}) {
			d = []distance{near, middle, far}[m.IntN(3)]
		}
		there := m.between(d.low, d.high)
		back := min(there/2+time.Duration(m.Int64N(int64(there)+1)), far.high)
		routes = append(routes, route{delay: [2]time.Duration{there, back}, jitter: m.between(there/20, there/4+2)})
	}
	return routes
}

// A load says what the goroutines of a plan do.
type load struct {
	processes, workers, calls [2]int // at least, at most
	names                     int
	think                     time.Duration // at most, between calls
	hold                      time.Duration // at most, usually
	long                      int           // one hold in so many lasts up to three TTLs or 4 s; 0: none
	patient                   bool          // no TryLock and no deadlines
}

func (m *maker) number(r [2]int) int { return r[0] + m.IntN(r[1]-r[0]+1) }

// processesOf draws the processes.
func (m *maker) processesOf(l load) {
	for range m.number(l.processes) {
		p := processPlan{routes: m.routes()}
		for range m.number(l.workers) {
			var calls []call
			for range m.number(l.calls) {
				calls = append(calls, m.call(l))
			}
			p.workers = append(p.workers, calls)
		}
		m.processes = append(m.processes, p)
	}
}

func (m *maker) call(l load) call {
	c := call{
		think: m.between(0, l.think),
		kind:  callKind(m.IntN(4)),
		name:  string(rune('a' + m.IntN(l.names))),
		hold:  m.between(0, l.hold),
		heeds: m.one(2),
	}
	if l.patient && c.kind == callTryLock {
		c.kind = callLock
	}
	if l.long > 0 && m.one(l.long) {
		c.hold = m.between(min(m.lock.TTL/2, time.Second), min(3*m.lock.TTL, 4*time.Second))
		c.extend = m.lock.RenewEvery < 0 && m.one(2)
	}
	if !l.patient && (c.kind == callLockContext || c.kind == callDo) && m.one(2) {
		c.within = m.between(5*time.Millisecond, 300*time.Millisecond)
	}
	switch m.IntN(4) {
	case 0:
		c.unlock = -1
	case 1:
		c.unlock = m.between(time.Millisecond, 100*time.Millisecond)
	}
	return c
}

// String returns the plan as text, with everything that a reader needs to follow a history.
func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %s: %d masters, TTL %v, renewal %v, handover %v, Keep %v, fencing %v, wake-ups %v, NodeTimeout up to %v\n", p.seed, p.profile.name, p.masters,
		p.lock.TTL, p.lock.RenewEvery, p.lock.Handover, p.lock.Keep, p.lock.Fencing, p.wakeups, p.timeout())
	for i, proc := range p.processes {
		if proc.absent {
			continue
		}
		fmt.Fprintf(&b, "process %d: ms to and from the masters", i)
		for _, r := range proc.routes {
			fmt.Fprintf(&b, " %.1f/%.1f", r.delay[0].Seconds()*1000, r.delay[1].Seconds()*1000)
		}
		if proc.ttl > 0 {
			fmt.Fprintf(&b, ", TTL %v", proc.ttl)
		}
		if proc.settings.kind != usual {
			fmt.Fprintf(&b, ", %v", proc.settings)
		}
		b.WriteByte('\n')
		for j, calls := range proc.workers {
			for _, c := range calls {
				fmt.Fprintf(&b, "  goroutine %d: %v\n", j, c)
			}
		}
	}
	for _, f := range p.faults {
		fmt.Fprintf(&b, "fault %d: at %v for %v: %v\n", f.id, ms(f.at), ms(f.lasts), f)
	}
	return b.String()
}
