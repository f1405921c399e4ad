// Package servers starts real servers for the programs of the lab, and reads what they have spent.
package servers

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// A Fleet is servers of one lock, each a process of its own.
type Fleet []*redisserver.Server

// Crowded are arguments of servers of which many clients are connected at once: what 512 callers of any pool may need.
var Crowded = []string{"--maxclients", "8000", "--tcp-backlog", "511"}

// Start starts n servers with arguments for redis-server. Stop ends them.
func Start(n int, args ...string) (Fleet, error) {
	var f Fleet
	for range n {
		s, err := redisserver.Start(args...)
		if err != nil {
			f.Stop()
			return nil, err
		}
		f = append(f, s)
	}
	return f, nil
}

// Adopted starts n servers as Start does, and adopts them.
func Adopted(n int, args ...string) (Fleet, error) {
	f, err := Start(n, args...)
	if err != nil {
		return nil, err
	}
	if err := f.Adopt(); err != nil {
		f.Stop()
		return nil, err
	}
	return f, nil
}

// Adopt adopts the servers: nobody can hold a lock there, so all may vote at once.
func (f Fleet) Adopt() error {
	for _, s := range f {
		if err := s.Adopt(); err != nil {
			return fmt.Errorf("adopting %s: %w", s.Addr(), err)
		}
	}
	return nil
}

// Stop ends the servers.
func (f Fleet) Stop() {
	for _, s := range f {
		s.Stop()
	}
}

// Addrs returns the addresses of the servers.
func (f Fleet) Addrs() []string {
	var all []string
	for _, s := range f {
		all = append(all, s.Addr())
	}
	return all
}

// Open returns a Client of masters, all of which may vote.
func Open(addrs []string, opts *redlock.Options) (*redlock.Client, error) {
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

// A Load is what a server has spent since it started.
type Load struct {
	CPU      time.Duration
	Memory   int64            // bytes, now
	Clients  int64            // connections, now
	Network  int64            // bytes, both ways
	Commands int64            // of clients
	Calls    map[string]int64 // by command, in scripts and not
}

// LoadOf asks a server what it has spent.
func LoadOf(s *redisserver.Server) (Load, error) {
	info, err := redis.String(s.Do("INFO", "all"))
	if err != nil {
		return Load{}, err
	}
	l, err := ParseLoad(info)
	if err != nil {
		err = fmt.Errorf("%s: %w", s.Addr(), err)
	}
	return l, err
}

// Load returns what all servers have spent.
func (f Fleet) Load() (sum Load, err error) {
	for _, s := range f {
		l, err := LoadOf(s)
		if err != nil {
			return sum, err
		}
		sum = sum.Plus(l)
	}
	return sum, nil
}

// Plus returns the sum of two loads.
func (l Load) Plus(m Load) Load { return l.plus(m, 1) }

// Minus returns what was spent since m.
func (l Load) Minus(m Load) Load { return l.plus(m, -1) }

func (l Load) plus(m Load, times int64) Load {
	sum := Load{
		l.CPU + time.Duration(times)*m.CPU, l.Memory + times*m.Memory, l.Clients + times*m.Clients,
		l.Network + times*m.Network, l.Commands + times*m.Commands, maps.Clone(l.Calls),
	}
	if sum.Calls == nil {
		sum.Calls = make(map[string]int64)
	}
	for name, n := range m.Calls {
		sum.Calls[name] += times * n
	}
	return sum
}

// ParseLoad reads the reply to INFO all.
func ParseLoad(info string) (Load, error) {
	l := Load{Calls: make(map[string]int64)}
	times := 0
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		var err error
		add := func(to *int64, value string) {
			var n int64
			n, err = strconv.ParseInt(value, 10, 64)
			*to += n
		}
		switch key {
		case "used_cpu_sys", "used_cpu_user":
			var seconds float64
			seconds, err = strconv.ParseFloat(value, 64)
			l.CPU += time.Duration(seconds * float64(time.Second))
			times++
		case "used_memory":
			add(&l.Memory, value)
		case "connected_clients":
			add(&l.Clients, value)
		case "total_net_input_bytes", "total_net_output_bytes":
			add(&l.Network, value)
		case "total_commands_processed":
			add(&l.Commands, value)
		default:
			if name, is := strings.CutPrefix(key, "cmdstat_"); is {
				calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
				var n int64
				add(&n, calls)
				l.Calls[name] += n
			}
		}
		if err != nil {
			return l, fmt.Errorf("%s: %w", key, err)
		}
	}
	if times != 2 {
		return l, fmt.Errorf("INFO has %d of 2 CPU times", times)
	}
	return l, nil
}
