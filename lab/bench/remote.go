package main

import (
	"fmt"
	"slices"
	"strings"
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
	return startAll(slices.Repeat([]*subject{s}, n), all)
}

// startAll starts a process for each setup, which opens one of the subjects. All are ready then.
func startAll(subjects []*subject, setups []setup) (all []*remote, err error) {
	defer func() {
		if err != nil {
			child.End(all...)
		}
	}()
	for i, s := range subjects {
		r, err := child.StartWorker[order, report](s.program, strings.TrimSuffix(s.id, ofOther))
		if err != nil {
			return all, err
		}
		all = append(all, r)
		if err := r.Tell(order{Setup: setups[i]}); err != nil {
			return all, fmt.Errorf("%s: %w", s.id, err)
		}
	}
	for i, r := range all {
		if _, err := r.Answer(readyLimit); err != nil {
			return all, fmt.Errorf("%s: %w", subjects[i].id, err)
		}
	}
	return all, nil
}

// onLoopback are the distances of workers that have none.
func onLoopback(int) distances { return distances{} }
