package simulation

import (
	"time"

	"github.com/redlock-go/redlock"
)

// A profile is a kind of run: which load, which faults, and how long a free lock may stay free
// while somebody waits for it.
type profile struct {
	name string
	make func(m *maker)
	// free bounds how long a waiter may wait while nobody holds the lock and a quorum of masters
	// answers that waiter. Where all are near the masters it is less: see run.freeFor.
	free time.Duration
	// overtakes bounds how many later comers of other processes may enter before a waiter. Zero
	// means no bound: with faults in force the order is not kept.
	overtakes int
	// waits bounds how long a call may wait for several names, or for an RWLocker, without faults. Zero
	// means no bound.
	waits time.Duration
	// throughput is how many percent of the entries there must be although one master is slow or hangs. Zero means that none
	// is.
	throughput int
}

// profiles are the kinds of runs. A seed runs profile seed % len(profiles).
var profiles = []*profile{
	{name: "calm", make: makeCalm, free: calmFree, overtakes: calmOvertakes},
	{name: "queue", make: makeQueue, free: calmFree, overtakes: queueOvertakes},
	{name: "split", make: makeSplit, free: splitFree},
	{name: "impatient", make: makeImpatient, free: impatientFree, overtakes: impatientOvertakes},
	{name: "grants", make: makeGrants, free: faultyFree},
	{name: "names", make: makeNames, free: calmFree, waits: setsWait},
	{name: "readers", make: makeReaders, free: calmFree, waits: readersWait},
	{name: "masters", make: makeMasters, free: faultyFree},
	{name: "minority", make: makeMinority, free: faultyFree},
	{name: "network", make: makeNetwork, free: faultyFree},
	{name: "processes", make: makeProcesses, free: faultyFree},
	{name: "renewals", make: makeRenewals, free: faultyFree},
	{name: "retries", make: makeRetries, free: faultyFree},
	{name: "memory", make: makeMemory, free: faultyFree},
	{name: "agreement", make: makeAgreement, free: faultyFree},
	{name: "erased", make: makeErased, free: faultyFree},
	{name: "heals", make: makeHeals, free: faultyFree},
	{name: "fences", make: makeFences, free: faultyFree},
	{name: "everything", make: makeEverything, free: faultyFree},
}

// The bounds of what chance decides. Delays are random, and eight clients that are 80 ms away from the
// masters, there and back, may split the votes many times in a row. So each bound is about twice the
// most that was seen in hundreds of runs with other seeds. Clients in lockstep are
// found by the profile split.
const (
	splitFree     = time.Second             // seen: 370 ms; clients in lockstep: 2 s
	impatientFree = 60 * time.Millisecond   // seen: 10 ms; the network is fast
	calmFree      = 2 * time.Second         // seen: 920 ms, in a queue of clients far from the masters
	faultyFree    = 1500 * time.Millisecond // seen: 540 ms

	// Others lock and unlock the names without a pause meanwhile.
	setsWait = 4 * time.Second

	// A client that comes to a free lock takes it at once. If it is 1 ms away from the masters, it does
	// so many times before a message has reached a waiter that is 40 ms away.
	calmOvertakes      = 32 // seen: 15
	queueOvertakes     = 24 // seen: 12
	impatientOvertakes = 4  // seen: 0; all are near
)

// options draws the Lockers' options.
func (m *maker) options(ttls ...time.Duration) {
	m.lock = redlock.LockOptions{TTL: ttls[m.IntN(len(ttls))], Fencing: m.one(2)}
	if m.one(3) {
		m.lock.Handover = -1
	}
	if m.one(6) {
		m.lock.RenewEvery = -1
	}
	m.wakeups = !m.one(6)
	m.automatic = m.lock.TTL >= 10*time.Second && m.one(2)
}

// makeCalm: no faults, calls of all kinds, many of them impatient.
func makeCalm(m *maker) {
	m.options(time.Second, 30*time.Second)
	m.processesOf(load{
		processes: [2]int{3, 6}, workers: [2]int{1, 2}, calls: [2]int{3, 5}, names: 1 + m.IntN(2),
		think: 300 * time.Millisecond, hold: 20 * time.Millisecond, long: 10,
	})
	m.lossless = m.lock.RenewEvery >= 0
}

