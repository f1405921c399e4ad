package main

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/lab/internal/servers"
)

// A recorder keeps what one caller did. Its caller may be stuck for ever, so
// others read it under the mutex.
type recorder struct {
	mu     sync.Mutex // guards what follows
	times  []time.Duration
	inTime float64 // how many of times were over in time
	failed int     // unlocks that the library called failures
	first  string  // of those
	done   bool
}

func (r *recorder) add(d time.Duration, inTime float64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times = append(r.times, d)
	r.inTime += inTime
	if err != nil {
		r.failed++
		if r.first == "" {
			r.first = err.Error()
		}
	}
}

// driven is what some callers did in some time.
type driven struct {
	Times  []time.Duration // of lock and unlock, sorted
	InTime float64         // how many of them were over in time; of the last of each caller, the part that was
	Failed int
	First  string // what the first failed unlock said
	Stuck  int    // callers abandoned in an operation that passed the bound
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
		wg.Go(func() { r.drive(ctx, m, start, lasting) })
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

// drive locks and unlocks m until lasting has passed since start.
func (r *recorder) drive(ctx context.Context, m mutex, start time.Time, lasting time.Duration) {
	for {
		began := time.Since(start)
		if began >= lasting {
			break
		}
		if m.lock(ctx) != nil {
			return
		}
		err := m.unlock()
		took := time.Since(start) - began
		r.add(took, min(1, float64(lasting-began)/float64(took)), err)
	}
	r.mu.Lock()
	r.done = true
	r.mu.Unlock()
}

func collect(recorders []*recorder) driven {
	var d driven
	for _, r := range recorders {
		r.mu.Lock()
		d.plus(driven{Times: r.times, InTime: r.inTime, Failed: r.failed, First: r.first})
		if !r.done {
			d.Stuck++
		}
		r.mu.Unlock()
	}
	slices.Sort(d.Times)
	return d
}

// plus adds what was driven elsewhere. The times are not sorted afterwards.
func (d *driven) plus(e driven) {
	d.Times = append(d.Times, e.Times...)
	d.InTime += e.InTime
	d.Failed += e.Failed
	d.First = cmp.Or(d.First, e.First)
	d.Stuck += e.Stuck
}

// figures returns what so long a drive tells by itself. The times are sorted.
func (d driven) figures(lasting time.Duration) figures {
	out := figures{failures: float64(d.Failed)}
	if d.Stuck > 0 {
		out[hung] = 1
		return out
	}
	out[perSecond] = d.InTime / lasting.Seconds()
	out[middle] = micros(quantile(d.Times, 0.5))
	out[tail] = micros(quantile(d.Times, 0.99))
	return out
}

// spent is what has been spent, by a process and its masters.
type spent struct {
	load   servers.Load
	cpu    time.Duration
	allocs uint64
}

func (s spent) plus(t spent) spent {
	return spent{s.load.Plus(t.load), s.cpu + t.cpu, s.allocs + t.allocs}
}

// each adds to the figures what was spent for each of n locks.
func (s spent) each(n int, into figures) {
	if n == 0 {
		return
	}
	into[commands] = float64(commandsOf(s.load)) / float64(n)
	into[serverCPU] = micros(s.load.CPU) / float64(n)
	into[clientCPU] = micros(s.cpu) / float64(n)
	into[allocations] = float64(s.allocs) / float64(n)
}

func mallocs() uint64 {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.Mallocs
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
