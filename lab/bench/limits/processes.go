package main

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/lab/internal/child"
	"github.com/redlock-go/redlock/lab/internal/measure"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// takeTurns locks one name, holds it for 1 ms and unlocks it, until the end.
func takeTurns(o order, begin func() <-chan order) (r report, err error) {
	c, err := servers.Open(o.Addrs, nil)
	if err != nil {
		return r, err
	}
	defer c.Close()
	end := begin()
	mu := c.Locker("limits")
	locks, longest := 0, time.Duration(0)
	used := measure.CPU()
	for {
		select {
		case <-end:
			return report{Locks: locks, Longest: longest, CPU: measure.CPU() - used}, nil
		default:
		}
		locks, longest = turn(mu, locks, longest)
	}
}

func turn(mu *redlock.Locker, locks int, longest time.Duration) (int, time.Duration) {
	began := time.Now()
	mu.Lock()
	longest = max(longest, time.Since(began))
	time.Sleep(time.Millisecond)
	mu.Unlock()
	return locks + 1, longest
}

// processes measures many processes that contend for one name.
func processes(*options) error {
	const span = 10 * time.Second
	table("processes", "locks/s", "fewest and most locks of a process", "longest wait", "CPU of all clients", "CPU of all masters")
	for _, n := range []int{2, 16, 64, 200} {
		f, err := start(5)
		if err != nil {
			return err
		}
		err = contend("turns", f, n, span)
		f.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// contend has n workers in a role take turns.
func contend(role string, f servers.Fleet, n int, span time.Duration) error {
	all, err := startWorkers(role, n, f.Addrs())
	if err != nil {
		return err
	}
	defer child.End(all...)
	before, err := f.Load()
	if err != nil {
		return err
	}
	if err := tell(all); err != nil {
		return err
	}
	time.Sleep(span)
	after, err := f.Load()
	if err != nil {
		return err
	}
	found, err := reports(all)
	if err != nil {
		return err
	}
	total, fewest, most := 0, found[0].Locks, 0
	var longest, used time.Duration
	for _, r := range found {
		total += r.Locks
		fewest, most = min(fewest, r.Locks), max(most, r.Locks)
		longest, used = max(longest, r.Longest), used+r.CPU
	}
	row(fmt.Sprint(n), fmt.Sprintf("%.0f", float64(total)/span.Seconds()), fmt.Sprintf("%d, %d", fewest, most),
		longest.Round(time.Millisecond).String(),
		fmt.Sprintf("%.0f %% of a core", 100*used.Seconds()/span.Seconds()),
		fmt.Sprintf("%.0f %% of a core", 100*(after.CPU-before.CPU).Seconds()/span.Seconds()))
	return nil
}
