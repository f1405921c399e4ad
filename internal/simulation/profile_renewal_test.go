package simulation

import (
	"time"
)

// makeRenewals: holders hold for several TTLs, while links to some masters come and go.
func makeRenewals(m *maker) {
	m.options(time.Second, 2*time.Second)
	m.processesOf(load{
		processes: [2]int{2, 3}, workers: [2]int{1, 1}, calls: [2]int{3, 4}, names: 1,
		think: 100 * time.Millisecond, hold: 50 * time.Millisecond, long: 2,
	})
	for range 8 + m.IntN(10) {
		m.cutOff(6*time.Second, 1+m.IntN(m.masters), 2*m.lock.TTL)
	}
	for range m.IntN(6) {
		m.masterFault(6*time.Second, stopMaster, failMaster)
	}
}

// makeRetries: a holder's renewal succeeds at two masters, and at a third only when it is tried
// again. Then the holder is cut off, while somebody else waits. What the two masters promised ends
// first.
func makeRetries(m *maker) {
	m.options(2 * time.Second)
	m.lock.RenewEvery = 0
	ttl := m.lock.TTL
	for i := range 2 {
		m.processes = append(m.processes, processPlan{routes: m.routes(), workers: [][]call{{{
			think: time.Duration(i)*ttl/4 + m.between(0, 20*time.Millisecond), kind: callLock, name: "a",
			hold: [...]time.Duration{3 * ttl, 5 * time.Millisecond}[i],
		}}}})
	}
	failing := m.someMasters(3)
	begin := m.between(ttl/5, ttl/4)
	m.add(fault{kind: failMaster, at: begin, lasts: m.between(ttl/5, ttl/3), masters: failing[:1], process: -1})
	m.add(fault{kind: failMaster, at: begin, lasts: m.between(ttl*8/10, ttl), masters: failing[1:], process: -1})
	m.add(fault{kind: cutLink, at: begin + m.between(ttl/2, ttl*2/3), lasts: 2 * ttl, process: 0, masters: m.everywhere()})
}

// makeMemory: masters lose their memory, a majority of them too, while holders rely on leases that
// they do not renew.
func makeMemory(m *maker) {
	m.options(time.Second, 2*time.Second)
	if m.one(2) {
		m.lock.RenewEvery = -1
	}
	m.usual(4 * time.Second)
	if m.one(2) {
		m.cutOff(4*time.Second, m.masters, 2*m.lock.TTL)
	}
	for range 1 + m.IntN(3) {
		at := m.between(0, 4*time.Second)
		for _, i := range m.someMasters(1 + m.IntN(m.masters)) {
			m.add(fault{kind: []faultKind{forgetMaster, flushMaster}[m.IntN(2)], at: at + m.between(0, 50*time.Millisecond),
				lasts: m.between(0, 300*time.Millisecond), masters: []int{i}, process: -1})
		}
	}
}

// makeAgreement: process 0 holds leases with a long TTL that it does not renew, and the others' TTL
// and MaxTTL are short. All are connected, and know the largest MaxTTL, when a majority of the masters
// loses its memory under a long lease. A quarantine that follows a short MaxTTL ends before that lease.
func makeAgreement(m *maker) {
	const short, long = time.Second, 8 * time.Second
	m.options(long)
	m.lock.RenewEvery, m.automatic = -1, false
	begin := m.between(500*time.Millisecond, time.Second)
	hold := m.between(6*time.Second, long-200*time.Millisecond)
	m.processes = []processPlan{{routes: m.routes(), workers: [][]call{{
		{think: begin, kind: callLock, name: "a", hold: hold},
		{think: m.between(0, time.Second), kind: callLock, name: "a", hold: m.between(0, long)},
	}}}}
	for range m.number([2]int{2, 3}) {
		p := processPlan{routes: m.routes(), ttl: short}
		p.workers = [][]call{{}}
		for range 4 {
			p.workers[0] = append(p.workers[0], call{think: begin + m.between(200*time.Millisecond, time.Second),
				kind: []callKind{callLock, callLockContext, callDo}[m.IntN(3)], name: "a", hold: m.between(0, short/2)})
		}
		m.processes = append(m.processes, p)
	}
	for range 1 + m.IntN(3) {
		at := begin + m.between(300*time.Millisecond, 2*time.Second)
		for _, i := range m.someMasters(3 + m.IntN(m.masters-2)) {
			m.add(fault{kind: []faultKind{forgetMaster, flushMaster}[m.IntN(2)], at: at + m.between(0, 50*time.Millisecond),
				lasts: m.between(0, 300*time.Millisecond), masters: []int{i}, process: -1})
		}
	}
}

