package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A test is one test of a package.
type test struct {
	pkg, name string
	took      time.Duration // processor time, without a mutant
	reaches   map[int]bool  // the numbers of mutants of Go files
	failed    bool          // without a mutant

	noticed int // how many mutants it has noticed, guarded by tests.mu
}

// tests are those that run, by the step that they belong to.
type tests struct {
	programs *programs
	of       map[step][]*test
	slack    time.Duration // how long tests may run, beside 60 times the processor time that they take without a mutant

	mu sync.Mutex // guards how often each test has noticed a mutant
}

// newTests builds the test programs, and runs each test of the jobs' steps alone and without a mutant. Those that fail are left out, and the error
// says so. Without any program, the tests are nil.
func newTests(dir string, jobs []*job, longest time.Duration, at int) (*tests, error) {
	var mutants []*mutant
	t := &tests{of: make(map[step][]*test), slack: time.Minute}
	var steps []step
	for _, j := range jobs {
		mutants = append(mutants, &j.mutant)
		for _, s := range j.steps {
			if _, ok := t.of[s]; !ok {
				t.of[s] = nil
				steps = append(steps, s)
			}
		}
	}
	var err error
	if t.programs, err = newPrograms(dir, mutants); err != nil {
		return nil, err
	}
	var all []*test
	byName := make(map[[2]string]*test)
	for _, s := range steps {
		names, err := t.programs.tests(s)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			one := byName[[2]string{s.pkg, name}]
			if one == nil {
				one = &test{pkg: s.pkg, name: name}
				byName[[2]string{s.pkg, name}] = one
				all = append(all, one)
			}
			t.of[s] = append(t.of[s], one)
		}
	}
	var mu sync.Mutex // guards errs
	var errs []error
	each(at, all, func(one *test) {
		if err := t.runAlone(one, dir); err != nil {
			mu.Lock()
			defer mu.Unlock()
			one.failed = true
			errs = append(errs, err)
		}
	})
	for s := range t.of {
		t.of[s] = slices.DeleteFunc(t.of[s], func(one *test) bool { return one.failed || one.took > longest })
	}
	return t, errors.Join(errs...)
}

// tests returns the names of the tests of a step.
func (p *programs) tests(s step) ([]string, error) {
	program, err := p.of(s.pkg)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-test.list", cmp.Or(s.tests, "."))
	cmd.Dir = s.pkg
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the tests of %s: %w", s.pkg, err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool {
		return !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") && !strings.HasPrefix(name, "Example")
	}), nil
}

// runAlone runs a test without a mutant.
func (t *tests) runAlone(one *test, dir string) error {
	program, err := t.programs.of(one.pkg)
	if err != nil {
		return err
	}
	reached := filepath.Join(dir, strings.ReplaceAll(one.pkg, "/", "-")+one.name)
	out, took, err := run(program, []*test{one}, 10*time.Minute, reachedVariable+"="+reached)
	if err != nil { // it may count allocations, and to write what is reached takes some
		out, took, err = run(program, []*test{one}, 10*time.Minute, numberVariable+"=0")
	}
	if err != nil {
		return fmt.Errorf("without a mutant, %s of %s fails: %w\n%s", one.name, one.pkg, err, out)
	}
	one.took = took
	text, err := os.ReadFile(reached)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	one.reaches = make(map[int]bool)
	for _, number := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		one.reaches[n] = true
	}
	return nil
}

// run runs tests of one package with a variable in the environment, and returns what they print and how much processor time they take.
func run(program string, some []*test, limit time.Duration, variable string) (string, time.Duration, error) {
	var names []string
	for _, one := range some {
		names = append(names, one.name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.failfast", "-test.run", "^("+strings.Join(names, "|")+")$")
	cmd.Dir = some[0].pkg
	cmd.Env = append(os.Environ(), variable)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return string(out), 0, errLate
	} else if cmd.ProcessState == nil {
		return "", 0, err
	}
	return string(out), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

var errLate = errors.New("it takes much longer than without the mutant")

// try runs tests with the mutant, until one fails, and returns which.
func (t *tests) try(j *job) (fate, string, error) {
	isScript := filepath.Ext(j.file) == ".lua"
	if isScript && !j.loads() {
		return noBuild, "", nil
	}
	dir, err := os.MkdirTemp(t.programs.dir, "mutant")
	if err != nil {
		return lives, "", err
	}
	defer os.RemoveAll(dir)
	patched := make(map[string]string) // the programs with a changed script
	for _, some := range t.chunks(j, isScript) {
		program, err := t.programs.of(some[0].pkg)
		if isScript {
			if program = patched[some[0].pkg]; program == "" {
				program = filepath.Join(dir, fmt.Sprint(len(patched)))
				patched[some[0].pkg] = program
				err = t.programs.patch(&j.mutant, some[0].pkg, program)
			}
		}
		if err != nil {
			return lives, "", err
		}
		limit := t.slack
		for _, one := range some {
			limit += 60 * one.took // others may use most of the machine
		}
		out, _, err := run(program, some, limit, numberVariable+"="+strconv.Itoa(j.number))
		if err == errLate {
			return late, some[0].name, nil
		} else if err != nil {
			return caught, t.credit(some, out), nil
		}
	}
	return lives, "", nil
}

// chunks returns the tests for a mutant, in the order in which they run. Those of a chunk are of one package, and run in one process.
func (t *tests) chunks(j *job, isScript bool) (chunks [][]*test) {
	var all []*test
	for _, s := range j.steps {
		for _, one := range t.of[s] {
			if (isScript || one.reaches[j.number]) && !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(all, func(a, b *test) int {
		return cmp.Or(cmp.Compare(b.noticed, a.noticed), cmp.Compare(a.took, b.took))
	})
	const first = time.Second / 2
	for size := first; len(all) > 0; size *= 4 {
		var some []*test
		took := time.Duration(0)
		for len(all) > 0 && (took == 0 || took+all[0].took <= size) {
			took += all[0].took
			some, all = append(some, all[0]), all[1:]
		}
		byPkg := make(map[string][]*test)
		for _, one := range some {
			byPkg[one.pkg] = append(byPkg[one.pkg], one)
		}
		for _, s := range j.steps {
			if of := byPkg[s.pkg]; of != nil {
				chunks = append(chunks, of)
				delete(byPkg, s.pkg)
			}
		}
	}
	return chunks
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// credit notes which of some tests has failed, and returns its name.
func (t *tests) credit(some []*test, out string) string {
	m := failed.FindStringSubmatch(out)
	if m == nil {
		return "a crash"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range some {
		if one.name == m[1] {
			one.noticed++
		}
	}
	return m[1]
}
