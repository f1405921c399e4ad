package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// takers is how many goroutines take the leases and give them back.
const takers = 64

// leases is the workload of holding many locks and doing nothing with them.
func leases(b *bench, s *subject, rep int) (figures, error) {
	l, err := s.open(setup{Addrs: b.fleet.Addrs(), TTL: ttl, NodeTimeout: patient, Callers: takers})
	if err != nil {
		return nil, err
	}
	defer l.close()
	b.opened++
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.mutex(b.name() + ":first").lock(ctx); err != nil {
		return nil, err
	}
	before := memory()
	var all []mutex
	for i := range b.plan.leases {
		all = append(all, l.mutex(fmt.Sprintf("%s:%d", b.name(), i)))
	}
	if err := forAll(all, func(m mutex) error { return m.lock(ctx) }); err != nil {
		return nil, fmt.Errorf("taking them: %w", err)
	}
	out := figures{bytesPerLease: float64(memory()-before) / float64(b.plan.leases)}
	if err := b.watch(out); err != nil {
		return nil, err
	}
	lost := 0
	for _, m := range all {
		if !m.(holder).held() {
			lost++
		}
	}
	out[lostLeases] = float64(lost)
	return out, forAll(all, func(m mutex) error {
		m.unlock() // of those that are lost it is no success
		return nil
	})
}

// watch measures what holding costs, over a whole period of renewing at least.
func (b *bench) watch(out figures) error {
	before, err := b.fleet.load()
	if err != nil {
		return err
	}
	cpu, start := processCPU(), time.Now()
	time.Sleep(b.plan.holding)
	elapsed := time.Since(start).Seconds()
	out[cpuShare] = 100 * (processCPU() - cpu).Seconds() / elapsed
	after, err := b.fleet.load()
	if err != nil {
		return err
	}
	spent := after.minus(before)
	out[scriptRate] = float64(spent.scripts) / elapsed / masters
	out[serverShare] = 100 * spent.cpu.Seconds() / elapsed / masters
	return nil
}

// forAll calls f for all mutexes from several goroutines, and returns one of
// its errors.
func forAll(all []mutex, f func(mutex) error) error {
	todo := make(chan mutex)
	errs := make(chan error, takers)
	var wg sync.WaitGroup
	for range takers {
		wg.Go(func() {
			for m := range todo {
				if err := f(m); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for _, m := range all {
		todo <- m
	}
	close(todo)
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// memory returns the bytes that the heap's live objects and the stacks take.
func memory() int64 {
	runtime.GC()
	runtime.GC() // what the first one's finalizers let go
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc + s.StackInuse)
}
