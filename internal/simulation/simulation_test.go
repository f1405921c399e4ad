//go:debug randseednop=0

package simulation

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/redlock-go/redlock/internal/bubbletest"
)

var (
	seeds     = flag.Int("seeds", defaultSeeds(), "how many seeds TestSeeds runs")
	first     = flag.Uint64("first", 0, "the first of them")
	seed      = flag.Int64("seed", -1, "the seed whose run TestSeed shows")
	drop      = flag.String("drop", "", "what TestSeed leaves out of the plan, as a failed run says")
	repeat    = flag.Int("repeat", 1, "how often TestSeed tries to see the seed fail")
	only      = flag.String("profile", "", "run each seed with this profile")
	free      = flag.Duration("free", 0, "bounds how long a free lock may stay free, instead of the profile's bound")
	untilFail = flag.Bool("untilfail", false, "stop at the first seed that fails")
	noShrink  = flag.Bool("noshrink", false, "do not look for the smallest plan that fails")
	child     = flag.Bool("child", false, "internal: run the seeds in this process")
	step      = flag.Int("step", 1, "internal: run every so many of the seeds")
)

// defaultSeeds returns how many seeds two cores run in about a quarter of a minute.
func defaultSeeds() int {
	if bubbletest.RaceEnabled {
		return 40
	}
	return 100
}

func TestMain(m *testing.M) {
	flag.Parse()
	// Embedded masters allocate much. Fewer collections save a third of the time.
	debug.SetGCPercent(1000)
	os.Exit(m.Run())
}

// TestSeeds runs seeds, each of which is a plan of its own.
func TestSeeds(t *testing.T) {
	if !*child {
		runShards(t)
		return
	}
	failed := 0
	for i := 0; i < *seeds; i += *step {
		s := *first + uint64(i)
		fmt.Printf("%s%d\n", seedMark, s)
		o := simulate(t, planOf(s))
		fmt.Println(figuresMark + o.figures.String())
		if o.failed() {
			report(t, o, failed)
			failed++
			if *untilFail {
				return
			}
		}
	}
}

// TestSeed shows the run of one seed: go test ./internal/simulation -run 'TestSeed$' -v -args -seed 17
func TestSeed(t *testing.T) {
	if *seed < 0 {
		return // a test that skips is a failure in CI
	}
	p := planOf(uint64(*seed))
	if err := p.drop(*drop); err != nil {
		t.Fatal(err)
	}
	for range *repeat {
		o := simulate(t, p)
		if o.failed() || *repeat == 1 {
			t.Logf("%v%v", o.plan, o.history)
		}
		for _, v := range o.violations {
			t.Error(v)
		}
		if o.failed() {
			return
		}
	}
}

// planOf returns the plan of a seed, as the flags want it.
func planOf(seed uint64) *plan {
	for _, p := range append(slices.Clone(profiles), turnsProfiles...) {
		if p.name == *only {
			return makePlanOf(seed, p)
		}
	}
	if *only != "" {
		panic("no profile " + *only)
	}
	return makePlan(seed)
}

// simulate carries out a plan in a bubble of its own.
func simulate(t *testing.T, p *plan) (o *outcome) {
	//lint:ignore SA1019 The library's backoff draws from this generator. Nothing else makes its delays repeat.
	rand.Seed(int64(p.seed))
	if *free > 0 {
		profile := *p.profile
		profile.free = *free
		p.profile = &profile
	}
	name := fmt.Sprintf("seed %d, %s", p.seed, p.profile.name)
	bubbletest.Named(t, name, func(t *testing.T) { o = execute(t, p) })
	checkThroughput(t, p, o)
	return o
}
