package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Which subjects take part. Another commit's build is measured beside ours alone: see against.
func uncontended(s *subject) bool { return !s.onlyFault && !s.ownCost }
func principals(s *subject) bool  { return s.principal }
func faulty(s *subject) bool      { return !s.single && !s.ownCost }
func guarding(s *subject) bool    { return s.id == oursID || s.id == unguardedID }
func fencing(s *subject) bool     { return s.id == oursID || s.id == fencedID }
func sets(s *subject) bool        { return s.id == oursID || s.id == setID }
func setsAlone(s *subject) bool   { return s.id == setID }
func contends(s *subject) bool    { return s.contends }
func renews(s *subject) bool      { return s.renews }
func oursAlone(s *subject) bool   { return s.id == oursID }
func polling(s *subject) bool     { return s.principal && s.id != rueidisID } // and ours

// The workloads' names, for the targets and the chart.
const (
	idOne       = "one"
	idNames     = "names"
	id64        = "64names"
	id512       = "512names"
	idGuard1    = "guard1"
	idGuard64   = "guard64"
	idFenced1   = "fenced1"
	idFenced4   = "fenced4"
	idSet4      = "set4"
	idSets      = "sets"
	idKept1     = "rkept1"
	idKept64    = "rkept64"
	idFirstRead = "rfirst5ms"
	idReaders   = "readers"
	idWriters   = "8writers"
	idFrozen1   = "frozen1"
	idFrozen2   = "frozen2"
	idKilled2   = "killed2"
	idLeases    = "leases"
	idGoroutine = "64goroutines"
	idHandover  = "handover"
	idHandover5 = "handover5ms"
	id4         = "4processes"
	id16        = "16processes"
	idEqual     = "8equal"
	idUnequal   = "8unequal"
	id16Equal   = "16equal"
	idStopped   = "8stopped"
	idGuest     = "4guest"
	id8x8       = "8x8"
	idHolder    = "holderkilled"
)

// The round trips of the workloads on networks, in ms, and the far masters' distances where a free lock is
// wanted by several.
var (
	farRoundTrips = []int{1, 5, 40}
	farMasters    = []int{2, 10, 40}
)

func idTrip(ms int) string      { return fmt.Sprintf("one%dms", ms) }
func idTripNames(ms int) string { return fmt.Sprintf("names%dms", ms) }
func idFree(ms int) string      { return fmt.Sprintf("free%dms", ms) }

// workloads returns all, in the order in which they run.
func workloads() []*workload {
	return slices.Concat(apart(), overNetworks(), faults(), ownCosts(), readingWorkloads(), together(), togetherFar(), togetherOtherwise())
}

// apart returns the workloads on loopback in which nobody waits for anybody.
func apart() []*workload {
	spent := []metric{commands, clientCPU, serverCPU}
	timed := append([]metric{middle, tail}, spent...)
	each := append(timed, allocations, failures)
	counted := append([]metric{perSecond, middle, tail}, append(spent, failedAttempts, failures)...)
	return []*workload{
		{
			id: idOne, title: "One caller, one name", takes: uncontended, reps: repsOf,
			about:   "One goroutine locks and unlocks one name, all masters healthy.",
			columns: each, beside: &calls{callers: 1, names: ownNames, turns: 10, turn: 40 * time.Millisecond},
		}, {
			id: idNames, title: "One caller, changing names", takes: principals, reps: repsOf,
			about:   "One goroutine locks and unlocks a name that was never used before, all masters healthy.",
			columns: each, beside: &calls{callers: 1, names: newNames, turns: 10, turn: 40 * time.Millisecond},
		}, {
			id: id64, title: "64 callers, 64 names", takes: uncontended, reps: repsOf,
			about:   "64 goroutines of one process, each with a name of its own.",
			columns: counted, beside: &calls{callers: 64, names: ownNames, turns: 3, turn: 160 * time.Millisecond},
		}, {
			id: id512, title: "512 callers, 512 names", takes: principals, reps: repsOf,
			about:   "512 goroutines of one process, each with a name of its own.",
			columns: counted, beside: &calls{callers: 512, names: ownNames, turns: 3, turn: 300 * time.Millisecond},
		},
	}
}

// overNetworks returns the workloads of one caller at a distance from the masters.
func overNetworks() []*workload {
	columns := []metric{trips, middle, ping, tail, clientCPU, failedAttempts, failures}
	var all []*workload
	for _, ms := range farRoundTrips {
		c, reps := calls{callers: 1, names: ownNames, far: roundTrips(time.Duration(ms) * time.Millisecond)}, repsOf
		switch ms {
		case 1:
			c.turns, c.turn = 8, 40*time.Millisecond
		case 5:
			c.turns, c.turn = 5, 100*time.Millisecond
		default:
			c.turns, c.turn, reps = 2, 400*time.Millisecond, faultRepsOf
		}
		changing := c
		changing.names = newNames
		all = append(all, &workload{
			id: idTrip(ms), title: fmt.Sprintf("One caller, one name, round trip %d ms", ms), takes: principals, reps: reps,
			about:   "As on loopback; a proxy delays both directions. A round trip is what PING takes through the same proxy, between the turns.",
			columns: columns, beside: &c,
		}, &workload{
			id: idTripNames(ms), title: fmt.Sprintf("One caller, changing names, round trip %d ms", ms), takes: principals, reps: reps,
			about: "The same with a new name each time.", columns: columns, beside: &changing,
		})
	}
	return all
}

