package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/redlock-go/redlock/lab/internal/measure"
	"github.com/redlock-go/redlock/lab/internal/peers"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// A waiter is one client of a crowd: it has connections of its own.
type waiter struct {
	lock   func(context.Context) error
	unlock func()
	close  func()
}

const crowdName = "limits:crowd"

func openWaiter(addrs []string) (*waiter, error) {
	c, err := servers.Open(addrs, nil)
	if err != nil {
		return nil, err
	}
	l := c.Locker(crowdName)
	return &waiter{lock: l.LockContext, unlock: l.Unlock, close: func() { c.Close() }}, nil
}

// openReader returns a client of an RWLocker that reads, but writes in one of eight turns of all such clients. turns counts these, so the
// first turn of all writes.
func openReader(turns *atomic.Int64) func([]string) (*waiter, error) {
	return func(addrs []string) (*waiter, error) {
		c, err := servers.Open(addrs, nil)
		if err != nil {
			return nil, err
		}
		l := c.RWLocker(crowdName)
		writes := false
		lock := func(ctx context.Context) error {
			if writes = turns.Add(1)%8 == 1; writes {
				return l.LockContext(ctx)
			}
			return l.RLocker().LockContext(ctx)
		}
		unlock := func() {
			if writes {
				l.Unlock()
			} else {
				l.RUnlock()
			}
		}
		return &waiter{lock: lock, unlock: unlock, close: func() { c.Close() }}, nil
	}
}

// openBlind returns a client that polls blindly: redsync on redigo, which waits 50 to 250 ms between two attempts.
func openBlind(addrs []string) (*waiter, error) {
	pools := peers.NewRedigo(addrs, 2, 0, peers.Timeouts(time.Second)...)
	m := pools.Redsync().NewMutex(crowdName, redsync.WithExpiry(time.Minute), redsync.WithTries(math.MaxInt))
	lock := func(ctx context.Context) error { // a context that ends may leave replies on redigo's connections
		for m.Lock() != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if ctx.Err() != nil {
			m.Unlock()
		}
		return ctx.Err()
	}
	return &waiter{lock: lock, unlock: func() { m.Unlock() }, close: pools.Close}, nil
}

// crowd measures many clients that want one lock: what it costs that they wait while one holds it, and how they take turns.
func crowd(o *options) error {
	table("clients", "of", "memory of a client: idle", "waiting", "its connections", "masters' memory for it", "waiting: commands/s", "masters", "clients", "in turns: locks/s", "commands per lock", "CPU per lock: masters", "clients", "fairness (Jain)", "longest wait")
	for _, n := range o.clients {
		for _, of := range []struct {
			name string
			open func([]string) (*waiter, error)
		}{{"redlock", openWaiter}, {"redlock, readers", openReader(new(atomic.Int64))}, {"redsync", openBlind}} {
			if err := crowdOf(o, n, of.name, of.open); err != nil {
				return fmt.Errorf("%d clients of %s: %w", n, of.name, err)
			}
		}
	}
	return nil
}

const (
	crowdSettles = 6 * time.Second
	crowdSpan    = 6 * time.Second
	crowdAtOnce  = 400                   // larger crowds do not begin to wait at one moment: as many idle clients load the masters
	crowdIdle    = 100                   // so many of a larger crowd are opened before they begin to wait
	crowdTurn    = 20 * time.Millisecond // a client, in a crowd that takes longer: each is to have several turns
)

// openCrowd opens clients, some at a time.
func openCrowd(n int, addrs []string, open func([]string) (*waiter, error)) ([]*waiter, error) {
	const together = 4
	all := make([]*waiter, n)
	return all, measure.ForAll(n, together, func(i int) (err error) {
		all[i], err = open(addrs)
		return err
	})
}

// closeCrowd closes clients, some of which may be nil.
func closeCrowd(all []*waiter) {
	var wg sync.WaitGroup
	for _, w := range all {
		if w != nil {
			wg.Go(w.close)
		}
	}
	wg.Wait()
}

// crowdFigures are what was found while n clients wait for a lock that another one holds, and then take turns.
type crowdFigures struct {
	n    int
	span time.Duration // of each measurement

	idle, own       int64         // bytes: of an idle client; of all that wait
	fresh, queued   servers.Load  // of the masters, without clients, and while all wait
	waiting, turns  servers.Load  // what the masters use in a span
	waited, taken   time.Duration // CPU time of the clients in a span
	locks, fairness float64       // in a span; Jain's index
	longest         time.Duration // a wait
}