// makeQueue: no faults, many who wait for one lock and do not give up.
func makeQueue(m *maker) {
	m.options(10 * time.Second)
	m.wakeups = true
	m.processesOf(load{
		processes: [2]int{4, 8}, workers: [2]int{1, 1}, calls: [2]int{2, 3}, names: 1,
		think: 20 * time.Millisecond, hold: 5 * time.Millisecond, patient: true,
	})
}

// makeSplit: no faults. Each process is near to one or two masters and far from the others, so that
// several who come at once split the votes.
func makeSplit(m *maker) {
	m.options(10 * time.Second)
	l := load{
		processes: [2]int{3, 5}, workers: [2]int{1, 1}, calls: [2]int{4, 6}, names: 1,
		think: 5 * time.Millisecond, hold: 3 * time.Millisecond, patient: true,
	}
	m.processesOf(l)
	others := []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond}[m.IntN(3)]
	for i := range m.processes {
		for j := range m.masters {
			d := others
			if k := (j - 2*i + 10) % m.masters; k < 2 {
				d = 100 * time.Microsecond
			}
			m.processes[i].routes[j] = route{delay: [2]time.Duration{d, d}, jitter: d / 20}
		}
	}
}

// makeImpatient: no faults, a fast network. Some wait for the lock until they have it, and others
// give up after a few milliseconds: often when they have just been granted the lock.
func makeImpatient(m *maker) {
	m.options(10 * time.Second)
	m.wakeups = true
	m.processesOf(load{
		processes: [2]int{4, 6}, workers: [2]int{1, 1}, calls: [2]int{6, 8}, names: 1,
		think: 10 * time.Millisecond, hold: 5 * time.Millisecond, patient: true,
	})
	for i, p := range m.processes {
		for j := range m.masters {
			d := m.between(50*time.Microsecond, time.Millisecond)
			p.routes[j] = route{delay: [2]time.Duration{d, d}, jitter: d / 4}
		}
		for j, c := range p.workers[0] {
			if i > 1 {
				c.kind, c.within = callLockContext, m.between(500*time.Microsecond, 20*time.Millisecond)
			}
			p.workers[0][j] = c
		}
	}
}

// makeGrants: many wait, so that most acquisitions are grants, while processes are stopped or die, masters restart with
// and without their memory, and connections break, which loses messages.
func makeGrants(m *maker) {
	m.options(time.Second, 2*time.Second, 10*time.Second)
	m.wakeups, m.lock.RenewEvery = true, 0
	m.processesOf(load{
		processes: [2]int{4, 7}, workers: [2]int{1, 2}, calls: [2]int{5, 9}, names: 1,
		think: 10 * time.Millisecond, hold: 10 * time.Millisecond, long: 30, patient: m.one(2),
	})
	const window = 1500 * time.Millisecond
	for range m.IntN(4) {
		m.add(fault{kind: pauseProcess, at: m.between(0, window), process: m.IntN(len(m.processes)),
			lasts: m.between(10*time.Millisecond, 1500*time.Millisecond)})
	}
	m.faultsOfAllKinds(m.IntN(6), window)
}

// makeNames: some lock several names at once, in any order, and others lock single names of them without a pause.
// Half of the runs have faults.
func makeNames(m *maker) {
	m.options(time.Second, 10*time.Second)
	faults, long := m.one(2), 0
	if faults {
		long = 20
	}
	wants := [][]string{{"a", "b"}, {"b", "a"}, {"a"}, {"b"}, {"c", "b", "a"}, {"c", "a"}, {"c"}}
	for _, names := range wants[:4+m.IntN(4)] {
		p := processPlan{routes: m.routes()}
		for range 1 + m.IntN(2) {
			calls := make([]call, 8+m.IntN(8))
			if len(names) > 1 {
				calls = calls[:2+m.IntN(3)]
			}
			for i := range calls {
				c := m.call(load{names: 1, think: 10 * time.Millisecond, hold: 10 * time.Millisecond, patient: m.one(2), long: long})
				c.name, c.more = names[0], names[1:]
				if len(names) == 1 {
					c.more = nil
				}
				calls[i] = c
			}
			p.workers = append(p.workers, calls)
		}
		m.processes = append(m.processes, p)
	}
	if faults {
		m.faultsOfAllKinds(2+m.IntN(6), 2*time.Second)
	} else {
		m.lossless = m.lock.RenewEvery >= 0
	}
}

