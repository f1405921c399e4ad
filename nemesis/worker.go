package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// workerEnv makes this program a client: it opens a subject, and locks and unlocks until it is told
// to stop. The first line of its standard input is a job; later lines are orders.
const workerEnv = "REDLOCK_NEMESIS_WORKER"

// A job is what a client is to do.
type job struct {
	setup
	Subject string
	Seed    uint64
	Life    int // how many processes the client had before
	Names   []lockName
	Store   string // the address of the store
}

// A lockName is a lock that clients use.
type lockName struct {
	Name       string
	Fenced     bool
	Long       bool // it is held for seconds, not milliseconds
	Goroutines int  // in each client
}

// Orders.
const (
	orderCalm = "calm" // the faults are over: hold the lock for short times only
	orderStop = "stop" // unlock, close and exit
)

// work is the client's main function.
func work() error {
	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() {
		return fmt.Errorf("no job came: %w", in.Err())
	}
	var j job
	if err := json.Unmarshal(in.Bytes(), &j); err != nil {
		return err
	}
	s, err := subjectByName(j.Subject)
	if err != nil {
		return err
	}
	debug.SetTraceback("all")
	w := &worker{job: j, out: &recorder{out: os.Stdout}, stop: make(chan struct{})}
	go w.obey(in)
	if w.store, err = dialStore(j.Store); err != nil {
		return err
	}
	// Opening a peer may fail while a master is away.
	for w.locks, err = s.open(j.setup); err != nil; w.locks, err = s.open(j.setup) {
		select {
		case <-w.stop:
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
	connected, cancel := context.WithTimeout(context.Background(), time.Second)
	w.locks.await(connected) // fails if the masters cannot be reached now
	cancel()
	w.out.write(record{Kind: ready, At: now()})
	w.run()
	w.locks.close()
	w.out.write(record{Kind: done, At: now()})
	return nil
}

// A worker is one life of a client.
type worker struct {
	job
	out   *recorder
	locks locks
	store *storeClient
	stop  chan struct{}
	calm  atomic.Bool
}

// obey follows orders. It exits when the standard input ends, so that no client outlives the run.
func (w *worker) obey(in *bufio.Scanner) {
	for in.Scan() {
		switch in.Text() {
		case orderCalm:
			w.calm.Store(true)
		case orderStop:
			close(w.stop)
		}
	}
	os.Exit(3)
}

func (w *worker) run() {
	var all sync.WaitGroup
	for i, n := range w.Names {
		shared := w.locks.mutex(n.Name, n.Fenced)
		for g := range n.Goroutines {
			m := shared
			if w.Subject != ours.name || w.Client%2 == 0 { // a peer's Mutex belongs to one goroutine
				m = w.locks.mutex(n.Name, n.Fenced)
			}
			l := &looper{worker: w, name: n, mutex: m, id: fmt.Sprintf("%d.%d.%d", w.Client, w.Life, 10*i+g)}
			h := fnv.New64a()
			fmt.Fprint(h, w.Seed, l.id)
			l.rng = rand.New(rand.NewPCG(w.Seed, h.Sum64()))
			all.Go(l.loop)
		}
	}
	all.Wait()
}

// A looper is one goroutine that locks and unlocks one name.
type looper struct {
	*worker
	name  lockName
	mutex mutex
	id    string
	rng   *rand.Rand
	n     int
	op    string
}

// Calls by which a lock is taken.
const (
	byLock    = "lock"
	byContext = "context"
	byTry     = "try"
	byDo      = "do"
)

func (l *looper) loop() {
	for !isClosed(l.stop) {
		l.n++
		l.op = fmt.Sprintf("%s.%d", l.id, l.n)
		l.once()
		time.Sleep(time.Duration(l.rng.IntN(30)) * time.Millisecond)
	}
}

// once makes one operation.
func (l *looper) once() {
	how, limit := l.choose()
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	l.write(record{Kind: asked, Name: l.name.Name, How: how, Limit: int64(limit)})
	d, does := l.mutex.(doer)
	if how == byDo && does {
		l.do(ctx, d)
		return
	}
	var err error
	w, waits := l.mutex.(waiter)
	switch {
	case how == byLock && waits:
		w.wait()
	case how == byTry:
		err = l.mutex.try(ctx)
	default:
		err = l.mutex.lock(ctx)
	}
	if err != nil {
		l.write(record{Kind: refused, Err: err.Error()})
		return
	}
	l.hold()
	l.write(record{Kind: leaving})
	err = l.mutex.unlock()
	l.write(record{Kind: left, Err: text(err)})
}

func (l *looper) do(ctx context.Context, d doer) {
	ran := false
	err := d.do(ctx, func() {
		ran = true
		l.hold()
		l.write(record{Kind: leaving})
	})
	if !ran {
		l.write(record{Kind: refused, Err: text(err)})
		return
	}
	l.write(record{Kind: left, Err: text(err)})
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// choose chooses the call, and how long it may wait; 0 means without a limit.
func (l *looper) choose() (how string, limit time.Duration) {
	n := l.rng.IntN(100)
	short := time.Duration(20+l.rng.IntN(1500)) * time.Millisecond
	switch {
	case l.calm.Load() || n < 40:
		return byLock, 0
	case n < 65:
		return byContext, short
	case n < 80:
		return byTry, 0
	}
	return byDo, 4 * short
}

// length chooses how long to hold the lock.
func (l *looper) length() time.Duration {
	n, part := l.rng.IntN(100), l.rng.Float64()
	switch {
	case l.calm.Load() || !l.name.Long && n < 80:
		return time.Duration(part * float64(15*time.Millisecond))
	case !l.name.Long && n < 97:
		return time.Duration(part * float64(100*time.Millisecond))
	}
	return time.Duration((0.3 + 3*part) * float64(l.TTL))
}

// recordEvery is how often a holder records that its lease is valid.
const recordEvery = 10 * time.Millisecond

// hold holds the lock for a while, or until it is lost. Meanwhile it writes to the store.
func (l *looper) hold() {
	at := now()
	l.write(record{Kind: entered, At: at, Token: l.mutex.token(), Fence: l.mutex.fence()})
	end := at + int64(l.length())
	var last, written, sent int64
	for {
		at := now()
		if !l.mutex.held() {
			if last > written {
				l.write(record{Kind: held, At: last})
			}
			l.write(record{Kind: lost})
			return
		}
		last = at
		if at >= end || at-written >= int64(recordEvery) {
			l.write(record{Kind: held, At: at})
			written = at
		}
		if at-sent >= int64(5*recordEvery) || at >= end {
			l.store.send(write{Name: l.name.Name, Fence: l.mutex.fence(), Op: l.op})
			sent = at
		}
		if at >= end {
			return
		}
		l.mutex.extend()
		time.Sleep(min(time.Millisecond, time.Duration(end-at)))
	}
}

func (l *looper) write(r record) {
	r.Op = l.op
	if r.At == 0 {
		r.At = now()
	}
	l.out.write(r)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
