package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/redlock-go/redlock"
)

const (
	workerCommandName = "demo-worker"

	// workerEnv holds a worker's workerConfig as JSON. Arguments would show the masters'
	// passwords to everybody who may list processes.
	workerEnv = "REDLOCK_DEMO_WORKER"

	// workerGrace is how long a worker may take to end once it is told to, or once its
	// parent is gone.
	workerGrace = 3 * time.Second
)

// workerConfig is what a worker is told.
type workerConfig struct {
	Counter string        // path of the counter
	Each    int           // how many increments
	Hold    time.Duration // from the read to the write of each
	Lock    string        // name of the lock; empty: work without one
	Masters []string      // URLs; unused without a lock
}

// environ returns this process's environment with cfg in it.
func (cfg workerConfig) environ() ([]string, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), workerEnv+"="+string(text)), nil
}

// demoWorkerCommand returns the hidden command that the demo starts its workers by.
//
// A worker talks to its parent by lines. It writes "ready" once it could begin, reads "go",
// writes "done <n>" after each increment and last "end <longest wait for the lock, in ns>".
// The end of its standard input, which a dying parent cannot help closing, means stop.
func demoWorkerCommand() *cli.Command {
	return &cli.Command{
		Name:         workerCommandName,
		Usage:        "a worker of `redlock demo`, which starts it",
		Hidden:       true,
		OnUsageError: onUsageError,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			var cfg workerConfig
			if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &cfg); err != nil {
				// The JSON error may quote what it failed on: passwords.
				return usageErrorf("%s is started by `redlock demo`, not by hand", workerCommandName)
			}
			root := cmd.Root()
			return work(ctx, cfg, root.Reader, root.Writer, root.ErrWriter)
		},
	}
}

// work is a worker's life.
func work(ctx context.Context, cfg workerConfig, in io.Reader, out, errOut io.Writer) error {
	// A terminal sends Ctrl-C to the parent too, and the parent decides what comes of it.
	signal.Ignore(os.Interrupt)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	var mu ctxLocker = noLock{}
	if cfg.Lock != "" {
		client, err := openClient(cfg.Masters, slog.New(slog.NewTextHandler(errOut, nil)))
		if err != nil {
			return err
		}
		defer client.Close()
		if err := awaitQuorum(ctx, client, nil); err != nil {
			return err
		}
		mu = client.Locker(cfg.Lock)
	}

	begin := make(chan struct{})
	go obeyParent(in, begin, cancel) // ends with the process: a read of stdin has no other end
	fmt.Fprintln(out, "ready")
	select {
	case <-begin:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	longest, err := count(ctx, cfg, mu, out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "end %d\n", longest)
	return nil
}

var errStopped = errors.New("the demo has ended")

// obeyParent closes begin at the first line of in, and stops the worker at in's end.
func obeyParent(in io.Reader, begin chan<- struct{}, stop context.CancelCauseFunc) {
	lines := bufio.NewReader(in)
	if _, err := lines.ReadString('\n'); err == nil {
		close(begin)
		io.Copy(io.Discard, lines)
	}
	stop(errStopped)
	// Whatever hangs now, a worker does not outlive its demo.
	time.AfterFunc(workerGrace, func() { os.Exit(exitFailure) })
}

// count increments the counter cfg.Each times, each time under mu, and returns the longest
// wait for mu.
func count(ctx context.Context, cfg workerConfig, mu ctxLocker, out io.Writer) (longest time.Duration, err error) {
	number := counter{cfg.Counter}
	for done := 1; done <= cfg.Each; done++ {
		start := time.Now()
		if err := mu.LockContext(ctx); err != nil {
			return 0, err
		}
		longest = max(longest, time.Since(start))
		err := number.increment(cfg.Hold)
		// Only a lost lease counts. If too few masters confirm a release in time, the lock
		// was held for as long as it mattered, and is freed in the background or runs out.
		if unlockErr := mu.UnlockContext(ctx); err == nil && errors.Is(unlockErr, redlock.ErrLost) {
			err = unlockErr
		}
		if err != nil {
			return 0, err
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		fmt.Fprintf(out, "done %d\n", done)
	}
	return longest, nil
}

// ctxLocker is what a worker needs of a lock.
type ctxLocker interface {
	LockContext(ctx context.Context) error
	UnlockContext(ctx context.Context) error
}

var (
	_ ctxLocker = (*redlock.Locker)(nil)
	_ ctxLocker = noLock{}
)

// noLock is the lock of those who have none.
type noLock struct{}

func (noLock) LockContext(context.Context) error   { return nil }
func (noLock) UnlockContext(context.Context) error { return nil }
