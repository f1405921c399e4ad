package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/urfave/cli/v3"

	"github.com/redlock-go/redlock/internal/incarnation"
	redismaster "github.com/redlock-go/redlock/internal/master"
)

const doctorDescription = `Asks each master what it is and since when its memory is known, and says whether its votes
count. A server that is new to redlock, or has restarted, or has lost its memory, may have
forgotten locks. So its votes do not count before the last of those has run out, which is
after MaxTTL and 2s more; while that leaves too few masters, a first Lock waits.

The times are of the master's own clock. What is known is kept in redlock:incarnation, in
the database that the URL selects. Without --adopt nothing is changed.

--adopt declares that nobody holds a lock on these masters, so that their votes count at
once. Use it for servers that were just created, or while every client is stopped: if
somebody does hold a lock, another may get it too. With fences (redlock run has them) nobody
must have held one for 2s, either. Masters that must not vote are left alone.

Exit status: 0 if a quorum may vote at once, 69 if not, 2 for wrong usage, 130 if interrupted.`

const (
	// doctorPatience bounds connecting to a master, and each of its replies.
	doctorPatience = time.Second

	// defaultMaxTTL is that of redlock.Options.
	defaultMaxTTL = 10 * time.Second
)

// doctorCommand returns `redlock doctor`.
func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:        "doctor",
		Usage:       "say what each master is, and whether its votes count; adopt new ones",
		Description: doctorDescription,
		Flags: []cli.Flag{
			mastersFlag(),
			&cli.BoolFlag{Name: "adopt",
				Usage: "declare that nobody holds a lock on these masters, so that their votes count at once"},
			&cli.DurationFlag{Name: "max-ttl", Value: defaultMaxTTL,
				Usage: "the clients' Options.MaxTTL, a `DURATION`; for redlock run with a longer --ttl, that"},
		},
		OnUsageError: onUsageError,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := noArguments(cmd); err != nil {
				return err
			}
			maxTTL := cmd.Duration("max-ttl")
			if maxTTL <= 0 {
				return usageErrorf("--max-ttl is %v, want more than 0", maxTTL)
			}
			masters, err := needMasters(cmd, "")
			if err != nil {
				return err
			}
			return runDoctor(ctx, masters, cmd.Bool("adopt"), maxTTL, cmd.Root().Writer)
		},
	}
}

