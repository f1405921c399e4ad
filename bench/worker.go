package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// This program is also the other processes of the contention workloads: run
// again with workerEnv set, it opens a subject and does what it is told over
// its standard input, answering over its standard output.

// workerEnv holds the id of the subject that a worker opens.
const workerEnv = "REDLOCK_BENCH_WORKER"

// order is what a worker is told. The first has Setup and Name.
type order struct {
	Setup setup
	Name  string

	Op    string        // opLock, opUnlock or opContend; none in the first order
	Hold  time.Duration // opContend: the length of each stay
	Start int64         // opContend: when to begin and to end, by now
	Stop  int64
}

const (
	opLock    = "lock"
	opUnlock  = "unlock"
	opContend = "contend"
)

// report is a worker's answer to each order.
type report struct {
	Err    string
	At     int64         // opLock: when it was entered; opUnlock: when it was left
	Turns  [][]turn      // opContend: of each goroutine
	CPU    time.Duration // opContend: what was used from Start to Stop
	Rounds rounds        // opContend: of the acquisitions meanwhile
}

// turn is one wait of a goroutine and the stay that followed it. A wait that
// was cut short by the end of the run has no stay.
type turn struct {
	Asked int64
	Stay  interval
}

func (t turn) entered() bool { return t.Stay.Enter != 0 }

// waited returns how long the wait was, at least.
func (t turn) waited(stop int64) time.Duration {
	if !t.entered() {
		return time.Duration(stop - t.Asked)
	}
	return time.Duration(t.Stay.Enter - t.Asked)
}

// work is the worker's main function. It returns when the standard input ends.
func work(id string) error {
	quiet()
	s := subjectByID(id)
	if s == nil {
		return fmt.Errorf("no subject %q", id)
	}
	orders, out := listen(os.Stdin), gob.NewEncoder(os.Stdout)
	first, ok := <-orders
	if !ok {
		return errors.New("no order came")
	}
	l, err := s.open(first.Setup)
	if err != nil {
		return err
	}
	w := &worker{locks: l}
	for i := range first.Setup.Callers {
		// Once alone, so that connections and scripts are there.
		warm := l.mutex(fmt.Sprintf("%s:warm:%d:%d", first.Name, os.Getpid(), i))
		if err := warm.lock(context.Background()); err != nil {
			return err
		}
		warm.unlock()
		w.mutexes = append(w.mutexes, l.mutex(first.Name))
	}
	if err := out.Encode(report{}); err != nil {
		return err
	}
	for o := range orders {
		if err := out.Encode(w.obey(o)); err != nil {
			return err
		}
	}
	return nil
}

// listen returns the orders as they come, and ends the process with them: a
// worker that is in the middle of a wait must not outlive its master.
func listen(in io.Reader) <-chan order {
	orders := make(chan order)
	go func() {
		for dec := gob.NewDecoder(in); ; {
			var o order
			if dec.Decode(&o) != nil {
				os.Exit(0)
			}
			orders <- o
		}
	}()
	return orders
}

type worker struct {
	locks   locks
	mutexes []mutex
}

func (w *worker) obey(o order) report {
	var r report
	var err error
	switch o.Op {
	case opLock:
		err = w.mutexes[0].lock(context.Background())
		r.At = now()
	case opUnlock:
		r.At = now()
		w.mutexes[0].unlock()
	case opContend:
		r = w.contend(o)
	default:
		err = fmt.Errorf("no such order: %q", o.Op)
	}
	if err != nil {
		r.Err = err.Error()
	}
	return r
}

// contend has all goroutines lock and unlock from Start to Stop.
func (w *worker) contend(o order) report {
	sleepUntil(o.Start)
	cpu, before := processCPU(), roundsOf(w.locks)
	ctx, cancel := context.WithCancel(context.Background())
	end := time.AfterFunc(time.Duration(o.Stop-now()), cancel)
	defer end.Stop()
	defer cancel()
	r := report{Turns: make([][]turn, len(w.mutexes))}
	var wg sync.WaitGroup
	for i, m := range w.mutexes {
		wg.Go(func() { r.Turns[i] = takeTurns(ctx, m, o) })
	}
	wg.Wait()
	r.CPU, r.Rounds = processCPU()-cpu, roundsOf(w.locks).minus(before)
	return r
}

func takeTurns(ctx context.Context, m mutex, o order) []turn {
	var turns []turn
	for t := now(); t < o.Stop; t = now() {
		if m.lock(ctx) != nil {
			return append(turns, turn{Asked: t}) // the end came first
		}
		stay := interval{Enter: now()}
		if o.Hold > 0 {
			time.Sleep(o.Hold)
		}
		stay.Leave = now()
		m.unlock()
		turns = append(turns, turn{Asked: t, Stay: stay})
	}
	return turns
}
