package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/history"
	"github.com/redlock-go/redlock/internal/proxy"
)

// What faults do.

// command sends a command to the masters of the fault.
func command(name string, args ...any) func(*run, fault) error {
	return func(r *run, f fault) error {
		for _, i := range f.masters {
			if _, err := r.fleet[i].Do(name, args...); err != nil {
				return err
			}
		}
		return nil
	}
}

// fillMemory leaves a master no memory for its time, so that it refuses to set keys.
func fillMemory(r *run, f fault) error {
	s := r.fleet[f.masters[0]]
	if _, err := s.Do("CONFIG", "SET", "maxmemory", 1); err != nil {
		return err
	}
	time.Sleep(f.length)
	_, err := s.Do("CONFIG", "SET", "maxmemory", 0)
	return err
}

// evict changes the policy of a master, and once clients have noticed that, has it evict all keys. In the first second after the change,
// the library promises nothing.
func evict(r *run, f fault) error {
	return whileEvicting(r, f, "allkeys-random", func(s *server) error {
		_, err := s.Do("CONFIG", "SET", "maxmemory", 1)
		time.Sleep(f.length)
		return err
	})
}

// evictLocks does that to a majority at once, but they keep the records of their memories, so they go on as if they had lost nothing.
func evictLocks(r *run, f fault) error {
	const keys, size, lasts = 20, 10 << 10, 3_600_000 // those of locks expire sooner, and the record in the year 2100
	filler := func(n int) string { return "filler:" + strconv.Itoa(n) }
	var errs []error
	for _, i := range f.masters {
		for n := range keys {
			_, err := r.fleet[i].Do("SET", filler(n), strings.Repeat("x", size), "PX", lasts)
			errs = append(errs, err)
		}
	}
	errs = append(errs, whileEvicting(r, f, "volatile-ttl", func(s *server) error {
		info, err := redis.String(s.Do("INFO", "memory"))
		if err != nil {
			return err
		}
		used, err := strconv.Atoi(usedMemory.FindStringSubmatch(info)[1])
		if err != nil {
			return err
		}
		_, err = s.Do("CONFIG", "SET", "maxmemory", used-keys*size/2)
		_, evicted := s.Do("PING") // each command evicts first
		return errors.Join(err, evicted)
	}))
	for _, i := range f.masters {
		for n := range keys {
			_, err := r.fleet[i].Do("DEL", filler(n))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

var usedMemory = regexp.MustCompile(`used_memory:(\d+)`)

// whileEvicting does something to each master of the fault, at the same time, when clients have noticed that it may evict keys.
func whileEvicting(r *run, f fault, policy string, do func(*server) error) error {
	errs := make([]error, len(f.masters))
	var all sync.WaitGroup
	for n, i := range f.masters {
		s := r.fleet[i]
		all.Go(func() {
			_, samples := s.Do("CONFIG", "SET", "maxmemory-samples", 64)
			_, limit := s.Do("CONFIG", "SET", "maxmemory", plenty)
			_, policy := s.Do("CONFIG", "SET", "maxmemory-policy", policy)
			time.Sleep(noticed)
			err := do(s)
			_, none := s.Do("CONFIG", "SET", "maxmemory", 0)
			_, before := s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
			errs[n] = errors.Join(samples, limit, policy, err, none, before)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// setClientClock sets the wall clock of a client's process to be off by the fault's amount. A new process of the client has the right time.
func setClientClock(r *run, f fault) error {
	cl := r.clients[f.client]
	if !cl.busy.TryLock() {
		return fmt.Errorf("%w: the client is not there", errSkipped)
	}
	defer cl.busy.Unlock()
	cl.order(orderClock + strconv.FormatInt(int64(f.amount), 10))
	return nil
}

// ways sets the modes of the links of the fault's client for its time.
func ways(up, down proxy.Mode) func(*run, fault) error {
	return func(r *run, f fault) error {
		links := r.links(f)
		for _, k := range links {
			k.Change(func(u, d *proxy.Way) { u.Mode, d.Mode = up, down })
		}
		time.Sleep(f.length)
		for _, k := range links {
			k.Mend()
		}
		return nil
	}
}

// passing is how long a flapping link passes, and how long a stuttering client runs.
const passing = 20 * time.Millisecond

// flap makes the links of the fault's client hold back replies, then pass for a moment, then hold
// back again. Every second time they hold back requests, too. The fault's amount is the length of
// each hold.
func flap(r *run, f fault) error {
	links := r.links(f)
	end := time.Now().Add(f.length)
	for n := 0; time.Now().Before(end); n++ {
		for _, k := range links {
			k.Change(func(up, down *proxy.Way) {
				down.Mode = proxy.Holds
				if n%2 == 1 {
					up.Mode = proxy.Holds
				}
			})
		}
		time.Sleep(f.amount)
		for _, k := range links {
			k.Mend()
		}
		time.Sleep(passing)
	}
	return nil
}

// slowLinks makes the links of the fault's client slower.
func slowLinks(r *run, f fault) error {
	links := r.links(f)
	add := func(by time.Duration) {
		for _, k := range links {
			k.Change(func(u, d *proxy.Way) {
				u.Latency += by
				d.Latency += by
			})
		}
	}
	add(f.amount)
	time.Sleep(f.length)
	add(-f.amount)
	return nil
}

// onLinks does something at once to the links of the fault's client.
func onLinks(do func(*proxy.Proxy)) func(*run, fault) error {
	return func(r *run, f fault) error {
		for _, k := range r.links(f) {
			do(k)
		}
		return nil
	}
}

func (r *run) links(f fault) []*proxy.Proxy {
	var links []*proxy.Proxy
	for i, k := range r.clients[f.client].links {
		if slices.Contains(f.masters, i) {
			links = append(links, k)
		}
	}
	return links
}

func stepClock(r *run, f fault) error {
	s := r.fleet[f.masters[0]]
	if !s.steps {
		return fmt.Errorf("%w: there is no libfaketime", errSkipped)
	}
	return s.setClock(f.amount)
}

// subtle does a fault unless a client is starting or has just started. The schedule avoids this,
// but on a busy machine a client may start late.
func subtle(do func(*run, fault) error) func(*run, fault) error {
	return func(r *run, f fault) error {
		r.mu.Lock()
		late := r.starts > 0
		r.stepped = history.Now()
		r.mu.Unlock()
		for _, cl := range r.clients {
			p := cl.process()
			late = late || !isClosed(p.ready) || history.Now()-p.began < int64(settled)
		}
		if late {
			return fmt.Errorf("%w: a client has just started", errSkipped)
		}
		return do(r, f)
	}
}

// restartClient ends a client, with SIGKILL or not, and starts it again. It waits until the other
// clients have had time to see the last subtle fault.
func (r *run) restartClient(f fault, kill bool) error {
	r.mu.Lock()
	r.starts++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.starts--
		r.mu.Unlock()
	}()
	cl := r.clients[f.client]
	if !cl.busy.TryLock() {
		return fmt.Errorf("%w: the client is not there", errSkipped)
	}
	defer cl.busy.Unlock()
	if cl.end(kill, 20*time.Second) {
		r.log.printf("client %d did not unlock and close", f.client)
	}
	time.Sleep(f.length)
	for {
		r.mu.Lock()
		wait := r.stepped + int64(settled) - history.Now()
		r.mu.Unlock()
		if wait <= 0 { // or there was no subtle fault
			break
		}
		time.Sleep(time.Duration(wait))
	}
	return cl.start()
}
