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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/history"
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
	Uses    []use
	Store   string // the address of the store
}

// Orders.
const (
	orderCalm = "calm" // the faults are over: hold the lock for short times only
	orderStop = "stop" // unlock, close and exit
	// orderClock is followed by how far off the wall clock is from now on, in ns.
	orderClock = "clock "
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
	w := &worker{job: j, out: history.NewRecorder(os.Stdout), stop: make(chan struct{})}
	clockOffset.Store(int64(j.Traits.Off))
	go w.obey(in)
	if w.store, err = dialStore(j.Store); err != nil {
		return err
	}
	for range max(j.Traits.Clients, 1) {
		// Opening a peer may fail while a master is away.
		l, err := s.open(j.setup)
		for ; err != nil; l, err = s.open(j.setup) {
			select {
			case <-w.stop:
				return nil
			case <-time.After(50 * time.Millisecond):
			}
		}
		w.locks = append(w.locks, l)
	}
	connected, cancel := context.WithTimeout(context.Background(), time.Second)
	for _, l := range w.locks {
		l.await(connected) // fails if the masters cannot be reached now
	}
	cancel()
	w.out.Write(history.Record{Kind: history.Ready, At: history.Now()})
	w.stalls = &stalls{}
	go w.stalls.watch(nil)
	w.run()
	for _, l := range w.locks {
		w.must("Close", callMost, l.close)
	}
	w.out.Write(history.Record{Kind: history.Done, At: history.Now()})
	return nil
}

// A worker is one life of a client.
type worker struct {
	job
	out   *history.Recorder
	locks []locks // one, or several open clients
	store *storeClient
	stop  chan struct{}
	calm  atomic.Bool

	stalls *stalls // of this process, which the nemesis stops, too
}

const (
	// callMost is how much longer than its limit a call may take.
	callMost = 15 * time.Second
	// waitMost is how long a call without a limit may wait for the lock. Masters are away, and leases last, for a few
	// seconds. Once all faults are over, the nemesis waits for less.
	waitMost = 90 * time.Second
)

// must calls f, and ends the client with a report in its log if f takes longer than it may. Calls of a peer may take as
// long as they like.
func (w *worker) must(what string, limit time.Duration, f func()) {
	if w.Subject != ours.name {
		f()
		return
	}
	w.stalls.must(what, limit, f)
}

// obey follows orders. It exits when the standard input ends, so that no client outlives the run.
func (w *worker) obey(in *bufio.Scanner) {
	for in.Scan() {
		if offset, ok := strings.CutPrefix(in.Text(), orderClock); ok {
			n, _ := strconv.ParseInt(offset, 10, 64)
			clockOffset.Store(n)
			continue
		}
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
	var shared []*mutexes
	for _, l := range w.locks {
		shared = append(shared, newMutexes(l))
	}
	for i, u := range w.Uses {
		for g := range u.Goroutines {
			n := (i + g) % len(w.locks)
			l := &looper{worker: w, use: u, mutexes: shared[n], id: fmt.Sprintf("%d.%d.%d", w.Client, w.Life, 10*i+g)}
			if w.Subject != ours.name || w.Client%2 == 0 || u.Permits > 0 { // a peer's Mutex belongs to one goroutine, and so does a permit
				l.mutexes = newMutexes(w.locks[n])
			}
			h := fnv.New64a()
			fmt.Fprint(h, w.Seed, l.id)
			l.rng = rand.New(rand.NewPCG(w.Seed, h.Sum64()))
			all.Go(l.loop)
		}
	}
	all.Wait()
}

// A looper is one goroutine that locks and unlocks.
type looper struct {
	*worker
	use     use
	mutexes *mutexes
	id      string
	rng     *rand.Rand

	// The current operation:
	n      int
	op     string
	wanted wanted
	mutex  mutex
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
	var how string
	var limit time.Duration
	l.wanted, how, limit = l.choose()
	l.mutex = l.mutexes.of(l.wanted)
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	l.write(history.Record{Kind: history.Asked, Name: strings.Join(l.wanted.names, " "), Side: l.wanted.side, How: how, Limit: int64(limit)})
	most := waitMost
	if limit > 0 || how == byTry {
		most = limit + callMost
	}
	what := fmt.Sprintf("%s: %s of %q", l.op, how, l.wanted.names)
	if d, does := l.mutex.(doer); how == byDo && does {
		l.must(what, most+holdMost*l.TTL, func() { l.do(ctx, d) })
		return
	}
	var err error
	l.must(what, most, func() { err = l.take(ctx, how) })
	if err != nil {
		l.write(history.Record{Kind: history.Refused, Err: err.Error()})
		return
	}
	l.hold()
	l.write(history.Record{Kind: history.Leaving})
	l.must(l.op+": unlock", callMost, func() { err = l.mutex.unlock() })
	l.write(history.Record{Kind: history.Left, Err: text(err)})
}

// take takes the lock by a call that is not Do.
func (l *looper) take(ctx context.Context, how string) error {
	w, waits := l.mutex.(waiter)
	switch {
	case how == byLock && waits:
		w.wait()
		return nil
	case how == byTry:
		return l.mutex.try(ctx)
	}
	return l.mutex.lock(ctx)
}

func (l *looper) do(ctx context.Context, d doer) {
	ran := false
	err := d.do(ctx, func() {
		ran = true
		l.hold()
		l.write(history.Record{Kind: history.Leaving})
	})
	if !ran {
		l.write(history.Record{Kind: history.Refused, Err: text(err)})
		return
	}
	l.write(history.Record{Kind: history.Left, Err: text(err)})
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// recordEvery is how often a holder records that its lease is valid.
const recordEvery = 10 * time.Millisecond

// hold holds the lock for a while, or until it is lost. Meanwhile it writes to the store, unless it is a reader or has a permit.
func (l *looper) hold() {
	at := history.Now()
	l.write(history.Record{Kind: history.Entered, At: at, Token: l.mutex.token(), Fence: l.mutex.fence(), Slots: l.slots()})
	end := at + int64(l.length())
	var last, written, sent int64
	for {
		at := history.Now()
		if !l.mutex.held() {
			if last > written {
				l.write(history.Record{Kind: history.Held, At: last})
			}
			l.write(history.Record{Kind: history.Lost})
			return
		}
		last = at
		if at >= end || at-written >= int64(recordEvery) {
			l.write(history.Record{Kind: history.Held, At: at})
			written = at
		}
		if at-sent >= int64(5*recordEvery) || at >= end {
			l.send()
			sent = at
		}
		if at >= end {
			return
		}
		l.mutex.extend()
		time.Sleep(min(time.Millisecond, time.Duration(end-at)))
	}
}

// slots returns the slots of a permit, as they are recorded.
func (l *looper) slots() string {
	if p, ok := l.mutex.(*ourPermits); ok {
		return strings.Trim(fmt.Sprint(p.slots()), "[]")
	}
	return ""
}

// send writes to the store, once for each name.
func (l *looper) send() {
	if l.wanted.side == asReader || l.wanted.permits > 0 {
		return
	}
	for _, name := range l.wanted.names {
		l.store.send(write{Name: name, Fence: l.mutex.fence(), Op: l.op})
	}
}

func (l *looper) write(r history.Record) {
	r.Op = l.op
	if r.At == 0 {
		r.At = history.Now()
	}
	l.out.Write(r)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
