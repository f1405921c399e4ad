// Command mutate shows what the tests do not notice. It changes one small thing at a time in the files that decide
// (it flips a comparison, drops half of a condition, or removes a statement), and runs the tests of that file. A mutant
// that they pass survives.
//
//	cd lab/mutate && go run .                                     all files: hours
//	cd lab/mutate && go run . -files readers.lua -part 3/10       a tenth of the mutants of one
//	cd lab/mutate && go run . -files guard.go -list               its mutants
//
// First, each test runs alone and without a mutant. That shows how long it takes, and which mutants of Go files it reaches. Then each
// mutant is tried with the tests that reach it: first those that have noticed other mutants most often, then the quick ones.
//
// Survivors that are listed in known.txt, with a reason each, are known. The command fails if there are others in a file that is
// complete, and prints those in other files.
// The working tree is not changed: see package defects.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	var c config
	flag.StringVar(&c.files, "files", "", "a regular expression: only files whose names it matches")
	flag.StringVar(&c.only, "only", "", "a regular expression: only mutants that it matches, as -list shows them")
	flag.StringVar(&c.from, "from", "", "a file: only mutants that it names, as -list and an earlier run print them")
	flag.StringVar(&c.part, "part", "1/1", "k/n: every n-th mutant, from the k-th on")
	flag.DurationVar(&c.longest, "longest", time.Minute, "leave out tests that take more processor time than this")
	flag.IntVar(&c.at, "j", 1, "how many mutants are tried at a time")
	flag.IntVar(&c.steps, "steps", 9, "how many steps of tests to take at most; 1: the quick ones")
	flag.BoolVar(&c.list, "list", false, "list the mutants, and try none")
	flag.BoolVar(&c.verbose, "v", false, "print for each mutant what has noticed it")
	flag.StringVar(&c.known, "known", "known.txt", "the file with the survivors that are known")
	flag.Parse()
	err := c.toRoot()
	if err == nil {
		err = c.runAll()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// A config is what the command line says.
type config struct {
	files, only, from, part, known string
	longest                        time.Duration
	at, steps                      int
	list, verbose                  bool
}

// toRoot changes to the root of the library's module: the paths of mutants and of packages are relative to it.
func (c *config) toRoot() (err error) {
	for _, file := range []*string{&c.from, &c.known} {
		if *file == "" {
			continue
		}
		if *file, err = filepath.Abs(*file); err != nil {
			return err
		}
	}
	return os.Chdir("../..")
}

func (c *config) runAll() error {
	jobs, err := c.jobs()
	if err != nil {
		return err
	}
	if c.list {
		for _, j := range jobs {
			fmt.Println(j.mutant)
		}
		return nil
	}
	known, err := os.ReadFile(c.known)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tests, failed := newTests(dir, jobs, c.longest, c.at)
	if tests == nil {
		return failed
	} else if failed != nil {
		fmt.Println(failed)
	}
	return errors.Join(failed, c.try(tests, jobs, known))
}

// A job is a mutant, and what is to notice it.
type job struct {
	mutant
	steps []step
}

// jobs returns the mutants that the command line says.
func (c *config) jobs() ([]*job, error) {
	names, err := regexp.Compile(c.files)
	if err != nil {
		return nil, err
	}
	only, err := regexp.Compile(c.only)
	if err != nil {
		return nil, err
	}
	var from []byte
	if c.from != "" {
		if from, err = os.ReadFile(c.from); err != nil {
			return nil, err
		}
	}
	var k, n int
	if _, err := fmt.Sscanf(c.part, "%d/%d", &k, &n); err != nil || k < 1 || k > n {
		return nil, fmt.Errorf("-part %s: want k/n with k from 1 to n", c.part)
	}
	var jobs []*job
	place := 0
	for _, t := range targets {
		if !names.MatchString(t.file) {
			continue
		}
		mutants, err := mutantsOf(t.file)
		if err != nil {
			return nil, err
		}
		for _, m := range mutants {
			if !only.MatchString(m.String()) || c.from != "" && !bytes.Contains(from, []byte(m.String())) {
				continue
			}
			if place++; place%n == k%n {
				m.number = len(jobs) + 1
				jobs = append(jobs, &job{m, t.steps[:min(c.steps, len(t.steps))]})
			}
		}
	}
	return jobs, nil
}

// try tries the mutants, and prints those that survive.
func (c *config) try(tests *tests, jobs []*job, known []byte) error {
	var mu sync.Mutex // guards what follows
	fates := make(map[fate]int)
	var expected, open int // survivors that are known, and those in files that are not complete
	var errs []error
	each(c.at, jobs, func(j *job) {
		fate, by, err := tests.try(j)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", j.mutant, err))
			return
		}
		isKnown := bytes.Contains(known, []byte(j.key()))
		switch {
		case fate == lives && isKnown:
			expected++
		case fate == lives:
			if fates[lives]++; !slices.Contains(complete, j.file) {
				open++
			}
			fmt.Printf("- %s\n", j.mutant)
		default:
			fates[fate]++
		}
		if c.verbose && fate != lives {
			fmt.Printf("noticed by %s: %s\n", by, j.mutant)
		}
		if fate != lives && isKnown && fate != noBuild {
			fmt.Printf("noticed by %s, although it is listed: %s\n", by, j.mutant)
		}
	})
	fmt.Printf("%d mutants: %d noticed, %d by a limit of time, %d do not build, %d survive and are known, %d survive, %d of these in files that are not complete\n",
		len(jobs), fates[caught], fates[late], fates[noBuild], expected, fates[lives], open)
	if n := fates[lives] - open; n > 0 {
		errs = append(errs, fmt.Errorf("%d mutants survive that are not known, in files that are complete", n))
	}
	return errors.Join(errs...)
}

// each calls f with each of all, at several at a time.
func each[T any](at int, all []T, f func(T)) {
	queue := make(chan T)
	var workers sync.WaitGroup
	for range at {
		workers.Go(func() {
			for one := range queue {
				f(one)
			}
		})
	}
	for _, one := range all {
		queue <- one
	}
	close(queue)
	workers.Wait()
}

// A fate is what becomes of a mutant.
type fate uint8

const (
	lives   fate = iota // all tests pass
	caught              // a test fails
	late                // a test takes much longer than without the mutant
	noBuild             // a script that cannot be loaded
)

// A mutant is one change of one file.
type mutant struct {
	number int    // from 1 on
	file   string // from the root of the module
	text   string // of the file
	change
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
		m := mutant{file: file, text: string(b), change: c}
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
	wrap   wrap // in a Go file
}

// A wrap makes the same change of a Go file while a condition, on, is true: it puts texts around the bytes from from to until.
type wrap struct {
	from, until   int
	before, after string
}

// negated are the comparisons, and what is put in their place.
var negated = map[string]string{"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
