// Command mutate shows what the tests do not notice. It changes one small thing at a time in the files that decide
// (it flips a comparison, drops half of a condition, or removes a statement), and runs the tests of that file. A mutant
// that they pass survives.
//
//	go run ./internal/mutate                                      all files: hours
//	go run ./internal/mutate -files readers.lua -part 3/10        a tenth of the mutants of one
//	go run ./internal/mutate -files guard.go -list                its mutants
//
// Survivors that are listed in docs/evidence.md, with a reason each, are known. The command fails if there are others.
// The working tree is not changed: see package defects.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A step is one run of tests.
type step struct {
	pkg, tests string // the package, and a regular expression of tests; empty: all
}

// A target is a file, and the steps that are to notice what is changed in it, the quick ones first.
type target struct {
	file  string
	steps []step
}

var (
	inside  = step{".", ""}
	whole   = step{"./internal/contract", ""}
	master  = step{"./internal/master", ""}
	wire    = step{"./internal/wire", ""}
	scripts = step{"./internal/wire", "Reader|Writer|Announce|Script|Grant|Queue|Several|Fence|Key|Recall"}
	quorum  = step{"./internal/quorum", ""}
	readers = step{"./internal/contract", "RW|Read|Writer|Lockers|Fence"}
	kept    = step{"./internal/contract", "Kept|Keep|Recall"}
	flights = step{"./internal/contract", "OneCall|Value|Caller|Landing|Goroutine|SingleFlight|LostLease"}
	permits = step{"./internal/contract/semaphores", "Permit|Semaphore|Slot|Goroutines|Limit|Claim"}
	sets    = step{"./internal/contract", "Name|Set|Several|Lockers|OneLease|Merger"}
)

var targets = []target{
	{"internal/wire/readers.lua", []step{scripts, readers}},
	{"internal/wire/slots.lua", []step{{"./internal/wire", "Slot|Claim|Permit|Passed|Bitmap|Limit|Near"}, permits}},
	{"internal/wire/taken.lua", []step{{"./internal/wire", "Look"}}},
	{"internal/wire/taken.go", []step{{"./internal/wire", "Look"}}},
	{"internal/wire/slots.go", []step{wire, permits}},
	{"internal/waits/slots.go", []step{{"./internal/waits", ""}, permits}},
	{"internal/holding/semaphore.go", []step{{"./internal/holding", ""}}},
	{"semaphores.go", []step{inside, permits}},
	{"redlocktest/slots.go", []step{{"./redlocktest", "Slot|Permit"}}},
	{"cmd/redlock/permits.go", []step{{"./cmd/redlock", "Slot|Permit|Document|Semaphore"}}},
	{"cmd/redlock/run_lease.go", []step{{"./cmd/redlock", "Limit|Permit|Runs|Variable|Environment"}}},
	{"internal/wire/set.lua", []step{scripts, sets}},
	{"internal/wire/batch.lua", []step{wire, master, whole}},
	{"internal/wire/fences.lua", []step{scripts, whole}},
	{"internal/wire/recall.lua", []step{scripts, kept}},
	{"internal/wire/flight.lua", []step{{"./internal/wire", "Value"}}},
	{"internal/waits/value.go", []step{{"./internal/waits", ""}, flights}},
	{"internal/flight/flight.go", []step{{"./internal/flight", ""}, flights}},
	{"context.go", []step{flights, whole}},
	{"internal/incarnation/incarnation.lua", []step{{"./internal/incarnation", ""}, master, {"./internal/contract", "Guard|Restart|Memory"}}},
	{"internal/master/guard.go", []step{master, whole}},
	{"internal/master/probe.go", []step{master, whole}},
	{"internal/master/grant.go", []step{master, whole}},
	{"internal/wire/info.go", []step{wire, master, whole}},
	{"internal/wire/message.go", []step{wire, master, whole}},
	{"internal/master/clocks.go", []step{master, whole}},
	{"internal/quorum/ballot.go", []step{quorum, whole}},
	{"internal/quorum/limit.go", []step{quorum, whole}},
	{"internal/quorum/round.go", []step{quorum, whole}},
	{"internal/quorum/tally.go", []step{quorum, whole}},
	{"internal/quorum/together.go", []step{quorum, whole}},
	{"internal/waits/verdict.go", []step{{"./internal/waits", ""}, whole}},
	{"internal/waits/pauses.go", []step{{"./internal/waits", ""}, whole}},
	{"internal/waits/pace.go", []step{{"./internal/waits", ""}, whole}},
	{"internal/waits/claim.go", []step{{"./internal/waits", ""}, inside, whole}},
	{"internal/waits/waits.go", []step{inside, whole}},
	{"internal/turns/turns.go", []step{{"./internal/turns", ""}, whole}},
	{"claim.go", []step{inside, whole}},
	{"queue.go", []step{inside, whole}},
	{"lease.go", []step{inside, whole}},
	{"holders.go", []step{inside, kept, readers, whole}},
	{"rwlocker.go", []step{inside, readers, whole}},
	{"kept.go", []step{inside, kept, whole}},
	{"internal/occupancy/occupancy.go", []step{{"./internal/occupancy", ""}, kept, readers, whole}},
	{"internal/recent/order.go", []step{{"./internal/recent", ""}, inside, kept, whole}},
	{"tenure.go", []step{inside, whole}},
}

