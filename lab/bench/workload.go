package main

import (
	"cmp"
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
	fairnessOfAll metric = "Jain's index, all"
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

	perRead         metric = "ns/read"
	firstRead       metric = "first RLock ms"
	readTrips       metric = "first RLock, round trips"
	writerWait      metric = "longest wait of a writer ms"
	writerTail      metric = "p99 of a writer ms"
	readerWait      metric = "longest wait of a reader ms"
	readerTail      metric = "p99 of a reader ms"
	writesPerSecond metric = "writes/s"
	readsPerSecond  metric = "reads/s"
	cpuPerTurn      metric = "CPU ms/turn of a writer" // of all clients and masters

	ping            metric = "PING ms"
	trips           metric = "round trips" // of a lock and unlock
	failedAttempts  metric = "failed attempts"
	handoverTrips   metric = "leave → enter, round trips"
	idleShare       metric = "idle %"
	idleTrips       metric = "idle round trips/handover"
	longestIdle     metric = "longest idle ms"
	guestShare      metric = "redsync's part of the turns %"
	longestCycles   metric = "longest wait, turns of all" // as a multiple of what one turn of everybody takes
	firstEntry      metric = "until one has it, ms"
	lastFirstEntry  metric = "worst ms"
	middleToHealthy metric = "median × healthy"
	tailToHealthy   metric = "p99 × healthy median"
)

// summed metrics count what should never happen: all repetitions matter. Of the
// others the median is shown.
var summed = map[metric]bool{failures: true, hung: true, broken: true, lostLeases: true, failedAttempts: true}

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

	beside  *calls // instead of trial: all subjects take turns within a repetition
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
	part            float64       // of the turns of subjects that are beside each other
	warmUp, lasting time.Duration // of callers that do not wait for each other
	bound           time.Duration // after which an operation is called hung
	contending      time.Duration // how long processes contend
	holding         time.Duration // how long leases are watched
	leases          int
	leaseReps       int
	handovers       int // in each repetition
	kills           int // in each repetition
	races           int // in each repetition
}

func fullPlan() plan {
	return plan{
		reps: 5, faultReps: 3, part: 1, warmUp: 150 * time.Millisecond, lasting: 300 * time.Millisecond, bound: 1500 * time.Millisecond,
		contending: 2 * time.Second, holding: 6 * time.Second, leases: 10_000, leaseReps: 1, handovers: 10, kills: 2, races: 5,
	}
}

func shortPlan() plan {
	return plan{
		reps: 1, faultReps: 1, part: 0.4, warmUp: 100 * time.Millisecond, lasting: 200 * time.Millisecond, bound: 2 * time.Second,
		contending: time.Second, holding: 4 * time.Second, leases: 10_000, leaseReps: 1, handovers: 4, kills: 1, races: 3,
	}
}

func repsOf(p plan) int      { return p.reps }
func faultRepsOf(p plan) int { return p.faultReps }
func leaseRepsOf(p plan) int { return p.leaseReps }
