package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/urfave/cli/v3"

	"github.com/redlock-go/redlock/internal/wire"
)

const breakDescription = `Ends the lease by which somebody holds the lock NAME, and passes the lock on.
It says whose lease that is, and asks first. NAME includes the prefix that
clients use, if any.

NAME#3 is the lease of slot 3 of the semaphore NAME, unless somebody holds a
lock NAME#3. It ends with all its slots. 'NAME#*' is all leases of the
semaphore. redlock status NAME shows the slots.

The holder learns of it at its next renewal, after at most a third of the
TTL (3.3s of 10s). A holder that does not renew learns of it when its lease
ends. Until then two clients can hold the lock. Only fences protect the
resource then. If the holder is redlock run, it kills its command when it
learns of it. If the holder has crashed, there is nothing to break: its lock
becomes free by itself.

If readers hold the lock, the leases of all of them end, including those
that began while it asked.

The holder can acquire the lock again.

A key that holds other data, or has no expiry, is not a lock. It is not
deleted, whatever the options.

Exit status: 0 if the lease was ended; 1 if nobody holds the lock, if the
lease had ended before, or if the answer was no; 2 for wrong usage; 69 if no
majority of the masters answers, or if the lease may still be valid: too few
masters have ended it, or its holder has set its keys again; 130 if
interrupted. If it may still be valid, run redlock break again.`

const breakWarning = `The holder notices at its next renewal, within about a third of its TTL. Until
then two clients can hold the lock. If redlock run holds it, its command is
killed when redlock run notices.
`

const breakPermitsWarning = `A holder notices at its next renewal, within about a third of its TTL. Until
then two clients can have the same slot. If redlock run has it, its command is
killed when redlock run notices.
`

// breakCommand returns `redlock break`.
func breakCommand() *cli.Command {
	return &cli.Command{
		Name:            "break",
		Usage:           "end somebody else's lease",
		UsageText:       "redlock break [options] NAME | NAME#SLOT | 'NAME#*'",
		Description:     breakDescription + mastersHelp,
		HideHelpCommand: true, // "help" is a good name for a lock
		Flags: append(connectFlags(),
			&cli.BoolFlag{Name: "force", Usage: "do not ask"},
		),
		OnUsageError: onUsageError,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.NArg() != 1 {
				return usageErrorf("break takes the NAME of one lock, got %d", cmd.NArg())
			}
			name := cmd.Args().First()
			if err := lockName(name); err != nil {
				return err
			}
			masters, err := needMasters(cmd, " NAME")
			if err != nil {
				return err
			}
			b := &breaking{observer: newObserver(masters), name: name, force: cmd.Bool("force"), in: cmd.Root().Reader, out: cmd.Root().Writer}
			defer b.close()
			return b.run(ctx)
		},
	}
}

// A breaking is one call of `redlock break`.
type breaking struct {
	*observer
	name  string
	force bool
	in    io.Reader
	out   io.Writer

	semaphore string          // whose permits are ended; empty for a lock
	readers   map[string]bool // whose leases were ended; those that come later keep theirs
}

func (b *breaking) run(ctx context.Context) error {
	names := []string{b.name}
	semaphore, slot, ok := parseSlotName(b.name)
	if ok {
		names = append(names, semaphore)
	}
	seen := b.observe(ctx, names)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	b.printTroubles(seen)
	if err := seen.quorate(); err != nil {
		return err
	}
	lock, permits := seen.of(b.name), seen.of(semaphore)
	leases := []lockOfNames{lock}
	switch {
	case wire.IsNotALock(lock.problem) && !lock.Held():
		return withHint(fmt.Errorf("%s: %w: nothing was deleted", shown(b.name), lock.problem), "if nobody needs the data, delete the key by hand")
	case lock.problem != nil && !lock.Held():
		return fmt.Errorf("%s: %w", shown(b.name), lock.problem)
	case lock.Token == "" && ok:
		if leases = permits.leasesOf(slot); len(leases) == 0 {
			return fmt.Errorf("nobody holds %s", shown(b.name))
		}
		b.semaphore = semaphore
		leases[len(leases)-1].Queue = permits.permits.Queue
	case lock.Token == "" && lock.isSemaphore():
		return withHint(fmt.Errorf("nobody holds the lock %s", shown(b.name)), fmt.Sprintf("somebody holds permits of the semaphore: redlock break '%s#SLOT'", shown(b.name)))
	case lock.Token == "":
		return fmt.Errorf("nobody holds %s", shown(b.name))
	}
	if err := b.ask(ctx, seen.masters, leases); err != nil {
		return err
	}
	return b.end(ctx, &seen, leases)
}

