package simulation

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// Lines by which a child tells its parent what it does.
const (
	seedMark    = "seed: "
	figuresMark = "figures: "
)

// runShards runs the seeds in child processes, one for each CPU. A child runs one bubble after
// another on one thread: its runs repeat better, and a bubble that crashes, as one does whose
// goroutines are stuck for ever, takes only its child with it.
func runShards(t *testing.T) {
	n := min(runtime.NumCPU(), *seeds)
	began := time.Now()
	sums := make([]totals, n)
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range n {
		all.Go(func() {
			sums[i] = runShard(ctx, t, i, n)
			if t.Failed() && *untilFail {
				cancel()
			}
		})
	}
	all.Wait()
	for _, s := range sums[1:] {
		sums[0].add(s)
	}
	t.Logf("%d seeds in %v\n%v", *seeds, time.Since(began).Round(time.Second), sums[0])
	if all := sums[0]["all"]; !t.Failed() && (all == nil || all.runs != *seeds) {
		t.Errorf("%v runs, want %d", all, *seeds)
	}
	if all := sums[0]["all"]; !t.Failed() && all.sum.explained < 50*all.runs { // as a rule it is ten times as many
		t.Errorf("%d calls of masters were explained in %d runs, want 50 in each", all.sum.explained, all.runs)
	}
	if g := sums[0]["grants"]; !t.Failed() && g != nil && g.sum.grants < g.sum.entries/10 { // as a rule it is nearly half
		t.Errorf("profile grants: %d of %d entries were granted by releases, want at least a tenth", g.sum.grants, g.sum.entries)
	}
}

// linesKept bounds what is shown of a child's output: a report, or the head of a crash.
const linesKept = 300

// runShard runs every n-th seed, from the i-th on.
func runShard(ctx context.Context, t *testing.T, i, n int) totals {
	sum := totals{}
	args := []string{"-test.run=^TestSeeds$", "-test.timeout=0", "-child",
		fmt.Sprint("-first=", *first+uint64(i)), fmt.Sprint("-seeds=", *seeds-i), fmt.Sprint("-step=", n),
		"-profile=" + *only, fmt.Sprint("-noshrink=", *noShrink), fmt.Sprint("-untilfail=", *untilFail), fmt.Sprint("-free=", *free),
		fmt.Sprint("-crowd=", *crowdOf)}
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return sum
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return sum
	}
	var last string
	var rest []string
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text := lines.Text()
		if s, ok := strings.CutPrefix(text, seedMark); ok {
			last = s
		} else if s, ok := strings.CutPrefix(text, figuresMark); ok {
			sum.read(s)
		} else if len(rest) < linesKept {
			rest = append(rest, text)
		}
	}
	if err := cmd.Wait(); err != nil && ctx.Err() == nil {
		t.Errorf("seeds %d, %d, ...: %v; the last was %s\n%s", *first+uint64(i), *first+uint64(i+n), err, last, strings.Join(rest, "\n"))
	}
	return sum
}

// totals sum up the figures of runs, by profile.
type totals map[string]*total

type total struct {
	runs int
	sum  figures
}

// String returns the figures as read reads them.
func (f figures) String() string {
	return fmt.Sprintf("%s %d %d %d %d %d %d %d %d %d %d %d", f.profile, f.took, f.faults, f.calls, f.entries, f.grants, f.lost, f.overtakes, f.longestFree, f.longestWait,
		f.explained, f.unspecified)
}

func (s totals) read(text string) {
	var f figures
	if _, err := fmt.Sscan(text, &f.profile, &f.took, &f.faults, &f.calls, &f.entries, &f.grants, &f.lost, &f.overtakes, &f.longestFree, &f.longestWait,
		&f.explained, &f.unspecified); err != nil {
		panic(err)
	}
	s.add(totals{f.profile: {1, f}, "all": {1, f}})
}

func (s totals) add(others totals) {
	for name, o := range others {
		t := s[name]
		if t == nil {
			t = &total{}
			s[name] = t
		}
		t.runs += o.runs
		t.sum.took += o.sum.took
		t.sum.faults += o.sum.faults
		t.sum.calls += o.sum.calls
		t.sum.entries += o.sum.entries
		t.sum.grants += o.sum.grants
		t.sum.explained += o.sum.explained
		t.sum.unspecified += o.sum.unspecified
		t.sum.lost += o.sum.lost
		t.sum.overtakes = max(t.sum.overtakes, o.sum.overtakes)
		t.sum.longestFree = max(t.sum.longestFree, o.sum.longestFree)
		t.sum.longestWait = max(t.sum.longestWait, o.sum.longestWait)
	}
}

func (s totals) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "profile\truns\tvirtual time\tfaults\tcalls\tentries\tgrants\tleases lost\tovertakes at most\tfree at most\twaited at most\tcalls explained\tnot specified\t")
	for _, name := range slices.Sorted(maps.Keys(s)) {
		t := s[name]
		fmt.Fprintf(w, "%s\t%d\t%v\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t%d\t%d\t\n", name, t.runs, t.sum.took.Round(time.Second), t.sum.faults,
			t.sum.calls, t.sum.entries, t.sum.grants, t.sum.lost, t.sum.overtakes, t.sum.longestFree, t.sum.longestWait,
			t.sum.explained, t.sum.unspecified)
	}
	w.Flush()
	return b.String()
}
