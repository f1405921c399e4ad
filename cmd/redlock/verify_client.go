package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/history"
	"github.com/redlock-go/redlock/internal/proxy"
	"github.com/redlock-go/redlock/internal/supervise"
)

// A verifyClient is one client of a verification: one process after another, and its links to the masters.
type verifyClient struct {
	of    *verification // immutable
	index int           // immutable
	cfg   verifyConfig  // of the next process
	links []*proxy.Proxy

	busy  sync.Mutex   // taken by the fault that has the client in hand
	holds atomic.Int32 // how many locks the present process holds

	mu    sync.Mutex // guards what follows
	proc  *verifyProcess
	meant bool // the process is killed on purpose
}

// A verifyProcess is one process of a client.
type verifyProcess struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	gone chan struct{} // closed when it has ended, and its records are in the history
}

// newClient returns the client with an index. Its links lead to the masters at urls, which are addresses of this machine
// or of the masters, without TLS.
func (r *verification) newClient(index int, urls, names []string) (*verifyClient, error) {
	c := &verifyClient{of: r, index: index, cfg: verifyConfig{
		Kind: verifyKinds[index%len(verifyKinds)], Client: index, Names: names, Prefix: r.prefix, TTL: r.ttl,
	}}
	parsed, err := parseMasters("--masters", strings.Join(urls, ","))
	if err != nil {
		return nil, err
	}
	for i, m := range parsed {
		p, err := proxy.New(m.Address(), proxy.Way{}, proxy.Way{}, proxy.KeepsNone, rand.Uint64())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("starting a proxy: %w", err), c.close())
		}
		c.links = append(c.links, p)
		c.cfg.Masters = append(c.cfg.Masters, parsed[i].At(p.Addr()))
	}
	return c, nil
}

// start starts a process.
func (c *verifyClient) start() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	p := &verifyProcess{cmd: exec.Command(exe, verifierCommandName), gone: make(chan struct{})}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	c.of.supervisor.tell(supervise.Add(p.cmd.Process.Pid))
	c.mu.Lock()
	c.proc, c.meant = p, false
	c.mu.Unlock()
	c.holds.Store(0)
	json.NewEncoder(p.in).Encode(c.cfg) // an error: it has ended, which follow notices
	c.cfg.Life++
	go c.follow(p, out)
	return nil
}

// follow takes in the records of a process until it ends.
func (c *verifyClient) follow(p *verifyProcess, out io.Reader) {
	defer close(p.gone)
	finished := false
	err := history.Read(out, func(r history.Record) {
		switch r.Kind {
		case history.Done:
			finished = true
		case history.Entered:
			c.holds.Add(1)
			c.of.held.Add(1)
			select {
			case c.of.entered <- struct{}{}:
			default: // others have
			}
		case history.Leaving:
			c.holds.Add(-1)
		}
		c.of.history.Add(r)
		c.of.log.Write(r)
	})
	c.of.supervisor.tell(supervise.Drop(p.cmd.Process.Pid)) // before Wait, since after it another process may have the number
	err = errors.Join(err, p.cmd.Wait())
	c.mu.Lock()
	defer c.mu.Unlock()
	if !finished && !c.meant {
		c.of.fail(fmt.Errorf("process %d has ended by itself: %w", c.index, err))
	}
}

// process returns the process that runs.
func (c *verifyClient) process() *verifyProcess {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc
}

// note writes a record about the client.
func (c *verifyClient) note(kind, name string) {
	r := history.Record{Kind: kind, Op: strconv.Itoa(c.index), At: history.Now(), Name: name}
	c.of.history.Add(r)
	c.of.log.Write(r)
}

// pause stops the process for a while. It continues it even if the run ends.
func (c *verifyClient) pause(ctx context.Context, length time.Duration) error {
	p := c.process()
	c.note(history.Stopped, "")
	defer c.note(history.Continued, "")
	if err := stopProcess(p.cmd.Process); err != nil {
		return nil // it has just ended, which follow notices
	}
	defer continueProcess(p.cmd.Process)
	sleep(ctx, length)
	return nil
}

// kill kills the process, and starts the next one.
func (c *verifyClient) kill(context.Context, time.Duration) error {
	c.end()
	return c.start()
}

// end kills the process, and returns when its records are in the history.
func (c *verifyClient) end() {
	c.mu.Lock()
	p := c.proc
	c.meant = true
	c.mu.Unlock()
	if p != nil {
		p.cmd.Process.Kill()
		<-p.gone
	}
}

// finish tells the process to unlock and close, and kills it if it does not within a TTL and 10 s.
func (c *verifyClient) finish() {
	c.busy.Lock() // the fault that has it in hand ends with the run
	defer c.busy.Unlock()
	p := c.process()
	io.WriteString(p.in, "true\n")
	select {
	case <-p.gone:
	case <-time.After(c.cfg.TTL + 10*time.Second):
		c.of.fail(fmt.Errorf("process %d does not unlock and close within %v", c.index, c.cfg.TTL+10*time.Second))
		c.end()
	}
}

// close ends what is left of the client.
func (c *verifyClient) close() error {
	c.end()
	for _, l := range c.links {
		l.Close()
	}
	return nil
}

// sleep sleeps until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
