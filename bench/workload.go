package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// figures are what one repetition of a workload found out about a subject.
type figures map[metric]float64

// A metric names a figure and says its unit.
type metric string

const (
	perSecond     metric = "locks/s"
	middle        metric = "median µs"
	tail          metric = "p99 µs"
	commands      metric = "commands/lock"
	clientCPU     metric = "client CPU µs/lock"
	serverCPU     metric = "server CPU µs/lock"
	allocations   metric = "allocations/lock"
	failures      metric = "failed unlocks"
	hung          metric = "hung"
	fairness      metric = "Jain's index"
	longestWait   metric = "longest wait ms"
	broken        metric = "violations"
	handoverTime  metric = "leave → enter ms"
	lateness      metric = "late by ms"
	worstLateness metric = "worst ms"
	cpuShare      metric = "client CPU %"
	serverShare   metric = "server CPU % each"
	scriptRate    metric = "EVALSHA/s each"
	bytesPerLease metric = "bytes/lease"
	lostLeases    metric = "leases lost"
	oneRound      metric = "one round %"
)

// summed metrics count what should never happen: all repetitions matter. Of the
// others the median is shown.
var summed = map[metric]bool{failures: true, hung: true, broken: true, lostLeases: true}

// A workload is one question that all subjects are asked.
type workload struct {
	id      string
	title   string
	about   string // for RESULTS.md: what is done
	takes   func(*subject) bool
	columns []metric
	trial   func(b *bench, s *subject, rep int) (figures, error)
	finish  func() // may be nil
	reps    func(plan) int

	// beside is instead of trial where all subjects take turns within a repetition.
	beside  func(b *bench, all []*subject) ([]figures, error)
	against string // the subject that ratios refer to; "": reference
}

// reference returns the subject that the workload's ratios refer to.
func (w *workload) reference() string { return cmp.Or(w.against, reference) }

// The settings that all subjects share.
const (
	ttl     = 10 * time.Second
	patient = 500 * time.Millisecond // a peer's time-out for one master: 5 % of the TTL, redsync's default
	brisk   = 50 * time.Millisecond  // the same where masters are sick: our default, and the specification's advice
)

// plan is how much is done.
type plan struct {
	reps, faultReps int
	turns           int           // each subject's in a repetition, where they are beside each other
	turn            time.Duration // how long each lasts
	warmUp, lasting time.Duration // of workloads in one process
	bound           time.Duration // after which an operation is called hung
	contending      time.Duration // how long processes contend
	holding         time.Duration // how long leases are watched
	leases          int
	leaseReps       int
	handovers       int // in each repetition
	kills           int // in each repetition
}

func fullPlan() plan {
	return plan{
		reps: 5, faultReps: 3, turns: 40, turn: 40 * time.Millisecond, warmUp: 200 * time.Millisecond, lasting: 500 * time.Millisecond, bound: 3 * time.Second,
		contending: 3 * time.Second, holding: 10 * time.Second, leases: 10_000, leaseReps: 1, handovers: 15, kills: 3,
	}
}

func shortPlan() plan {
	return plan{
		reps: 1, faultReps: 1, turns: 10, turn: 20 * time.Millisecond, warmUp: 100 * time.Millisecond, lasting: 250 * time.Millisecond, bound: 2 * time.Second,
		contending: time.Second, holding: 4 * time.Second, leases: 10_000, leaseReps: 1, handovers: 6, kills: 1,
	}
}

func uncontended(s *subject) bool { return !s.onlyFault && !s.ownCost }
func faulty(s *subject) bool      { return !s.single && !s.ownCost }
func guarding(s *subject) bool    { return s.id == oursID || s.id == unguardedID }
func fencing(s *subject) bool     { return s.id == oursID || s.id == fencedID }
func contends(s *subject) bool    { return s.contends }
func renews(s *subject) bool      { return s.renews }

func repsOf(p plan) int      { return p.reps }
func faultRepsOf(p plan) int { return p.faultReps }
func leaseRepsOf(p plan) int { return p.leaseReps }

// The workloads' names, for the targets and the chart.
const (
	idOne       = "one"
	id64        = "64names"
	id512       = "512names"
	idGuard1    = "guard1"
	idGuard64   = "guard64"
	idFenced1   = "fenced1"
	idFenced4   = "fenced4"
	idFrozen1   = "frozen1"
	idFrozen2   = "frozen2"
	idKilled2   = "killed2"
	idLeases    = "leases"
	idGoroutine = "64goroutines"
	idHandover  = "handover"
	id4         = "4processes"
	id16        = "16processes"
	id8x8       = "8x8"
	idHolder    = "holderkilled"
)

// workloads returns all, in the order in which they run.
func workloads() []*workload {
	return slices.Concat(apart(), ownCosts(), together())
}

