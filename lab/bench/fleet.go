package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisserver"
)

// masters is how many there are in every workload.
const masters = 5

// fleet is five real redis-server processes, and how to get there over distances.
type fleet struct {
	servers []*redisserver.Server
	sick    map[int]bool // frozen or killed: they cannot be asked
	network *network     // nil: nothing has been far away yet
}

// startFleet starts the servers and has them adopted: nobody can hold a lock there, so all may vote at once.
func startFleet(adopt func(*fleet) error) (*fleet, error) {
	f := &fleet{sick: make(map[int]bool)}
	for range masters {
		// The limit of clients is what 512 callers of any pool may need.
		s, err := redisserver.Start("--maxclients", "8000", "--tcp-backlog", "511")
		if err != nil {
			f.stop()
			return nil, err
		}
		f.servers = append(f.servers, s)
	}
	if err := adopt(f); err != nil {
		f.stop()
		return nil, fmt.Errorf("adopting the masters: %w", err)
	}
	return f, nil
}

// adopt has this commit's library adopt the masters.
func (f *fleet) adopt() error {
	for _, s := range f.servers {
		if err := s.Adopt(); err != nil {
			return fmt.Errorf("%s: %w", s.Addr(), err)
		}
	}
	return awaitVoters(f.addrs(), 5*time.Second)
}

func (f *fleet) stop() {
	if f.network != nil {
		stopAll([]*remote{f.network.process})
	}
	for _, s := range f.servers {
		s.Stop()
	}
}

func (f *fleet) addrs() []string {
	var all []string
	for _, s := range f.servers {
		all = append(all, s.Addr())
	}
	return all
}

// freeze stops those masters; thaw lets them go on and returns when they have
// done what was sent to them meanwhile.
func (f *fleet) freeze(which []int) error {
	for _, i := range which {
		if err := f.servers[i].Freeze(); err != nil {
			return errors.Join(err, f.thaw())
		}
		f.sick[i] = true
	}
	return nil
}

func (f *fleet) thaw() error {
	var errs []error
	for i := range f.sick {
		if err := f.servers[i].Thaw(); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(f.sick, i)
		if _, err := f.servers[i].Do("PING"); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (f *fleet) kill(which []int) error {
	for _, i := range which {
		if err := f.servers[i].Kill(); err != nil {
			return err
		}
		f.sick[i] = true
	}
	return nil
}

// load returns what the masters that are well have done.
func (f *fleet) load() (load, error) {
	var sum load
	for i, s := range f.servers {
		if f.sick[i] {
			continue
		}
		info, err := redis.String(s.Do("INFO", "all"))
		if err != nil {
			return sum, err
		}
		l, err := parseInfo(info)
		if err != nil {
			return sum, fmt.Errorf("%s: %w", s.Addr(), err)
		}
		sum = sum.plus(l)
	}
	return sum, nil
}

// remaining returns in how long a quorum of masters will have forgotten a lock,
// whose key on master i is key(i), if nobody renews it.
func (f *fleet) remaining(key func(i int) string) (time.Duration, error) {
	var left []time.Duration
	for i, s := range f.servers {
		ms, err := redis.Int64(s.Do("PTTL", key(i)))
		if err != nil {
			return 0, err
		}
		left = append(left, time.Duration(max(ms, 0))*time.Millisecond)
	}
	return quorumth(left), nil
}
