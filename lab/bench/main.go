// Command bench measures redlock beside other lock libraries for Redis, on five
// real redis-server processes that it starts itself. See README.md.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redlock-go/redlock/lab/internal/child"
)

func main() { child.Main("bench", work, run) }

// quiet keeps the libraries' logs out of ours: under frozen masters there are
// many, and they are not what is measured.
func quiet() {
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goredis.SetLogger(&logging.VoidLogger{})
}

func run() error {
	short := flag.Bool("short", false, "a quick pass of about two minutes, for seeing that all works; its figures mean little")
	only := flag.String("only", "", "a regexp: run only the workloads whose names match")
	peers := flag.String("peers", "", "a regexp: run only the peers whose names match, beside ours")
	reps := flag.Int("reps", 0, "how often each workload is repeated (default 3 to 15, 1 with -short)")
	old := flag.String("old", "", "a directory with this program and the command, built with another commit's library: compare with that alone (see ./pairs)")
	out := flag.String("out", "", `a directory for RESULTS.md and results.svg (default "." for a full run, none for a partial one)`)
	flag.Parse()
	onlyRE, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	peersRE, err := regexp.Compile(*peers)
	if err != nil {
		return fmt.Errorf("-peers: %w", err)
	}
	quiet()

	b := &bench{plan: fullPlan(), log: os.Stderr}
	if *short {
		b.plan = shortPlan()
	} else if *only == "" && *peers == "" && *old == "" {
		*out = cmp.Or(*out, ".")
	}
	if *reps > 0 {
		b.plan.reps, b.plan.faultReps, b.plan.leaseReps = *reps, *reps, *reps
	}
	b.subjects, b.workloads = subjects(), workloads()
	if *old != "" {
		b.compareWith(*old)
	}
	b.subjects = slices.DeleteFunc(b.subjects, func(s *subject) bool {
		return s.id != oursID && s.program == "" && !s.ownCost && !peersRE.MatchString(s.id)
	})
	b.workloads = slices.DeleteFunc(b.workloads, func(w *workload) bool { return !onlyRE.MatchString(w.id) })
	res, err := b.run()
	if err != nil {
		return err
	}
	res.short, res.old = *short, *old != ""
	printTables(os.Stdout, res)
	if *out == "" {
		return nil
	}
	return write(*out, res)
}

func write(dir string, res *results) error {
	if err := os.WriteFile(filepath.Join(dir, "RESULTS.md"), []byte(markdown(res)), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "results.svg"), []byte(chart(res)), 0o644)
}

// bench is one run.
type bench struct {
	plan      plan
	subjects  []*subject
	workloads []*workload
	log       io.Writer
	fleet     *fleet
	oldFleet  *fleet // of the other commit's clients, or nil
	opened    int    // how many runs have had names of their own
}

// run runs all workloads and returns what they found.
func (b *bench) run() (*results, error) {
	res := &results{at: time.Now(), plan: b.plan, workloads: b.workloads, subjects: b.subjects, found: make(map[key][]figures)}
	var err error
	if b.fleet, err = startFleet((*fleet).adopt); err != nil {
		return nil, err
	}
	defer b.fleet.stop()
	for _, s := range b.subjects {
		if s.program == "" || b.oldFleet != nil {
			continue
		}
		if b.oldFleet, err = startFleet(s.adoptMasters); err != nil {
			return nil, err
		}
		defer b.oldFleet.stop()
	}
	for _, w := range b.workloads {
		if err := b.runWorkload(w, res); err != nil {
			return nil, fmt.Errorf("%s: %w", w.id, err)
		}
	}
	res.machine = describe(b.fleet)
	res.took = time.Since(res.at)
	return res, nil
}

// enoughHangs is how often a subject may hang in a workload; then it is asked no
// more, since each time takes seconds and says the same.
const enoughHangs = 2

// runWorkload has all subjects take turns, in another order each repetition.
func (b *bench) runWorkload(w *workload, res *results) error {
	if w.finish != nil {
		defer w.finish()
	}
	var taking []*subject
	for _, s := range b.subjects {
		if w.takes(s) {
			taking = append(taking, s)
		}
	}
	for rep := range w.reps(b.plan) {
		if w.beside != nil {
			if err := b.runBeside(w, taking, rep, res); err != nil {
				return err
			}
			continue
		}
		for i := range taking {
			s := taking[(i+rep)%len(taking)]
			if hangs, _ := res.hangs(w.id, s.id); hangs == enoughHangs {
				continue
			}
			began := time.Now()
			f, err := w.trial(b, s, rep)
			if err != nil {
				return fmt.Errorf("%s: %w", s.id, err)
			}
			b.note(w, s, rep, f, began, res)
		}
	}
	return nil
}

// runBeside makes one repetition of a workload in which all subjects take turns.
func (b *bench) runBeside(w *workload, taking []*subject, rep int, res *results) error {
	began := time.Now()
	all, err := b.beside(*w.beside, taking)
	if err != nil {
		return err
	}
	for i, f := range all {
		b.note(w, taking[i], rep, f, began, res)
	}
	return nil
}

// note keeps the figures of a repetition, and shows them.
func (b *bench) note(w *workload, s *subject, rep int, f figures, began time.Time, res *results) {
	res.add(w.id, s.id, f)
	fmt.Fprintf(b.log, "%-13s %d  %-32s %5.1fs  %s\n", w.id, rep+1, s.id, time.Since(began).Seconds(), brief(w, f))
}
