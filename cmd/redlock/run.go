package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/wire"
)

const runCommandName = "run"

// The exit statuses of `redlock run` itself. 69 and 75 are those of sysexits.h, 124 to 127 those
// of env and timeout. 121 is used by no common program.
const (
	exitNoQuorum   = 69 // EX_UNAVAILABLE
	exitHeld       = 75 // EX_TEMPFAIL: try again later
	exitLost       = 121
	exitLate       = 124
	exitRunFailed  = 125 // any other failure that is not the command's
	exitCannotExec = 126
	exitNotFound   = 127
	exitSignal     = 128 // plus the signal's number
)

const (
	defaultRunTTL = 10 * time.Second
	waitForever   = time.Duration(-1)

	// The command has the TTL divided by graceFraction between SIGTERM and SIGKILL. Renewals
	// begin after a third of the TTL, so they have about half of the TTL to succeed in.
	graceFraction = 5
)

// runDialTimeout is the Client's DialTimeout. Zero: its default. Tests raise it.
var runDialTimeout time.Duration

const runDescription = `Acquires the lock NAME, runs COMMAND while it holds the lock, and releases
the lock. The -- is required. COMMAND uses redlock's standard input, output
and error.

With several --name, all locks are acquired, or none, and released together:

   redlock run --name accounts/1 --name accounts/2 -- ./transfer.sh

While it waits, a terminal shows for how long, and who holds the lock, for
which it asks the masters every 2s. --quiet leaves this out.

COMMAND's environment has REDLOCK_NAME, the name of the lock, and
REDLOCK_FENCE, a number that is greater than in every earlier run of NAME.
If COMMAND is stopped for longer than its lease, it may write late without
noticing. A resource can refuse such writes: it remembers the highest number
that it has seen, and refuses lower ones. Then everybody who locks NAME must
use fences, and the clocks of clients and masters must agree to within half
a second. Several names are separated by a comma and a space in REDLOCK_NAME,
and REDLOCK_FENCE is greater than in every earlier run of each of them.

With --limit K, COMMAND runs under a permit of a semaphore instead of a lock:
at most K runs of NAME on all machines have one at a time.

   redlock run --limit 4 gpus -- ./train.sh

REDLOCK_SLOT is the number of the permit, from 0 to K-1. No other holder has
it, so it can choose a GPU or a port. REDLOCK_FENCE is greater than in every
earlier run that had the same REDLOCK_SLOT. A run with another one may have a
greater number and have begun earlier, so a resource remembers the highest
number for each slot. All runs of NAME should have the same K. Otherwise the
largest counts. The lock NAME is another thing. redlock status NAME shows who
holds the permits.

The lease is renewed while COMMAND runs, for as long as it runs. If it cannot
be renewed, COMMAND gets SIGTERM a fifth of the TTL before the lease ends (2s
of 10s), and SIGKILL when it ends. So do the processes that COMMAND has
started and that are still in its process group. If redlock itself was
stopped, it kills COMMAND as soon as it continues, for example by fg after a
long Ctrl-Z. If redlock is killed, a second process of it, "redlock
supervise", kills COMMAND and the processes of its group. It does not reach
a process that has made a group or a session of its own, and it cannot act
if it was killed together with redlock.

--at-least keeps the lock for this long after it was acquired, even if
COMMAND has ended or failed. A signal ends it early. Use it for jobs that
several machines start at nearly the same time: without it, a job that takes
50ms would run on one machine after the other. --at-least must be longer than
--wait plus the difference of the machines' clocks, and shorter than the time
between two runs. Use a --wait of about a second: machines that start at the
same moment can refuse each other, and then try again. Use 20s if no client
stays connected to the masters: after a restart of a majority, the first run
has to wait 12s for their votes.

   * * * * *  redlock run --wait 1s --at-least 30s --quiet mail -- ./mail.sh

--max ends a COMMAND that hangs. When it has run for this long, it gets
SIGTERM, and SIGKILL a fifth of the TTL later, as if the lease could not be
renewed. So do the processes of its process group. The lock is held until
they have ended. Without --max, COMMAND may run for as long as it likes.

A --ttl above the MaxTTL of the masters, which is 10s or what clients have
declared there, would raise it, for all clients and until an operator lowers
it (see redlock doctor): when a majority of the masters restarts, all locks
have to wait for MaxTTL and 2s. So it needs --raise-max-ttl. Raise it while
all masters are up: if one is down, masters that were restarted within the
new MaxTTL may not vote until it has passed.

TERM, HUP, USR1 and USR2 are passed on to COMMAND alone, as from systemd or
docker, so that a server can end its workers in order; INT and QUIT to
COMMAND and its process group, as from a terminal. When COMMAND has ended
after INT, TERM or QUIT, or because of another of these signals, processes
that are left in its group get SIGTERM, and SIGKILL a fifth of the TTL later.
The lock is held until they have ended. During the wait for the lock these
signals end the wait. When COMMAND ends by itself, redlock does not wait for
processes that COMMAND left in the background. They run without the lock.

On Windows redlock cannot ask COMMAND to end. It kills COMMAND where it would
send SIGTERM, and does not reach the processes that COMMAND has started.
Ctrl-C goes to COMMAND by way of the console, and redlock does not act on it
while COMMAND runs. If the console is closed, redlock kills COMMAND. If
redlock is killed, COMMAND goes on without the lock.

Exit status: that of COMMAND; 128+n if signal n ended COMMAND or the wait;
and redlock's own:
     2  wrong usage
    69  no quorum of the masters (see redlock doctor); COMMAND was not run
    75  another client holds the lock, or no permit is free; COMMAND was
        not run (--held-exit chooses another status)
   121  the lease was lost or could not be renewed: COMMAND was ended, or had
        ended by itself after the loss (see the error)
   124  COMMAND ran for longer than --max, and was ended
   125  redlock failed otherwise
   126  COMMAND cannot be executed
   127  COMMAND was not found`