// apart returns the workloads in which nobody waits for anybody.
func apart() []*workload {
	spent := []metric{commands, clientCPU, serverCPU}
	timed := append([]metric{middle, tail}, spent...)
	all := []*workload{
		{
			id: idOne, title: "One caller, one name", takes: uncontended, reps: repsOf,
			about:   "One goroutine locks and unlocks one name, all masters healthy.",
			columns: append(timed, allocations, failures), trial: callers(1),
		},
	}
	for _, n := range []int{64, 512} {
		all = append(all, &workload{
			id: strconv.Itoa(n) + "names", title: fmt.Sprintf("%d callers, %d names", n, n), takes: uncontended, reps: repsOf,
			about:   fmt.Sprintf("%d goroutines of one process, each with a name of its own.", n),
			columns: append([]metric{perSecond, middle, tail}, append(spent, failures)...), trial: callers(n),
		})
	}
	for _, n := range []int{1, 2} {
		all = append(all, &workload{
			id: fmt.Sprintf("frozen%d", n), title: fmt.Sprintf("One caller, %d of 5 masters frozen", n), takes: faulty, reps: faultRepsOf,
			about:   "SIGSTOP right before the measurement, after the connections were made; other masters in each repetition.",
			columns: append(timed, failures), trial: frozen(n),
		})
	}
	k := &killed{}
	return append(all, &workload{
		id: idKilled2, title: "One caller, 2 of 5 masters killed", takes: faulty, reps: faultRepsOf,
		about:   "SIGKILL once for all subjects, after all had connected; those masters do not come back.",
		columns: append(timed, failures), trial: k.trial, finish: k.finish,
	}, &workload{
		id: idLeases, title: "10 000 leases held", takes: renews, reps: leaseRepsOf,
		about:   "Taken by 64 goroutines, then nothing is done with them for 10 s (4 s with -short). CPU share is of one core; memory is live heap and stacks. redsync and bsm/redislock do not renew what they hold.",
		columns: []metric{cpuShare, serverShare, scriptRate, bytesPerLease, lostLeases}, trial: leases,
	})
}

// ownCosts returns the workloads in which ours is beside ours with other settings.
func ownCosts() []*workload {
	figures := []metric{middle, tail, perSecond, commands, clientCPU, serverCPU, allocations}
	return []*workload{
		{
			id: idGuard1, title: "The restart guard, one caller", takes: guarding, reps: repsOf, against: unguardedID,
			about:   "One goroutine, one name, all masters healthy.",
			columns: append(figures, failures), beside: beside(1),
		}, {
			id: idGuard64, title: "The restart guard, 64 callers, 64 names", takes: guarding, reps: repsOf, against: unguardedID,
			about:   "64 goroutines, each with a name of its own.",
			columns: append(figures, failures), beside: beside(64),
		}, {
			id: idFenced1, title: "Fencing, one caller", takes: fencing, reps: repsOf, against: oursID,
			about:   "One goroutine, one name, all masters healthy.",
			columns: append(figures, oneRound, failures), beside: beside(1),
		}, {
			id: idFenced4, title: "Fencing, 4 processes, one name, held for 1 ms", takes: fencing, reps: faultRepsOf, against: oursID,
			about:   "Measured as among the libraries, below. The index is over the processes.",
			columns: []metric{perSecond, fairness, longestWait, oneRound, broken}, trial: contention(4, 1, time.Millisecond),
		},
	}
}

// together returns the workloads of contention.
func together() []*workload {
	contended := []metric{perSecond, fairness, longestWait, commands, clientCPU, serverCPU, broken}
	all := []*workload{
		{
			id: idGoroutine, title: "64 goroutines of one process, one name", takes: contends, reps: faultRepsOf,
			about:   "Nothing is held: lock and unlock at once. The index is over the goroutines.",
			columns: contended, trial: contention(1, 64, 0),
		}, {
			id: idHandover, title: "Handover between two processes", takes: contends, reps: faultRepsOf,
			about:   "One process holds, the only other waits, for 50 to 300 ms; then the holder leaves. From just before its Unlock to the return of the other's Lock.",
			columns: []metric{handoverTime, broken}, trial: handover,
		},
	}
	for _, n := range []int{4, 16} {
		all = append(all, &workload{
			id: strconv.Itoa(n) + "processes", title: fmt.Sprintf("%d processes, one name, held for 1 ms", n), takes: contends, reps: faultRepsOf,
			about:   "One goroutine each. The index is over the processes.",
			columns: contended, trial: contention(n, 1, time.Millisecond),
		})
	}
	return append(all, &workload{
		id: id8x8, title: "8 processes of 8 goroutines, one name", takes: contends, reps: faultRepsOf,
		about:   "Nothing is held. The index is over the processes.",
		columns: contended, trial: contention(8, 8, 0),
	}, &workload{
		id: idHolder, title: "The holder is killed while 4 others wait", takes: contends, reps: faultRepsOf,
		about:   "TTL 1 s. How long after the end of what the lock had left to live (the third smallest PTTL of the five masters, asked after the kill) the next one enters; the median, and the worst of each repetition.",
		columns: []metric{lateness, worstLateness, broken}, trial: holderKilled,
	})
}
