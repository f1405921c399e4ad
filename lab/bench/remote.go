package main

import (
	"time"

	"github.com/redlock-go/redlock/lab/internal/child"
)

// remote is a worker process, as its master sees it.
type remote = child.Worker[order, report]

// readyLimit is how long a worker may take to start, or to answer when it should be done.
const readyLimit = 20 * time.Second

// startWorkers starts n processes that are going to contend for one name with that many goroutines each,
// process i at the distances far(i).
func (b *bench) startWorkers(s *subject, n, goroutines int, ttl time.Duration, far func(i int) distances) ([]*remote, error) {
	b.opened++
	var all []setup
	for i := range n {
		addrs, err := b.fleetOf(s).at(far(i))
		if err != nil {
			return nil, err
		}
		all = append(all, setup{Addrs: addrs, TTL: ttl, NodeTimeout: patient, Callers: goroutines, Prefix: b.name()})
	}
	return startAll(s, all)
}

// startAll starts a process for each setup.
func startAll(s *subject, setups []setup) ([]*remote, error) {
	var all []*remote
	for _, u := range setups {
		r, err := startWorker(s, order{Setup: u})
		if err != nil {
			child.End(all...)
			return nil, err
		}
		all = append(all, r)
	}
	for _, r := range all {
		if _, err := r.Answer(readyLimit); err != nil { // that it is ready
			child.End(all...)
			return nil, err
		}
	}
	return all, nil
}

// onLoopback are the distances of workers that have none.
func onLoopback(int) distances { return distances{} }

// startWorker starts a process that opens the subject.
func startWorker(s *subject, first order) (*remote, error) {
	id := s.id
	if s.program != "" {
		id = oursID
	}
	r, err := child.StartWorker[order, report](s.program, id)
	if err != nil {
		return nil, err
	}
	return r, r.Tell(first)
}