// A runConfig is one call of `redlock run`.
type runConfig struct {
	masters []master
	names   []string
	name    string // all of them, for the environment and for people
	limit   int    // of the semaphore; 0: it is a lock
	ttl     time.Duration
	maxTTL  time.Duration // 0: the library's default
	raise   bool          // the masters' MaxTTL may be raised
	wait    time.Duration // 0: one try; waitForever
	node    time.Duration // one master's time to answer; 0: the library's default
	owner   string        // who holds the lock, to others; empty: the library's default

	max      time.Duration // how long the command may run; 0: without a limit
	atLeast  time.Duration // how long the lock is kept, even if the command is quicker
	heldExit int           // the exit status if another client holds the lock
	quiet    bool          // say nothing of that, and of waiting
	command  []string
}

// runCommand returns `redlock run`. command is what follows the "--": see cutCommand.
func runCommand(command []string) *cli.Command {
	return &cli.Command{
		Name:        runCommandName,
		Usage:       "run a command while holding a lock, or a permit of a semaphore",
		UsageText:   "redlock run [options] NAME -- COMMAND [ARGUMENT...]\nredlock run [options] --name NAME [--name NAME...] -- COMMAND [ARGUMENT...]",
		Description: runDescription + mastersHelp,
		Flags: append(connectFlags(),
			&cli.StringSliceFlag{Name: "name", Usage: "`N` is the name of a lock, or one of several"},
			&cli.IntFlag{Name: "limit", DefaultText: "a lock", Usage: "hold one of `K` permits instead"},
			&cli.DurationFlag{Name: "wait", Value: waitForever, DefaultText: "for ever", Usage: "wait this long; 0: try once"},
			&cli.DurationFlag{Name: "ttl", Value: defaultRunTTL, Usage: "how long the lock lasts after a crash"},
			&cli.DurationFlag{Name: "max-ttl", DefaultText: "--ttl or 10s", Usage: "longest TTL of any client"},
			&cli.BoolFlag{Name: "raise-max-ttl", Usage: "raise that of the masters, if it is smaller"},
			&cli.DurationFlag{Name: "node-timeout", DefaultText: "automatic", Usage: "time for each master's answer"},
			&cli.DurationFlag{Name: "at-least", DefaultText: "0s", Usage: "keep the lock for at least this long"},
			&cli.DurationFlag{Name: "max", DefaultText: "no limit", Usage: "end the command after this long"},
			&cli.IntFlag{Name: "held-exit", Value: exitHeld, Usage: "exit status if others hold the lock"},
			&cli.BoolFlag{Name: "quiet", Usage: "print nothing if others hold the lock"},
			&cli.StringFlag{Name: "owner", DefaultText: "host/pid", Usage: "`WHO` others see as the holder"},
		),
		HideHelpCommand:           true, // "help" is a good name for a lock
		DisableSliceFlagSeparator: true, // a comma may be part of a name
		OnUsageError: func(ctx context.Context, cmd *cli.Command, err error, sub bool) error {
			if command == nil {
				return missingDashes(flagError(cmd.Name, err)) // the flag was meant for COMMAND, probably
			}
			return onUsageError(ctx, cmd, err, sub)
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			cfg, err := runConfigOf(cmd, command)
			if err != nil {
				return err
			}
			return runLocked(ctx, cfg, cmd.Root().ErrWriter)
		},
	}
}

