package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/history"
	"github.com/redlock-go/redlock/internal/proxy"
)

// A verifyFault is a fault of one client that needs no rights: neither those of an operator, nor any at the masters.
type verifyFault struct {
	name string // as the result calls it, in the plural
	do   func(c *verifyClient, ctx context.Context, length time.Duration) error
	most float64 // how long it lasts at most, in TTLs
}

var verifyFaults = []verifyFault{
	{"connections cut", func(c *verifyClient, _ context.Context, _ time.Duration) error {
		c.some((*proxy.Proxy).Reset)
		return nil
	}, 0},
	{"connections half-open", func(c *verifyClient, ctx context.Context, length time.Duration) error {
		hit := c.some((*proxy.Proxy).Silence)
		sleep(ctx, length)
		for _, l := range hit {
			l.Reset()
		}
		return nil
	}, 1},
	{"requests held back", func(c *verifyClient, ctx context.Context, length time.Duration) error {
		return c.during(ctx, length, (*proxy.Proxy).Hold, (*proxy.Proxy).Mend)
	}, 1.5},
	{"replies held back", func(c *verifyClient, ctx context.Context, length time.Duration) error {
		return c.during(ctx, length, func(p *proxy.Proxy) { p.Change(func(_, down *proxy.Way) { down.Mode = proxy.Holds }) }, (*proxy.Proxy).Mend)
	}, 1.5},
	{"slow links", func(c *verifyClient, ctx context.Context, length time.Duration) error {
		delay := between(5*time.Millisecond, 60*time.Millisecond)
		return c.during(ctx, length, func(p *proxy.Proxy) { p.Delay(delay) }, func(p *proxy.Proxy) { p.Delay(0) })
	}, 2},
	{"processes killed", (*verifyClient).kill, 0},
	{"processes stopped", (*verifyClient).pause, 2},
}

// faultPause is the longest time between the beginnings of two faults.
const faultPause = 600 * time.Millisecond

// makeFaults makes faults until ctx ends, or a process ends by itself. Several last at a time, each of another client.
func (r *verification) makeFaults(ctx context.Context) {
	faults := verifyFaults
	if !canStop {
		faults = faults[:len(faults)-1]
	}
	var all sync.WaitGroup
	defer all.Wait()
	for n := 0; ; n++ {
		sleep(ctx, between(0, faultPause))
		if ctx.Err() != nil || len(r.errs) > 0 {
			return
		}
		f, c := faults[n%len(faults)], r.victim()
		if !c.busy.TryLock() {
			continue // it has a fault
		}
		all.Go(func() {
			defer c.busy.Unlock()
			c.note(history.Fault, f.name)
			defer c.note(history.Mended, f.name)
			length := time.Duration(rand.Float64() * f.most * float64(r.ttl))
			if err := f.do(c, ctx, length); err != nil {
				r.fail(err)
			}
		})
	}
}

// victim returns a client at random. Three in four are one that holds a lock, if there is one, since most faults concern
// holders.
func (r *verification) victim() *verifyClient {
	all := rand.Perm(len(r.clients))
	if rand.IntN(4) > 0 {
		for _, i := range all {
			if r.clients[i].holds.Load() > 0 {
				return r.clients[i]
			}
		}
	}
	return r.clients[all[0]]
}

// some calls f for some of the client's links, at least one, and returns these.
func (c *verifyClient) some(f func(*proxy.Proxy)) (hit []*proxy.Proxy) {
	for _, i := range rand.Perm(len(c.links))[:1+rand.IntN(len(c.links))] {
		f(c.links[i])
		hit = append(hit, c.links[i])
	}
	return hit
}

// during calls begin for some links, and later end for the same.
func (c *verifyClient) during(ctx context.Context, length time.Duration, begin, end func(*proxy.Proxy)) error {
	hit := c.some(begin)
	sleep(ctx, length)
	for _, l := range hit {
		end(l)
	}
	return nil
}
