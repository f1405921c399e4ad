package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// stallPatience bounds how long a crew may stand still. It is well above demoTTL, after
// which even a crashed worker's lock is free again.
const stallPatience = 15 * time.Second

// A tally is what a crew has done.
type tally struct {
	done    int           // increments that its workers made
	took    time.Duration // from the first worker's start to the last one's end
	longest time.Duration // the longest time that one increment waited for the lock
}

// A crew is a number of worker processes and what they say. One goroutine follows each
// worker; all fields belong to the goroutine in runCrew.
type crew struct {
	events chan event
	inputs []io.WriteCloser // one per worker: "go" goes there, and closing it means stop
	done   []int            // per worker
	ended  []bool           // per worker: it has said that it is through
	ready  int
	start  time.Time
	tally  tally
}

// An event is a line that a worker said, or its end.
type event struct {
	worker int
	line   string
	gone   bool
	err    error // if gone: nil, or why it failed
}

// runCrew runs n workers until all have ended and returns what they did. It fails if one
// fails, or none gets on; then it ends the others. progress is called on every news and
// several times a second.
func runCrew(ctx context.Context, n int, cfg workerConfig, progress func(tally)) (tally, error) {
	env, err := cfg.environ()
	if err != nil {
		return tally{}, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c := &crew{events: make(chan event), done: make([]int, n), ended: make([]bool, n)}
	for i := range n {
		if err := c.startWorker(ctx, i, env); err != nil {
			stop(err) // those already started are waited for below
			break
		}
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	lastNews := time.Now()
	for running := len(c.inputs); running > 0; {
		select {
		case ev := <-c.events:
			lastNews = time.Now()
			if ev.gone {
				running--
			}
			if err := c.handle(ev, cfg.Each); err != nil {
				stop(fmt.Errorf("worker %d of %d: %w", ev.worker+1, n, err))
			}
		case <-tick.C:
			if time.Since(lastNews) > stallPatience {
				stop(withHint(fmt.Errorf("no worker got on for %v", stallPatience),
					"are a majority of the masters still there?"))
			}
		}
		if ctx.Err() == nil {
			progress(c.tally)
		}
	}
	return c.tally, context.Cause(ctx)
}

// startWorker starts worker i: this same executable, with the hidden command.
func (c *crew) startWorker(ctx context.Context, i int, env []string) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("starting a worker: %w", err)
	}
	cmd := exec.CommandContext(ctx, exe, workerCommandName)
	cmd.Env = env
	stderr := new(headBuffer)
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting a worker: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("starting a worker: %w", err)
	}
	// A worker is asked to stop by the end of its input, and killed if it does not.
	cmd.Cancel = in.Close
	cmd.WaitDelay = 2 * workerGrace
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting a worker: %w", err)
	}
	c.inputs = append(c.inputs, in)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.events <- event{worker: i, line: lines.Text()}
		}
		c.events <- event{worker: i, gone: true, err: workerError(cmd.Wait(), stderr.String())}
	}()
	return nil
}

// handle takes one event into account. An error is the worker's.
func (c *crew) handle(ev event, each int) error {
	i := ev.worker
	if ev.gone {
		if ev.err == nil && !c.ended[i] {
			return fmt.Errorf("ended after %d of %d increments", c.done[i], each)
		}
		return ev.err
	}
	verb, arg, _ := strings.Cut(ev.line, " ")
	switch verb {
	case "ready":
		c.ready++
		if c.ready == len(c.done) {
			c.begin()
		}
		return nil
	case "done":
		// The worker's own count must be the next one: what is expected in the end is the
		// sum of these, so none may be missing or counted twice.
		if arg != strconv.Itoa(c.done[i]+1) {
			break
		}
		c.done[i]++
		c.tally.done++
		c.tally.took = time.Since(c.start)
		return nil
	case "end":
		ns, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || c.done[i] != each {
			break
		}
		c.ended[i] = true
		c.tally.longest = max(c.tally.longest, time.Duration(ns))
		return nil
	}
	return fmt.Errorf("said %q after %d increments", ev.line, c.done[i])
}

// begin sends all workers off at once. One that cannot be told is dead, which its own end
// will tell, and better.
func (c *crew) begin() {
	c.start = time.Now()
	for _, in := range c.inputs {
		io.WriteString(in, "go\n")
	}
}

// workerError returns why a worker failed, in its own words where it left any.
func workerError(err error, stderr string) error {
	if err == nil {
		return nil
	}
	const ours = "redlock: error: "
	var last string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, ours):
			return errors.New(strings.TrimPrefix(line, ours))
		case strings.HasPrefix(line, "panic:"), strings.HasPrefix(line, "fatal error:"):
			return fmt.Errorf("%s (%w)", line, err)
		case line != "":
			last = line
		}
	}
	if last != "" {
		return fmt.Errorf("%w: %s", err, last)
	}
	return err
}

// A headBuffer keeps the first 64 KB written to it and takes the rest without keeping it:
// a worker's log has no bound, and what matters of a crash stands at its beginning.
type headBuffer struct{ text []byte }

func (b *headBuffer) Write(p []byte) (int, error) {
	room := max(0, 64<<10-len(b.text))
	b.text = append(b.text, p[:min(room, len(p))]...)
	return len(p), nil
}

func (b *headBuffer) String() string { return string(b.text) }
