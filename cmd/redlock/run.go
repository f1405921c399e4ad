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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/redlock-go/redlock"
)

const runCommandName = "run"

// What `redlock run` exits with where that is not its command's own status. The numbers
// are those that others use for the same, or that nobody uses: sysexits.h for what mends
// itself, the shells for what cannot be executed.
const (
	exitNoQuorum   = 69  // EX_UNAVAILABLE
	exitHeld       = 75  // EX_TEMPFAIL: try again later
	exitLost       = 121 // ours: xargs and timeout begin at 123
	exitRunFailed  = 125 // anything else that is not the command's fault, as env and timeout have it
	exitCannotExec = 126
	exitNotFound   = 127
	exitSignal     = 128 // plus the signal's number
)

const (
	// nameEnv tells the command which lock it runs under. The token is not told: it can do
	// nothing but release the lock under our feet, and environments end up in logs.
	nameEnv = "REDLOCK_NAME"

	// fenceEnv tells the command its lease's fence.
	fenceEnv = "REDLOCK_FENCE"

	defaultRunTTL = 10 * time.Second
	waitForever   = time.Duration(-1)

	// graceFraction of the TTL is what the command has between being asked to end and being
	// killed. Renewals start at a third of the TTL, so this leaves them, too, a good part of
	// it to succeed in.
	graceFraction = 5
)

const runDescription = `Takes the lock NAME, runs COMMAND while holding it, and releases it. The -- is required.
Standard input, output and error are the command's. Its environment has REDLOCK_NAME and
REDLOCK_FENCE: a number, greater than that of every run of NAME before. A COMMAND that was
stopped for longer than its lease cannot know, and may write late; a resource that has to be
safe from that remembers the highest number it has seen, and refuses what comes with a lower
one. All who take the lock NAME must use such numbers, and the clocks of clients and masters
must agree within half a second.

The lock's lease is renewed for as long as COMMAND runs. COMMAND does not outlive it: when
it cannot be renewed, COMMAND gets SIGTERM a fifth of the TTL before the end of the lease
(2s of 10s), and SIGKILL at the end; so do the processes that COMMAND started and that have
stayed in its process group. Only a pause of redlock itself can delay that: then COMMAND is
killed as soon as redlock goes on (fg after a long Ctrl-Z, for example). On Linux and
FreeBSD it also dies if redlock is killed.

INT, TERM, QUIT and HUP are passed on to COMMAND and its process group, USR1 and USR2 to
COMMAND alone; while waiting for the lock they end the wait. What COMMAND leaves running in
the background when it ends by itself is not waited for, and runs without the lock.

Exit status: that of COMMAND, 128+n if signal n ended it (or the wait); and of redlock:
     2  wrong usage
    69  no quorum: too few masters answered, or may vote yet (see redlock doctor), to take
        the lock; COMMAND was not run
    75  the lock is held by another; COMMAND was not run
   121  the lease was lost, or was about to be, and COMMAND was ended
   125  redlock failed otherwise
   126  COMMAND cannot be executed
   127  COMMAND was not found`

// runConfig is one call of `redlock run`.
type runConfig struct {
	masters []master
	name    string
	ttl     time.Duration
	maxTTL  time.Duration // 0: the library's default
	wait    time.Duration // 0: one try; waitForever
	command []string
}