// faults returns the workloads of masters that fail, and of leases that are only held.
func faults() []*workload {
	columns := []metric{middle, tail, middleToHealthy, tailToHealthy, commands, clientCPU, serverCPU, failures}
	var all []*workload
	for _, n := range []int{1, 2} {
		all = append(all, &workload{
			id: fmt.Sprintf("frozen%d", n), title: fmt.Sprintf("One caller, %d of 5 masters frozen", n), takes: faulty, reps: faultRepsOf,
			about:   "SIGSTOP right before the measurement, after the connections were made and the same was measured with healthy masters; other masters in each repetition.",
			columns: columns, trial: frozen(n),
		})
	}
	k := &killed{}
	return append(all, &workload{
		id: idKilled2, title: "One caller, 2 of 5 masters killed", takes: faulty, reps: faultRepsOf,
		about:   "SIGKILL once for all subjects, after all had connected and were measured with healthy masters; those masters do not come back.",
		columns: columns, trial: k.trial, finish: k.finish,
	}, &workload{
		id: idLeases, title: "10 000 leases held", takes: renews, reps: leaseRepsOf,
		about:   "Taken by 64 goroutines, then nothing is done with them for 6 s (4 s with -short). CPU share is of one core; memory is live heap and stacks. redsync and bsm/redislock do not renew what they hold.",
		columns: []metric{cpuShare, serverShare, scriptRate, bytesPerLease, lostLeases}, trial: leases,
	})
}

// ownCosts returns the workloads in which ours is beside ours with other settings.
func ownCosts() []*workload {
	figures := []metric{middle, tail, perSecond, commands, clientCPU, serverCPU, allocations}
	one := &calls{callers: 1, names: ownNames, turns: 30, turn: 40 * time.Millisecond}
	many := &calls{callers: 64, names: ownNames, turns: 30, turn: 40 * time.Millisecond}
	return []*workload{
		{
			id: idGuard1, title: "The restart guard, one caller", takes: guarding, reps: faultRepsOf, against: unguardedID,
			about:   "One goroutine, one name, all masters healthy.",
			columns: append(figures, failures), beside: one,
		}, {
			id: idGuard64, title: "The restart guard, 64 callers, 64 names", takes: guarding, reps: faultRepsOf, against: unguardedID,
			about:   "64 goroutines, each with a name of its own.",
			columns: append(figures, failures), beside: many,
		}, {
			id: idFenced1, title: "Fencing, one caller", takes: fencing, reps: faultRepsOf, against: oursID,
			about:   "One goroutine, one name, all masters healthy.",
			columns: append(figures, oneRound, failures), beside: one,
		}, {
			id: idFenced4, title: "Fencing, 4 processes, one name, held for 1 ms", takes: fencing, reps: faultRepsOf, against: oursID,
			about:   "Measured as among the libraries, below. The index is over the processes.",
			columns: []metric{perSecond, fairness, longestWait, oneRound, broken}, trial: crowd{processes: 4, goroutines: 1, hold: time.Millisecond, far: onLoopback}.trial,
		}, {
			id: idSet4, title: "Four names at once, one caller", takes: sets, reps: faultRepsOf, against: oursID,
			about:   "One goroutine locks and unlocks four names by one Locker, beside one that locks and unlocks one name; all masters healthy.",
			columns: append(figures, failures), beside: one,
		}, {
			id: idSets, title: "Two processes that lock two names at once, and two that lock one of them each", takes: setsAlone, reps: faultRepsOf,
			about:   "Two processes lock {a, b} and {b, a}, a third one a, a fourth one b, each again and again, and hold for 1 ms, for 10 s (5 s with -short). Figures are those of the first two, but for the last index, over all four.",
			columns: []metric{perSecond, fairness, longestWait, failedAttempts, fairnessOfAll, broken}, trial: setCrowd,
		},
	}
}

// contended are the columns of the workloads of contention on loopback.
var contended = []metric{perSecond, fairness, longestWait, commands, clientCPU, serverCPU, broken}