// parseSlotName splits what redlock break is given to end the lease of a permit: NAME#SLOT, or NAME#* for all, which is -1. It reports
// false for anything else.
func parseSlotName(text string) (name string, slot int, ok bool) {
	at := strings.LastIndexByte(text, '#')
	if at <= 0 {
		return "", 0, false
	}
	if text[at+1:] == "*" {
		return text[:at], -1, true
	}
	n, err := strconv.ParseUint(text[at+1:], 10, 16)
	return text[:at], int(n), err == nil
}

// leasesOf returns the leases that stand in a slot of a semaphore, or in any if slot is -1. Each is named by all its slots.
func (l lockOfNames) leasesOf(slot int) (leases []lockOfNames) {
	for _, s := range l.permits.Slots {
		if slot >= 0 && s.Number != slot || slices.ContainsFunc(leases, func(other lockOfNames) bool { return other.Token == s.Token }) {
			continue
		}
		lease := lockOfNames{name: l.name, Holding: s.Holding}
		for _, other := range l.permits.Slots {
			if other.Token == s.Token {
				lease.slots = append(lease.slots, other.Number)
			}
		}
		leases = append(leases, lease)
	}
	return leases
}

// ask says which leases will end, and returns nil if the user agrees.
func (b *breaking) ask(ctx context.Context, masters int, leases []lockOfNames) error {
	for _, lease := range leases {
		fmt.Fprint(b.out, fold(lease.sentence(masters), "", ""))
	}
	if b.force {
		return nil
	}
	warning, question := breakWarning, "End this lease? [y/N] "
	if b.semaphore != "" {
		warning = breakPermitsWarning
	}
	if len(leases) > 1 {
		question = fmt.Sprintf("End these %d leases? [y/N] ", len(leases))
	}
	fmt.Fprint(b.out, warning, question)
	return b.confirm(ctx)
}

// printTroubles prints a line on each master that has not said everything.
func (b *breaking) printTroubles(seen observation) {
	for _, line := range seen.troubles(b.masters) {
		fmt.Fprint(b.out, fold(line, "", "  "))
	}
}

// sentence says who holds the lock.
func (l lockOfNames) sentence(masters int) string {
	verb := "is held by"
	switch {
	case !l.Held():
		verb = "is not held; too few masters have a key of"
	case l.MayBeKept():
		verb = "is held, or kept while nobody holds it, by"
	}
	text := fmt.Sprintf("%s %s %s, on %d of %s, for %s more", l.title(), verb, l.holder(), l.Masters, plural(masters, "master"), short(l.Left))
	if l.Waiting > 0 {
		who := map[bool]string{true: "client", false: "call"}[l.slots == nil]
		text += fmt.Sprintf("; %s: %s", map[bool]string{true: "1 " + who + " waits", false: plural(l.Waiting, who) + " wait"}[l.Waiting == 1], waiters(l.Queue))
	}
	return text + "."
}

// holder returns who has the token.
func (l lockOfNames) holder() string {
	if l.Token != wire.ReadersMarker {
		return l.owner()
	}
	return strings.Replace(l.owner(), " reading", map[bool]string{true: " reader", false: " readers"}[len(l.Readers) == 1], 1)
}

// lease names what ends.
func (l lockOfNames) lease() string {
	if l.Token == wire.ReadersMarker {
		return "the leases of " + l.holder()
	}
	if l.slots != nil {
		return "the lease of " + l.holder() + " (" + l.title() + ")"
	}
	return "the lease of " + l.holder()
}

