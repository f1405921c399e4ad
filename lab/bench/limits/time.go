package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// ttls holds locks of different TTLs for some seconds beside other work.
func ttls(*options) error {
	table("TTL", "NodeTimeout", "held", "leases of 20 lost", "shown by")
	for _, t := range []struct{ ttl, node time.Duration }{
		{20 * time.Millisecond, 5 * time.Millisecond},
		{100 * time.Millisecond, 20 * time.Millisecond},
		{time.Second, 0},
		{10 * time.Second, 0},
		{24 * time.Hour, 0},
	} {
		const span = 5 * time.Second
		lock := redlock.LockOptions{TTL: t.ttl}
		lost, err := hold(&redlock.Options{LockOptions: lock, NodeTimeout: t.node}, 20, 8, span)
		if err != nil {
			row(t.ttl.String(), t.node.String(), "–", "–", cut(err.Error()))
			continue
		}
		node := "automatic"
		if t.node > 0 {
			node = t.node.String()
		}
		row(t.ttl.String(), node, span.String(), fmt.Sprint(lost), "Lease.Valid")
	}
	return nil
}

// longHold holds locks for long beside other work.
func longHold(o *options) error {
	table("held", "leases of 1000 lost")
	lost, err := hold(&redlock.Options{LockOptions: redlock.LockOptions{MaxHold: -1}}, 1000, 4, o.hold)
	if err != nil {
		return err
	}
	row(o.hold.String(), fmt.Sprint(lost))
	return nil
}

// hold holds n locks for a while, during which callers lock and unlock names of their own, each
// about a hundred times a second, and returns how many leases were lost.
func hold(opts *redlock.Options, n, callers int, span time.Duration) (lost int, err error) {
	err = with(5, opts, func(f servers.Fleet, c *redlock.Client) error {
		all := make([]*redlock.Locker, n)
		for i := range all {
			all[i] = c.Locker(fmt.Sprintf("limits:%d", i))
		}
		if err := lockAll(all); err != nil {
			return err
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				mu := c.Locker(fmt.Sprintf("limits:caller:%d", i))
				for {
					select {
					case <-stop:
						return
					case <-time.After(10 * time.Millisecond):
						mu.Lock()
						mu.Unlock()
					}
				}
			})
		}
		time.Sleep(span)
		for _, l := range all {
			if !l.Lease().Valid() {
				lost++
			}
		}
		close(stop)
		wg.Wait()
		return nil
	})
	return lost, err
}
