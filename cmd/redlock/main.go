// Command redlock runs commands under distributed locks over independent Redis masters, and
// examines the masters.
//
//	redlock run     run a command while holding a lock, or a permit of a semaphore
//	redlock status  show who holds locks, and who waits
//	redlock break   end somebody else's lease
//	redlock doctor  examine the masters; adopt new ones
//	redlock verify  check the locks on your own masters, with faults
//	redlock demo    show updates that are lost without a lock, and none with it
//
// The exit status is 0 for success, 1 for failure, 2 for wrong usage, 69 if there is no quorum
// of the masters, and 130 if the command was interrupted. redlock run exits with the status of
// its command, or with one that its help lists. Errors go to standard error as
// "redlock: error: …", advice as "redlock: hint: …".
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/redlock-go/redlock/internal/masterurl"
	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/supervise"
)

// The exit statuses, which the help lists.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 + SIGINT, as shells report it; for SIGTERM too
)

func main() {
	if supervise.Left != "" {
		deleteLeft(supervise.Left)
		return
	}
	if len(os.Args) > 1 && os.Args[1] == runCommandName {
		// `redlock run` handles its signals itself: it passes them on to its command.
		os.Exit(run(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	// The first signal ends the command in order. After it, stop restores the default
	// behaviour, so that a second signal kills the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// run executes args and returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	args, command := cutCommand(args)
	if len(command) > 0 && command[len(command)-1] == completionFlag {
		if onlyErrorsShow(out, errOut) {
			return exitUsage // it would be printed into the line that somebody types
		}
		return report(ctx, errCompletion, errOut)
	}
	err := rootCommand(in, out, errOut, command).Run(ctx, args)
	return report(ctx, err, errOut)
}

// completionFlag is what the cli package's completion scripts append to a command line.
const completionFlag = "--generate-shell-completion"

// errCompletion is the error of a COMMAND whose last argument is completionFlag. Probably, a shell asks how to complete the arguments of
// COMMAND, which then must not run: redlock does not know how.
var errCompletion = usageErrorf("%s as the last argument of COMMAND is what a shell adds to complete a command line, so COMMAND was not run", completionFlag)

// onlyErrorsShow reports whether errors are printed to a terminal and the output is not, as when a shell asks how to complete a line.
func onlyErrorsShow(out, errOut io.Writer) bool {
	shows := func(w io.Writer) bool {
		f, isFile := w.(*os.File)
		if !isFile {
			return false
		}
		_, columns := terminalSize(f)
		return columns > 0
	}
	return shows(errOut) && !shows(out)
}

// rootCommand returns the command tree. Each subcommand has a file of its own name. command
// is what cutCommand has cut off.
func rootCommand(in io.Reader, out, errOut io.Writer, command []string) *cli.Command {
	return &cli.Command{
		Name:  "redlock",
		Usage: "distributed locks over independent Redis masters",
		Description: "`redlock demo` needs no Redis and shows in seconds what the lock is for.\n\n" +
			"Exit status: 0 success, 1 failure, 2 wrong usage, 69 no quorum of the\n" +
			"masters, 130 interrupted. `redlock run --help` lists those of run.",
		Commands: []*cli.Command{runCommand(command), statusCommand(), breakCommand(), doctorCommand(), verifyCommand(), demoCommand(), demoWorkerCommand(), verifierCommand(), helpCommand()},
		Version:  version(),

		EnableShellCompletion: true,
		ConfigureShellCompletionCommand: func(c *cli.Command) {
			c.Hidden, c.Usage = false, "print a script that makes a shell complete"
			c.OnUsageError = onUsageError
			for _, shell := range c.Commands {
				shell.OnUsageError = onUsageError
			}
		},

		Reader:       in,
		Writer:       out,
		ErrWriter:    errOut,
		OnUsageError: onUsageError,
		// report prints errors and chooses the status. The cli package's own handler would
		// print some errors and call os.Exit.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if cmd.Args().Present() {
				return unknownCommand(cmd.Args().First())
			}
			return cli.ShowRootCommandHelp(cmd)
		},
	}
}

// helpCommand returns `redlock help`. The cli package's own one prints its usage errors, and
// exits with another status.
func helpCommand() *cli.Command {
	return &cli.Command{
		Name:         "help",
		Aliases:      []string{"h"},
		Usage:        "show help for a command",
		ArgsUsage:    cli.ArgsUsageCommandHelp,
		HideHelp:     true,
		OnUsageError: onUsageError,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if topic := cmd.Args().First(); strings.Contains(topic, "@") {
				return unknownCommand(topic)
			}
			if cmd.Args().Present() {
				return cli.ShowCommandHelp(ctx, cmd.Root(), cmd.Args().First())
			}
			return cli.ShowRootCommandHelp(cmd.Root())
		},
	}
}

