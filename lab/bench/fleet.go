package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/lab/internal/child"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// masters is how many there are in every workload.
const masters = 5

// fleet is five real redis-server processes, and how to get there over distances.
type fleet struct {
	servers.Fleet
	sick    map[int]bool // frozen or killed: they cannot be asked
	network *network     // nil: nothing has been far away yet
}

// startFleet starts the servers and has them adopted: nobody can hold a lock there, so all may vote at once.
func startFleet(adopt func(*fleet) error) (*fleet, error) {
	all, err := servers.Start(masters, servers.Crowded...)
	if err != nil {
		return nil, err
	}
	f := &fleet{Fleet: all, sick: make(map[int]bool)}
	if err := adopt(f); err != nil {
		f.stop()
		return nil, fmt.Errorf("adopting the masters: %w", err)
	}
	return f, nil
}

// adopt has this commit's library adopt the masters, and returns when all may vote for it: it must not be measured with fewer of them
// than its peers.
func (f *fleet) adopt() error {
	if err := f.Adopt(); err != nil {
		return err
	}
	c, err := servers.Open(f.Addrs(), &redlock.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		c.Close()
	}
	return err
}

func (f *fleet) stop() {
	if f.network != nil {
		child.End(f.network.process)
	}
	f.Stop()
}

// freeze stops those masters; thaw lets them go on and returns when they have
// done what was sent to them meanwhile.
func (f *fleet) freeze(which []int) error {
	for _, i := range which {
		if err := f.Fleet[i].Freeze(); err != nil {
			return errors.Join(err, f.thaw())
		}
		f.sick[i] = true
	}
	return nil
}

func (f *fleet) thaw() error {
	var errs []error
	for i := range f.sick {
		if err := f.Fleet[i].Thaw(); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(f.sick, i)
		if _, err := f.Fleet[i].Do("PING"); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (f *fleet) kill(which []int) error {
	for _, i := range which {
		if err := f.Fleet[i].Kill(); err != nil {
			return err
		}
		f.sick[i] = true
	}
	return nil
}

// load returns what the masters that are well have done.
func (f *fleet) load() (servers.Load, error) {
	var sum servers.Load
	for i, s := range f.Fleet {
		if f.sick[i] {
			continue
		}
		l, err := servers.LoadOf(s)
		if err != nil {
			return sum, err
		}
		sum = sum.Plus(l)
	}
	return sum, nil
}

// remaining returns in how long a quorum of masters will have forgotten a lock,
// whose key on master i is key(i), if nobody renews it.
func (f *fleet) remaining(key func(i int) string) (time.Duration, error) {
	var left []time.Duration
	for i, s := range f.Fleet {
		ms, err := redis.Int64(s.Do("PTTL", key(i)))
		if err != nil {
			return 0, err
		}
		left = append(left, time.Duration(max(ms, 0))*time.Millisecond)
	}
	return quorumth(left), nil
}