// together returns the workloads of contention on loopback, and those of handovers.
func together() []*workload {
	all := []*workload{
		{
			id: idGoroutine, title: "64 goroutines of one process, one name", takes: contends, reps: faultRepsOf,
			about:   "Nothing is held: lock and unlock at once. The index is over the goroutines.",
			columns: contended, trial: crowd{processes: 1, goroutines: 64, far: onLoopback}.trial,
		}, {
			id: idHandover, title: "Handover between two processes", takes: contends, reps: faultRepsOf,
			about:   "One process holds, the only other waits, for 50 to 300 ms; then the holder leaves. From just before its Unlock to the return of the other's Lock.",
			columns: []metric{handoverTime, broken}, trial: handover(distances{}),
		}, {
			id: idHandover5, title: "Handover between two processes, round trip 5 ms", takes: contends, reps: faultRepsOf,
			about:   "The same at a distance.",
			columns: []metric{handoverTrips, handoverTime, ping, broken}, trial: handover(roundTrips(5 * time.Millisecond)),
		},
	}
	for _, row := range []struct {
		processes int
		takes     func(*subject) bool
	}{{4, polling}, {16, contends}} {
		n := row.processes
		all = append(all, &workload{
			id: strconv.Itoa(n) + "processes", title: fmt.Sprintf("%d processes, one name, held for 1 ms", n), takes: row.takes, reps: faultRepsOf,
			about:   "One goroutine each. The index is over the processes.",
			columns: contended, trial: crowd{processes: n, goroutines: 1, hold: time.Millisecond, far: onLoopback}.trial,
		})
	}
	return all
}

// togetherFar returns the workloads of contention at a distance from the masters.
func togetherFar() []*workload {
	columns := []metric{idleTrips, idleShare, longestIdle, perSecond, fairness, longestWait, longestCycles, ping, broken}
	five := func(int) distances { return roundTrips(5 * time.Millisecond) }
	return []*workload{{
		id: idEqual, title: "8 processes, held for 1 ms, round trip 5 ms", takes: contends, reps: faultRepsOf,
		about:   "One goroutine each, all as far from all masters. *idle*: nobody holds the lock though somebody waits.",
		columns: columns, trial: crowd{processes: 8, goroutines: 1, hold: time.Millisecond, far: five}.trial,
	}, {
		id: idUnequal, title: "8 processes, held for 1 ms, unequal distances", takes: contends, reps: faultRepsOf,
		about:   "The same, but each process is near to one master (loopback) and far from the others (5 ms). Masters 1 to 3 have two such processes each, the others one.",
		columns: columns, trial: crowd{
			processes: 8, goroutines: 1, hold: time.Millisecond,
			far: func(i int) distances { return nearTo(2500*time.Microsecond, i%masters) },
		}.trial,
	}, {
		id: id16Equal, title: "16 processes, held for 1 ms, round trip 5 ms", takes: polling, reps: faultRepsOf,
		about:   "As with 8 processes.",
		columns: columns, trial: crowd{processes: 16, goroutines: 1, hold: time.Millisecond, far: five}.trial,
	}, {
		id: idStopped, title: "8 processes, round trip 5 ms, one is stopped for 1.5 s while it waits", takes: polling, reps: faultRepsOf,
		about:   "As before. The first process stops itself by SIGSTOP 15 ms after it began to wait.",
		columns: columns, trial: crowd{processes: 8, goroutines: 1, hold: time.Millisecond, far: five, lasting: 2, stopped: 1500 * time.Millisecond}.trial,
	}}
}

// togetherOtherwise returns the other workloads of contention.
func togetherOtherwise() []*workload {
	all := []*workload{{
		id: idGuest, title: "4 processes and one of redsync, one name, held for 1 ms", takes: oursAlone, reps: faultRepsOf,
		about:   "On loopback, for 4 s (2 s with -short). The index is over our processes.",
		columns: []metric{guestShare, perSecond, fairness, longestWait, broken},
		trial:   crowd{processes: 4, goroutines: 1, hold: time.Millisecond, far: onLoopback, lasting: 2, guest: reference}.trial,
	}}
	for _, ms := range farMasters {
		all = append(all, &workload{
			id: idFree(ms), title: fmt.Sprintf("A free lock, three contenders, far masters %d ms away", ms), takes: polling, reps: faultRepsOf,
			about:   "Three processes want a free lock at the same time. One is near to two masters (loopback), one to two others, one to the fifth; from the rest they are so far, one way. How long until one of them has the lock: the median of the tries of a repetition, and the worst.",
			columns: []metric{firstEntry, lastFirstEntry}, trial: freeLock(time.Duration(ms) * time.Millisecond),
		})
	}
	return append(all, &workload{
		id: id8x8, title: "8 processes of 8 goroutines, one name", takes: contends, reps: faultRepsOf,
		about:   "Nothing is held. The index is over the processes.",
		columns: contended, trial: crowd{processes: 8, goroutines: 8, far: onLoopback}.trial,
	}, &workload{
		id: idHolder, title: "The holder is killed while 4 others wait", takes: contends, reps: faultRepsOf,
		about:   "TTL 1 s. How long after the end of what the lock had left to live (the third smallest PTTL of the five masters, asked after the kill) the next one enters; the median, and the worst of each repetition.",
		columns: []metric{lateness, worstLateness, broken}, trial: holderKilled,
	})
}
