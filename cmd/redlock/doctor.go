package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/urfave/cli/v3"

	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/wire"
)

const doctorDescription = `Connects to each master and says whether its votes count, and why not. It
tries every command that clients send, on keys of its own that it deletes.

  VOTES    yes, no, or how long until its votes count
  RTT      the median of five round trips, compared with NodeTimeout
  CLOCK    how far the master's clock is ahead (+) or behind (-)
  CLIENTS  how many clients are subscribed; - if PUBSUB CHANNELS is
           forbidden, which clients do not need

Clients that have another list of masters are named: two clients with
different lists can hold the same lock. Clients without a subscription are
not seen.

Below each master are the age of its memory, the largest MaxTTL that a client
has declared, and settings. CONFIG GET, which clients do not need, says more.
Colors are used on terminals, unless $NO_COLOR is set.

A master that is new to redlock, or has restarted, or has lost data, may
have lost locks. Its votes count after a quarantine, which lasts for the
largest MaxTTL of any client and 2s more. It begins when the first client
connects; the doctor is none. Until its end locks have to wait, unless enough
other masters can vote. Times are by the master's own clock.

--adopt declares that nobody holds a lock on these masters, so that their
votes count at once. Use it for servers that were just created, with the
whole list of masters. It refuses if somebody may hold a lock: if clients
are connected, if a master has a key that looks like a lock, if a master has
lost data or was first used within the last MaxTTL and 2s, or if it cannot
tell, because a master does not answer or forbids SCAN, GETRANGE or PUBSUB
CHANNELS. --force adopts in any case: if somebody does hold a lock, a second
client can get it too. If clients use fences, as redlock run does, no lock
may have been held in the last 2s.

The masters and the running clients keep the largest MaxTTL that any client
has declared, also if that client has ended. To lower it, stop all clients,
then --adopt --max-ttl D, and start the clients again. It refuses as above.

A master that replaces another one is not adopted: its quarantine protects
the locks that the other one has granted. So --adopt holds only for clients
that have as many masters as --masters names, and it refuses one server
alone, unless --single says that clients have this one master.

--next says how --masters can be changed to another list while clients run:
which masters stay, leave and come, how many can vote, which clients still
have the old list, and the next step. --stopped-for-good says that the
masters that leave and do not answer will not come back: they were destroyed,
or their services are disabled.

--acl prints the ACL rule with the least rights that clients need, and does
nothing else. With --adopt it includes the rights that --adopt needs. With
--status it prints the rule for a user that may only run redlock status.
With --masters it includes SELECT if a URL has a database. Of the other
flags, only --prefix may stand beside it.

Exit status: 0 if a quorum can vote now; 1 if --adopt refused, or if clients
must not have the list of --next yet; 2 for wrong usage; 69 if too few
masters can vote now, or answer within NodeTimeout; 130 if interrupted.`

// doctorPatience bounds connecting to a master, and each of its replies. Tests raise it.
var doctorPatience = 3 * time.Second

const (
	// defaultMaxTTL is that of redlock.Options.
	defaultMaxTTL = 10 * time.Second

	// longestTTL is the longest of redlock.Options.
	longestTTL = 7 * 24 * time.Hour
)

// doctorCommand returns `redlock doctor`.
func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:        "doctor",
		Usage:       "examine the masters; adopt new ones",
		Description: doctorDescription + mastersHelp,
		Flags: append(connectFlags(),
			&cli.StringFlag{Name: "prefix", Usage: "`PREFIX` of the clients' lock names"},
			&cli.DurationFlag{Name: "ttl", Value: defaultRunTTL, Usage: "TTL of the clients"},
			&cli.DurationFlag{Name: "max-ttl", Value: defaultMaxTTL, Usage: "MaxTTL of the clients"},
			&cli.DurationFlag{Name: "node-timeout", DefaultText: "automatic", Usage: "NodeTimeout of the clients"},
			&cli.BoolFlag{Name: "adopt", Usage: "declare that nobody holds a lock on the masters"},
			&cli.BoolFlag{Name: "force", Usage: "with --adopt: although somebody may hold a lock"},
			&cli.BoolFlag{Name: "single", Usage: "with --adopt: clients have this one master"},
			&cli.StringFlag{Name: "next", Usage: "say how to change --masters to this list of `URLS`"},
			&cli.BoolFlag{Name: "stopped-for-good", Usage: "with --next: silent masters stay down"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON: one object, on one line"},
			&cli.BoolFlag{Name: "acl", Usage: "print the ACL rule with the least rights"},
			&cli.BoolFlag{Name: "status", Usage: "with --acl: for redlock status alone"},
		),
		OnUsageError: onUsageError,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := noArguments(cmd); err != nil {
				return err
			}
			if strings.HasPrefix(cmd.String("prefix"), "redlock:") {
				return usageErrorf("--prefix begins with redlock:, which is reserved")
			}
			switch {
			case cmd.Bool("status") && (!cmd.Bool("acl") || cmd.Bool("adopt")):
				return usageErrorf("--status needs --acl, without --adopt")
			case cmd.Bool("acl"):
				if others := besideACL(cmd); len(others) > 0 {
					return usageErrorf("--acl only prints a rule, so %s may not stand beside it", strings.Join(others, ", "))
				}
				return printACL(cmd)
			}
			d, err := doctorOf(cmd)
			if err != nil {
				return err
			}
			defer newProgress(cmd.Root().ErrWriter).show(d.progress)()
			if cmd.IsSet("next") {
				next, err := mastersIn(cmd, "--next", cmd.String("next"))
				if err != nil {
					return err
				}
				return d.compare(ctx, cmd.Root().Writer, next, cmd.Bool("stopped-for-good"))
			}
			return d.run(ctx, cmd.Root().Writer)
		},
	}
}

