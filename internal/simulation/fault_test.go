package simulation

import (
	"fmt"
	"slices"
	"time"
)

// A faultKind is what goes wrong.
type faultKind int

const (
	stopMaster      faultKind = iota // crashes, and comes back with its memory
	forgetMaster                     // crashes, and comes back empty
	flushMaster                      // loses its memory while it runs
	freezeMaster                     // neither executes nor answers
	failMaster                       // answers each command by an error
	loseReply                        // executes one command and cuts the connection
	dropRequest                      // cuts the connection instead of executing one command
	cutMaster                        // cuts all its connections, once
	flushScripts                     // loses its scripts
	endMaster                        // crashes, and does not come back
	eraseKey                         // somebody deletes a key by hand
	cutLink                          // a process and some masters do not reach each other
	cutLinkOneWay                    // the same, for requests or replies alone
	slowLink                         // messages take longer
	resetLink                        // connections break; requests on their way arrive late
	pauseProcess                     // is stopped
	killProcess                      // crashes; its machine closes its connections
	loseMachine                      // crashes; its connections stay open at the masters
	closeProcess                     // closes its Client
	setProcessClock                  // its wall clock is set
	throttleProcess                  // runs for 30 ms at a time
	promoteReplica                   // the addresses of masters lead to other servers with their memory; subscriptions of a process stay behind
)

// A fault is one thing that goes wrong.
type fault struct {
	id        int
	kind      faultKind
	at, lasts time.Duration
	process   int // -1: none
	masters   []int
	way       direction     // of cutLinkOneWay
	amount    time.Duration // how slow, how late, or by how much the clock is set
	command   string        // of loseReply and dropRequest
}

func (f fault) String() string {
	masters := make([]int, len(f.masters))
	for i, m := range f.masters {
		masters[i] = m + 1
	}
	slices.Sort(masters)
	switch f.kind {
	case stopMaster:
		return fmt.Sprintf("masters %v crash and keep their memory", masters)
	case forgetMaster:
		return fmt.Sprintf("masters %v crash and come back empty", masters)
	case flushMaster:
		return fmt.Sprintf("masters %v lose their memory", masters)
	case freezeMaster:
		return fmt.Sprintf("masters %v freeze", masters)
	case failMaster:
		return fmt.Sprintf("masters %v answer by errors", masters)
	case loseReply:
		return fmt.Sprintf("masters %v lose the reply to the next %s", masters, f.command)
	case dropRequest:
		return fmt.Sprintf("masters %v lose the next %s", masters, f.command)
	case cutMaster:
		return fmt.Sprintf("masters %v cut all connections", masters)
	case flushScripts:
		return fmt.Sprintf("masters %v lose their scripts", masters)
	case endMaster:
		return fmt.Sprintf("masters %v crash for good", masters)
	case eraseKey:
		return fmt.Sprintf("keys of locks are deleted by hand at masters %v", masters)
	case cutLink:
		return fmt.Sprintf("process %d is cut off from masters %v", f.process, masters)
	case cutLinkOneWay:
		way := "requests of process %d do not reach masters %v"
		if f.way == toClient {
			way = "replies for process %d do not leave masters %v"
		}
		return fmt.Sprintf(way, f.process, masters)
	case slowLink:
		return fmt.Sprintf("messages between process %d and masters %v take %v longer", f.process, masters, ms(f.amount))
	case resetLink:
		return fmt.Sprintf("connections of process %d to masters %v break; requests under way arrive %v late", f.process, masters, ms(f.amount))
	case pauseProcess:
		return fmt.Sprintf("process %d is stopped", f.process)
	case promoteReplica:
		return fmt.Sprintf("masters %v are replaced by their replicas, and the subscriptions of process %d stay behind", masters, f.process)
	case throttleProcess:
		return fmt.Sprintf("process %d runs for %v every %v", f.process, throttledRuns, ms(f.amount))
	case killProcess:
		return fmt.Sprintf("process %d is killed, and started again", f.process)
	case loseMachine:
		return fmt.Sprintf("process %d and its machine disappear, and it is started again elsewhere", f.process)
	case closeProcess:
		return fmt.Sprintf("process %d closes its Client, and opens another", f.process)
	case setProcessClock:
		return fmt.Sprintf("the wall clock of process %d is set by %v", f.process, ms(f.amount))
	}
	panic("unknown fault")
}

// add adds a fault to the plan.
func (m *maker) add(f fault) {
	f.id = len(m.faults)
	m.faults = append(m.faults, f)
}

func (s span) overlaps(other span) bool { return s.from <= other.to && other.from <= s.to }

// masterFault adds a fault of one of the kinds. A master has one fault at a time.
func (m *maker) masterFault(window time.Duration, kinds ...faultKind) {
	f := fault{kind: kinds[m.IntN(len(kinds))], at: m.between(0, window), process: -1}
	switch f.kind {
	case cutMaster, flushScripts:
		f.masters = m.someMasters(1 + m.IntN(m.masters))
	case loseReply, dropRequest:
		f.masters = m.someMasters(1 + m.IntN(3))
		f.command = []string{"SET", "EVALSHA", "EVALSHA", "SUBSCRIBE", "PING"}[m.IntN(5)]
	default:
		f.lasts = m.between(10*time.Millisecond, 2*time.Second)
		when := span{f.at, f.at + f.lasts}
		for _, i := range m.someMasters(1 + m.IntN(m.masters)) {
			if !slices.ContainsFunc(m.busy[i], when.overlaps) {
				f.masters = append(f.masters, i)
				m.busy[i] = append(m.busy[i], when)
			}
		}
	}
	if len(f.masters) > 0 {
		m.add(f)
	}
}

// linkFault adds a fault between a process and some masters.
func (m *maker) linkFault(window time.Duration) {
	f := fault{
		kind: []faultKind{cutLink, cutLink, cutLinkOneWay, slowLink, resetLink}[m.IntN(5)],
		at:   m.between(0, window), lasts: m.between(10*time.Millisecond, 2*time.Second),
		process: m.IntN(len(m.processes)), masters: m.someMasters(1 + m.IntN(m.masters)),
		way: direction(m.IntN(2)),
	}
	switch f.kind {
	case slowLink:
		f.amount = m.between(5*time.Millisecond, 300*time.Millisecond)
	case resetLink:
		f.amount, f.lasts = m.between(0, 900*time.Millisecond), 0
	}
	m.add(f)
}

// cutOff cuts a process off from n masters.
func (m *maker) cutOff(window time.Duration, n int, longest time.Duration) {
	m.add(fault{
		kind: cutLink, at: m.between(0, window), lasts: m.between(10*time.Millisecond, longest),
		process: m.IntN(len(m.processes)), masters: m.someMasters(n),
	})
}

// processFault adds a fault of a process.
func (m *maker) processFault(window time.Duration) {
	f := fault{
		kind: []faultKind{pauseProcess, pauseProcess, pauseProcess, killProcess, loseMachine, closeProcess, setProcessClock}[m.IntN(7)],
		at:   m.between(0, window), process: m.IntN(len(m.processes)),
	}
	switch f.kind {
	case pauseProcess:
		f.lasts = m.between(10*time.Millisecond, 2*m.lock.TTL)
	case killProcess, loseMachine, closeProcess:
		f.lasts = m.between(0, 2*time.Second)
	case setProcessClock:
		// With fences, clocks must agree within half a second.
		f.amount = m.between(-400*time.Millisecond, 400*time.Millisecond)
		if !m.lock.Fencing {
			f.amount = m.between(-10*time.Second, 10*time.Second)
		}
	}
	m.add(f)
}