// cutCommand removes "-- COMMAND …" from the arguments of `redlock run`. The cli package would
// lose the position of the "--", and take the command's flags for flags of redlock. Without a
// "--", command is nil.
func cutCommand(args []string) (rest, command []string) {
	if len(args) < 2 || args[1] != runCommandName {
		return args, nil
	}
	i := slices.Index(args, "--")
	if i < 0 {
		return args, nil
	}
	return args[:i:i], args[i+1:]
}

func missingDashes(err error) error {
	return &usageError{withHint(err, "redlock run NAME -- COMMAND …: the -- keeps the command's flags from redlock")}
}

// runConfigOf reads the command line. Its errors do not repeat arguments: see noArguments.
func runConfigOf(cmd *cli.Command, command []string) (runConfig, error) {
	args, flags := cmd.Args().Slice(), cmd.StringSlice("name")
	cfg := runConfig{limit: cmd.Int("limit"), ttl: cmd.Duration("ttl"), maxTTL: cmd.Duration("max-ttl"), raise: cmd.Bool("raise-max-ttl"), wait: cmd.Duration("wait"),
		node: cmd.Duration("node-timeout"), owner: cmd.String("owner"), command: command,
		max: cmd.Duration("max"), atLeast: cmd.Duration("at-least"), heldExit: cmd.Int("held-exit"), quiet: cmd.Bool("quiet")}
	cfg.names = slices.Concat(args, flags)
	slices.Sort(cfg.names)
	cfg.names = slices.Compact(cfg.names)
	cfg.name = strings.Join(cfg.names, ", ")
	switch {
	case command == nil:
		return cfg, missingDashes(errors.New("run needs a -- before the command"))
	case len(cfg.names) == 0 || slices.Contains(cfg.names, ""):
		return cfg, usageErrorf("run needs the NAME of a lock before the --")
	case len(args) > 1 || len(args) == 1 && len(flags) > 0:
		return cfg, usageErrorf("run takes one NAME before the --, got %d; for several names, use --name for each", len(args)+len(flags))
	case slices.ContainsFunc(cfg.names, isURL):
		return cfg, usageErrorf("a URL is not the name of a lock")
	case len(command) == 0 || command[0] == "":
		return cfg, usageErrorf("run needs a COMMAND after the --")
	case cmd.IsSet("limit") && (cfg.limit < 1 || cfg.limit > wire.LimitMost):
		return cfg, usageErrorf("--limit is %d, want 1 to %d", cfg.limit, wire.LimitMost)
	case cfg.limit > 0 && len(cfg.names) > 1:
		return cfg, usageErrorf("--limit takes one NAME, got %d: a permit is of one semaphore", len(cfg.names))
	case cfg.ttl <= 0:
		return cfg, usageErrorf("--ttl is %v, want more than 0", cfg.ttl)
	case cfg.limit > 0 && cfg.ttl < wire.GrantLeast:
		return cfg, usageErrorf("--ttl is %v, want %v or more with --limit", cfg.ttl, wire.GrantLeast)
	case cmd.IsSet("max-ttl") && cfg.maxTTL < cfg.ttl:
		return cfg, usageErrorf("--max-ttl is %v, want no less than --ttl, %v", cfg.maxTTL, cfg.ttl)
	case cmd.IsSet("node-timeout") && cfg.node <= 0:
		return cfg, usageErrorf("--node-timeout is %v, want more than 0", cfg.node)
	case cfg.node >= cfg.ttl/2:
		return cfg, usageErrorf("--node-timeout is %v, want less than half of --ttl, %v", cfg.node, cfg.ttl)
	case cmd.IsSet("max") && cfg.max <= 0:
		return cfg, usageErrorf("--max is %v, want more than 0", cfg.max)
	case cfg.atLeast < 0:
		return cfg, usageErrorf("--at-least is %v, want 0 or more", cfg.atLeast)
	case cfg.atLeast > 0 && !cmd.IsSet("wait"):
		return cfg, usageErrorf("--at-least needs a shorter --wait: a machine that waits for ever runs the command, too")
	case cfg.atLeast > 0 && cfg.atLeast <= cfg.wait:
		return cfg, usageErrorf("--at-least is %v, want more than --wait, %v, plus the difference of the machines' clocks", cfg.atLeast, cfg.wait)
	case cfg.heldExit < 0 || cfg.heldExit > 255:
		return cfg, usageErrorf("--held-exit is %d, want 0 to 255", cfg.heldExit)
	case cmd.IsSet("wait") && cfg.wait < 0:
		return cfg, usageErrorf("--wait is %v, want 0 or more", cfg.wait)
	}
	var err error
	cfg.masters, err = needMasters(cmd, " NAME -- COMMAND …")
	return cfg, err
}

