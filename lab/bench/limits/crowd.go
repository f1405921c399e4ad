package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	rsredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
)

// A waiter is one client of a crowd: it has connections of its own.
type waiter struct {
	lock   func(context.Context) error
	unlock func()
	close  func()
}

const crowdName = "limits:crowd"

func openWaiter(addrs []string) (*waiter, error) {
	c, err := open(addrs, nil)
	if err != nil {
		return nil, err
	}
	l := c.Locker(crowdName)
	return &waiter{lock: l.LockContext, unlock: l.Unlock, close: func() { c.Close() }}, nil
}

// openBlind returns a client that polls blindly: redsync on redigo, which waits 50 to 250 ms between two attempts.
func openBlind(addrs []string) (*waiter, error) {
	var pools []rsredis.Pool
	var all []*redis.Pool
	for _, addr := range addrs {
		p := &redis.Pool{MaxIdle: 2, DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addr, redis.DialReadTimeout(time.Second), redis.DialWriteTimeout(time.Second))
		}}
		all, pools = append(all, p), append(pools, rsredigo.NewPool(p))
	}
	m := redsync.New(pools...).NewMutex(crowdName, redsync.WithExpiry(time.Minute), redsync.WithTries(math.MaxInt))
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
	return &waiter{lock: lock, unlock: func() { m.Unlock() }, close: func() {
		for _, p := range all {
			p.Close()
		}
	}}, nil
}

// crowd measures many clients that want one lock: what it costs that they wait while one holds it, and how they take turns.
func crowd(o *options) error {
	table("clients", "of", "memory of a client: idle", "waiting", "its connections", "masters' memory for it", "waiting: commands/s", "masters", "clients", "in turns: locks/s", "commands per lock", "CPU per lock: masters", "clients", "fairness (Jain)", "longest wait")
	for _, n := range o.clients {
		for _, of := range []struct {
			name string
			open func([]string) (*waiter, error)
		}{{"redlock", openWaiter}, {"redsync", openBlind}} {
			if err := crowdOf(o, n, of.name, of.open); err != nil {
				return fmt.Errorf("%d clients of %s: %w", n, of.name, err)
			}
		}
	}
	return nil
}

const (
	crowdSettles = 4 * time.Second
	crowdSpan    = 6 * time.Second
	crowdAtOnce  = 400                   // larger crowds do not begin to wait at one moment: as many idle clients load the masters
	crowdIdle    = 100                   // so many of a larger crowd are opened before they begin to wait
	crowdTurn    = 20 * time.Millisecond // a client, in a crowd that takes longer: each is to have several turns
)

// openCrowd opens clients, some at a time.
func openCrowd(n int, addrs []string, open func([]string) (*waiter, error)) (all []*waiter, err error) {
	const together = 4
	all = make([]*waiter, n)
	errs := make([]error, together)
	var wg sync.WaitGroup
	for k := range together {
		wg.Go(func() {
			for i := k; i < n && errs[k] == nil; i += together {
				all[i], errs[k] = open(addrs)
			}
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
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

func crowdOf(o *options, n int, name string, open func([]string) (*waiter, error)) error {
	f, err := start(5)
	if err != nil {
		return err
	}
	defer f.stop()
	fresh, err := f.load()
	if err != nil {
		return err
	}
	own := memory()
	first := n
	if n > crowdAtOnce {
		first = crowdIdle
	}
	all, err := openCrowd(first+1, f.addrs(), open)
	defer func() { closeCrowd(all) }()
	if err != nil {
		return err
	}
	idle := (memory() - own) / int64(len(all))
	holder := all[0]
	if err := holder.lock(context.Background()); err != nil {
		return err
	}
	span := max(crowdSpan, time.Duration(n)*crowdTurn)
	turns := newRota(n)
	defer turns.end()
	for i, w := range all[1:] {
		turns.join(i, w)
	}
	for i := len(all) - 1; i < n; i++ {
		w, err := open(f.addrs())
		if err != nil {
			return err
		}
		all = append(all, w)
		turns.join(i, w)
	}
	time.Sleep(crowdSettles)
	own = memory() - own // own was that before the clients
	queued, err := f.load()
	if err != nil {
		return err
	}
	waiting, used, err := spent(f, span)
	if err != nil {
		return err
	}
	if o.commands {
		waiting.print(fmt.Sprintf("%d clients of %s wait, per second", n, name), span.Seconds())
	}
	holder.unlock()
	time.Sleep(max(crowdSettles/2, span/4))
	turns.longest.Store(0)
	before := turns.counts()
	inTurns, taken, err := spent(f, span)
	if err != nil {
		return err
	}
	sum, squares := 0.0, 0.0
	for i, after := range turns.counts() {
		had := float64(after - before[i])
		sum, squares = sum+had, squares+had*had
	}
	wait := time.Duration(turns.longest.Load())
	if o.commands {
		inTurns.print(fmt.Sprintf("%d clients of %s take turns, per lock", n, name), max(sum, 1))
	}
	percent := func(d time.Duration) string {
		return fmt.Sprintf("%.1f %% of a core", 100*d.Seconds()/span.Seconds())
	}
	perLock := func(d time.Duration) string { return (d / time.Duration(max(sum, 1))).Round(time.Microsecond).String() }
	each := func(bytes int64) string { return fmt.Sprintf("%d KB", bytes/int64(n+1)/1024) }
	row(fmt.Sprint(n), name, fmt.Sprintf("%d KB", idle/1024), each(own), fmt.Sprintf("%.1f", float64(queued.clients-fresh.clients)/float64(n+1)),
		each(queued.memory-fresh.memory), fmt.Sprintf("%.0f", float64(waiting.commands)/span.Seconds()), percent(waiting.cpu), percent(used),
		fmt.Sprintf("%.0f", sum/span.Seconds()), fmt.Sprintf("%.1f", float64(inTurns.commands)/max(sum, 1)),
		perLock(inTurns.cpu), perLock(taken),
		fmt.Sprintf("%.3f", sum*sum/max(squares*float64(n), 1)), wait.Round(time.Millisecond).String())
	return nil
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
func spent(f fleet, span time.Duration) (load, time.Duration, error) {
	before, err := f.load()
	if err != nil {
		return load{}, 0, err
	}
	used := cpu()
	time.Sleep(span)
	used = cpu() - used
	after, err := f.load()
	for name, calls := range before.by {
		after.by[name] -= calls
	}
	return load{cpu: after.cpu - before.cpu, commands: after.commands - before.commands, by: after.by}, used, err
}

// print prints how often each command was executed, the most frequent first.
func (l load) print(what string, per float64) {
	fmt.Printf("\n%s:", what)
	for _, name := range slices.SortedFunc(maps.Keys(l.by), func(a, b string) int { return cmp.Compare(l.by[b], l.by[a]) }) {
		if l.by[name] > 0 {
			fmt.Printf(" %s %.1f", name, float64(l.by[name])/per)
		}
	}
	fmt.Print("\n\n")
}