// A usageError is an error in the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usageErrorf(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// A hintedError is an error with advice for the user.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }

// A statusError is an error with an exit status. If err is nil, report prints nothing: the
// output already says everything.
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

// withHint returns err with advice, which report prints on its own line.
func withHint(err error, hint string) error { return &hintedError{err, hint} }

// onUsageError words an error of the flag parser. Every command must name it, since the cli
// package does not inherit it.
func onUsageError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	help := cmd.FullName() + " --help"
	if cmd.Name == "help" {
		help = cmd.Root().Name + " --help"
	}
	return &usageError{withHint(flagError(cmd.Name, err), "`"+help+"` lists the flags")}
}

// flagError returns a sentence for an error of the cli package's flag parser, which tells of Go's packages.
func flagError(command string, err error) error {
	// Compiled here, since most processes of the command have no such error.
	match := func(pattern string) []string { return regexp.MustCompile(pattern).FindStringSubmatch(err.Error()) }
	if m := match(`^flag provided but not defined: -+(.*)$`); m != nil {
		if strings.Contains(m[1], "@") { // a URL, maybe with its password
			return fmt.Errorf("%s: a URL is not a flag", command)
		}
		return fmt.Errorf("%s has no flag --%s", command, m[1])
	}
	if m := match(`^flag needs an argument: -+(.*)$`); m != nil {
		return fmt.Errorf("--%s needs a value", m[1])
	}
	if m := match(`(?s)^invalid value (".*") for flag -+([a-z-]+): (time|strconv)`); m != nil {
		want := map[string]string{"time": "a time with a unit, such as 500ms, 30s or 1h30m", "strconv": "a whole number"}[m[3]]
		return fmt.Errorf("--%s is %s, want %s", m[2], m[1], want)
	}
	return err
}

// noArguments returns an error if a command that takes flags only has arguments. It does not
// repeat the argument, which may be a URL with a password.
func noArguments(cmd *cli.Command) error {
	if cmd.Args().Present() {
		return usageErrorf("%s takes no arguments", cmd.Name)
	}
	return nil
}

// unknownCommand returns the error for a first word that names no command.
func unknownCommand(word string) error {
	if strings.Contains(word, "@") { // a URL, maybe with its password
		return usageErrorf("a URL is not a command")
	}
	return usageErrorf("unknown command %q", word)
}

// report prints err, if any, and returns its exit status. An error may repeat an argument, such as the name of a file that
// is not there. If a URL is in that place, its password is not printed.
func report(ctx context.Context, err error, errOut io.Writer) int {
	if err == nil {
		return exitOK
	}
	status := (*statusError)(nil)
	if errors.As(err, &status) && status.err == nil {
		return status.status
	}
	if ctx.Err() != nil {
		// After a signal, every failure is a consequence of it.
		fmt.Fprintln(errOut, "redlock: error: interrupted")
		return exitInterrupted
	}
	fmt.Fprintf(errOut, "redlock: error: %s\n", strings.TrimPrefix(masterurl.Redact(redisconn.Printable(err.Error())), "redlock: "))
	hinted := (*hintedError)(nil)
	if errors.As(err, &hinted) {
		fmt.Fprintf(errOut, "redlock: hint: %s\n", hinted.hint)
	}
	if status != nil {
		return status.status
	}
	// The cli package's own errors are about help for an unknown command. They have a method
	// ExitCode. errors.As must not be used: it would also find an *exec.ExitError.
	_, asked := err.(cli.ExitCoder)
	if usage := (*usageError)(nil); asked || errors.As(err, &usage) {
		if hinted == nil {
			fmt.Fprintln(errOut, "redlock: hint: run `redlock --help` for what it accepts")
		}
		return exitUsage
	}
	return exitFailure
}
