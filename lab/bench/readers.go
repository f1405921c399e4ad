package main

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/lab/internal/child"
)

// readingWorkloads returns the workloads of readers, and of readers and writers.
func readingWorkloads() []*workload {
	crowded := []metric{writerWait, writerTail, readerWait, readerTail, writesPerSecond, readsPerSecond, cpuPerTurn, ping, broken}
	kept := []metric{perRead, allocations}
	return []*workload{
		{
			id: idKept1, title: "RLock and RUnlock with a kept lease, one goroutine", takes: reads, reps: repsOf, against: inProcessID,
			about:   "One goroutine locks and unlocks again and again, beside a sync.RWMutex.",
			columns: kept, trial: keptLease(1),
		}, {
			id: idKept64, title: "RLock and RUnlock with a kept lease, 64 goroutines", takes: reads, reps: repsOf, against: inProcessID,
			about:   "64 goroutines of one process with one name, beside a sync.RWMutex. The time of the whole run is divided by the number of reads.",
			columns: kept, trial: keptLease(64),
		}, {
			id: idFirstRead, title: "The first RLock of a process, round trip 5 ms", takes: readsAfar, reps: repsOf,
			about:   "A process that has connected to the masters locks for the first time. The median of four processes in each repetition.",
			columns: []metric{readTrips, firstRead, ping}, trial: firstReads,
		}, {
			id: idReaders, title: "15 processes of readers and one of a writer, held for 1 ms, round trip 1 ms", takes: readsAfar, reps: faultRepsOf,
			about:   "Three goroutines in each reading process; everybody locks again at once. Violations are overlaps of a writer with anybody.",
			columns: crowded, trial: readCrowd{15, 1, func(int) distances { return roundTrips(time.Millisecond) }}.trial,
		}, {
			id: idWriters, title: "15 processes of readers and 8 of writers, held for 1 ms, unequal distances", takes: readsAfar, reps: faultRepsOf,
			about:   "The same with 8 writers. Each process is near to one master (loopback) and far from the others (a round trip of 1 ms).",
			columns: crowded, trial: readCrowd{15, 8, func(i int) distances { return nearTo(time.Millisecond/2, i%masters) }}.trial,
		},
	}
}

func reads(s *subject) bool     { return s.id == readersID || s.id == inProcessID }
func readsAfar(s *subject) bool { return s.id == readersID }

// readingTargets are of readers and writers.
func readingTargets() []target {
	own := func(r *results, workload string, m metric, want float64) bound {
		return r.own(readersID, workload, m, want, false)
	}
	var all []target
	for _, id := range []string{idKept1, idKept64} {
		all = append(all, target{id, "a kept lease", func(r *results) []bound {
			return []bound{own(r, id, perRead, 100), own(r, id, allocations, 0)}
		}})
	}
	return append(all,
		target{idFirstRead, "the first RLock of a process", func(r *results) []bound {
			return []bound{own(r, idFirstRead, readTrips, 1.15)}
		}},
		target{idReaders, "readers that never stop, and one writer", func(r *results) []bound {
			return []bound{own(r, idReaders, writerWait, 20), own(r, idReaders, readerTail, 10), own(r, idReaders, broken, 0)}
		}},
		target{idWriters, "the same with 8 writers, unequal distances", func(r *results) []bound {
			return []bound{own(r, idWriters, writerWait, 200), own(r, idWriters, broken, 0)}
		}},
	)
}

// keptLease is the workload of goroutines that read a name of which their process has a lease.
func keptLease(goroutines int) func(*bench, *subject, int) (figures, error) {
	return func(b *bench, s *subject, rep int) (figures, error) {
		workers, err := b.startWorkers(s, 1, goroutines, ttl, onLoopback)
		if err != nil {
			return nil, err
		}
		defer child.End(workers...)
		r, err := workers[0].Ask(order{Op: opSpin, Lasting: b.plan.lasting}, b.plan.lasting+readyLimit)
		if errors.Is(err, child.ErrSilent) {
			return figures{hung: 1}, nil
		}
		if err != nil {
			return nil, err
		}
		return figures{
			perRead:     float64(r.Took) / float64(r.Spins),
			allocations: float64(r.Allocs / uint64(r.Spins)), // whole ones, as package testing counts them: renewals allocate, too
		}, nil
	}
}

// spinsEach is how often a goroutine reads between two looks at the time.
const spinsEach = 1000

// spin has all callers lock and unlock one name for reading, for that long, and returns how often they did, and how long
// they took.
func (w *worker) spin(lasting time.Duration) (spins int64, took time.Duration) {
	var mu sync.Mutex // guards spins
	var wg sync.WaitGroup
	m := w.locks.(rwLocks).rw(w.name)
	start := time.Now()
	for range w.mutexes {
		wg.Go(func() {
			n := int64(0)
			for ; time.Since(start) < lasting; n += spinsEach {
				for range spinsEach {
					m.RLock()
					//lint:ignore SA2001 it is the locking that is measured
					m.RUnlock()
				}
			}
			mu.Lock()
			spins += n
			mu.Unlock()
		})
	}
	wg.Wait()
	return spins, time.Since(start)
}

