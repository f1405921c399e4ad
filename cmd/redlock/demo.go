package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
)

// demoConfig says how much a demo does.
type demoConfig struct {
	workers int           // processes
	each    int           // increments by each of them
	hold    time.Duration // what one increment takes between its read and its write
	masters []master      // none: embedded ones
}

// defaultDemo is long enough to see the victim go, and short enough to be watched.
var defaultDemo = demoConfig{workers: 4, each: 250, hold: time.Millisecond}

// expected returns what the counter should show in the end.
func (cfg demoConfig) expected() int { return cfg.workers * cfg.each }

// demoCommand returns `redlock demo`.
func demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "count in one file from four processes, without a lock and with one",
		Description: "Four processes increment one number in a file. Without a lock they overwrite each\n" +
			"other's updates; with it none is lost, although one of the masters goes away half way.\n" +
			"By default the five masters are embedded in the command: it needs no Redis. Of --masters\n" +
			"none is stopped: the demo cuts its own connections to one of them. It uses a random\n" +
			"lock name, and changes nothing else but redlock's own record of the master.\n\n" +
			"Exit status: 0 if no update was lost under the lock; 1 if one was, if a worker failed, or\n" +
			"if no majority of the masters answers; 2 for wrong usage; 130 if interrupted.",
		Flags:        []cli.Flag{mastersFlag()},
		OnUsageError: onUsageError,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := noArguments(cmd); err != nil {
				return err
			}
			cfg := defaultDemo
			var err error
			if cfg.masters, err = mastersOf(cmd); err != nil {
				return err
			}
			return runDemo(ctx, cfg, cmd.Root().Writer)
		},
	}
}

// demo is one run of `redlock demo`.
type demo struct {
	cfg      demoConfig
	masters  *demoMasters
	progress *progress
	dir      string // holds the counters
	result   demoResult
}

// demoResult is what the report tells.
type demoResult struct {
	without, with demoCount
	taken         bool          // the victim is away
	takenAt       int           // increments made by then
	takenAfter    time.Duration // into the locked run
}

// demoCount is the outcome of one of the two runs.
type demoCount struct {
	tally
	expected int // what the workers' increments add up to
	counted  int // what the file says
}

// lost returns how many updates were overwritten.
func (c demoCount) lost() int { return c.expected - c.counted }

// perSecond returns how many increments, and so locks, were made in a second.
func (c demoCount) perSecond() float64 {
	if c.took <= 0 {
		return 0
	}
	return float64(c.expected) / c.took.Seconds()
}

// runDemo runs the demo, writing to out.
func runDemo(ctx context.Context, cfg demoConfig, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "redlock-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // after every worker has ended: runCrew waits for them
	masters, err := openMasters(cfg.masters)
	if err != nil {
		return err
	}
	defer masters.free()

	d := &demo{cfg: cfg, masters: masters, progress: newProgress(out), dir: dir}
	defer d.progress.clear()
	fmt.Fprint(out, introduction(cfg, masters))
	if err := masters.checkMasters(ctx, d.progress); err != nil {
		return err
	}
	if d.result.without, err = d.count(ctx, "without the lock", ""); err != nil {
		return err
	}
	if d.result.with, err = d.count(ctx, "with the lock", lockName()); err != nil {
		return err
	}
	fmt.Fprint(out, conclusion(masters, d.result))
	return verdict(d.result)
}

// verdict returns an error if the locked run is not what a lock promises.
func verdict(r demoResult) error {
	if lost := r.with.lost(); lost != 0 {
		err := fmt.Errorf("with the lock the counter shows %d, expected %d", r.with.counted, r.with.expected)
		return withHint(err, "this must not happen: please tell https://"+moduleURL+"/issues")
	}
	return nil
}

// lockName returns a name that no other demo uses, be it on the same masters.
func lockName() string { return "redlock-demo-" + strings.ToLower(rand.Text()[:12]) }

// count lets the workers count once, under the lock of that name or, if it is empty,
// under none.
func (d *demo) count(ctx context.Context, label, lock string) (demoCount, error) {
	number, err := newCounter(d.dir, strings.ReplaceAll(label, " ", "-"))
	if err != nil {
		return demoCount{}, err
	}
	cfg := workerConfig{Counter: number.path, Each: d.cfg.each, Hold: d.cfg.hold, Lock: lock}
	if lock != "" {
		cfg.Masters = d.masters.urls
	}
	d.progress.begin(label, d.cfg.expected())
	got, err := runCrew(ctx, d.cfg.workers, cfg, func(now tally) {
		if lock != "" {
			d.takeVictim(now)
		}
		d.progress.update(now.done)
	})
	if err != nil {
		return demoCount{}, d.masters.redact(err)
	}
	d.progress.end(got.done)
	counted, err := number.read()
	return demoCount{tally: got, expected: d.cfg.expected(), counted: counted}, err
}

// takeVictim takes one master away when half of the increments are made.
func (d *demo) takeVictim(now tally) {
	if d.result.taken || d.masters.victim < 0 || now.done < d.cfg.expected()/2 {
		return
	}
	d.result.taken, d.result.takenAt, d.result.takenAfter = true, now.done, now.took
	d.masters.take()
	d.progress.note(fmt.Sprintf("%s %s at %d, while the counting goes on",
		d.masters.victimName(), d.masters.fate(), now.done))
}
