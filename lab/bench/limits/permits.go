package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/lab/internal/measure"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// permitClients are the clients that share a semaphore, each with connections of its own, and permitRounds is how often each
// kind is measured. The kinds take turns.
const (
	permitClients = 32
	permitRounds  = 5
	permitSpan    = 3 * time.Second
)

// permits measures clients that take turns at a semaphore, and hold each permit for 1 ms, beside clients that take turns at a lock.
func permits(o *options) error {
	f, err := start(5)
	if err != nil {
		return err
	}
	defer f.Stop()
	var all []*redlock.Client
	for range permitClients {
		c, err := servers.Open(f.Addrs(), nil)
		if err != nil {
			return err
		}
		defer c.Close()
		all = append(all, c)
	}
	limits := []int{0, 1, 4, 16}
	rates, shares, costs := make(map[int][]float64), make(map[int][]float64), make(map[int]*permitCost)
	for _, limit := range limits {
		costs[limit] = &permitCost{}
	}
	for round := range permitRounds {
		for _, limit := range limits {
			use := lockTurn
			if limit > 0 {
				use = permitTurn(limit)
			}
			rate, err := rateOf(f, all, use, costs[limit])
			if err != nil {
				return err
			}
			rates[limit] = append(rates[limit], rate)
			shares[limit] = append(shares[limit], rates[limit][round]/rates[0][round])
		}
	}
	table("32 clients, 1 ms held", "turns/s, median", "beside a lock, median", "least", "most", "CPU of five masters a turn", "CPU of clients a turn",
		"commands a turn and master")
	for _, limit := range limits {
		name := "a lock"
		if limit > 0 {
			name = fmt.Sprint("a semaphore of ", limit)
		}
		_, rate, _ := spread(rates[limit])
		least, median, most := spread(shares[limit])
		row(name, fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.2f", median), fmt.Sprintf("%.2f", least), fmt.Sprintf("%.2f", most),
			costs[limit].of(costs[limit].masters.CPU), costs[limit].of(costs[limit].clients), fmt.Sprintf("%.1f", float64(costs[limit].masters.Commands)/float64(5*costs[limit].turns)))
	}
	for _, limit := range limits {
		if o.commands {
			printCalls(costs[limit].masters, fmt.Sprintf("a limit of %d, per turn and master", limit), float64(5*costs[limit].turns))
		}
	}
	return nil
}

// A permitCost is what turns have cost.
type permitCost struct {
	turns   int64
	clients time.Duration // of CPU time
	masters servers.Load
}

func (c *permitCost) of(d time.Duration) string {
	return (d / time.Duration(max(c.turns, 1))).Round(time.Microsecond).String()
}

func lockTurn(ctx context.Context, c *redlock.Client) error {
	l := c.Locker("limits:lock")
	if err := l.LockContext(ctx); err != nil {
		return err
	}
	time.Sleep(time.Millisecond)
	l.Unlock()
	return nil
}

func permitTurn(limit int) func(context.Context, *redlock.Client) error {
	name := fmt.Sprint("limits:permits:", limit)
	return func(ctx context.Context, c *redlock.Client) error {
		p, err := c.Semaphore(name, limit).Acquire(ctx)
		if err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
		p.Release()
		return nil
	}
}

// rateOf returns how many turns a second all clients have together, after a second of warming up, and adds what they cost.
func rateOf(f servers.Fleet, all []*redlock.Client, use func(context.Context, *redlock.Client) error, cost *permitCost) (float64, error) {
	ctx, cancel := context.WithCancel(context.Background())
	var turns atomic.Int64
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() {
			for use(ctx, c) == nil {
				turns.Add(1)
			}
		})
	}
	defer wg.Wait()
	defer cancel()
	time.Sleep(time.Second)
	loaded, err := f.Load()
	if err != nil {
		return 0, err
	}
	before, used, began := turns.Load(), measure.CPU(), time.Now()
	time.Sleep(permitSpan)
	had, took := turns.Load()-before, time.Since(began)
	cost.turns += had
	cost.clients += measure.CPU() - used
	after, err := f.Load()
	cost.masters = cost.masters.Plus(after.Minus(loaded))
	return float64(had) / took.Seconds(), err
}
