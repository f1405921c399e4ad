package main

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// remote is a worker process, as its master sees it. It serves one goroutine.
type remote struct {
	cmd  *exec.Cmd
	in   *gob.Encoder
	out  chan report // closed when the worker has ended
	stop func()
}

// startWorkers starts n processes that are going to contend for one name with
// that many goroutines each.
func (b *bench) startWorkers(s *subject, n, goroutines int, ttl time.Duration) ([]*remote, error) {
	b.opened++
	first := order{
		Setup: setup{Addrs: b.fleet.addrs(), TTL: ttl, NodeTimeout: patient, Callers: goroutines},
		Name:  b.contendedName(),
	}
	var all []*remote
	for range n {
		r, err := startWorker(s, first)
		if err != nil {
			stopAll(all)
			return nil, err
		}
		all = append(all, r)
	}
	for _, r := range all {
		if _, err := r.answer(20 * time.Second); err != nil { // that it is ready
			stopAll(all)
			return nil, err
		}
	}
	return all, nil
}

// contendedName is the name of the run that began last.
func (b *bench) contendedName() string { return fmt.Sprintf("bench:%d", b.opened) }

func startWorker(s *subject, first order) (*remote, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workerEnv+"="+s.id)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &remote{cmd: cmd, in: gob.NewEncoder(in), out: make(chan report, 1)}
	r.stop = func() { in.Close() }
	go func() {
		defer close(r.out)
		for dec := gob.NewDecoder(out); ; {
			var got report
			if dec.Decode(&got) != nil {
				cmd.Wait() // how it ended, its answers or their lack have said
				return
			}
			r.out <- got
		}
	}()
	return r, r.tell(first)
}

// tell sends an order and does not wait for the answer.
func (r *remote) tell(o order) error { return r.in.Encode(o) }

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
func (r *remote) kill() { r.cmd.Process.Kill() }

// stopAll ends workers and returns when they are gone.
func stopAll(all []*remote) {
	for _, r := range all {
		r.stop()
	}
	for _, r := range all {
		if _, err := r.answer(time.Second); errors.Is(err, errSilent) {
			r.kill()
		}
		for range r.out {
		}
	}
}
