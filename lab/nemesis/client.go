package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/internal/history"
	"github.com/redlock-go/redlock/internal/proxy"
	"github.com/redlock-go/redlock/lab/internal/child"
)

// A client is one client. Each process that runs it is one life of the client.
type client struct {
	index   int
	program string         // immutable
	links   []*proxy.Proxy // immutable; to each master
	job     job            // of the next life
	stderr  *os.File       // of all lives
	history *history.History
	log     *runLog
	stalls  *stalls // of this process

	busy sync.Mutex // taken by the fault that has the process in hand

	mu     sync.Mutex // guards what follows
	proc   *process
	pauses []history.Span // when it was stopped
	deaths []death
}

// A death is the end of a process that had not finished its operations.
type death struct {
	life int
	at   int64
}

// A process is one life of a client.
type process struct {
	*child.Process
	life  int
	began int64
	ready chan struct{} // closed when it is connected
	done  chan struct{} // closed when it has unlocked all and closed

	meant   bool // the nemesis ends it
	crashed bool // it has ended by itself; set when it is gone
}

// start begins a life.
func (c *client) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &process{
		life: c.job.Life, began: history.Now(),
		ready: make(chan struct{}), done: make(chan struct{}),
	}
	var err error
	follow := func(out io.Reader) { c.follow(p, out) }
	p.Process, err = child.Start(c.program, c.stderr, follow, workerEnv+"=1", "GORACE=halt_on_error=1") // with go run -race, a race ends the client
	if err != nil {
		return err
	}
	c.proc = p
	line, err := json.Marshal(c.job)
	if err != nil {
		return err
	}
	c.job.Life++
	_, err = p.In.Write(append(line, '\n'))
	return err
}

// follow takes in the records of a life until it ends.
func (c *client) follow(p *process, out io.Reader) {
	finished := false
	unread := history.Read(out, func(r history.Record) {
		switch r.Kind {
		case history.Ready:
			close(p.ready)
		case history.Done:
			finished = true
			close(p.done)
		default:
			c.history.Add(r)
		}
	})
	if unread != nil {
		c.log.printf("client %d: its records: %v", c.index, unread)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !finished {
		c.deaths = append(c.deaths, death{p.life, history.Now()})
		p.crashed = !p.meant
	}
}

func (c *client) process() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc
}

// order sends a line to the client.
func (c *client) order(what string) {
	io.WriteString(c.process().In, what+"\n") // an error: it has ended
}

// pause stops the process for a while.
func (c *client) pause(length time.Duration) error {
	if !c.busy.TryLock() {
		return fmt.Errorf("%w: the client is not there", errSkipped)
	}
	defer c.busy.Unlock()
	c.stop(length)
	return nil
}

// stutter stops the process again and again, each time for as long, and lets it run for
// a moment in between.
func (c *client) stutter(length, each time.Duration) error {
	if !c.busy.TryLock() {
		return fmt.Errorf("%w: the client is not there", errSkipped)
	}
	defer c.busy.Unlock()
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(passing) {
		c.stop(each)
	}
	return nil
}

// stop stops the process for a while.
func (c *client) stop(length time.Duration) {
	p := c.process()
	at := history.Now()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return // it has just ended
	}
	c.mu.Lock()
	i := len(c.pauses)
	c.pauses = append(c.pauses, history.Span{From: at})
	c.mu.Unlock()
	time.Sleep(length)
	p.Signal(syscall.SIGCONT)
	c.mu.Lock()
	c.pauses[i].To = history.Now()
	c.mu.Unlock()
}

// end ends the current process. It kills the process, or tells it to unlock and close and kills it
// if that takes longer than patience; then it returns true.
func (c *client) end(kill bool, patience time.Duration) (stuck bool) {
	p := c.process()
	c.mu.Lock()
	p.meant = true
	c.mu.Unlock()
	if !kill {
		c.order(orderStop)
		if c.stalls.within(patience, p.done, p.Gone) {
			if isClosed(p.Gone) {
				return false
			} // otherwise what follows is the exit
		} else {
			stuck = true
			p.Signal(syscall.SIGQUIT) // its goroutines go to its log
			select {
			case <-p.Gone:
			case <-time.After(time.Second):
			}
		}
	}
	p.Kill()
	return stuck
}

// stopped returns when the client was stopped.
func (c *client) stopped() []history.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.pauses)
}

// died returns the time of a life's death, or 0 if it finished its operations.
func (c *client) died(life int) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.deaths {
		if d.life == life {
			return d.at
		}
	}
	return 0
}