// usual is the load of the profiles with faults.
func (m *maker) usual(window time.Duration) {
	m.processesOf(load{
		processes: [2]int{3, 4}, workers: [2]int{1, 2}, calls: [2]int{3, 5}, names: 1 + m.IntN(2),
		think: window / 2, hold: 50 * time.Millisecond, long: 4,
	})
}

// makeMasters: masters crash and come back with their memory, freeze, lose requests and replies.
func makeMasters(m *maker) {
	m.options(time.Second, 2*time.Second, time.Minute)
	m.usual(4 * time.Second)
	for range 3 + m.IntN(6) {
		m.masterFault(4*time.Second, []faultKind{stopMaster, freezeMaster, freezeMaster, loseReply, dropRequest, failMaster, cutMaster, flushScripts}...)
	}
}

// makeMinority: a minority of the masters crashes while all contend, and refuses connections for the rest of the
// run. In half of the runs processes are stopped or die, or connections break, too.
func makeMinority(m *maker) {
	m.options(time.Second, 2*time.Second, 10*time.Second)
	m.wakeups = !m.one(10)
	m.masters = 3 + 2*m.IntN(2)
	m.processesOf(load{
		processes: [2]int{3, 5}, workers: [2]int{1, 2}, calls: [2]int{6, 10}, names: 1,
		think: 10 * time.Millisecond, hold: 10 * time.Millisecond, patient: m.one(2),
	})
	if m.one(2) { // as on one machine
		for _, p := range m.processes {
			for j := range p.routes {
				d := m.between(20*time.Microsecond, 200*time.Microsecond)
				p.routes[j] = route{delay: [2]time.Duration{d, d}, jitter: d}
			}
		}
	}
	dead := m.someMasters(1 + m.IntN(m.masters/2))
	m.add(fault{kind: endMaster, at: m.between(0, 500*time.Millisecond), process: -1, masters: dead})
	if m.one(2) {
		return
	}
	for range 1 + m.IntN(3) {
		if m.one(2) {
			m.processFault(time.Second)
		} else {
			m.add(fault{kind: cutMaster, at: m.between(0, time.Second), process: -1, masters: m.someMasters(1)})
		}
	}
}

// makeNetwork: processes are cut off from some masters, both ways or one; links become slow;
// connections break with requests on their way.
func makeNetwork(m *maker) {
	m.options(time.Second, 2*time.Second, time.Minute)
	m.usual(4 * time.Second)
	for range 3 + m.IntN(8) {
		m.linkFault(4 * time.Second)
	}
}

// makeProcesses: processes are stopped for longer than a TTL, crash, close their Client, start
// again; their clocks are set.
func makeProcesses(m *maker) {
	m.options(time.Second, 2*time.Second)
	m.usual(4 * time.Second)
	for range 2 + m.IntN(5) {
		m.processFault(4 * time.Second)
	}
}

// makeEverything mixes all faults but erased keys.
func makeEverything(m *maker) {
	m.options(time.Second, 2*time.Second, 10*time.Second)
	m.usual(5 * time.Second)
	m.faultsOfAllKinds(2+m.IntN(8), 5*time.Second)
}

// faultsOfAllKinds adds n faults of masters, links and processes.
func (m *maker) faultsOfAllKinds(n int, window time.Duration) {
	for range n {
		switch m.IntN(3) {
		case 0:
			m.masterFault(window, stopMaster, freezeMaster, loseReply, dropRequest, failMaster, cutMaster, flushScripts, forgetMaster, flushMaster)
		case 1:
			m.linkFault(window)
		case 2:
			m.processFault(window)
		}
	}
}
