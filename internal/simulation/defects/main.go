// Command defects checks that the simulation can fail. It builds the defects of package
// internal/defects into the library, one at a time, and runs the simulation until it catches each.
//
//	go run ./internal/simulation/defects                  all of them
//	go run ./internal/simulation/defects fence-at-least   some
//
// It fails if a defect is not caught within its number of runs.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/defects"
)

// A target says in how many runs of which profile a defect must be caught.
type target struct {
	defect  string
	profile string
	seeds   int
}

// targets are the profiles that catch each defect soonest, and about ten times as many runs as that
// has taken.
var targets = []target{
	{"release-without-compare", "renewals", 100},
	{"heal-counted", "erased", 20},
	{"no-rollback", "calm", 20},
	{"guard-off", "memory", 100},
	{"fence-at-least", "fences", 20},
	{"minority", "calm", 20},
	{"validity-from-answer", "retries", 200},
	{"validity-from-retry", "retries", 20},
	{"late-vote", "calm", 50},
	{"short-quarantine", "memory", 200},
	{"probe-ignored", "memory", 200},
	{"clock-not-asked", "processes", 200},
	{"heal-after-release", "heals", 300},
	{"heal-never", "heals", 50},
	{"release-forgotten", "network", 300},
	{"wakeup-lost-on-leaving", "impatient", 200},
	{"wakes-nobody", "impatient", 20},
	{"done-open", "erased", 50},
	{"fence-forgotten", "erased", 100},
	{"lockstep", "split", 50},
	{"own-maxttl", "agreement", 20},
	{"read-beside-writer", "readers", 20},
	{"write-beside-reader", "readers", 50},
	{"part-of-a-set", "names", 20},
}

func main() {
	first := flag.Uint64("first", 0, "the first seed")
	flag.Parse()
	if err := run(*first, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "defects:", err)
		os.Exit(1)
	}
}

// run runs the named defects, or all.
func run(first uint64, names []string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(targets, func(t target) bool { return t.defect == name }) {
			return fmt.Errorf("no defect %q", name)
		}
	}
	var missed []string
	for _, t := range targets {
		if len(names) > 0 && !slices.Contains(names, t.defect) {
			continue
		}
		began := time.Now()
		found, err := t.caught(root, first)
		if err != nil {
			return fmt.Errorf("%s: %w", t.defect, err)
		}
		if found == "" {
			missed = append(missed, t.defect)
			found = "NOT CAUGHT"
		}
		fmt.Printf("%-24s %s, of at most %d of profile %s (%v)\n", t.defect, found, t.seeds, t.profile, time.Since(began).Round(time.Second))
	}
	if len(missed) > 0 {
		return fmt.Errorf("not caught: %s", strings.Join(missed, ", "))
	}
	return nil
}

// moduleRoot returns the directory of go.mod.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// caught runs the simulation with the defect, and returns what caught it and in which seed; "" if
// nothing did.
func (t target) caught(root string, first uint64) (string, error) {
	d, err := defects.Find(t.defect)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "defects")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := d.Overlay(root, dir)
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "test", "-overlay", overlay, "-count=1", "-timeout=0", "-run", "^TestSeeds$", "./internal/simulation",
		"-args", "-noshrink", "-untilfail", "-profile="+t.profile, fmt.Sprint("-first=", first), fmt.Sprint("-seeds=", t.seeds))
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	return explain(string(out))
}

// violated is how a failed run begins; crashed is how one ends that takes its process along.
var (
	violated = regexp.MustCompile(`(?s)simulation_test\.go:\d+: \S+: ([a-z ]+): .*?seed (\d+), `)
	crashed  = regexp.MustCompile(`the last was (\d+)\n(?s:.*?)((?:panic|fatal error): [^\n]*)`)
)

// explain finds in the output of a failed run what has caught the defect.
func explain(out string) (string, error) {
	if m := violated.FindStringSubmatch(out); m != nil {
		return fmt.Sprintf("%s: seed %s", m[1], m[2]), nil
	}
	if m := crashed.FindStringSubmatch(out); m != nil {
		return fmt.Sprintf("%s: seed %s", m[2], m[1]), nil
	}
	return "", fmt.Errorf("the simulation did not run:\n%s", out)
}
