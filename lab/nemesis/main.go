// Command nemesis tests redlock, or another lock library for Redis, under many faults at once. It
// runs real client processes and five real redis-servers behind a proxy of its own. A schedule,
// made from a seed, kills and restarts them, stops them, removes their data and disturbs the
// network. Then it checks the history that the clients have recorded. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/internal/history"
	"github.com/redlock-go/redlock/internal/history/report"
)

// Exit codes.
const (
	exitGood  = 0 // no violation; with -defect, at least one
	exitBad   = 1 // a violation; with -defect, none
	exitError = 2 // the run failed
)

func main() {
	if os.Getenv(workerEnv) != "" {
		if err := work(); err != nil {
			fmt.Fprintln(os.Stderr, "nemesis: client:", err)
			os.Exit(exitError)
		}
		return
	}
	code, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nemesis:", err)
	}
	os.Exit(code)
}

// start reads the command line, makes the run, and returns the exit code.
func start() (int, error) {
	length := flag.Duration("for", 5*time.Minute, "for how long there are faults; then the run needs up to half a minute more to end")
	seed := flag.Uint64("seed", 0, "the seed of the schedule and of what clients do (default: a random one)")
	name := flag.String("subject", ours.name, "the library: redlock, redsync or rueidislock; a peer is measured, and violates nothing")
	workload := flag.String("workload", allOfThem, "what clients lock: "+strings.Join(workloads, ", ")+"; a peer has the first only")
	traits := flag.Bool("traits", false, "draw from the seed what differs between redlock's clients: TTL, drift, renewal, rights, Clients in one process")
	only := flag.String("faults", "", "a regexp: only the faults whose names match; -print shows them")
	clients := flag.Int("clients", 5, "how many client processes")
	kept := flag.Duration("lock-keep", -1, "redlock's LockOptions.Keep, for most clients (default: drawn from the seed)")
	ttl := flag.Duration("ttl", time.Second, "the TTL of all locks, and MaxTTL")
	keep := flag.String("keep", "", "a directory for the logs and the history (default: a temporary one, which is kept if something is violated)")
	page := flag.String("report", "", "write what the history shows to an HTML file, which must not exist: a page without a network")
	defect := flag.String("defect", "", "build a defect into the library: the run is good if it is caught; see -print")
	beside := flag.String("beside", "", "a commit: every second client is the program of this commit")
	all := flag.Bool("all-beside", false, "with -beside: all clients are the program of the commit")
	print := flag.Bool("print", false, "print the schedule and the names of faults and defects, and do nothing")
	flag.Parse()

	drawing = *traits
	s, err := subjectByName(*name)
	if err != nil {
		return exitError, err
	}
	c := config{plan: plan{seed: *seed, length: *length, clients: *clients, ttl: *ttl}, subject: s, strict: s == ours, kept: *kept, defect: *defect, beside: *beside, allBeside: *all, report: *page}
	if err := c.pickWorkload(*workload); err != nil {
		return exitError, err
	}
	if c.seed == 0 {
		c.seed = uint64(rand.Uint32()) + 1
	}
	// A master that lost its data at the last moment votes again after its quarantine, the leases
	// of dead clients expire after a TTL, and then everybody waits for a turn.
	c.entryMost = c.quarantine() + c.ttl + time.Duration(max(pollers(c.seed, c.clients, c.ttl), 1))*turnMost
	if !c.strict {
		c.entryMost = 30 * time.Second // longer than any time-out of a peer
	}
	if c.beside != "" && (!c.strict || c.defect != "") {
		return exitError, errors.New("-beside is for redlock alone, without a defect")
	}
	if c.allBeside && c.beside == "" {
		return exitError, errors.New("-all-beside needs -beside")
	}
	if *only != "" {
		if c.only, err = regexp.Compile(*only); err != nil {
			return exitError, fmt.Errorf("-faults: %w", err)
		}
	}
	if c.report != "" {
		if err := report.Free(c.report); err != nil {
			return exitError, fmt.Errorf("-report: %w", err)
		}
	}
	if *print {
		printPlan(os.Stdout, c.plan)
		return exitGood, nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.run(ctx, *keep)
}

// run makes the run, with its files in the directory keep, if that is not "".
func (c config) run(ctx context.Context, keep string) (code int, err error) {
	if c.dir = keep; keep == "" {
		if c.dir, err = os.MkdirTemp("", "nemesis-"); err != nil {
			return exitError, err
		}
	} else if err := os.MkdirAll(keep, 0o755); err != nil {
		return exitError, err
	}
	if c.dir, err = filepath.Abs(c.dir); err != nil {
		return exitError, err
	}
	if c.program, err = os.Executable(); err == nil && c.defect != "" {
		c.program, err = buildDefect(c.defect, c.dir)
	}
	if err == nil && c.beside != "" {
		c.earlier, err = buildCommit(c.beside, c.dir)
	}
	if err != nil {
		return exitError, err
	}
	fmt.Printf("nemesis: %s, workload %s, seed %d, Keep %v, %v of faults; logs in %s\n", c.subject.name, c.workload, c.seed, c.keep(0), c.length, c.dir)
	r, err := newRun(c)
	if err == nil {
		err = r.all(ctx)
	}
	if r != nil {
		r.close()
	}
	if err != nil {
		return exitError, fmt.Errorf("%w; see %s", err, c.dir)
	}
	v := r.judge()
	if err := r.save(v); err != nil {
		return exitError, err
	}
	v.print(os.Stdout, r)
	if c.report != "" {
		if err := report.Create(c.report, r.page(v)); err != nil {
			return exitError, fmt.Errorf("-report: %w", err)
		}
		fmt.Println("report:", c.report)
	}
	bad := c.strict && len(v.violations) > 0
	if c.defect != "" {
		fmt.Printf("defect %s, seed %d: %s\n", c.defect, c.seed, v.caught(r))
	}
	if !bad && keep == "" {
		os.RemoveAll(c.dir)
	} else {
		fmt.Println("kept in", c.dir)
	}
	if bad != (c.defect != "") {
		return exitBad, nil
	}
	return exitGood, nil
}

// all does the faults, ends them, and makes the checks that need a healthy system.
func (r *run) all(ctx context.Context) error {
	r.play(ctx, schedule(r.plan))
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.heal(); err != nil {
		return err
	}
	if r.strict && r.look() {
		r.ended = history.Now()
		return nil // keep the evidence as it is
	}
	time.Sleep(2 * r.ttl) // delayed requests arrive, and the keys of dead clients expire
	w := newWatch(r)
	found := r.everybodyEnters(ctx)
	select {
	case <-time.After(2 * r.ttl):
	case <-ctx.Done():
		return ctx.Err()
	}
	found = append(found, r.stop()...)
	at, err := r.keys(false)
	if err != nil {
		return err
	}
	r.found = append(found, at...)
	r.found = append(r.found, w.end(r.history, r.stalls, r.ttl, r.ttl*6/10)...)
	time.Sleep(r.ttl + time.Second)
	r.forever, err = r.keys(true)
	return err
}