// crowdOf measures n clients and one that holds the lock first.
func crowdOf(o *options, n int, name string, open func([]string) (*waiter, error)) error {
	f, err := start(5)
	if err != nil {
		return err
	}
	defer f.Stop()
	m := &crowdFigures{n: n, span: max(crowdSpan, time.Duration(n)*crowdTurn)}
	if m.fresh, err = f.Load(); err != nil {
		return err
	}
	before := measure.Memory()
	first := n
	if n > crowdAtOnce {
		first = crowdIdle
	}
	all, err := openCrowd(first+1, f.Addrs(), open)
	defer func() { closeCrowd(all) }()
	if err != nil {
		return err
	}
	m.idle = (measure.Memory() - before) / int64(len(all))
	holder := all[0]
	if err := holder.lock(context.Background()); err != nil {
		return err
	}
	turns := newRota(n)
	defer turns.end()
	for i, w := range all[1:] {
		turns.join(i, w)
	}
	for i := len(all) - 1; i < n; i++ {
		w, err := open(f.Addrs())
		if err != nil {
			return err
		}
		all = append(all, w)
		turns.join(i, w)
	}
	time.Sleep(crowdSettles)
	m.own = measure.Memory() - before
	if m.queued, err = f.Load(); err != nil {
		return err
	}
	if m.waiting, m.waited, err = spent(f, m.span); err != nil {
		return err
	}
	holder.unlock()
	time.Sleep(max(crowdSettles/2, m.span/4))
	if err := m.take(f, turns); err != nil {
		return err
	}
	if o.commands {
		printCalls(m.waiting, fmt.Sprintf("%d clients of %s wait, per second", n, name), m.span.Seconds())
		printCalls(m.turns, fmt.Sprintf("%d clients of %s take turns, per lock", n, name), max(m.locks, 1))
	}
	m.row(name)
	return nil
}

// take measures the clients while they take turns.
func (m *crowdFigures) take(f servers.Fleet, turns *rota) (err error) {
	turns.longest.Store(0)
	before := turns.counts()
	if m.turns, m.taken, err = spent(f, m.span); err != nil {
		return err
	}
	squares := 0.0
	for i, after := range turns.counts() {
		had := float64(after - before[i])
		m.locks, squares = m.locks+had, squares+had*had
	}
	m.fairness = m.locks * m.locks / max(squares*float64(m.n), 1)
	m.longest = time.Duration(turns.longest.Load())
	return nil
}

// row prints the row of the table.
func (m *crowdFigures) row(name string) {
	percent := func(d time.Duration) string {
		return fmt.Sprintf("%.1f %% of a core", 100*d.Seconds()/m.span.Seconds())
	}
	perLock := func(d time.Duration) string {
		return (d / time.Duration(max(m.locks, 1))).Round(time.Microsecond).String()
	}
	each := func(bytes int64) string { return fmt.Sprintf("%d KB", bytes/int64(m.n+1)/1024) }
	row(fmt.Sprint(m.n), name, fmt.Sprintf("%d KB", m.idle/1024), each(m.own), fmt.Sprintf("%.1f", float64(m.queued.Clients-m.fresh.Clients)/float64(m.n+1)),
		each(m.queued.Memory-m.fresh.Memory), fmt.Sprintf("%.0f", float64(m.waiting.Commands)/m.span.Seconds()), percent(m.waiting.CPU), percent(m.waited),
		fmt.Sprintf("%.0f", m.locks/m.span.Seconds()), fmt.Sprintf("%.1f", float64(m.turns.Commands)/max(m.locks, 1)),
		perLock(m.turns.CPU), perLock(m.taken), fmt.Sprintf("%.3f", m.fairness), m.longest.Round(time.Millisecond).String())
}

// A rota is clients that take turns with a lock, each for 1 ms.
type rota struct {
	locks   []atomic.Int64 // by client
	longest atomic.Int64   // the longest wait, in ns
	ctx     context.Context
	stop    context.CancelFunc
	clients sync.WaitGroup
}

func newRota(clients int) *rota {
	r := &rota{locks: make([]atomic.Int64, clients)}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// join has client i take its turns from now on.
func (r *rota) join(i int, w *waiter) {
	r.clients.Go(func() {
		for {
			began := time.Now()
			if w.lock(r.ctx) != nil {
				return
			}
			r.waited(time.Since(began))
			time.Sleep(time.Millisecond)
			w.unlock()
			r.locks[i].Add(1)
		}
	})
}

func (r *rota) waited(d time.Duration) {
	for old := r.longest.Load(); int64(d) > old && !r.longest.CompareAndSwap(old, int64(d)); old = r.longest.Load() {
	}
}

func (r *rota) counts() []int64 {
	all := make([]int64, len(r.locks))
	for i := range r.locks {
		all[i] = r.locks[i].Load()
	}
	return all
}

func (r *rota) end() {
	r.stop()
	r.clients.Wait()
}

// spent returns what the masters and this process use in some time.
func spent(f servers.Fleet, span time.Duration) (servers.Load, time.Duration, error) {
	before, err := f.Load()
	if err != nil {
		return servers.Load{}, 0, err
	}
	used := measure.CPU()
	time.Sleep(span)
	used = measure.CPU() - used
	after, err := f.Load()
	return after.Minus(before), used, err
}

// print prints how often each command was executed, the most frequent first.
func printCalls(l servers.Load, what string, per float64) {
	fmt.Printf("\n%s:", what)
	for _, name := range slices.SortedFunc(maps.Keys(l.Calls), func(a, b string) int { return cmp.Compare(l.Calls[b], l.Calls[a]) }) {
		if l.Calls[name] > 0 {
			fmt.Printf(" %s %.1f", name, float64(l.Calls[name])/per)
		}
	}
	fmt.Print("\n\n")
}