// firstReaders is how many processes there are in each repetition of firstReads.
const firstReaders = 4

// firstReads is the workload of processes that read-lock for the first time.
func firstReads(b *bench, s *subject, rep int) (figures, error) {
	far := roundTrips(5 * time.Millisecond)
	addrs, err := b.fleetOf(s).at(far)
	if err != nil {
		return nil, err
	}
	pings, err := b.fleetOf(s).pinger(far)
	if err != nil {
		return nil, err
	}
	var took []float64
	for range firstReaders {
		b.opened++
		workers, err := startAll([]*subject{s}, []setup{{Addrs: addrs, TTL: ttl, NodeTimeout: patient, Callers: 1, Prefix: b.name(), Cold: true}})
		if err != nil {
			return nil, err
		}
		if err = pings.ping(2); err == nil {
			var r report
			r, err = workers[0].Ask(order{Op: opLock}, readyLimit)
			took = append(took, millis(r.Took))
		}
		child.End(workers...)
		if err != nil {
			return nil, err
		}
	}
	trip := millis(pings.trip())
	return figures{firstRead: median(took), readTrips: median(took) / trip, ping: trip}, nil
}

// A readCrowd is a workload of processes that read one name, and processes that write.
type readCrowd struct {
	reading, writing int
	far              func(process int) distances
}

// readersEach is how many goroutines a reading process has.
const readersEach = 3

func (c readCrowd) trial(b *bench, s *subject, rep int) (figures, error) {
	pings, err := b.fleetOf(s).pinger(c.far(0))
	if err != nil {
		return nil, err
	}
	b.opened++
	var setups []setup
	for i := range c.reading + c.writing {
		addrs, err := b.fleetOf(s).at(c.far(i))
		if err != nil {
			return nil, err
		}
		u := setup{Addrs: addrs, TTL: ttl, NodeTimeout: patient, Callers: readersEach, Prefix: b.name()}
		if i >= c.reading {
			u.Callers, u.Writes = 1, true
		}
		setups = append(setups, u)
	}
	workers, err := startAll(slices.Repeat([]*subject{s}, len(setups)), setups)
	if err != nil {
		return nil, err
	}
	defer child.End(workers...)
	before, err := b.fleetOf(s).load()
	if err != nil {
		return nil, err
	}
	o := begin(time.Millisecond, b.plan.contending)
	all, err := contend(workers, o, pings)
	if errors.Is(err, child.ErrSilent) {
		return figures{hung: 1}, nil
	}
	if err != nil {
		return nil, err
	}
	after, err := b.fleetOf(s).load()
	if err != nil {
		return nil, err
	}
	out, turns := judgeReaders(all[:c.reading], all[c.reading:], o)
	cpu := after.Minus(before).CPU
	for _, r := range all {
		cpu += r.CPU
	}
	if turns > 0 {
		out[cpuPerTurn] = millis(cpu) / float64(turns)
	}
	out[ping] = millis(pings.trip())
	return out, nil
}

// judgeReaders computes the figures of a readCrowd, and how many turns of writers there were.
func judgeReaders(readers, writers []report, o order) (out figures, turns int) {
	out = make(figures)
	var stays [2][]interval
	for side, all := range [][]report{readers, writers} {
		var waits []time.Duration
		for _, r := range all {
			for _, t := range slices.Concat(r.Turns...) {
				waits = append(waits, t.waited(o.Stop))
				if t.entered() {
					stays[side] = append(stays[side], t.Stay)
				}
			}
		}
		slices.Sort(waits)
		longest, tail, rate := readerWait, readerTail, readsPerSecond
		if side == 1 {
			longest, tail, rate = writerWait, writerTail, writesPerSecond
		}
		out[longest], out[tail] = millis(quantile(waits, 1)), millis(quantile(waits, 0.99))
		out[rate] = float64(len(stays[side])) / time.Duration(o.Stop-o.Start).Seconds()
	}
	out[broken] = float64(rwViolations(stays[0], stays[1]))
	return out, len(stays[1])
}

// rwViolations returns how many stays began before an earlier one had ended, where one of the two was a writer's.
func rwViolations(readers, writers []interval) (n int) {
	type stay struct {
		interval
		writes bool
	}
	var all []stay
	for _, s := range readers {
		all = append(all, stay{s, false})
	}
	for _, s := range writers {
		all = append(all, stay{s, true})
	}
	slices.SortFunc(all, func(a, b stay) int { return cmp.Compare(a.Enter, b.Enter) })
	var read, written int64 // until when
	for _, s := range all {
		if s.Enter < written || s.writes && s.Enter < read {
			n++
		}
		if s.writes {
			written = max(written, s.Leave)
		} else {
			read = max(read, s.Leave)
		}
	}
	return n
}