// runCommand returns `redlock run`. command is what follows the "--": see cutCommand.
func runCommand(command []string) *cli.Command {
	return &cli.Command{
		Name:        runCommandName,
		Usage:       "run a command while holding a lock",
		UsageText:   "redlock run [options] NAME -- COMMAND [ARGUMENT...]",
		Description: runDescription,
		Flags: []cli.Flag{
			mastersFlag(),
			&cli.DurationFlag{Name: "ttl", Value: defaultRunTTL,
				Usage: "the lease's `DURATION`: after a crash the lock is free again when it has passed"},
			&cli.DurationFlag{Name: "max-ttl", DefaultText: "10s or --ttl, the larger",
				Usage: "the longest --ttl, a `DURATION`, that anybody uses who locks on these masters: masters that restart do not vote for so long"},
			&cli.DurationFlag{Name: "wait", Value: waitForever, DefaultText: "for ever",
				Usage: "wait for the lock for this `DURATION`; 0: try once"},
		},
		HideHelpCommand: true, // "help" is a good name for a lock
		OnUsageError: func(_ context.Context, _ *cli.Command, err error, _ bool) error {
			if command == nil {
				return missingDashes(err) // the flag was meant for COMMAND, probably
			}
			return &usageError{err}
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

// cutCommand takes "-- COMMAND …" off the arguments of `redlock run`, before the cli package
// sees them: it forgets where the "--" was, and reads flags behind arguments as ours. Without
// a "--" command is nil.
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

// runConfigOf reads the call. Its errors do not repeat arguments: see noArguments.
func runConfigOf(cmd *cli.Command, command []string) (runConfig, error) {
	cfg := runConfig{name: cmd.Args().First(), ttl: cmd.Duration("ttl"), maxTTL: cmd.Duration("max-ttl"), wait: cmd.Duration("wait"), command: command}
	switch {
	case command == nil:
		return cfg, missingDashes(errors.New("run needs a -- before the command"))
	case cmd.NArg() == 0 || cfg.name == "":
		return cfg, usageErrorf("run needs the NAME of a lock before the --")
	case cmd.NArg() > 1:
		return cfg, usageErrorf("run takes one NAME before the --, and there are %d", cmd.NArg())
	case strings.Contains(cfg.name, "://") && strings.Contains(cfg.name, "@"):
		return cfg, usageErrorf("a URL is not the name of a lock")
	case len(command) == 0 || command[0] == "":
		return cfg, usageErrorf("run needs a COMMAND after the --")
	case cfg.ttl <= 0:
		return cfg, usageErrorf("--ttl is %v, want more than 0", cfg.ttl)
	case cmd.IsSet("max-ttl") && cfg.maxTTL < cfg.ttl:
		return cfg, usageErrorf("--max-ttl is %v, want no less than --ttl, %v", cfg.maxTTL, cfg.ttl)
	case cmd.IsSet("wait") && cfg.wait < 0:
		return cfg, usageErrorf("--wait is %v, want 0 or more", cfg.wait)
	}
	var err error
	cfg.masters, err = needMasters(cmd, " NAME -- COMMAND …")
	return cfg, err
}

// runLocked runs the command under the lock. Its error says what redlock exits with.
func runLocked(ctx context.Context, cfg runConfig, errOut io.Writer) error {
	cmd, err := cfg.prepare() // before the lock is taken: nobody shall wait for a typing error
	if err != nil {
		return err
	}
	in := listen()
	defer in.close()
	patient := newPatientWriter(errOut)
	defer patient.flush() // after the Client is closed, which logs no more then
	log := slog.New(slog.NewTextHandler(patient, nil))
	wait := &lockWait{name: cfg.name, limit: cfg.wait, log: log, began: time.Now()}
	var urls []string
	for _, m := range cfg.masters {
		urls = append(urls, m.url)
	}
	client, err := redlock.Open(urls, &redlock.Options{
		// The job's own end bounds how long the lock is held, and redlock dies with it.
		LockOptions: redlock.LockOptions{TTL: cfg.ttl, MaxHold: -1, Fencing: true},
		MaxTTL:      cfg.maxTTL,
		Logger:      log,
		Trace:       &redlock.Trace{AttemptDone: wait.attemptDone},
	})
	if err != nil {
		return &usageError{cfg.redact(err)}
	}
	defer client.Close()
	wait.masters = client.Masters
	lock, err := client.NewLocker(cfg.name, nil)
	if err != nil {
		return &usageError{cfg.redact(err)}
	}
	if err := wait.lock(ctx, lock, in); err != nil {
		return cfg.redact(err)
	}
	return cfg.redact(cfg.hold(cmd, lock, in, log))
}

// hold runs cmd while lock, which is locked, lasts, and unlocks it.
func (cfg runConfig) hold(cmd *exec.Cmd, lock *redlock.Locker, in *inbox, log *slog.Logger) error {
	lease := lock.Lease()
	cmd.Env = append(cmd.Env, fenceEnv+"="+strconv.FormatUint(lease.Fence(), 10))
	j := &job{name: cfg.name, lease: lease, grace: cfg.ttl / graceFraction, inbox: in, log: log}
	status, err := j.run(cmd)
	lost := lease.Err() // before the unlock, which ends the lease
	unlockErr := lock.UnlockContext(context.Background())
	if lost == nil && errors.Is(unlockErr, redlock.ErrLost) {
		lost = unlockErr
	}
	if lost == nil && j.killed {
		lost = redlock.ErrLost
	}
	if unlockErr != nil && lost == nil {
		log.Warn("redlock: the lock may stay taken until its lease runs out", "name", cfg.name, "err", cfg.redact(unlockErr))
	}
	switch {
	case err != nil:
		return notExecuted(err)
	case j.killed:
		return &statusError{exitLost, fmt.Errorf("%w; the command was killed", lost)}
	case j.told && lost == nil:
		return &statusError{exitLost, fmt.Errorf("the lease of %q could not be renewed; the command was ended before it ran out", cfg.name)}
	case j.told:
		return &statusError{exitLost, fmt.Errorf("%w; the command was ended before", lost)}
	case lost != nil:
		return &statusError{exitLost, fmt.Errorf("%w; the command ended after that, with status %d", lost, status)}
	case status != 0:
		return &statusError{status: status}
	}
	return nil
}

// prepare returns the command, or an error if there is no such.
func (cfg runConfig) prepare() (*exec.Cmd, error) {
	cmd := exec.Command(cfg.command[0], cfg.command[1:]...)
	if errors.Is(cmd.Err, exec.ErrDot) {
		cmd.Err = nil // PATH is the user's to choose, as with a shell
	}
	if cmd.Err == nil {
		_, cmd.Err = exec.LookPath(cmd.Path) // exec.Command does not look at a path with slashes
	}
	if cmd.Err != nil {
		return nil, notExecuted(cmd.Err)
	}
	// The files themselves and no copies: a terminal stays one, and nobody is left to read
	// a pipe when the command is gone.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), nameEnv+"="+cfg.name)
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

// redact returns err without the masters' credentials; nil for nil. The library names no
// password: this is a second fence behind it.
func (cfg runConfig) redact(err error) error {
	if err == nil {
		return nil
	}
	var secrets []string
	for _, m := range cfg.masters {
		secrets = append(secrets, m.secrets()...)
	}
	clean := strings.NewReplacer(secrets...).Replace(err.Error())
	status := (*statusError)(nil)
	switch {
	case clean == err.Error():
		return err
	case errors.As(err, &status):
		return &statusError{status.status, errors.New(clean)}
	}
	return errors.New(clean)
}
