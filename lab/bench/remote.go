package main

import (
	"encoding/gob"
	"errors"
	"os"
	"time"

	"github.com/redlock-go/redlock/lab/internal/child"
)

// remote is a worker process, as its master sees it. It serves one goroutine.
type remote struct {
	*child.Worker
	orders *gob.Encoder
	out    chan report // closed when the worker has ended
}

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
			stopAll(all)
			return nil, err
		}
		all = append(all, r)
	}
	for _, r := range all {
		if _, err := r.answer(readyLimit); err != nil { // that it is ready
			stopAll(all)
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
	r, err := startProcess(s.program, id)
	if err != nil {
		return nil, err
	}
	return r, r.tell(first)
}

// startProcess starts the program, by default this one, in a worker's role.
func startProcess(program, role string) (*remote, error) {
	p, err := child.Start(program, os.Stderr, workerEnv+"="+role)
	if err != nil {
		return nil, err
	}
	r := &remote{Worker: p, orders: gob.NewEncoder(p.In), out: make(chan report, 1)}
	go func() {
		defer close(r.out)
		for dec := gob.NewDecoder(p.Out); ; {
			var got report
			if dec.Decode(&got) != nil {
				p.Wait() // how it ended, its answers or their lack have said
				return
			}
			r.out <- got
		}
	}()
	return r, nil
}

// tell sends an order and does not wait for the answer.
func (r *remote) tell(o order) error { return r.orders.Encode(o) }

var errSilent = errors.New("a worker does not answer")

// answer returns the answer to the oldest order that has none yet.
func (r *remote) answer(limit time.Duration) (report, error) {
	select {
	case got, ok := <-r.out:
		if !ok {
			return got, errors.New("a worker has ended by itself")
		}
		if got.Err != "" {
			return got, errors.New(got.Err)
		}
		return got, nil
	case <-time.After(limit):
		return report{}, errSilent
	}
}

// ask tells and waits for the answer.
func (r *remote) ask(o order, limit time.Duration) (report, error) {
	if err := r.tell(o); err != nil {
		return report{}, err
	}
	return r.answer(limit)
}

// kill ends the process by SIGKILL.
func (r *remote) kill() { r.Process.Kill() }

// stopAll ends workers and returns when they are gone.
func stopAll(all []*remote) {
	for _, r := range all {
		r.In.Close()
	}
	for _, r := range all {
		if _, err := r.answer(time.Second); errors.Is(err, errSilent) {
			r.kill()
		}
		for range r.out {
		}
	}
}
