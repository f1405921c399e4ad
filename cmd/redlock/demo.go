package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/redlock-go/redlock"
)

const (
	demoWorkers = 4                // processes
	demoEach    = 250              // increments by each of them
	demoWork    = time.Millisecond // between the read and the write of an increment

	// demoTTL is the TTL of the demo's locks, and the MaxTTL of its clients. It is short, so
	// that masters which redlock has never seen can vote soon. No other client uses the
	// demo's lock names.
	demoTTL = 3 * time.Second

	// demoPatience is how long the demo waits for masters that do not answer. It is longer
	// than the TTL, after which even the lock of a killed worker is free.
	demoPatience = 15 * time.Second
)

const demoDescription = `Four processes add to one number in a file. Without a lock they overwrite
each other's updates. With the lock no update is lost, although one of the
masters stops half way.

By default the five masters are embedded in this command, so it needs no
Redis. With --masters the demo stops no server: it cuts its own connections
to one of them. It uses a random lock name, and writes nothing else to the
masters but redlock's own keys.

Exit status: 0 if no update was lost with the lock; 1 if one was, or if a
worker failed; 2 for wrong usage; 69 if no majority of the masters answers
at the beginning; 130 if interrupted.`

// demoCommand returns `redlock demo`.
func demoCommand() *cli.Command {
	return &cli.Command{
		Name:         "demo",
		Usage:        "show updates that are lost without a lock, and none with it",
		Description:  demoDescription + mastersHelp,
		Flags:        []cli.Flag{mastersFlag()},
		OnUsageError: onUsageError,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := noArguments(cmd); err != nil {
				return err
			}
			masters, err := mastersOf(cmd)
			if err != nil {
				return err
			}
			return runDemo(ctx, masters, demoEach, cmd.Root().Writer, newProgress(cmd.Root().ErrWriter))
		},
	}
}

// runDemo counts without the lock and with it, and writes to out what came of it.
func runDemo(ctx context.Context, given []master, each int, out io.Writer, shown *progress) error {
	out = shown.over(out)
	alive, end := context.WithCancel(context.Background())
	defer end()
	masters, err := openDemoMasters(alive, given)
	if err != nil {
		return err
	}
	total := demoWorkers * each
	fmt.Fprintf(out, "%d processes add 1 to a number in a file, %d times each: read, work %v, write.\n"+
		"The lock is on %d %s Redis masters.\n\n", demoWorkers, each, demoWork, len(masters.urls), masters.kind)
	client, err := openClient(masters.urls, masters.names)
	if err != nil {
		return err
	}
	err = awaitQuorum(ctx, client, demoPatience, "a majority of the masters must answer; `redlock demo` alone brings its own", out, shown)
	client.Close()
	if err != nil {
		return err
	}
	without, _, err := countShown(ctx, "without the lock", total, shown, workerConfig{Each: each}, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "without the lock: added %d, and the file says %d: %s\n", total, without, lost(total, without))
	cfg := workerConfig{Each: each, Lock: "redlock-demo-" + rand.Text(), Masters: masters.urls, Names: masters.names}
	with, took, err := countShown(ctx, "with the lock", total, shown, cfg, func(done int) {
		if done == total/2 && masters.take != nil {
			masters.take()
			fmt.Fprintf(out, "                  at %d, %s\n", done, masters.fate)
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "with the lock:    added %d, and the file says %d: %s,\n                  %.0f locks per second\n",
		total, with, lost(total, with), float64(total)/took.Seconds())
	if with != total {
		return withHint(fmt.Errorf("with the lock the file says %d, want %d", with, total),
			"this is a bug of redlock: please report it, with this output")
	}
	fmt.Fprint(out, conclusion(len(masters.urls), total == without, len(given) == 0))
	return nil
}

// countShown counts, and shows how far it is.
func countShown(ctx context.Context, how string, total int, shown *progress, cfg workerConfig, at func(done int)) (counted int, took time.Duration, err error) {
	var added atomic.Int64
	defer shown.show(func(since time.Duration) string {
		return fmt.Sprintf("%s; %s: added %d of %d", passed(since, 0), how, added.Load(), total)
	})()
	return count(ctx, cfg, func(done int) {
		added.Store(int64(done))
		if at != nil {
			at(done)
		}
	})
}

// lost says how many updates are missing from a number.
func lost(total, counted int) string {
	if counted == total {
		return "none lost"
	}
	return fmt.Sprintf("%d lost", total-counted)
}

// conclusion says what the demo has shown with n masters.
func conclusion(n int, nothingLost, embedded bool) string {
	text := "\nWithout the lock two processes read the same number, and one update overwrites\n" +
		"the other. "
	if nothingLost {
		text = "\nWithout the lock nothing was lost either, by chance. Run the demo again.\n"
	}
	text += fmt.Sprintf("With the lock one process at a time reads and writes. A lock\n"+
		"needs any %d of %s.\n\n", n/2+1, plural(n, "master"))
	if embedded {
		text += "On your own servers:  redlock demo --masters host1:6379,host2:6379,host3:6379\n"
	}
	return text + "Read on:              README.md, beside the source\n"
}

// count has the workers count in a new file. It returns what the file says in the end, and how long that took. It
// calls progress after each increment. If a worker fails, the others are killed.
func count(ctx context.Context, cfg workerConfig, progress func(done int)) (counted int, took time.Duration, err error) {
	number, err := newCounter()
	if err != nil {
		return 0, 0, err
	}
	defer os.Remove(number.Name())
	defer number.Close()
	cfg.File = number.Name()
	// Each worker writes one byte when it is ready, and one for each increment.
	events, said, err := os.Pipe()
	if err != nil {
		return 0, 0, err
	}
	defer events.Close()

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	var begin []io.Writer
	for i := range demoWorkers {
		cmd, in, err := startWorker(ctx, cfg, said)
		if err != nil {
			stop(err)
			break
		}
		begin = append(begin, in)
		running.Go(func() {
			if err := cmd.Wait(); err != nil {
				stop(fmt.Errorf("worker %d of %d: %w", i+1, demoWorkers, err))
			}
		})
	}
	said.Close() // so that events ends when the last worker has ended
	var start time.Time
	r := bufio.NewReader(events)
	for done := 1 - demoWorkers; ; done++ {
		if _, err := r.ReadByte(); err != nil {
			break
		}
		if done > 0 {
			progress(done)
		} else if done == 0 { // every worker is ready
			start = time.Now()
			for _, in := range begin {
				io.WriteString(in, "true\n") // a dead worker is noticed by its end
			}
		}
	}
	took = time.Since(start)
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return 0, 0, err
	}
	counted, err = readCounter(number)
	return counted, took, err
}

// awaitQuorum waits until a quorum of the masters may vote, for patience at most and for as long as a quarantine lasts. If
// that takes time, it writes the reason once. If there is no quorum, the error has the exit status and a hint.
func awaitQuorum(ctx context.Context, client *redlock.Client, patience time.Duration, hint string, out io.Writer, shown *progress) error {
	defer shown.show(func(since time.Duration) string { return passed(since, 0) + "; waiting for the masters" })()
	for start, told := time.Now(), false; ; told = true {
		err := client.Ping(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case time.Since(start) > patience && !errors.Is(err, redlock.ErrQuarantined): // a quarantine ends by itself
			return &statusError{exitNoQuorum, withHint(fmt.Errorf("no quorum of the masters: %w", err), hint)}
		case !told:
			fmt.Fprintf(out, "waiting for the masters: %v\n\n", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}
