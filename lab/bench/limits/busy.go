package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/lab/internal/child"
)

const (
	busyClients = 30                     // processes
	busyLimit   = 10                     // of the semaphore
	busyHold    = 300 * time.Millisecond // the longest
)

// busyEnv makes this program a process of the section busy: a client, or one that computes.
const busyEnv = "REDLOCK_LIMITS_BUSY"

// busy counts the leases that clients lose on a busy machine. Each client is a process. It takes turns at a lock and at a semaphore, and holds
// each for up to 300 ms. Beside them o.busy processes compute.
func busy(o *options) error {
	f, err := start(5)
	if err != nil {
		return err
	}
	defer f.Stop()
	var all []*worker
	defer func() {
		for _, w := range all {
			w.Kill()
		}
	}()
	for range busyClients {
		w, err := startWorker(f, busyEnv+"=client")
		if err != nil {
			return err
		}
		all = append(all, w)
	}
	for _, w := range all {
		io.WriteString(w.In, "go\n")
	}
	load, err := computeBeside(o.busy, o.span)
	if err != nil {
		return err
	}
	for _, w := range all {
		w.In.Close()
	}
	var sum turns
	for _, w := range all {
		var t turns
		if _, err := fmt.Fscan(w.out, &t.locks, &t.lostLocks, &t.permits, &t.lostPermits); err != nil {
			return fmt.Errorf("a worker's report: %w", err)
		}
		sum.add(t)
	}
	table("load", "locks", "lost", "permits", "lost")
	row(fmt.Sprintf("%.1f", load), fmt.Sprint(sum.locks), fmt.Sprint(sum.lostLocks), fmt.Sprint(sum.permits), fmt.Sprint(sum.lostPermits))
	return nil
}

// computeBeside has n processes compute for a time. It returns the average load of the machine, by the kernel's averages of a minute.
func computeBeside(n int, span time.Duration) (load float64, err error) {
	for range n {
		c, err := child.Start("", os.Stderr, busyEnv+"=compute", workerEnv+"=none")
		if err != nil {
			return 0, err
		}
		defer c.Kill()
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
func compute() {
	for n := 0; ; n++ {
	}
}

// turns are how often a process had the lock and the semaphore, and lost them.
type turns struct{ locks, lostLocks, permits, lostPermits int }

func (t *turns) add(o turns) {
	t.locks, t.lostLocks, t.permits, t.lostPermits = t.locks+o.locks, t.lostLocks+o.lostLocks, t.permits+o.permits, t.lostPermits+o.lostPermits
}

// beBusy is a client of the section busy, until standard input ends.
func beBusy(addrs []string) error {
	c, err := open(addrs, &redlock.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, in)
		stop()
	}()
	var t turns
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
			hold(mu.Lease(), &t.locks, &t.lostLocks)
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
			hold(p.Lease, &t.permits, &t.lostPermits)
			p.Release()
		}
	})
	both.Wait()
	_, err = fmt.Println(t.locks, t.lostLocks, t.permits, t.lostPermits)
	return err
}
