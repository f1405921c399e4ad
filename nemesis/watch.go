package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A watch reads the lock keys on all masters after the faults. Then releases and undos are executed
// at once, so a key may exist only while somebody holds the lock or tries to get it, and for a
// short time after.
type watch struct {
	fleet fleet
	names []lockName
	key   func(string, int) string

	stop chan struct{}
	done sync.WaitGroup

	mu    sync.Mutex // guards seen
	seen  []sighting
	asked int
}

// A sighting is a token that a master had under the key of a name, from first to last.
type sighting struct {
	master      int
	name        string
	token       string
	first, last int64
}

// watchEvery is the time between two reads.
const watchEvery = 20 * time.Millisecond

func newWatch(r *run) *watch {
	w := &watch{fleet: r.fleet, names: r.names(), key: r.subject.key, stop: make(chan struct{})}
	for i := range w.fleet {
		w.done.Go(func() { w.follow(i) })
	}
	return w
}

// follow reads the keys of one master until the watch ends.
func (w *watch) follow(i int) {
	conn, err := redis.Dial("tcp", w.fleet[i].Addr(), redis.DialReadTimeout(time.Second))
	if err != nil {
		return
	}
	defer conn.Close()
	var keys []any
	for _, n := range w.names {
		keys = append(keys, w.key(n.Name, i))
	}
	standing := make([]*sighting, len(keys))
	for {
		at := now()
		tokens, err := redis.Strings(conn.Do("MGET", keys...))
		if err != nil {
			return
		}
		w.mu.Lock()
		w.asked++
		for n, token := range tokens {
			s := standing[n]
			if s != nil && s.token != token {
				w.seen = append(w.seen, *s)
				standing[n] = nil
			}
			if token == "" {
				continue
			}
			if standing[n] == nil {
				standing[n] = &sighting{master: i, name: w.names[n].Name, token: token, first: now()}
			}
			standing[n].last = at // the time before the command
		}
		w.mu.Unlock()
		select {
		case <-w.stop:
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, s := range standing {
				if s != nil {
					w.seen = append(w.seen, *s)
				}
			}
			return
		case <-time.After(watchEvery):
		}
	}
}

// end ends the watch. It returns a violation for each key that existed for longer than may after
// its release, or without belonging to a lease. may must be below the TTL.
func (w *watch) end(h *history, may time.Duration) (all []violation) {
	close(w.stop)
	w.done.Wait()
	over := make(map[string]int64) // when the last lease of a token ended
	for _, ops := range h.snapshot() {
		for _, o := range ops {
			if o.token == "" {
				continue
			}
			over[o.token] = max(over[o.token], o.left)
			if o.left == 0 {
				over[o.token] = 1 << 62
			}
		}
	}
	for _, s := range w.seen {
		since, what := s.first, "which nobody's lease had"
		if left, known := over[s.token]; known {
			since, what = max(left, s.first), "after its release"
		}
		if stood := time.Duration(s.last - since); stood > may {
			all = append(all, violation{kind: keyLeft, at: s.last, name: s.name,
				text: fmt.Sprintf("the key of %q on master %d stood for %v with token %s, %s", s.name, s.master, stood, s.token, what)})
		}
	}
	return all
}

// keys returns the lock keys that stand on the masters.
func (r *run) keys() (all []violation, err error) {
	for i, s := range r.fleet {
		for _, n := range r.names() {
			token, left, err := s.key(r.subject.key(n.Name, i))
			if err != nil {
				return nil, err
			}
			if token != "" {
				all = append(all, violation{kind: keyLeft, at: now(), name: n.Name,
					text: fmt.Sprintf("the key of %q stands on master %d with token %s for %v more, though all clients have unlocked and closed", n.Name, i, token, left)})
			}
		}
	}
	return all, nil
}