// confirm returns nil if the user says yes.
func (b *breaking) confirm(ctx context.Context) error {
	answer := make(chan string, 1)
	go func() { // which a signal must not wait for
		line, _ := bufio.NewReader(b.in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(b.out)
		return ctx.Err()
	case word := <-answer:
		switch word {
		case "y", "yes":
			return nil
		case "":
			fmt.Fprintln(b.out) // nobody has ended the line
			return withHint(errors.New("nothing was ended, since nobody has said yes"), "--force does not ask")
		}
		return errors.New("nothing was ended")
	}
}

// A renewal that is under way while keys are deleted may still succeed, and its holder then sets the
// deleted keys again. So the keys are deleted until there is none, at most breakPasses times.
const (
	breakPasses = 5
	breakPause  = 250 * time.Millisecond
)

// An ending is what has become of a lease that is ended.
type ending struct {
	lease   lockOfNames
	masters map[int]bool // where it was ended
	others  int          // on how many the key holds another token
	clean   bool         // no master has it any more
}

// end ends the leases on all masters: those that were shown, and no other that has come since.
func (b *breaking) end(ctx context.Context, seen *observation, leases []lockOfNames) (err error) {
	b.readers = make(map[string]bool)
	var all []*ending
	for _, lease := range leases {
		all = append(all, &ending{lease: lease, masters: make(map[int]bool)})
	}
	for pass := 0; pass < breakPasses && ctx.Err() == nil && slices.ContainsFunc(all, func(e *ending) bool { return !e.clean }); pass++ {
		if pass > 0 && leases[0].Token == wire.ReadersMarker && len(b.readers) == 0 {
			all[0].clean = true // it was only the key that was left
			break
		}
		if pass > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(breakPause):
			}
		}
		for _, e := range all {
			if e.clean {
				continue
			}
			var deleted []int
			deleted, e.others = b.remove(seen, e.lease.Token)
			for _, i := range deleted {
				e.masters[i] = true
			}
			e.clean = len(deleted) == 0
		}
	}
	b.printTroubles(*seen)
	for _, e := range all {
		err = cmp.Or(err, b.verdict(seen, e))
	}
	return err
}

// verdict says that a lease was ended, or returns an error that says why not.
func (b *breaking) verdict(seen *observation, e *ending) error {
	ended, failed := len(e.masters), 0
	for _, err := range seen.failures {
		if err != nil {
			failed++
		}
	}
	lease := e.lease.lease()
	switch {
	case !e.clean:
		return &statusError{exitNoQuorum, fmt.Errorf("%s may still be valid: a holder has set its keys again", lease)}
	case failed >= seen.need || failed > 0 && e.lease.Masters-ended >= seen.need:
		return &statusError{exitNoQuorum, fmt.Errorf("%s may still be valid: %d of %s did not end it", lease, failed, plural(seen.masters, "master"))}
	case ended == 0 && e.others > 0:
		return fmt.Errorf("%s had ended before, and somebody else holds %s now", lease, shown(b.name))
	case ended == 0:
		return fmt.Errorf("%s had ended before", lease)
	}
	fmt.Fprintf(b.out, "Ended %s on %d of %s.\n", lease, ended, plural(seen.masters, "master"))
	return nil
}

// remove deletes the keys that hold the token. It returns the masters where it did, and on how many the key
// holds another token.
func (b *breaking) remove(seen *observation, token string) (deleted []int, others int) {
	var mu sync.Mutex // guards the results
	readers := slices.Sorted(maps.Keys(b.readers))
	b.each(seen, func(i int) error {
		q := wire.NewBreak(b.name, token)
		if b.semaphore != "" {
			q = wire.NewBreakPermit(b.semaphore, token)
		} else if token == wire.ReadersMarker {
			q = wire.NewBreakReaders(b.name, readers)
		}
		some, outcome, err := end(b.conns[i], q)
		if token == wire.ReadersMarker && outcome == wire.Granted {
			_, _, err = end(b.conns[i], wire.NewPass(b.name))
		}
		mu.Lock()
		defer mu.Unlock()
		for _, reader := range some {
			b.readers[reader] = true
		}
		switch outcome {
		case wire.Granted, wire.PassedOn:
			deleted = append(deleted, i)
		case wire.OtherToken:
			others++
		}
		return err
	})
	return deleted, others
}

// end ends what a query asks to end.
func end(conn redis.Conn, q wire.Query) (ended []string, o wire.Outcome, err error) {
	replies, err := readQueries(conn, q)
	if err != nil {
		return nil, wire.Failed, err
	}
	return wire.DecodeBreak(replies[0])
}
