// Command replay runs seeds of the simulation such that a run repeats bit for bit.
//
//	cd lab/replay && go run . -seeds 22                       one run
//	cd lab/replay && go run . -seeds 0-99 -twice              each seed twice: are both outputs the same?
//	cd lab/replay && go run . -seeds 22 -schedules 1-50       until one fails; says the command that shows that run again
//	cd lab/replay && go run . -seeds 22 -- -profile crowd     with flags of the simulation
//
// A seed determines the plan of a run. It does not determine the order in which goroutines run, the order of a map, the choice of a
// select, and the tokens. So a failure may be seen once in twenty runs, and never again under a debugger. This command compiles the
// simulation for WebAssembly. There, a Go program has one thread that nothing interrupts, and gets its time and its random bytes from
// this command: the same for the same schedule, which is the seed of these random bytes. All that differs between two runs comes from
// them. A run takes about ten times as long as without.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

func main() {
	seeds := flag.String("seeds", "0", "the seeds: one, or the first and the last, as in 0-99")
	schedules := flag.String("schedules", "1", "the schedules of each seed: one, or the first and the last")
	twice := flag.Bool("twice", false, "run each twice, and compare the outputs")
	verbose := flag.Bool("v", false, "print the output of runs that pass, too")
	flag.Parse()
	if err := replay(*seeds, *schedules, *twice, *verbose, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

var errFailed = errors.New("a run has failed")

// replay runs all schedules of all seeds, as many at a time as there are cores, until a run fails.
func replay(seeds, schedules string, twice, verbose bool, flags []string) error {
	firstSeed, lastSeed, err := between("seeds", seeds)
	if err != nil {
		return err
	}
	first, last, err := between("schedules", schedules)
	if err != nil {
		return err
	}
	sim, err := load(context.Background(), "../..", "test", "-c", "./internal/simulation")
	if err != nil {
		return err
	}
	defer sim.close()
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	r := &runner{sim: sim, twice: twice, verbose: verbose, flags: flags, stop: stop}
	slots := make(chan struct{}, runtime.NumCPU())
	var all sync.WaitGroup
	for seed := firstSeed; seed <= lastSeed; seed++ {
		for schedule := first; schedule <= last && ctx.Err() == nil; schedule++ {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				r.run(ctx, seed, schedule)
			})
		}
	}
	all.Wait()
	fmt.Printf("%d runs, %d failed, %d did not repeat\n", r.runs, r.failed, r.differ)
	if r.failed+r.differ > 0 {
		return context.Cause(ctx)
	}
	return nil
}

// between parses one number, or the first and the last one.
func between(name, s string) (first, last int64, err error) {
	a, b, ok := strings.Cut(s, "-")
	if !ok {
		b = a
	}
	first, err1 := strconv.ParseInt(a, 10, 64)
	last, err2 := strconv.ParseInt(b, 10, 64)
	if err1 != nil || err2 != nil || first > last {
		return 0, 0, fmt.Errorf("-%s %s: want one number, or two as in 0-99", name, s)
	}
	return first, last, nil
}

// A runner runs seeds and prints what became of them.
type runner struct {
	sim     *program
	twice   bool
	verbose bool
	flags   []string
	stop    context.CancelCauseFunc

	mu                   sync.Mutex // guards the fields below, and the output
	runs, failed, differ int
}

func (r *runner) run(ctx context.Context, seed, schedule int64) {
	args := append([]string{"simulation", "-test.v", "-test.run=TestSeed$", "-child", fmt.Sprint("-seed=", seed)}, r.flags...)
	o := r.sim.run(ctx, schedule, args...)
	again := o
	if r.twice {
		again = r.sim.run(ctx, schedule, args...)
	}
	if ctx.Err() != nil {
		return // another run has failed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs++
	if o.err != nil || r.verbose {
		fmt.Print(o.text)
	}
	fmt.Printf("seed %d schedule %d %s\n", seed, schedule, o)
	switch {
	case o.err != nil:
		r.failed++
		fmt.Printf("again: go run . -seeds %d -schedules %d -- %s\n", seed, schedule, strings.Join(r.flags, " "))
		r.stop(errFailed)
	case o.digest() != again.digest():
		r.differ++
		fmt.Printf("seed %d schedule %d %s: the second run differs\n", seed, schedule, again)
		r.stop(errors.New("a run did not repeat"))
	}
}

// build compiles a program for WebAssembly, with the arguments of the go command, and returns its code.
func build(dir string, arguments ...string) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "replay")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	file := filepath.Join(tmp, "program.wasm")
	target := arguments[len(arguments)-1]
	command := exec.Command("go", append(arguments[:len(arguments)-1:len(arguments)-1], "-o", file, target)...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return os.ReadFile(file)
}
