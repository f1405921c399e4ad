package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// A recorder keeps what one caller did. Its caller may be stuck for ever, so
// others read it under the mutex.
type recorder struct {
	mu     sync.Mutex // guards what follows
	times  []time.Duration
	inTime int   // of times, before the run was over
	failed int   // unlocks that the library called failures
	first  error // of those
	done   bool
}

func (r *recorder) add(d time.Duration, inTime bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times = append(r.times, d)
	if inTime {
		r.inTime++
	}
	if err != nil {
		r.failed++
		if r.first == nil {
			r.first = err
		}
	}
}

// driven is what some callers did in some time.
type driven struct {
	times  []time.Duration // of lock and unlock, sorted
	inTime int             // how many of them were over in time
	failed int
	first  error // what the first failed unlock said
	stuck  int   // callers abandoned in an operation that passed the bound
}

// drive has each mutex locked and unlocked by a goroutine of its own, again and
// again for that long, and gives up on those whose last operation is not over
// when bound has passed on top.
func drive(all []mutex, lasting, bound time.Duration) driven {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // which frees what is stuck, where a library listens
	recorders := make([]*recorder, len(all))
	var wg sync.WaitGroup
	start := time.Now()
	for i, m := range all {
		r := &recorder{}
		recorders[i] = r
		wg.Go(func() {
			for time.Since(start) < lasting {
				began := time.Now()
				if m.lock(ctx) != nil {
					return
				}
				err := m.unlock()
				r.add(time.Since(began), time.Since(start) <= lasting, err)
			}
			r.mu.Lock()
			r.done = true
			r.mu.Unlock()
		})
	}
	over := make(chan struct{})
	go func() {
		wg.Wait()
		close(over)
	}()
	limit := time.NewTimer(lasting + bound)
	defer limit.Stop()
	select {
	case <-over:
	case <-limit.C:
	}
	return collect(recorders)
}

func collect(recorders []*recorder) driven {
	var d driven
	for _, r := range recorders {
		r.mu.Lock()
		d.times = append(d.times, r.times...)
		d.inTime += r.inTime
		d.failed += r.failed
		if d.first == nil {
			d.first = r.first
		}
		if !r.done {
			d.stuck++
		}
		r.mu.Unlock()
	}
	slices.Sort(d.times)
	return d
}

// report logs what a drive should not have met.
func (b *bench) report(d driven) {
	if d.first != nil {
		fmt.Fprintf(b.log, "%d unlocks failed, the first one: %v\n", d.failed, d.first)
	}
}

// figures returns what so long a drive tells by itself.
func (d driven) figures(lasting time.Duration) figures {
	out := figures{failures: float64(d.failed)}
	if d.stuck > 0 {
		out[hung] = 1
		return out
	}
	out[perSecond] = float64(d.inTime) / lasting.Seconds()
	out[middle] = micros(quantile(d.times, 0.5))
	out[tail] = micros(quantile(d.times, 0.99))
	return out
}

// A meter measures what is spent between two moments.
type meter struct {
	fleet *fleet
	start spent
}

// spent is what has been spent, by this process and its masters.
type spent struct {
	load   load
	cpu    time.Duration
	allocs uint64
}

func (s spent) plus(t spent) spent {
	return spent{s.load.plus(t.load), s.cpu + t.cpu, s.allocs + t.allocs}
}

// each adds to the figures what was spent for each of n locks.
func (s spent) each(n int, into figures) {
	if n == 0 {
		return
	}
	into[commands] = float64(s.load.commands) / float64(n)
	into[serverCPU] = micros(s.load.cpu) / float64(n)
	into[clientCPU] = micros(s.cpu) / float64(n)
	into[allocations] = float64(s.allocs) / float64(n)
}

func startMeter(f *fleet) (*meter, error) {
	l, err := f.load()
	if err != nil {
		return nil, err
	}
	return &meter{fleet: f, start: spent{load: l, cpu: processCPU(), allocs: mallocs()}}, nil
}

// read returns what was spent since the start. The masters that are sick now must
// be those that were then.
func (m *meter) read() (spent, error) {
	cpu, allocs := processCPU(), mallocs()
	l, err := m.fleet.load()
	if err != nil {
		return spent{}, err
	}
	return spent{l.minus(m.start.load), cpu - m.start.cpu, allocs - m.start.allocs}, nil
}

func mallocs() uint64 {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.Mallocs
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