// besideACL returns the flags of the call that have no meaning beside --acl.
func besideACL(cmd *cli.Command) (others []string) {
	for _, f := range cmd.Flags {
		name := f.Names()[0]
		if f.IsSet() && !slices.Contains([]string{"acl", "adopt", "status", "prefix", "masters"}, name) {
			others = append(others, "--"+name)
		}
	}
	return others
}

// printACL prints the ACL rule for clients.
func printACL(cmd *cli.Command) error {
	masters, err := mastersOf(cmd)
	if err != nil {
		return err
	}
	selects := false
	for _, m := range masters {
		selects = selects || m.Database() != 0
	}
	line := aclLine(cmd.String("prefix"), selects, cmd.Bool("adopt"))
	if cmd.Bool("status") {
		line = statusLine(cmd.String("prefix"), selects)
	}
	_, err = fmt.Fprintln(cmd.Root().Writer, line)
	return err
}

// A doctor is one call of `redlock doctor`.
type doctor struct {
	masters []master
	prefix  string
	maxTTL  time.Duration
	ttl     time.Duration
	adopt   bool
	force   bool
	single  bool
	lower   bool // --adopt and --max-ttl are set: a larger MaxTTL is lowered
	json    bool

	nodeTimeout time.Duration // 0: automatic
	answered    atomic.Int32  // how many masters have been examined
	agreed      time.Duration // the largest MaxTTL of any client, as far as the masters know
}

// doctorOf reads the call.
func doctorOf(cmd *cli.Command) (*doctor, error) {
	d := &doctor{
		prefix: cmd.String("prefix"),
		maxTTL: cmd.Duration("max-ttl"), ttl: cmd.Duration("ttl"), nodeTimeout: cmd.Duration("node-timeout"),
		adopt: cmd.Bool("adopt"), force: cmd.Bool("force"), single: cmd.Bool("single"), json: cmd.Bool("json"),
	}
	switch {
	case d.maxTTL <= 0 || d.maxTTL > longestTTL:
		return nil, usageErrorf("--max-ttl is %v, want more than 0 and at most %v", d.maxTTL, longestTTL)
	case d.ttl <= 0 || d.ttl > longestTTL:
		return nil, usageErrorf("--ttl is %v, want more than 0 and at most %v", d.ttl, longestTTL)
	case cmd.IsSet("node-timeout") && d.nodeTimeout <= 0:
		return nil, usageErrorf("--node-timeout is %v, want more than 0", d.nodeTimeout)
	case d.force && !d.adopt:
		return nil, usageErrorf("--force needs --adopt")
	case d.single && !d.adopt:
		return nil, usageErrorf("--single needs --adopt")
	case cmd.Bool("stopped-for-good") && !cmd.IsSet("next"):
		return nil, usageErrorf("--stopped-for-good needs --next")
	case cmd.IsSet("next") && d.adopt:
		return nil, usageErrorf("--next and --adopt exclude each other")
	}
	d.lower = d.adopt && cmd.IsSet("max-ttl")
	var err error
	d.masters, err = needMasters(cmd, "")
	if err == nil && d.single && len(d.masters) > 1 {
		err = usageErrorf("--single says that clients have one master, and --masters has %d: leave --single out", len(d.masters))
	}
	return d, err
}

// quarantine returns for how long the data of a master must be known before its votes count.
func (d *doctor) quarantine() time.Duration { return d.agreed + incarnation.Margin }

// automatic reports whether NodeTimeout was not chosen by --node-timeout.
func (d *doctor) automatic() bool { return d.nodeTimeout == 0 }

// progress says what the doctor waits for.
func (d *doctor) progress(since time.Duration) string {
	n := len(d.masters)
	if done := int(d.answered.Load()); done < n {
		return fmt.Sprintf("%s; examined %d of %s", passed(since, 0), done, plural(n, "master"))
	}
	return fmt.Sprintf("%s; examined %s, reading who listens there", passed(since, 0), plural(n, "master"))
}

