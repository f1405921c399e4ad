package main

import (
	"context"
	"encoding/json"
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

// startWorker starts this same executable as a worker, which writes its events to out.
func startWorker(ctx context.Context, cfg workerConfig, out *os.File) (cmd *exec.Cmd, in io.Writer, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.CommandContext(ctx, exe, workerCommandName)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	if err = cmd.Start(); err == nil {
		json.NewEncoder(in).Encode(cfg) // a worker that cannot read it ends with an error
	}
	return cmd, in, err
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
	do := func(ctx context.Context, f func(context.Context) error) error { return f(ctx) }
	if cfg.Lock != "" {
		client, err := openClient(cfg.Masters, cfg.Names)
		if err != nil {
			return err
		}
		defer client.Close()
		do = client.Locker(cfg.Lock).Do
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
		patience, cancel := context.WithTimeout(ctx, demoPatience)
		err := do(patience, func(context.Context) error { return increment(f) })
		cancel()
		if err != nil {
			return err
		}
		io.WriteString(out, ".")
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

// newCounter creates a counter, a file with the number 0. The number is written as eight bytes in one call, so that a
// reader sees the old number or the new one, and no mixture. What the demo loses without the lock is lost between a
// read and a write.
func newCounter() (*os.File, error) {
	f, err := os.CreateTemp("", "redlock-demo-")
	if err != nil {
		return nil, err
	}
	return f, writeCounter(f, 0)
}

// increment adds 1, as a program does that relies on being alone: read, work, write.
func increment(f *os.File) error {
	value, err := readCounter(f)
	if err != nil {
		return fmt.Errorf("reading the counter: %w", err)
	}
	time.Sleep(demoWork)
	return writeCounter(f, value+1)
}

func readCounter(f *os.File) (int, error) {
	var text [8]byte
	if _, err := f.ReadAt(text[:], 0); err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text[:])))
}

func writeCounter(f *os.File, value int) error {
	_, err := f.WriteAt(fmt.Appendf(nil, "%8d", value), 0)
	return err
}
