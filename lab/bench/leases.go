package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/lab/internal/measure"
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
	before := measure.Memory()
	var all []mutex
	for i := range b.plan.leases {
		all = append(all, l.mutex(fmt.Sprintf("%s:%d", b.name(), i)))
	}
	if err := measure.ForAll(len(all), takers, func(i int) error { return all[i].lock(ctx) }); err != nil {
		return nil, fmt.Errorf("taking them: %w", err)
	}
	out := figures{bytesPerLease: float64(measure.Memory()-before) / float64(b.plan.leases)}
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
	return out, measure.ForAll(len(all), takers, func(i int) error {
		all[i].unlock() // of those that are lost it is no success
		return nil
	})
}

// watch measures what holding costs, over a whole period of renewing at least.
func (b *bench) watch(out figures) error {
	before, err := b.fleet.load()
	if err != nil {
		return err
	}
	cpu, start := measure.CPU(), time.Now()
	time.Sleep(b.plan.holding)
	elapsed := time.Since(start).Seconds()
	out[cpuShare] = 100 * (measure.CPU() - cpu).Seconds() / elapsed
	after, err := b.fleet.load()
	if err != nil {
		return err
	}
	spent := after.Minus(before)
	out[scriptRate] = float64(spent.Calls["evalsha"]) / elapsed / masters
	out[serverShare] = 100 * spent.CPU.Seconds() / elapsed / masters
	return nil
}