// runDoctor examines the masters, adopts them before if it is told to, and writes what it
// found.
func runDoctor(ctx context.Context, masters []master, adopting bool, maxTTL time.Duration, out io.Writer) error {
	findings := examineAll(ctx, masters)
	if adopting && ctx.Err() == nil {
		fmt.Fprintln(out, strings.Join(adoptAll(ctx, masters, findings), "\n")+"\n")
		findings = examineAll(ctx, masters) // what the masters say now, not what we believe
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	d := diagnose(findings, maxTTL)
	fmt.Fprint(out, table(findings, d.quarantine), "\n", d)
	if d.now < d.need {
		return &statusError{status: exitNoQuorum} // all is said
	}
	return nil
}

// A finding is what a master says of itself.
type finding struct {
	name    string
	unheard error  // why it cannot be asked, as far as we need
	role    string // empty if it does not tell
	run     string // the run_id of its process; empty if it does not tell
	refusal error  // why it must not vote; nil if it may

	look  incarnation.Look // if it may vote
	ahead time.Duration    // by how much its clock is ahead of ours, negative if behind: at least
}

// wait returns in what time the master's votes count, for clients with this quarantine, and
// whether they will at all if nothing but time passes.
func (f finding) wait(quarantine time.Duration) (time.Duration, bool) {
	switch {
	case f.unheard != nil || f.refusal != nil:
		return 0, false
	case f.look.Why != incarnation.Holds:
		return quarantine, true // from the first look of a client on, which writes the record
	case f.look.Record.Adopted:
		return 0, true
	}
	return max(0, quarantine-f.look.Age()), true
}

// examineAll examines the masters, all at once: some may take their time. Of those that are
// one server the first may vote.
func examineAll(ctx context.Context, masters []master) []finding {
	findings := make([]finding, len(masters))
	var wg sync.WaitGroup
	for i, m := range masters {
		wg.Go(func() { findings[i] = examine(ctx, m) })
	}
	wg.Wait()
	first := make(map[string]string) // by run_id: the first master's name
	for i := range findings {
		f := &findings[i]
		if f.run == "" || f.refusal != nil {
			continue
		}
		if name, twice := first[f.run]; twice {
			f.refusal = fmt.Errorf("it is the same server as %s", name)
		} else {
			first[f.run] = f.name
		}
	}
	return findings
}

// examine asks a master what it is, and changes nothing there.
func examine(ctx context.Context, m master) finding {
	conn, err := m.dial(ctx, doctorPatience)
	if err != nil {
		return finding{name: m.name, unheard: unheard(m, err)}
	}
	defer conn.Close()
	info, infoErr := redis.String(conn.Do("INFO"))
	if infoErr != nil && conn.Err() != nil {
		return finding{name: m.name, unheard: unheard(m, infoErr)}
	}
	// A server that forbids INFO alone can still vote, and tells no role.
	f := finding{name: m.name, role: roleOf(info), run: redismaster.InfoField(info, "run_id"), refusal: redismaster.Judge(info)}
	if f.refusal != nil {
		return f
	}
	before := time.Now()
	f.look, err = incarnation.Read(conn)
	after := time.Now()
	switch {
	case err != nil && (infoErr != nil || conn.Err() != nil):
		return finding{name: m.name, unheard: unheard(m, err)}
	case err != nil:
		f.unheard = fmt.Errorf("its record cannot be read: %w", plain(m, err))
		return f
	}
	if now := f.look.Now; now.After(after) {
		f.ahead = now.Sub(after)
	} else if now.Before(before) {
		f.ahead = now.Sub(before)
	}
	return f
}

// adoptAll adopts the masters that may vote, and returns a line on each.
func adoptAll(ctx context.Context, masters []master, findings []finding) []string {
	lines := make([]string, len(masters))
	var wg sync.WaitGroup
	for i, f := range findings {
		switch {
		case f.unheard != nil:
			lines[i] = fmt.Sprintf("%s: not adopted: %v", f.name, f.unheard)
		case f.refusal != nil:
			lines[i] = fmt.Sprintf("%s: not adopted: %v", f.name, f.refusal)
		case f.look.Why == incarnation.Holds && f.look.Record.Adopted:
			lines[i] = fmt.Sprintf("%s: was adopted before", f.name)
		default:
			wg.Go(func() {
				lines[i] = fmt.Sprintf("%s: adopted", f.name)
				if err := adopt(ctx, masters[i]); err != nil {
					lines[i] = fmt.Sprintf("%s: not adopted: %v", f.name, err)
				}
			})
		}
	}
	wg.Wait()
	return lines
}

// adopt declares that nobody holds a lock on a master.
func adopt(ctx context.Context, m master) error {
	conn, err := m.dial(ctx, doctorPatience)
	if err != nil {
		return plain(m, err)
	}
	defer conn.Close()
	if _, err := incarnation.Adopt(conn); err != nil {
		return plain(m, err)
	}
	return nil
}

// unheard returns why a master cannot be asked.
func unheard(m master, err error) error {
	why := "not reachable"
	if errors.As(err, new(redis.Error)) {
		why = "does not let us in"
	}
	return fmt.Errorf("%s: %w", why, plain(m, err))
}

// plain returns an error about a master in few words, in one line and without its password.
func plain(m master, err error) error {
	var op *net.OpError
	var timeout net.Error
	text := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		text = fmt.Sprintf("no answer within %v", doctorPatience)
	case errors.Is(err, io.EOF):
		text = "it closes the connection"
	case errors.As(err, &op):
		text = op.Err.Error() // without the address, which stands beside it
	}
	text = strings.Join(strings.Fields(text), " ")
	return errors.New(strings.NewReplacer(m.secrets()...).Replace(text))
}

// roleOf returns a server's role by its INFO, in redlock's words, or "".
func roleOf(info string) string {
	role := redismaster.InfoField(info, "role")
	switch {
	case redismaster.InfoField(info, "cluster_enabled") == "1":
		return "cluster"
	case role == "slave":
		return "replica"
	}
	return role
}
