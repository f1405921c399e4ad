package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// A fleet is some real servers, adopted, so that their votes count at once.
type fleet []*redisserver.Server

func start(n int) (fleet, error) {
	var f fleet
	for range n {
		s, err := redisserver.Start("--maxclients", "8000", "--tcp-backlog", "511")
		if err != nil {
			f.stop()
			return nil, err
		}
		f = append(f, s)
		if err := s.Adopt(); err != nil {
			f.stop()
			return nil, err
		}
	}
	return f, nil
}

func (f fleet) stop() {
	for _, s := range f {
		s.Stop()
	}
}

func (f fleet) addrs() []string {
	var all []string
	for _, s := range f {
		all = append(all, s.Addr())
	}
	return all
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

// A load is what the servers have spent.
type load struct {
	cpu      time.Duration
	memory   int64
	commands int64
	network  int64 // bytes, both ways
	clients  int64 // connections

	by map[string]int64 // how often each command was executed, in scripts and not
}

func (f fleet) load() (load, error) {
	sum := load{by: make(map[string]int64)}
	for _, s := range f {
		info, err := redis.String(s.Do("INFO", "all"))
		if err != nil {
			return sum, err
		}
		for line := range strings.Lines(info) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name, is := strings.CutPrefix(key, "cmdstat_"); is {
				calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
				n, err := strconv.ParseInt(calls, 10, 64)
				if err != nil {
					return sum, err
				}
				sum.by[name] += n
			}
			switch key {
			case "used_cpu_sys", "used_cpu_user":
				seconds, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return sum, err
				}
				sum.cpu += time.Duration(seconds * float64(time.Second))
			case "used_memory":
				n, err := strconv.ParseInt(value, 10, 64)
				if err != nil {
					return sum, err
				}
				sum.memory += n
			case "total_net_input_bytes", "total_net_output_bytes":
				n, err := strconv.ParseInt(value, 10, 64)
				if err != nil {
					return sum, err
				}
				sum.network += n
			case "connected_clients":
				n, err := strconv.ParseInt(value, 10, 64)
				if err != nil {
					return sum, err
				}
				sum.clients += n
			case "total_commands_processed":
				n, err := strconv.ParseInt(value, 10, 64)
				if err != nil {
					return sum, err
				}
				sum.commands += n
			}
		}
	}
	return sum, nil
}

// with calls f with a fleet and a Client of it.
func with(n int, opts *redlock.Options, f func(fleet, *redlock.Client) error) error {
	servers, err := start(n)
	if err != nil {
		return err
	}
	defer servers.stop()
	c, err := open(servers.addrs(), opts)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(servers, c)
}
