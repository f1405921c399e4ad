package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/lab/internal/child"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

const (
	busyClients = 30                     // processes
	busyLimit   = 10                     // of the semaphore
	busyHold    = 300 * time.Millisecond // the longest
)

// busy counts the leases that clients lose on a busy machine. Each client is a process. It takes turns at a lock and at a semaphore, and holds
// each for up to 300 ms. Beside them o.busy processes compute.
func busy(o *options) error {
	f, err := start(5)
	if err != nil {
		return err
	}
	defer f.Stop()
	all, err := startWorkers("busy", busyClients, f.Addrs())
	if err != nil {
		return err
	}
	defer child.End(all...)
	if err := tell(all); err != nil {
		return err
	}
	load, err := computeBeside(o.busy, o.span)
	if err != nil {
		return err
	}
	found, err := reports(all)
	if err != nil {
		return err
	}
	var sum report
	for _, r := range found {
		sum.Locks, sum.LostLocks = sum.Locks+r.Locks, sum.LostLocks+r.LostLocks
		sum.Permits, sum.LostPermits = sum.Permits+r.Permits, sum.LostPermits+r.LostPermits
	}
	table("load", "locks", "lost", "permits", "lost")
	row(fmt.Sprintf("%.1f", load), fmt.Sprint(sum.Locks), fmt.Sprint(sum.LostLocks), fmt.Sprint(sum.Permits), fmt.Sprint(sum.LostPermits))
	return nil
}

// computeBeside has n processes compute for a time. It returns the average load of the machine, by the kernel's averages of a minute.
func computeBeside(n int, span time.Duration) (load float64, err error) {
	for range n {
		w, err := child.StartWorker[order, report]("", "compute")
		if err != nil {
			return 0, err
		}
		defer w.Kill()
		if err := w.Tell(order{}); err != nil {
			return 0, err
		}
	}
	const each = 5 * time.Second
	samples := 0
	for begun := time.Now(); time.Since(begun) < span; samples++ {
		time.Sleep(min(each, span))
		text, err := os.ReadFile("/proc/loadavg")
		if err != nil {
			return 0, err
		}
		var now float64
		if _, err := fmt.Sscan(string(text), &now); err != nil {
			return 0, err
		}
		load += now
	}
	return load / float64(samples), nil
}

// compute never returns.
func compute(order, func() <-chan order) (report, error) {
	for n := 0; ; n++ {
	}
}

// beBusy is a client of the section busy.
func beBusy(o order, begin func() <-chan order) (r report, err error) {
	c, err := servers.Open(o.Addrs, &redlock.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return r, err
	}
	defer c.Close()
	end := begin()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		<-end
		stop()
	}()
	hold := func(s *redlock.Lease, n, lost *int) {
		time.Sleep(rand.N(busyHold))
		*n++
		if errors.Is(s.Err(), redlock.ErrLost) {
			*lost++
		}
	}
	var both sync.WaitGroup
	both.Go(func() {
		mu := c.Locker("busy")
		for mu.LockContext(ctx) == nil {
			hold(mu.Lease(), &r.Locks, &r.LostLocks)
			mu.Unlock()
		}
	})
	both.Go(func() {
		s := c.Semaphore("busy permits", busyLimit)
		for {
			p, err := s.Acquire(ctx)
			if err != nil {
				return
			}
			hold(p.Lease, &r.Permits, &r.LostPermits)
			p.Release()
		}
	})
	both.Wait()
	return r, nil
}
