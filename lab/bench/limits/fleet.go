package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// A fleet is some real servers, adopted, so that their votes count at once.
type fleet = servers.Fleet

// A load is what the servers have spent.
type load = servers.Load

func start(n int) (fleet, error) {
	f, err := servers.Start(n, servers.Crowded...)
	if err != nil {
		return nil, err
	}
	if err := f.Adopt(); err != nil {
		f.Stop()
		return nil, err
	}
	return f, nil
}

// open returns a Client of the servers, all of which may vote.
func open(addrs []string, opts *redlock.Options) (*redlock.Client, error) {
	c, err := redlock.Open(addrs, opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		up := 0
		for _, m := range c.Masters() {
			if m.State == redlock.MasterUp {
				up++
			}
		}
		if up == len(addrs) {
			return c, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			c.Close()
			return nil, fmt.Errorf("%d of %d masters are up: %w", up, len(addrs), c.Ping(context.Background()))
		}
	}
}

// with calls f with a fleet and a Client of it.
func with(n int, opts *redlock.Options, f func(fleet, *redlock.Client) error) error {
	all, err := start(n)
	if err != nil {
		return err
	}
	defer all.Stop()
	c, err := open(all.Addrs(), opts)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(all, c)
}
