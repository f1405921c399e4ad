package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/lab/internal/measure"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// with calls f with a fleet and a Client of it.
func with(n int, opts *redlock.Options, f func(servers.Fleet, *redlock.Client) error) error {
	all, err := start(n)
	if err != nil {
		return err
	}
	defer all.Stop()
	c, err := servers.Open(all.Addrs(), opts)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(all, c)
}

// lockAll locks all Lockers from 64 goroutines.
func lockAll(all []*redlock.Locker) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return measure.ForAll(len(all), 64, func(i int) error { return all[i].LockContext(ctx) })
}

// watch is how long costs are measured: over two renewals of the default TTL.
const watch = 10 * time.Second

// held measures names that one Client holds, with defaults.
func held(o *options) error {
	table("names held", "client memory per name", "client CPU", "server CPU, all five", "server memory per key", "lost")
	for _, n := range o.leases {
		err := with(5, nil, func(f servers.Fleet, c *redlock.Client) error {
			before, err := f.Load()
			if err != nil {
				return err
			}
			own := measure.Memory()
			all := make([]*redlock.Locker, n)
			for i := range all {
				all[i] = c.Locker(fmt.Sprintf("limits:%d", i))
			}
			if err := lockAll(all); err != nil {
				return err
			}
			taken, err := f.Load()
			if err != nil {
				return err
			}
			own = measure.Memory() - own
			used := measure.CPU()
			time.Sleep(watch)
			used = measure.CPU() - used
			after, err := f.Load()
			if err != nil {
				return err
			}
			lost := 0
			for _, l := range all {
				if !l.Lease().Valid() {
					lost++
				}
			}
			row(fmt.Sprint(n), fmt.Sprintf("%d B", own/int64(n)),
				fmt.Sprintf("%.2f %% of a core", 100*used.Seconds()/watch.Seconds()),
				fmt.Sprintf("%.2f %% of a core", 100*(after.CPU-taken.CPU).Seconds()/watch.Seconds()),
				fmt.Sprintf("%d B", (taken.Memory-before.Memory)/int64(5*n)), fmt.Sprint(lost))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// waiters measures goroutines of one process that wait for one name.
func waiters(*options) error {
	table("goroutines waiting", "memory per waiter", "locks/s", "longest wait", "client CPU per lock")
	for _, n := range []int{1, 100, 1_000, 10_000} {
		err := with(5, nil, func(f servers.Fleet, c *redlock.Client) error {
			mu := c.Locker("limits")
			mu.Lock()
			before := measure.Memory()
			var locks, longest atomic.Int64
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						began := time.Now()
						mu.Lock()
						waited := int64(time.Since(began))
						for old := longest.Load(); waited > old && !longest.CompareAndSwap(old, waited); old = longest.Load() {
						}
						locks.Add(1)
						mu.Unlock()
					}
				})
			}
			time.Sleep(time.Second)
			per := (measure.Memory() - before) / int64(n)
			mu.Unlock()
			time.Sleep(time.Second)
			locks.Store(0)
			longest.Store(0)
			used := measure.CPU()
			time.Sleep(3 * time.Second)
			used = measure.CPU() - used
			got := locks.Load()
			close(stop)
			wg.Wait()
			row(fmt.Sprint(n), fmt.Sprintf("%d B", per), fmt.Sprintf("%.0f", float64(got)/3),
				time.Duration(longest.Load()).Round(100*time.Microsecond).String(), (used / time.Duration(max(got, 1))).Round(100*time.Nanosecond).String())
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// names locks names of every kind, and shows how too long ones are refused.
func names(*options) error {
	var every strings.Builder
	for b := range 256 {
		every.WriteByte(byte(b))
	}
	table("name", "outcome")
	return with(5, nil, func(f servers.Fleet, c *redlock.Client) error {
		for _, n := range []struct{ what, name string }{
			{"one byte", "x"},
			{"each of the 256 bytes once", every.String()},
			{"64 KiB", strings.Repeat("x", 64<<10)},
			{"64 KiB and one byte", strings.Repeat("x", 64<<10+1)},
			{"empty", ""},
			{"reserved", "redlock:x"},
		} {
			row(n.what, outcome(c, n.name))
		}
		return nil
	})
}

func outcome(c *redlock.Client, name string) string {
	l, err := c.NewLocker(name, nil)
	if err != nil {
		return "refused: " + cut(err.Error())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := l.LockContext(ctx); err != nil {
		return "failed: " + cut(err.Error())
	}
	if err := l.UnlockContext(ctx); err != nil {
		return "failed to unlock: " + cut(err.Error())
	}
	return "locked and unlocked"
}

func cut(s string) string {
	if len(s) > 160 {
		s = s[:160] + "…"
	}
	return strings.ReplaceAll(s, "|", "\\|")
}

// masters measures a lock and unlock with different numbers of masters.
func masters(*options) error {
	table("masters", "lock + unlock, median", "p99", "commands per lock, all masters")
	for _, n := range []int{1, 2, 3, 4, 5, 9} {
		err := with(n, nil, func(f servers.Fleet, c *redlock.Client) error {
			mu := c.Locker("limits")
			var took []time.Duration
			var before servers.Load
			const warm, count = 500, 5_000
			for i := range warm + count {
				if i == warm {
					var err error
					if before, err = f.Load(); err != nil {
						return err
					}
				}
				began := time.Now()
				mu.Lock()
				//lint:ignore SA2001 it is the locking that is measured
				mu.Unlock()
				if i >= warm {
					took = append(took, time.Since(began))
				}
			}
			after, err := f.Load()
			if err != nil {
				return err
			}
			slices.Sort(took)
			row(fmt.Sprint(n), took[count/2].Round(time.Microsecond).String(), took[count*99/100].Round(time.Microsecond).String(),
				fmt.Sprintf("%.1f", float64(after.Commands-before.Commands)/count))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
