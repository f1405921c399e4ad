package simulation

import (
	"flag"
	"time"
)

// crowdOf is how many processes makeCrowd draws; 0: from 50 to 300.
var crowdOf = flag.Int("crowd", 0, "how many processes the profile crowd has; 0: from 50 to 300")

// crowdFree is how long a lock may stay free in the profile crowd. If all near clients are stopped at the moment at which the lock is passed on,
// g is lost, and then a far client has to poll. Clients that are granted the lock in vain may follow each other.
const crowdFree = 3 * time.Second

// makeCrowd: many processes wait for one lock, most of them far from the head of the queue. The first holder holds it until all
// have come. Meanwhile, and while they take turns, processes are stopped, crash, start again, are cut off and lose
// connections, a third of them leaves at one moment, and masters restart.
func makeCrowd(m *maker) {
	m.masters = 3
	m.lock.TTL, m.wakeups, m.automatic = 10*time.Second, true, true
	n := *crowdOf
	if n == 0 {
		n = 50 * (1 + m.IntN(6))
	}
	const window = 4 * time.Second
	routes := m.distant(m.between(200*time.Microsecond, 2*time.Millisecond))
	leaving := m.between(time.Second, window)
	for i := range n {
		c := call{kind: callLock, name: "a", think: m.between(0, time.Second), hold: m.between(0, 4*time.Millisecond)}
		switch {
		case i == 0:
			c.think, c.hold = 0, m.between(time.Second, 3*time.Second)
		case i%3 == 0:
			c.kind, c.within = callLockContext, leaving-c.think
		}
		if c.kind == callLockContext && c.within <= 0 {
			c.kind = callLock
		}
		again := call{kind: callLock, name: "a", think: m.between(0, 100*time.Millisecond), hold: m.between(0, 4*time.Millisecond)}
		m.processes = append(m.processes, processPlan{routes: routes, workers: [][]call{{c, again}}})
	}
	if m.one(2) { // some that stand one behind the other are stopped
		first, at := m.IntN(n-n/4), m.between(500*time.Millisecond, window)
		for i := range 3 + m.IntN(n/8) {
			m.add(fault{kind: pauseProcess, at: at + time.Duration(i), lasts: m.between(time.Second, 4*time.Second), process: first + i})
		}
	}
	for range m.IntN(n / 10) {
		m.processFault(window)
	}
	for range m.IntN(n / 10) {
		f := fault{kind: []faultKind{cutLink, cutLinkOneWay, resetLink}[m.IntN(3)], at: m.between(0, window), process: m.IntN(n), masters: m.someMasters(1 + m.IntN(m.masters)), way: direction(m.IntN(2))}
		if f.lasts = m.between(10*time.Millisecond, time.Second); f.kind == resetLink {
			f.lasts, f.amount = 0, m.between(0, 500*time.Millisecond)
		}
		m.add(f)
	}
	if m.one(3) {
		m.masterFault(window, stopMaster, freezeMaster, cutMaster, flushScripts)
	}
}