// flagsOfOptions are the flags behind the options that errors of redlock.Open name.
var flagsOfOptions = strings.NewReplacer("LockOptions.TTL", "--ttl", "Options.MaxTTL", "--max-ttl",
	"Options.NodeTimeout", "--node-timeout", "NodeTimeout", "--node-timeout", "Options.Owner", "--owner", " (in Options.LockOptions)", "")

// inFlags words an error of the library that is one of the command line.
func inFlags(err error) error { return &usageError{errors.New(flagsOfOptions.Replace(err.Error()))} }

// isURL reports whether a name is a URL with a user, put in the wrong place. It must not appear in an error.
func isURL(name string) bool { return strings.Contains(name, "://") && strings.Contains(name, "@") }

// runLocked runs the command under the lock, or the permit. Its error has the exit status.
func runLocked(ctx context.Context, cfg runConfig, errOut io.Writer) error {
	cmd, err := cfg.prepare() // before the lock is acquired, so that a typing error costs no wait
	if err != nil {
		return err
	}
	in := listen()
	defer in.close()
	logged := newAsyncWriter(errOut)
	defer logged.drain(time.Second) // after the Client was closed
	shown := &progress{}
	if !cfg.quiet {
		shown = newProgress(errOut)
	}
	shown.writeBy(logged)
	log := slog.New(runHandler{slog.NewTextHandler(shown.over(logged), nil), cfg.quiet})
	wait := &lockWait{runConfig: cfg, shown: shown}
	if err := wait.checkMaxTTL(ctx, in); err != nil {
		return err
	}
	client, err := redlock.New(pools(cfg.masters), &redlock.Options{
		// The lock is held until the command ends, however long that takes.
		LockOptions: redlock.LockOptions{TTL: cfg.ttl, MaxHold: -1, Fencing: true},
		Owner:       cfg.owner,
		Names:       addresses(cfg.masters),
		MaxTTL:      cfg.maxTTL,
		NodeTimeout: cfg.node,
		DialTimeout: runDialTimeout,
		Logger:      log,
		Trace:       &redlock.Trace{AttemptDone: wait.attemptDone},
	})
	if err != nil {
		return inFlags(err)
	}
	defer func() {
		// What the masters do not answer within releasePatience ends with the process.
		ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
		defer cancel()
		client.Shutdown(ctx)
	}()
	acquire, err := cfg.acquirer(client)
	if err != nil {
		return inFlags(err)
	}
	held, err := wait.acquire(ctx, client, acquire, in)
	logged.drain(time.Second / 10) // the command may use the terminal from now on
	if err != nil {
		return err
	}
	return cfg.hold(cmd, held, in, log)
}

