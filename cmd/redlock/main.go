// Command redlock shows and uses distributed locks over independent Redis masters.
//
//	redlock run     run a command while holding a lock
//	redlock doctor  say what each master is, and whether its votes count; adopt new ones
//	redlock demo    count in one file from four processes, without a lock and with one
//
// It exits with status 0 if all went well, 1 if it failed, 2 if it was called wrongly, 69
// if there is no quorum of the masters, and 130 if it was interrupted; redlock run exits
// with its command's status, or with one that its help lists. Errors go to standard error as "redlock: error: …".
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"
)

// The command's exit statuses, as its help promises them.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 + SIGINT, the shells' way of saying so; for SIGTERM too
)

// moduleURL is where a newcomer reads on.
const moduleURL = "github.com/redlock-go/redlock"

func main() {
	if len(os.Args) > 1 && os.Args[1] == runCommandName {
		// It listens by itself: its signals are its command's.
		os.Exit(run(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	// The first signal asks everything to end in order; once it has come, stop lets a
	// second one kill the process, for those whose patience ends before our clean-up.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process around it: it executes args and returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	args, command := cutCommand(args)
	err := rootCommand(in, out, errOut, command).Run(ctx, args)
	return report(ctx, err, errOut)
}

// rootCommand returns the command tree. Each subcommand lives in a file of its own name.
// command is what cutCommand has cut off.
func rootCommand(in io.Reader, out, errOut io.Writer, command []string) *cli.Command {
	return &cli.Command{
		Name:  "redlock",
		Usage: "distributed locks over independent Redis masters",
		Description: "New here? `redlock demo` needs no Redis and shows in seconds what the lock is for.\n" +
			"Exit status: 0 success, 1 failure, 2 wrong usage, 69 no quorum of the masters, 130\n" +
			"interrupted; `redlock run --help` lists its own.",
		Commands:     []*cli.Command{runCommand(command), doctorCommand(), demoCommand(), demoWorkerCommand()},
		Reader:       in,
		Writer:       out,
		ErrWriter:    errOut,
		OnUsageError: onUsageError,
		// report prints errors and chooses the status, once and for all commands; the
		// package's own handler would print some of them and call os.Exit by itself.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if cmd.Args().Present() {
				return unknownCommand(cmd.Args().First())
			}
			return cli.ShowRootCommandHelp(cmd)
		},
	}
}

// A usageError says that the command was called wrongly.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usageErrorf(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// A hintedError carries what the user may do about it.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }

// A statusError chooses the exit status itself. Without an error there is nothing to print:
// the status is that of a command which has said what there is to say.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

// withHint returns err with advice, which report prints on a line of its own.
func withHint(err error, hint string) error { return &hintedError{err, hint} }

// onUsageError marks what the flag parser refuses. Every command names it: the cli package
// does not hand it down.
func onUsageError(_ context.Context, _ *cli.Command, err error, _ bool) error {
	return &usageError{err}
}

// noArguments is an Action's first question where a command takes flags only. It does not
// repeat the argument, which may be a URL that lost its flag, password and all.
func noArguments(cmd *cli.Command) error {
	if cmd.Args().Present() {
		return usageErrorf("%s takes no arguments", cmd.Name)
	}
	return nil
}

// unknownCommand is the error for a first word that names no command.
func unknownCommand(word string) error {
	if strings.Contains(word, "@") { // a URL, maybe with its password
		return usageErrorf("a URL is not a command")
	}
	return usageErrorf("unknown command %q", word)
}

// report prints err, if any, and returns the exit status it stands for.
func report(ctx context.Context, err error, errOut io.Writer) int {
	if err == nil {
		return exitOK
	}
	status := (*statusError)(nil)
	if errors.As(err, &status) && status.err == nil {
		return status.status
	}
	if ctx.Err() != nil {
		// Whatever failed after the signal failed because of it.
		fmt.Fprintln(errOut, "redlock: error: interrupted")
		return exitInterrupted
	}
	fmt.Fprintf(errOut, "redlock: error: %s\n", strings.TrimPrefix(err.Error(), "redlock: "))
	if hinted := (*hintedError)(nil); errors.As(err, &hinted) {
		fmt.Fprintf(errOut, "redlock: hint: %s\n", hinted.hint)
	}
	if status != nil {
		return status.status
	}
	// An error of the cli package itself is about help for what does not exist. It is told
	// by its method; looked for by errors.As, a worker's *exec.ExitError would pass for one.
	_, asked := err.(cli.ExitCoder)
	if usage := (*usageError)(nil); asked || errors.As(err, &usage) {
		fmt.Fprintln(errOut, "redlock: hint: run `redlock --help` for what it accepts")
		return exitUsage
	}
	return exitFailure
}
