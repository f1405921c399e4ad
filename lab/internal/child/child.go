// Package child runs the worker processes of the programs of the lab. A worker is the program itself again. Its environment says
// that it is one, its standard input has orders, and its standard output has answers. It ends when its input does, so that
// none outlives its master.
package child

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// A Process is a process that this one has started.
type Process struct {
	*os.Process
	In   io.WriteCloser
	Gone chan struct{} // closed when it has ended, and all of its output is read
	Err  error         // how it has ended; set when Gone is closed
}

// Start starts a program, or the one that runs if program is "", with more of an environment. read reads all of its output. Its errors
// go to stderr.
func Start(program string, stderr *os.File, read func(io.Reader), env ...string) (*Process, error) {
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = stderr
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
	p := &Process{Process: cmd.Process, In: in, Gone: make(chan struct{})}
	go func() {
		read(out)
		p.Err = cmd.Wait()
		close(p.Gone)
	}()
	return p, nil
}

// Kill ends the process by SIGKILL, and returns when it is gone.
func (p *Process) Kill() {
	p.Process.Kill()
	<-p.Gone
}

// roleEnv holds the role of a worker.
const roleEnv = "REDLOCK_LAB_WORKER"

// Main is the main function of a program with workers: it calls work in a worker, and run elsewhere.
func Main(name string, work func(role string) error, run func() error) {
	var err error
	if role := os.Getenv(roleEnv); role != "" {
		if err = work(role); err != nil {
			err = fmt.Errorf("worker: %w", err)
		}
	} else {
		err = run()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// A Worker is a worker process, as its master sees it. It answers each order.
type Worker[Order, Answer any] struct {
	*Process
	orders  *gob.Encoder
	answers chan reply[Answer] // closed when there are no more
}

type reply[Answer any] struct {
	Answer Answer
	Err    string
}

// StartWorker starts a program, or the one that runs if program is "", in the role of a worker.
func StartWorker[Order, Answer any](program, role string) (*Worker[Order, Answer], error) {
	w := &Worker[Order, Answer]{answers: make(chan reply[Answer], 1)}
	read := func(out io.Reader) {
		defer close(w.answers)
		for dec := gob.NewDecoder(out); ; {
			var r reply[Answer]
			if dec.Decode(&r) != nil {
				return
			}
			w.answers <- r
		}
	}
	var err error
	if w.Process, err = Start(program, os.Stderr, read, roleEnv+"="+role); err != nil {
		return nil, err
	}
	w.orders = gob.NewEncoder(w.In)
	return w, nil
}

// Tell sends an order, and does not wait for the answer.
func (w *Worker[Order, Answer]) Tell(o Order) error { return w.orders.Encode(o) }

// ErrSilent means that a worker has not answered within the limit.
var ErrSilent = errors.New("a worker does not answer")

// Answer returns the answer to the oldest order that has none yet.
func (w *Worker[Order, Answer]) Answer(limit time.Duration) (a Answer, err error) {
	select {
	case r, ok := <-w.answers:
		if !ok {
			return a, errors.New("a worker has ended by itself")
		}
		if r.Err != "" {
			err = errors.New(r.Err)
		}
		return r.Answer, err
	case <-time.After(limit):
		return a, ErrSilent
	}
}

// Ask sends an order, and waits for the answer.
func (w *Worker[Order, Answer]) Ask(o Order, limit time.Duration) (a Answer, err error) {
	if err := w.Tell(o); err != nil {
		return a, err
	}
	return w.Answer(limit)
}

// End ends workers, and returns when they are gone. It kills those that do not end with their input.
func End[Order, Answer any](all ...*Worker[Order, Answer]) {
	for _, w := range all {
		w.In.Close()
	}
	for _, w := range all {
		if _, err := w.Answer(time.Second); errors.Is(err, ErrSilent) {
			w.Signal(os.Kill)
		}
		for range w.answers {
		}
		<-w.Gone
	}
}

// Serve returns the orders of this worker, as they come, and a function that answers one.
func Serve[Order, Answer any]() (<-chan Order, func(Answer, error) error) {
	orders, out := make(chan Order), gob.NewEncoder(os.Stdout)
	go func() {
		for dec := gob.NewDecoder(os.Stdin); ; {
			var o Order
			if dec.Decode(&o) != nil {
				os.Exit(0) // also in the middle of a wait
			}
			orders <- o
		}
	}()
	return orders, func(a Answer, err error) error {
		r := reply[Answer]{Answer: a}
		if err != nil {
			r.Err = err.Error()
		}
		return out.Encode(r)
	}
}