// hold runs cmd while held lasts, and releases it.
func (cfg runConfig) hold(cmd *exec.Cmd, held *runLease, in *inbox, log *slog.Logger) error {
	lease, began := held.lease, time.Now()
	grace := cfg.ttl / graceFraction
	if time.Until(lease.Until()) <= cfg.ttl/2 {
		// The release of another process has granted it, for a short time at first: eight round trips. The first renewal might come when
		// less than the grace is left. If this fails, the job ends the command.
		lease.Extend(context.Background())
	}
	cmd.Env = append(cmd.Env, held.env...)
	j := &job{name: cfg.name, lease: lease, grace: grace, inbox: in, log: log, max: cfg.max}
	status, err := j.run(cmd)
	lost := lease.Err() // before the release, which ends the lease too
	lingered := err == nil && lost == nil && j.linger(cfg.atLeast-time.Since(began))
	releaseErr := held.end()
	if lost == nil && errors.Is(releaseErr, redlock.ErrLost) && !lingered {
		lost = releaseErr
	}
	if lost == nil && j.killed {
		lost = redlock.ErrLost
	}
	if releaseErr != nil && lost == nil {
		log.Warn("redlock: the "+cfg.noun()+" may stay taken until its lease runs out", "name", cfg.name, "err", releaseErr)
	}
	switch {
	case err != nil:
		return notExecuted(err)
	case j.killed:
		return &statusError{exitLost, fmt.Errorf("%w; the command was killed", lost)}
	case j.late && lost == nil:
		return &statusError{exitLate, fmt.Errorf("the command ran for longer than --max, %v, and was ended", cfg.max)}
	case j.asked && lost == nil:
		return &statusError{exitLost, fmt.Errorf("the lease of %q could not be renewed; the command was ended before it ran out", cfg.name)}
	case j.asked:
		return &statusError{exitLost, fmt.Errorf("%w; the command was ended before", lost)}
	case lost != nil:
		return &statusError{exitLost, fmt.Errorf("%w; the command ended after that, with status %d", lost, status)}
	case status != 0:
		return &statusError{status: status}
	}
	return nil
}

// prepare returns the command, or an error if it does not exist or cannot be executed.
func (cfg runConfig) prepare() (*exec.Cmd, error) {
	cmd := exec.Command(cfg.command[0], cfg.command[1:]...)
	if errors.Is(cmd.Err, exec.ErrDot) {
		cmd.Err = nil // a PATH with a relative directory is the user's choice, as in a shell
		if !strings.ContainsRune(cmd.Path, filepath.Separator) {
			cmd.Path = "." + string(filepath.Separator) + cmd.Path // else LookPath would look through PATH again
		}
	}
	if cmd.Err == nil {
		_, cmd.Err = exec.LookPath(cmd.Path) // exec.Command does not check a path with slashes
	}
	if cmd.Err != nil {
		return nil, notExecuted(cmd.Err)
	}
	// The command gets the files themselves, not copies through pipes: a terminal stays a
	// terminal, and a background process of the command can still write after redlock's end.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = cfg.environment()
	return cmd, nil
}

// notExecuted returns the error for a command that could not be started.
func notExecuted(err error) error {
	status := exitCannotExec
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		status = exitNotFound
	case shortOfResources(err):
		status = exitRunFailed
	}
	return &statusError{status, err}
}
