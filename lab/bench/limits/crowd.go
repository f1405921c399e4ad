package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
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

// crowd measures many clients that want one lock: what it costs that they wait while one holds it, and how they take turns.
func crowd(o *options) error {
	table("clients", "waiting: commands/s", "masters", "clients", "in turns: locks/s", "commands per lock", "fairness (Jain)", "longest wait")
	for _, n := range o.clients {
		if err := crowdOf(n); err != nil {
			return fmt.Errorf("%d clients: %w", n, err)
		}
	}
	return nil
}

const (
	crowdSettles = 4 * time.Second
	crowdSpan    = 6 * time.Second
)

func crowdOf(n int) error {
	f, err := start(5)
	if err != nil {
		return err
	}
	defer f.stop()
	all := make([]*waiter, n+1)
	for i := range all {
		if all[i], err = openWaiter(f.addrs()); err != nil {
			return err
		}
		defer all[i].close()
	}
	holder, all := all[0], all[1:]
	if err := holder.lock(context.Background()); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	locks, longest := make([]atomic.Int64, n), new(atomic.Int64)
	var turns sync.WaitGroup
	for i, w := range all {
		turns.Go(func() {
			for {
				began := time.Now()
				if w.lock(ctx) != nil {
					return
				}
				for waited, old := int64(time.Since(began)), longest.Load(); waited > old && !longest.CompareAndSwap(old, waited); old = longest.Load() {
				}
				time.Sleep(time.Millisecond)
				w.unlock()
				locks[i].Add(1)
			}
		})
	}
	time.Sleep(crowdSettles)
	waiting, used, err := spent(f, crowdSpan)
	if err != nil {
		return err
	}
	holder.unlock()
	time.Sleep(crowdSettles / 2)
	longest.Store(0)
	before := counts(locks)
	inTurns, _, err := spent(f, crowdSpan)
	if err != nil {
		return err
	}
	after := counts(locks)
	wait := time.Duration(longest.Load())
	stop()
	turns.Wait()
	sum, squares := 0.0, 0.0
	for i := range after {
		had := float64(after[i] - before[i])
		sum, squares = sum+had, squares+had*had
	}
	percent := func(d time.Duration) string {
		return fmt.Sprintf("%.1f %% of a core", 100*d.Seconds()/crowdSpan.Seconds())
	}
	row(fmt.Sprint(n), fmt.Sprintf("%.0f", float64(waiting.commands)/crowdSpan.Seconds()), percent(waiting.cpu), percent(used),
		fmt.Sprintf("%.0f", sum/crowdSpan.Seconds()), fmt.Sprintf("%.1f", float64(inTurns.commands)/max(sum, 1)),
		fmt.Sprintf("%.3f", sum*sum/max(squares*float64(n), 1)), wait.Round(time.Millisecond).String())
	return nil
}

func counts(locks []atomic.Int64) []int64 {
	all := make([]int64, len(locks))
	for i := range locks {
		all[i] = locks[i].Load()
	}
	return all
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
	return load{cpu: after.cpu - before.cpu, commands: after.commands - before.commands}, used, err
}
