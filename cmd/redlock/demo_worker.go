package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/redlock-go/redlock"
)

const workerCommandName = "demo-worker"

// A workerConfig is what a worker reads first from its standard input. Arguments would show
// the masters' passwords to everybody who may list processes.
type workerConfig struct {
	File    string   // the path of the counter
	Each    int      // how many increments
	Lock    string   // the name of the lock; empty: none
	Masters []string // URLs
	Names   []string // what errors call the masters
}

// A worker is a running process of the demo.
type worker struct {
	cmd *exec.Cmd
	in  io.Writer
}

// startWorker starts this same executable as a worker, which writes its events to out.
func startWorker(ctx context.Context, cfg workerConfig, out *os.File) (*worker, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe, workerCommandName)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	json.NewEncoder(in).Encode(cfg) // a worker that cannot read it ends with an error
	return &worker{cmd, in}, nil
}

// demoWorkerCommand returns the hidden command by which the demo starts its workers. A
// worker reads its workerConfig, writes one byte when it is ready, reads one JSON value,
// counts, and writes one byte for each increment.
func demoWorkerCommand() *cli.Command {
	return &cli.Command{
		Name:         workerCommandName,
		Usage:        "a process of `redlock demo`, which starts it",
		Hidden:       true,
		OnUsageError: onUsageError,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			in := json.NewDecoder(cmd.Root().Reader)
			var cfg workerConfig
			if err := in.Decode(&cfg); err != nil {
				return usageErrorf("%s is started by `redlock demo`, not by hand", workerCommandName)
			}
			return work(ctx, cfg, in, cmd.Root().Writer)
		},
	}
}

// work is the life of a worker.
func work(ctx context.Context, cfg workerConfig, in *json.Decoder, out io.Writer) error {
	// A terminal sends Ctrl-C to the demo too, which ends its workers.
	signal.Ignore(os.Interrupt)
	f, err := os.OpenFile(cfg.File, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	lock, unlock := func(context.Context) error { return nil }, func(context.Context) error { return nil }
	if cfg.Lock != "" {
		client, err := openClient(cfg.Masters, cfg.Names)
		if err != nil {
			return err
		}
		defer client.Close()
		if err := awaitQuorum(ctx, client, func(error) {}); err != nil {
			return err
		}
		mu := client.Locker(cfg.Lock)
		lock, unlock = mu.LockContext, mu.UnlockContext
	}
	io.WriteString(out, ".")
	var begin any
	if err := in.Decode(&begin); err != nil {
		return err
	}
	go func() {
		in.Decode(&begin) // returns when the demo has ended, however it did
		os.Exit(exitFailure)
	}()
	for range cfg.Each {
		if err := incrementOnce(ctx, counter{f}, lock, unlock); err != nil {
			return err
		}
		io.WriteString(out, ".")
	}
	return nil
}

// incrementOnce adds 1 to the number under the lock.
func incrementOnce(ctx context.Context, c counter, lock, unlock func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	if err := lock(ctx); err != nil {
		return err
	}
	if err := c.increment(); err != nil {
		return err
	}
	// A release that too few masters have confirmed in time is no failure: it is sent again.
	if err := unlock(ctx); errors.Is(err, redlock.ErrLost) {
		return err
	}
	return nil
}

// openClient returns a client of the demo's masters, which logs nothing: the demo reports.
func openClient(urls, names []string) (*redlock.Client, error) {
	return redlock.Open(urls, &redlock.Options{
		LockOptions: redlock.LockOptions{TTL: demoTTL},
		MaxTTL:      demoTTL,
		Names:       names,
		Logger:      slog.New(slog.DiscardHandler),
	})
}

// A counter is a number in a file. It is written as eight bytes in one call, so that a
// reader sees the old number or the new one, and no mixture. What the demo loses without
// the lock is lost between a read and a write.
type counter struct{ *os.File }

// newCounter creates a counter that is 0.
func newCounter() (counter, error) {
	f, err := os.CreateTemp("", "redlock-demo-")
	if err != nil {
		return counter{}, err
	}
	c := counter{f}
	return c, c.write(0)
}

// increment adds 1, as a program does that relies on being alone: read, work, write.
func (c counter) increment() error {
	value, err := c.read()
	if err != nil {
		return err
	}
	time.Sleep(demoWork)
	return c.write(value + 1)
}

func (c counter) read() (int, error) {
	var text [8]byte
	if _, err := c.ReadAt(text[:], 0); err != nil {
		return 0, fmt.Errorf("reading the counter: %w", err)
	}
	value, err := strconv.Atoi(strings.TrimSpace(string(text[:])))
	if err != nil {
		return 0, fmt.Errorf("reading the counter: %w", err)
	}
	return value, nil
}

func (c counter) write(value int) error {
	if _, err := c.WriteAt(fmt.Appendf(nil, "%8d", value), 0); err != nil {
		return fmt.Errorf("writing the counter: %w", err)
	}
	return nil
}