// makeErased: somebody deletes keys by hand, so that two may hold at once. Fences must rise all the
// same, and a holder must find out with its next renewal.
func makeErased(m *maker) {
	m.options(time.Second, 2*time.Second)
	m.lock.Fencing = true
	m.processesOf(load{
		processes: [2]int{3, 4}, workers: [2]int{1, 1}, calls: [2]int{4, 6}, names: 1,
		think: 50 * time.Millisecond, hold: 50 * time.Millisecond, long: 4,
	})
	for range 4 + m.IntN(12) {
		n := m.masters
		if m.one(2) {
			n = 1 + m.IntN(m.masters)
		}
		m.add(fault{kind: eraseKey, at: m.between(0, 4*time.Second), masters: m.someMasters(n), process: -1})
	}
}

// makeHeals: keys are deleted by hand at few masters, and set again by renewals, which come so often
// that many are under way when the lock is unlocked. Keys live long.
func makeHeals(m *maker) {
	m.options(time.Minute)
	m.lock.RenewEvery = m.between(20*time.Millisecond, 100*time.Millisecond)
	if m.one(3) {
		m.healed()
		return
	}
	m.processesOf(load{
		processes: [2]int{2, 3}, workers: [2]int{1, 1}, calls: [2]int{4, 6}, names: 1,
		think: 50 * time.Millisecond, hold: 300 * time.Millisecond,
	})
	for range 15 + m.IntN(15) {
		m.add(fault{kind: eraseKey, at: m.between(0, 2*time.Second), masters: m.someMasters(1 + m.IntN(3)), process: -1})
	}
}

// healed: two masters at a time lose the key of one holder, each time after a renewal has set the
// keys again. The lease lasts.
func (m *maker) healed() {
	const renewed = 700 * time.Millisecond
	m.lock.RenewEvery = m.between(150*time.Millisecond, 200*time.Millisecond) // more than a round trip
	m.processes = []processPlan{{routes: m.routes(), workers: [][]call{{{kind: callLock, name: "a", hold: 8 * renewed}}}}}
	for i := range 6 {
		m.add(fault{kind: eraseKey, at: time.Duration(i+1)*renewed + m.between(0, 50*time.Millisecond), masters: m.someMasters(2), process: -1})
	}
	m.lossless = true
}

// makeFences plays the shortest way to two holders of one number that internal/model finds, with
// times drawn around it. Fences count quarters of a millisecond. Of three masters, C's key at
// master 2 leaves number n there; C is not far enough from the others to hold that request back. A gets n at master 1 and n+1 at master 2, so that A has to commit
// n+1 in a second round. B, a quarter of a millisecond later, gets n+1 at masters 3 and 1, where
// A's key has been deleted, and holds the lock. B's key at master 3 is deleted. A's request arrives
// there and gets n+2. A's commit of n+1 must not count there.
func makeFences(m *maker) {
	m.options(time.Second)
	m.masters, m.lock.Fencing, m.lock.Handover = 3, true, -1
	const begin, us = 200 * time.Millisecond, time.Microsecond
	about := func(d time.Duration) time.Duration { return m.between(d*8/10, d*12/10+2) }
	try := func(at time.Duration, toMasters ...time.Duration) {
		p := processPlan{workers: [][]call{{{think: at, kind: callTryLock, name: "a", hold: about(300 * us)}}}}
		for _, d := range toMasters {
			p.routes = append(p.routes, route{delay: [2]time.Duration{about(d), about(50 * us)}})
		}
		m.processes = append(m.processes, p)
	}
	try(begin+about(20*us), 300*us, 1000*us, 10_000*us)     // A
	try(begin+250*us+about(20*us), 750*us, 9000*us, 200*us) // B
	try(begin+about(50*us), 1600*us, 100*us, 1600*us)       // C
	for _, e := range []struct {
		at     time.Duration
		master int
	}{{500 * us, 1}, {600 * us, 0}, {1800 * us, 2}} {
		m.add(fault{kind: eraseKey, at: begin + about(e.at), masters: []int{e.master}, process: -1})
	}
}
