package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// crash measures how long a lock for which a crowd waits stands idle when processes are killed or stopped, and how soon a master that
// restarts empty has its queue again. Those that are killed or stopped are processes of their own.
func crash(*options) error {
	table("what happens", "clients", "measured: of 5 times, the least, the median and the most", "")
	for _, v := range []struct {
		what    string
		clients int
		unit    string
		run     func(n int) (time.Duration, error)
	}{
		{"the holder is killed", 200, "from the expiry of its key at a majority to the next lock", killed},
		{"the first three of the queue are stopped", 100, "the longest time without a lock", func(n int) (time.Duration, error) { return stopped(n, 3) }},
		{"all but the last one are stopped", 100, "the longest time without a lock", func(n int) (time.Duration, error) { return stopped(n, n-1) }},
		{"a master restarts empty", 200, "from the end of its quarantine to a whole queue", restarted},
	} {
		var all []time.Duration
		for range 5 {
			d, err := v.run(v.clients)
			if err != nil {
				return fmt.Errorf("%s: %w", v.what, err)
			}
			all = append(all, d.Round(time.Millisecond))
		}
		least, median, most := spread(all)
		row(v.what, fmt.Sprint(v.clients), fmt.Sprint(least, ", ", median, ", ", most), v.unit)
	}
	return nil
}

// crashOptions have short leases, so that the time until a key expires, and a quarantine, is short.
var crashOptions = &redlock.Options{MaxTTL: 3 * time.Second, LockOptions: redlock.LockOptions{TTL: 3 * time.Second}}

// joinCrowd is a part of the crowd. If the lock is free, one of its clients holds it.
func joinCrowd(o order, begin func() <-chan order) (r report, err error) {
	for range o.Clients {
		c, err := servers.Open(o.Addrs, crashOptions)
		if err != nil {
			return r, err
		}
		go c.Locker(crowdName).Lock()
	}
	time.Sleep(crowdSettles / 4)
	begin()
	return r, nil
}

// A crashScene is masters, and clients of this process that each hold the lock for 1 ms when they have it.
type crashScene struct {
	fleet   servers.Fleet
	clients []*redlock.Client
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex // guards idle
	idle []span
}

// A span is a time without a lock: between the unlock of a client of this process and the next lock of another.
type span struct{ from, to time.Time }

func newCrashScene() (*crashScene, error) {
	f, err := start(5)
	if err != nil {
		return nil, err
	}
	s := &crashScene{fleet: f, idle: []span{{}}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

func (s *crashScene) end() {
	s.stop()
	s.running.Wait()
	for _, c := range s.clients {
		c.Close()
	}
	s.fleet.Stop()
}

// open opens a client of this process.
func (s *crashScene) open() (*redlock.Client, error) {
	c, err := servers.Open(s.fleet.Addrs(), crashOptions)
	if err == nil {
		s.clients = append(s.clients, c)
	}
	return c, err
}

// join has clients of this process queue, and take turns.
func (s *crashScene) join(n int) error {
	for range n {
		c, err := s.open()
		if err != nil {
			return err
		}
		mu := c.Locker(crowdName)
		s.running.Go(func() {
			for mu.LockContext(s.ctx) == nil {
				s.locked()
				time.Sleep(time.Millisecond)
				s.unlocks()
				mu.Unlock()
			}
		})
	}
	time.Sleep(crowdSettles)
	return nil
}

func (s *crashScene) locked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle[len(s.idle)-1].to = time.Now()
}

func (s *crashScene) unlocks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, span{from: time.Now()})
}

// spawn starts a process with n clients that queue.
func (s *crashScene) spawn(n int) (*worker, error) {
	return startWorker("crowd", order{Addrs: s.fleet.Addrs(), Clients: n})
}

func killed(n int) (time.Duration, error) {
	s, err := newCrashScene()
	if err != nil {
		return 0, err
	}
	defer s.end()
	holder, err := s.spawn(1)
	if err != nil {
		return 0, err
	}
	defer holder.Kill()
	if err := s.join(n); err != nil {
		return 0, err
	}
	holder.Kill()
	var expire []time.Time
	for _, m := range s.fleet {
		ms, err := redis.Int64(m.Do("PTTL", crowdName))
		if err != nil {
			return 0, err
		}
		expire = append(expire, time.Now().Add(time.Duration(ms)*time.Millisecond))
	}
	slices.SortFunc(expire, time.Time.Compare)
	time.Sleep(time.Until(expire[4]) + 3*time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle[0].to.IsZero() {
		return 0, fmt.Errorf("nobody has the lock 3 s after the key's expiry")
	}
	return s.idle[0].to.Sub(expire[2]), nil
}

// hold has a client of this process lock the lock.
func (s *crashScene) hold() (*redlock.Client, *redlock.Locker, error) {
	c, err := s.open()
	if err != nil {
		return nil, nil, err
	}
	l := c.Locker(crowdName)
	return c, l, l.LockContext(s.ctx)
}

// stopped has the first clients of a queue of n stopped, and then the lock released.
func stopped(n, first int) (time.Duration, error) {
	s, err := newCrashScene()
	if err != nil {
		return 0, err
	}
	defer s.end()
	_, holder, err := s.hold()
	if err != nil {
		return 0, err
	}
	w, err := s.spawn(first)
	if err != nil {
		return 0, err
	}
	defer w.Kill()
	if err := s.join(n - first); err != nil {
		return 0, err
	}
	if err := w.Process.Signal(syscall.SIGSTOP); err != nil {
		return 0, err
	}
	time.Sleep(crowdSettles / 40)
	s.mu.Lock()
	s.idle[0].from = time.Now()
	s.mu.Unlock()
	holder.Unlock()
	time.Sleep(crowdSpan)
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := time.Duration(0)
	for _, one := range s.idle {
		if one.to.IsZero() {
			one.to = time.Now()
		}
		longest = max(longest, one.to.Sub(one.from))
	}
	return longest, nil
}

// restarted has a master restart empty while a client holds the lock, and n wait.
func restarted(n int) (time.Duration, error) {
	s, err := newCrashScene()
	if err != nil {
		return 0, err
	}
	defer s.end()
	c, mu, err := s.hold()
	if err != nil {
		return 0, err
	}
	defer mu.Unlock()
	if err := s.join(n); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := s.fleet[0].Restart(); err != nil {
		return 0, err
	}
	for m := c.Masters()[0]; m.State != redlock.MasterUp || m.Since.Before(began); m = c.Masters()[0] {
		if time.Since(began) > 30*time.Second {
			return 0, fmt.Errorf("the master is not up after 30 s: %w", m.Err)
		}
		time.Sleep(time.Millisecond)
	}
	began = time.Now()
	for {
		queued, err := redis.Int(s.fleet[0].Do("ZCARD", "redlock:queue:"+crowdName))
		if err != nil || time.Since(began) > 30*time.Second {
			return 0, fmt.Errorf("%d of %d are in the queue after %v: %w", queued, n, time.Since(began), err)
		} else if queued == n {
			return time.Since(began), nil
		}
		time.Sleep(time.Millisecond)
	}
}