// run examines the masters, adopts them if that is asked for, and writes what it found.
func (d *doctor) run(ctx context.Context, out io.Writer) error {
	findings := d.examineAll(ctx)
	var refused error
	var lines []string
	if d.adopt && ctx.Err() == nil {
		if lines, refused = d.adoptAll(ctx, findings); !d.json {
			fmt.Fprintln(out, fold(strings.Join(lines, "\n"), "", "  "))
		}
		findings = d.examineAll(ctx) // what the masters say now
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	diagnosis := d.diagnose(findings)
	diagnosis.strays = d.strays(ctx, findings)
	if d.json {
		if err := d.printJSON(out, findings, diagnosis, lines); err != nil {
			return err
		}
	} else {
		fmt.Fprint(out, table(findings, d.quarantine(), wantsColor(out)), "\n", fold(diagnosis.String(), "", ""))
	}
	switch {
	case refused != nil:
		return refused
	case diagnosis.now < diagnosis.need || diagnosis.tooFar():
		return &statusError{status: exitNoQuorum} // the output says why
	}
	return nil
}

// A finding is what a master says about itself.
type finding struct {
	name    string
	host    string        // the machine, by the address; empty if unknown
	masters int           // how many masters the doctor was given
	failure error         // why it cannot be examined; nil if it can
	down    bool          // nothing listens at its address
	advice  string        // what to do about that; empty for no advice
	role    string        // empty if it does not say
	run     string        // the run_id of its process; empty if it does not say
	rtt     time.Duration // round trip; 0 if unknown
	facts   facts         // what it says about its settings
	ids     []string      // of the clients of redlock that listen there; nil if it does not say
	refusal error         // why it must not vote; nil if it may
	same    string        // the master before it that is the same server; empty for none
	lacks   []lack        // commands that it refuses

	look  incarnation.Inspection // if it may vote
	ahead time.Duration          // by how much its clock is ahead of ours at least; negative: behind
}

// wait returns in what time the master's votes count, for clients with this quarantine, and
// whether they will at all if nothing but time passes.
func (f finding) wait(quarantine time.Duration) (time.Duration, bool) {
	switch {
	case f.failure != nil || f.refusal != nil:
		return 0, false
	case f.look.Why != incarnation.Holds:
		return quarantine, true // counted from when the first client connects
	case f.look.Record.AdoptedFor(f.masters):
		return 0, true
	}
	return max(0, quarantine-f.look.Age()), true
}

// examineAll examines the masters. If two are the
// same server, the first may vote. Of all MaxTTL the largest counts, for every master: each client
// applies it.
func (d *doctor) examineAll(ctx context.Context) []finding {
	findings := make([]finding, len(d.masters))
	d.answered.Store(0)
	atOnce(d.masters, func(i int, m master) {
		defer d.answered.Add(1)
		findings[i] = finding{name: m.Address(), host: hostOf(m.Address()), masters: len(d.masters)}
		if err := findings[i].examine(ctx, m, d.prefix); err != nil {
			findings[i].advice, findings[i].failure = failureOf(err)
			findings[i].down = errors.Is(err, syscall.ECONNREFUSED)
		}
	})
	d.agreed = d.maxTTL
	first := make(map[string]string) // by run_id: the first master's name
	for i := range findings {
		f := &findings[i]
		d.agreed = max(d.agreed, f.look.Record.MaxTTL)
		if f.run == "" || f.refusal != nil {
			continue
		}
		if name, twice := first[f.run]; twice {
			f.same, f.refusal = name, fmt.Errorf("it is the same server as %s", name)
		} else {
			first[f.run] = f.name
		}
	}
	return findings
}

// examine asks a master about itself. It leaves no change there. An error means that the
// master could not be asked.
func (f *finding) examine(ctx context.Context, m master, prefix string) error {
	conn, err := m.dial(ctx, doctorPatience)
	if err != nil {
		return err
	}
	defer conn.Close()
	if f.rtt, err = roundTrip(conn); err != nil {
		return err
	}
	info, err := redis.String(conn.Do("INFO"))
	if err != nil && (conn.Err() != nil || !forbidden(err)) {
		return err
	}
	f.role, f.run, f.refusal = roleOf(info), wire.InfoField(info, "run_id"), wire.Judge(info)
	f.facts = factsOf(info)
	if err := f.facts.ask(conn); err != nil {
		return err
	}
	f.ids, _ = wakeClients(conn)
	if err := conn.Err(); err != nil || f.refusal != nil {
		return err
	}
	if err := f.tryRights(ctx, m, conn, prefix); err != nil || f.refusal != nil {
		return err
	}
	before := time.Now()
	f.look, err = incarnation.Read(conn)
	after := time.Now()
	if err != nil {
		return fmt.Errorf("its record %s cannot be read: %w", incarnation.Key, err)
	}
	if now := f.look.Now; now.After(after) {
		f.ahead = now.Sub(after)
	} else if now.Before(before) {
		f.ahead = now.Sub(before)
	}
	return nil
}

// tryRights finds out what the server refuses to do.
func (f *finding) tryRights(ctx context.Context, m master, conn redis.Conn, prefix string) error {
	regular, listening := tries(prefix)
	lacks, err := tryAll(conn, regular)
	if err != nil {
		return err
	}
	listener, err := m.dial(ctx, doctorPatience)
	if err != nil {
		return err
	}
	defer listener.Close()
	more, err := tryAll(listener, listening)
	if err != nil {
		return err
	}
	f.lacks = append(lacks, more...)
	for _, l := range f.lacks {
		if !l.need.votes() {
			f.refusal = errLacks
		}
	}
	return nil
}
