package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
)

const statusDescription = `Shows who holds the locks NAME, and who waits for them. NAME includes the
prefix that clients use, if any. With --prefix it shows all locks under
PREFIX, which must be used for nothing else. With neither it shows every key
that looks like a lock. The masters are only read.
` + fieldsHelp + `
With --watch it shows them again and again: on a terminal in place, elsewhere
one table below the other; with --json, one object a line. A * before OWNER
marks for 5 s that another call holds the lock than before, perhaps of the
same client. Each time costs the masters as much as one call of status. It
ends with the terminal, or by Ctrl-C.

Exit status: 0 if a majority of the masters answered, 2 for wrong usage, 69
if not, 130 if interrupted.`

// statusCommand returns `redlock status`.
func statusCommand() *cli.Command {
	return &cli.Command{
		Name:            "status",
		Usage:           "show who holds locks, and who waits",
		UsageText:       "redlock status [options] [NAME...]",
		Description:     statusDescription + mastersHelp,
		HideHelpCommand: true, // "help" is a good name for a lock
		Flags: append(connectFlags(),
			&cli.StringFlag{Name: "prefix", Usage: "show all locks whose names begin with `PREFIX`"},
			&cli.GenericFlag{Name: "watch", Value: new(watchInterval), Usage: "show them again, every second or as often as `[=2s]` says"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON: one object, on one line"},
		),
		OnUsageError: onUsageError,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			s, err := statusOf(cmd)
			if err != nil {
				return err
			}
			defer s.close()
			return s.run(ctx, cmd.Root().Writer)
		},
	}
}

// A status is one call of `redlock status`.
type status struct {
	*observer
	names []string  // nil: all
	watch *watching // nil: once
	json  bool
}

// statusOf reads the command line.
func statusOf(cmd *cli.Command) (*status, error) {
	var names []string
	if cmd.Args().Present() {
		names = cmd.Args().Slice()
	}
	for _, name := range names {
		if err := lockName(name); err != nil {
			return nil, err
		}
	}
	switch prefix := cmd.String("prefix"); {
	case cmd.IsSet("prefix") && len(names) > 0:
		return nil, usageErrorf("status takes names or --prefix, not both")
	case strings.HasPrefix(prefix, "redlock:"):
		return nil, usageErrorf("--prefix begins with redlock:, which is reserved")
	}
	masters, err := needMasters(cmd, " NAME")
	if err != nil {
		return nil, err
	}
	s := &status{observer: newObserver(masters), names: names, json: cmd.Bool("json")}
	if every, ok := cmd.Generic("watch").(*watchInterval); ok && *every > 0 {
		s.watch = &watching{every: time.Duration(*every)}
	}
	s.prefix = cmd.String("prefix")
	return s, nil
}

// lockName returns an error for a name that no lock has. It does not repeat the name: see noArguments.
func lockName(name string) error {
	switch {
	case name == "":
		return usageErrorf("a lock needs a name")
	case isURL(name):
		return usageErrorf("a URL is not the name of a lock")
	case strings.HasPrefix(name, "redlock:"):
		return usageErrorf("a name that begins with redlock: is reserved")
	}
	return nil
}

// run shows the locks once, or until it is interrupted, or its output is closed.
func (s *status) run(ctx context.Context, out io.Writer) error {
	screen := newScreen(out, s.watch != nil && !s.json)
	for {
		seen := s.observe(ctx, s.names)
		if ctx.Err() != nil {
			return s.interrupted(ctx)
		}
		quorate := seen.quorate()
		var err error
		switch {
		case s.json:
			err = s.printJSON(out, seen)
		case s.watch != nil:
			err = screen.show(s.watchedText(seen, quorate))
		default:
			err = screen.show(s.text(seen))
		}
		if err != nil {
			return err
		}
		if s.watch == nil {
			return quorate
		}
		select {
		case <-time.After(s.watch.every):
		case <-ctx.Done():
			return s.interrupted(ctx)
		}
	}
}

// text renders what was seen as a table.
func (s *status) text(seen observation) string {
	var b strings.Builder
	if len(seen.locks) > 0 {
		b.WriteString(locksTable(seen, s.watch).String())
	} else if seen.answered >= seen.need {
		b.WriteString("No locks.\n")
	}
	if seen.more > 0 {
		fmt.Fprintf(&b, "%d more locks are not shown: use --prefix.\n", seen.more)
	}
	if lines := seen.troubles(s.masters); len(lines) > 0 {
		b.WriteString("\n" + fold(strings.Join(lines, "\n"), "", "  "))
	}
	return b.String()
}

// statusJSON is the JSON form of what was seen.
type statusJSON struct {
	Masters    int             `json:"masters"`
	Need       int             `json:"need"`
	Answered   int             `json:"answered"`
	Locks      []lockJSON      `json:"locks"`
	Semaphores []semaphoreJSON `json:"semaphores"`
	More       int             `json:"more,omitempty"`
	Troubles   []string        `json:"troubles"`
}

// printJSON prints what was seen as one line.
func (s *status) printJSON(out io.Writer, seen observation) error {
	all := statusJSON{Masters: seen.masters, Need: seen.need, Answered: seen.answered, Locks: []lockJSON{}, Semaphores: []semaphoreJSON{},
		More: max(seen.more, 0), Troubles: append([]string{}, seen.troubles(s.masters)...)}
	for _, l := range seen.locks {
		if l.isSemaphore() {
			all.Semaphores = append(all.Semaphores, l.semaphoreJSON())
		}
		if l.isLock() || !l.isSemaphore() {
			all.Locks = append(all.Locks, l.lockJSON())
		}
	}
	return writeJSON(out, all)
}

// watchedText renders what was seen for --watch. That there is no quorum may pass.
func (s *status) watchedText(seen observation, quorate error) string {
	s.watch.look(seen, time.Now())
	text := s.text(seen)
	if quorate != nil {
		text += "\n" + quorate.Error() + "\n"
	}
	return text + s.watch.footer(len(s.watch.changed) > 0)
}

// interrupted returns the error of a call that a signal has ended. To end --watch so is no error.
func (s *status) interrupted(ctx context.Context) error {
	if s.watch != nil {
		return &statusError{status: exitInterrupted}
	}
	return ctx.Err()
}
