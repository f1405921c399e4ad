package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/lab/internal/measure"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// cost measures what one lock and unlock costs a client and a master. Each caller has a name of its
// own. The commands of many callers share batches, so that a lock costs less the more there are.
func cost(*options) error {
	table("callers", "locks/s", "client CPU per lock", "CPU per lock at one master", "commands per lock at one master", "bytes per lock at one master, both ways")
	for _, callers := range []int{1, 8, 64, 512} {
		if err := with(5, nil, func(f servers.Fleet, c *redlock.Client) error { return costOf(f, c, callers) }); err != nil {
			return err
		}
	}
	return nil
}

// costSpan is how long each number of callers is measured, after a second of warming up.
const costSpan = 5 * time.Second

func costOf(f servers.Fleet, c *redlock.Client, callers int) error {
	var locks atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			mu := c.Locker(fmt.Sprintf("limits:%d", i))
			for {
				select {
				case <-stop:
					return
				default:
					mu.Lock()
					mu.Unlock()
					locks.Add(1)
				}
			}
		})
	}
	time.Sleep(time.Second)
	before, err := f.Load()
	if err != nil {
		return err
	}
	had, used := locks.Load(), measure.CPU()
	time.Sleep(costSpan)
	had, used = locks.Load()-had, measure.CPU()-used
	after, err := f.Load()
	if err != nil {
		return err
	}
	close(stop)
	wg.Wait()
	at := float64(had) * float64(len(f)) // locks, each at all masters
	row(fmt.Sprint(callers), fmt.Sprintf("%.0f", float64(had)/costSpan.Seconds()),
		(used / time.Duration(max(had, 1))).Round(100*time.Nanosecond).String(),
		time.Duration(float64(after.CPU-before.CPU)/at).Round(100*time.Nanosecond).String(),
		fmt.Sprintf("%.2f", float64(after.Commands-before.Commands)/at),
		fmt.Sprintf("%.0f", float64(after.Network-before.Network)/at))
	return nil
}