func main() {
	var c config
	flag.StringVar(&c.files, "files", "", "a regular expression: only files whose names it matches")
	flag.StringVar(&c.only, "only", "", "a regular expression: only mutants that it matches, as -list shows them")
	flag.StringVar(&c.part, "part", "1/1", "k/n: every n-th mutant, from the k-th on")
	flag.DurationVar(&c.limit, "limit", 3*time.Minute, "how long one step may take; a mutant for which it takes longer is noticed")
	flag.IntVar(&c.at, "j", 1, "how many mutants are tried at a time")
	flag.IntVar(&c.steps, "steps", 9, "how many steps of tests to take at most; 1: the quick ones")
	flag.BoolVar(&c.list, "list", false, "list the mutants, and try none")
	flag.StringVar(&c.known, "known", "docs/evidence.md", "the file with the survivors that are known")
	flag.Parse()
	if err := c.runAll(); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// A config is what the command line says.
type config struct {
	files, only, part, known string
	limit                    time.Duration
	at, steps                int
	list                     bool

	programs programs
}

func (c *config) runAll() error {
	names, err := regexp.Compile(c.files)
	if err != nil {
		return err
	}
	only, err := regexp.Compile(c.only)
	if err != nil {
		return err
	}
	var k, n int
	if _, err := fmt.Sscanf(c.part, "%d/%d", &k, &n); err != nil || k < 1 || k > n {
		return fmt.Errorf("-part %s: want k/n with k from 1 to n", c.part)
	}
	known, err := os.ReadFile(c.known)
	if err != nil {
		return err
	}
	var jobs []job
	place := 0
	for _, t := range targets {
		if !names.MatchString(t.file) {
			continue
		}
		mutants, err := mutantsOf(t.file)
		if err != nil {
			return err
		}
		for _, m := range mutants {
			if !only.MatchString(m.String()) {
				continue
			}
			if place++; place%n == k%n {
				jobs = append(jobs, job{m, t.steps[:min(c.steps, len(t.steps))]})
			}
		}
	}
	if c.list {
		for _, j := range jobs {
			fmt.Println(j.mutant)
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c.programs = programs{dir: dir}
	if err := c.checkSteps(jobs); err != nil {
		return err
	}
	return c.try(jobs, known)
}

// checkSteps runs all steps without a mutant. They must pass.
func (c *config) checkSteps(jobs []job) error {
	passed := make(map[step]bool)
	for _, j := range jobs {
		for _, s := range j.steps {
			if passed[s] {
				continue
			}
			name, err := c.programs.of(s.pkg)
			if err != nil {
				return err
			}
			if out, err := s.run(name, c.limit); err != nil {
				return fmt.Errorf("without a mutant, %v fails:\n%s", s, out)
			}
			passed[s] = true
		}
	}
	return nil
}

// A job is a mutant, and what is to notice it.
type job struct {
	mutant
	steps []step
}

// try tries the mutants, and prints those that survive.
func (c *config) try(jobs []job, known []byte) error {
	var mu sync.Mutex // guards what follows
	var noticed, broken, expected, survived int
	var errs []error
	queue := make(chan job)
	var workers sync.WaitGroup
	for range c.at {
		workers.Go(func() {
			for j := range queue {
				fate, err := j.try(&c.programs, c.limit)
				mu.Lock()
				switch {
				case err != nil:
					errs = append(errs, fmt.Errorf("%v: %w", j.mutant, err))
				case fate == noBuild:
					broken++
				case fate == caught:
					noticed++
				case bytes.Contains(known, []byte(j.key())):
					expected++
				default:
					survived++
					fmt.Printf("- %s\n", j.mutant)
				}
				mu.Unlock()
			}
		})
	}
	for _, j := range jobs {
		queue <- j
	}
	close(queue)
	workers.Wait()
	fmt.Printf("%d mutants: %d noticed, %d do not build, %d survive and are known, %d survive\n", len(jobs), noticed, broken, expected, survived)
	if survived > 0 {
		errs = append(errs, fmt.Errorf("%d mutants survive that are not known", survived))
	}
	return errors.Join(errs...)
}

// A fate is what becomes of a mutant.
type fate uint8

const (
	lives   fate = iota // all tests pass
	caught              // a test fails
	noBuild             // it does not compile
)

// try runs the tests with the mutant.
func (j *job) try(p *programs, limit time.Duration) (fate, error) {
	if !j.compiles() {
		return noBuild, nil
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return lives, err
	}
	defer os.RemoveAll(dir)
	built := make(map[string]string) // the test programs with the mutant
	for _, s := range j.steps {
		if built[s.pkg] == "" {
			name, err := p.with(&j.mutant, s.pkg, filepath.Join(dir, fmt.Sprint(len(built))))
			if err == errNoBuild {
				return noBuild, nil
			} else if err != nil {
				return lives, err
			}
			built[s.pkg] = name
		}
		if _, err := s.run(built[s.pkg], limit); err != nil {
			return caught, nil
		}
	}
	return lives, nil
}

// run runs the tests of a step, and returns what they say.
func (s step) run(program string, limit time.Duration) (string, error) {
	cmd := exec.Command(program, "-test.failfast", "-test.timeout", limit.String(), "-test.run", s.tests)
	cmd.Dir = s.pkg
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A mutant is one change of one file.
type mutant struct {
	file   string
	text   string // of the file
	at, to int    // the bytes that are replaced
	by     string // what replaces them
}

func (m *mutant) mutated() string { return m.text[:m.at] + m.by + m.text[m.to:] }

// lines returns the lines that are changed, before and after the change, each as one line.
func (m *mutant) lines() (before, after string) {
	begin := strings.LastIndexByte(m.text[:m.at], '\n') + 1
	end := len(m.text)
	if i := strings.IndexByte(m.text[m.to:], '\n'); i >= 0 {
		end = m.to + i
	}
	one := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	return one(m.text[begin:end]), one(m.text[begin:m.at] + m.by + m.text[m.to:end])
}

// key returns what stands in the list of known survivors.
func (m *mutant) key() string {
	before, after := m.lines()
	if after == "" {
		after = "nothing"
	}
	return fmt.Sprintf("`%s`: `%s` → `%s`", filepath.Base(m.file), before, after)
}

func (m mutant) String() string {
	return fmt.Sprintf("%s (line %d)", m.key(), 1+strings.Count(m.text[:m.at], "\n"))
}

// mutantsOf returns the mutants of a file.
func mutantsOf(file string) ([]mutant, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var changes []change
	if filepath.Ext(file) == ".lua" {
		changes = changesOfLua(string(b))
	} else if changes, err = changesOfGo(file, b); err != nil {
		return nil, err
	}
	var all []mutant
	seen := make(map[string]bool)
	for _, c := range changes {
		m := mutant{file, string(b), c.at, c.to, c.by}
		if text := m.mutated(); !seen[text] { // a half of a condition may have two names
			seen[text] = true
			all = append(all, m)
		}
	}
	return all, nil
}

// A change replaces the bytes from at to to of a text.
type change struct {
	at, to int
	by     string
}

// negated are the comparisons, and what is put in their place.
var negated = map[string]string{"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
