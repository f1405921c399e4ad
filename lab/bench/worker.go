package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/lab/internal/child"
	"github.com/redlock-go/redlock/lab/internal/measure"
)

// Each library runs in processes of its own, which are this program again: see package child. A worker
// opens the subject whose id is its role, or has networkRole.

// order is what a worker is to do. The first has Setup.
type order struct {
	Setup setup

	Op      string        // none in the first order
	Name    string        // opRace: of the lock
	Hold    time.Duration // opContend: the length of each stay
	Start   int64         // opContend, opRace: when to begin, by now
	Stop    int64         // opContend: when to end
	Pause   int64         // opContend: when the process stops itself by SIGSTOP, as soon as it waits; 0: never
	Lasting time.Duration // opDrive, opSpin: for how long
	Bound   time.Duration // opDrive: after which an operation is abandoned
	Target  string        // opForward: the master's address
	Delay   time.Duration // opForward: of each direction
}

const (
	opLock    = "lock"    // the first caller locks
	opUnlock  = "unlock"  // and unlocks
	opRace    = "race"    // one caller locks a name at the same time as others elsewhere, and unlocks
	opContend = "contend" // all callers lock, hold and unlock one name
	opDrive   = "drive"   // all callers lock and unlock
	opSpin    = "spin"    // all callers read one name, of which their process keeps a lease
	opForward = "forward" // of the process that delays: a proxy
)

// report is a worker's answer to each order.
type report struct {
	At     int64         // opLock, opRace: when it was entered; opUnlock: when it was left
	Turns  [][]turn      // opContend: of each goroutine
	Driven driven        // opDrive
	Took   time.Duration // opLock: until it was entered; opSpin: all of it
	Spins  int64         // opSpin: how many there were
	CPU    time.Duration // opContend, opDrive: what was used meanwhile
	Allocs uint64        // opDrive, opSpin: made meanwhile
	Counts counts        // opContend, opDrive: meanwhile
	Addr   string        // opForward
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

// work is the worker's main function.
func work(id string) error {
	quiet()
	if id == networkRole {
		return forward()
	}
	s := subjectByID(id)
	if s == nil {
		return fmt.Errorf("no subject %q", id)
	}
	orders, answer := child.Serve[order, report]()
	w, err := newWorker(s, (<-orders).Setup)
	if err := answer(report{}, err); err != nil {
		return err
	}
	for o := range orders {
		if err := answer(w.obey(o)); err != nil {
			return err
		}
	}
	return nil
}

type worker struct {
	locks   locks
	name    string  // that the callers lock, if it is one
	mutexes []mutex // of the callers
}

// newWorker opens the subject and has each caller lock once at least, so that connections and scripts are
// there. If the setup is cold, only the connections are.
func newWorker(s *subject, u setup) (*worker, error) {
	l, err := s.open(u)
	if err != nil {
		return nil, err
	}
	w := &worker{locks: l, name: u.Prefix}
	for i := range u.Callers {
		own := fmt.Sprintf("%s:%d:%d", u.Prefix, os.Getpid(), i)
		switch u.Names {
		case ownNames:
			w.mutexes = append(w.mutexes, l.mutex(own))
		case newNames:
			w.mutexes = append(w.mutexes, &changing{locks: l, prefix: own})
		case oneName:
			switch {
			case u.Wants != nil:
				w.mutexes = append(w.mutexes, l.(setLocks).set(u.Prefix, u.Wants))
			case u.Writes:
				w.mutexes = append(w.mutexes, l.(rwLocks).writer(u.Prefix))
			default:
				w.mutexes = append(w.mutexes, l.mutex(u.Prefix))
			}
			if u.Cold {
				continue
			}
			warm := l.mutex(own) // nobody else's
			if err := warm.lock(context.Background()); err != nil {
				return nil, err
			}
			warm.unlock()
		}
	}
	if u.Cold {
		return w, l.(awaiter).await(context.Background())
	}
	if u.Names != oneName {
		if d := drive(w.mutexes, u.WarmUp, warmUpBound); d.Stuck > 0 {
			return nil, fmt.Errorf("%d callers are stuck in the warm-up", d.Stuck)
		}
	}
	return w, nil
}

// warmUpBound is how long a lock may take while all masters are healthy.
const warmUpBound = 5 * time.Second

// changing is a mutex that has another name each time it is locked.
type changing struct {
	locks  locks
	prefix string
	n      int
	mutex
}

func (c *changing) lock(ctx context.Context) error {
	c.n++
	c.mutex = c.locks.mutex(c.prefix + ":" + strconv.Itoa(c.n))
	return c.mutex.lock(ctx)
}

func (w *worker) obey(o order) (r report, err error) {
	switch o.Op {
	case opLock:
		asked := now()
		err = w.mutexes[0].lock(context.Background())
		r.At = now()
		r.Took = time.Duration(r.At - asked)
	case opUnlock:
		r.At = now()
		w.mutexes[0].unlock()
	case opRace:
		m := w.locks.mutex(o.Name)
		sleepUntil(o.Start)
		err = m.lock(context.Background())
		r.At = now()
		m.unlock()
	case opContend:
		r = w.contend(o)
	case opSpin:
		allocs := mallocs()
		r.Spins, r.Took = w.spin(o.Lasting)
		r.Allocs = mallocs() - allocs
	case opDrive:
		cpu, allocs, before := measure.CPU(), mallocs(), countsOf(w.locks)
		r.Driven = drive(w.mutexes, o.Lasting, o.Bound)
		r.CPU, r.Allocs, r.Counts = measure.CPU()-cpu, mallocs()-allocs, countsOf(w.locks).minus(before)
	default:
		err = fmt.Errorf("no such order: %q", o.Op)
	}
	return r, err
}

// contend has all goroutines lock and unlock from Start to Stop.
func (w *worker) contend(o order) report {
	sleepUntil(o.Start)
	cpu, before := measure.CPU(), countsOf(w.locks)
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
	r.CPU, r.Counts = measure.CPU()-cpu, countsOf(w.locks).minus(before)
	return r
}

// pauseAfter is how long after it began to wait a process stops itself: it is in the queue, and its turn does not come
// so soon.
const pauseAfter = 15 * time.Millisecond

func takeTurns(ctx context.Context, m mutex, o order) []turn {
	var turns []turn
	for t := now(); t < o.Stop; t = now() {
		if o.Pause != 0 && t >= o.Pause {
			o.Pause = 0
			time.AfterFunc(pauseAfter, func() { syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) })
		}
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
