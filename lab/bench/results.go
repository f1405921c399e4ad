package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// key names a row.
type key struct{ workload, subject string }

// results are what a run found.
type results struct {
	at        time.Time
	took      time.Duration
	short     bool
	old       bool // ours is beside another commit's: see -old
	plan      plan
	workloads []*workload
	subjects  []*subject
	found     map[key][]figures // one for each repetition
	machine   machine
}

func (r *results) add(workload, subject string, f figures) {
	k := key{workload, subject}
	r.found[k] = append(r.found[k], f)
}

// value returns a figure over all repetitions, and reports whether there is
// one.
func (r *results) value(workload, subject string, m metric) (float64, bool) {
	values := r.values(workload, subject, m)
	if summed[m] {
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		return sum, len(values) > 0
	}
	return median(values), len(values) > 0
}

// hangs returns in how many of its repetitions the subject has passed the
// bound.
func (r *results) hangs(workload, subject string) (n, of int) {
	x, _ := r.value(workload, subject, hung)
	return int(x), len(r.found[key{workload, subject}])
}

// values returns a figure of each repetition that has it.
func (r *results) values(workload, subject string, m metric) []float64 {
	var values []float64
	for _, f := range r.found[key{workload, subject}] {
		if v, ok := f[m]; ok {
			values = append(values, v)
		}
	}
	return values
}

// ratios returns a's figure as a multiple of b's, in each repetition that has both: what slowed the
// machine down slowed both.
func (r *results) ratios(workload, a, b string, m metric) []float64 {
	all, others := r.found[key{workload, a}], r.found[key{workload, b}]
	var ratios []float64
	for i := range min(len(all), len(others)) {
		x, okX := all[i][m]
		y, okY := others[i][m]
		if okX && okY && y != 0 {
			ratios = append(ratios, x/y)
		}
	}
	return ratios
}

// machine is where it was run, and with what.
type machine struct {
	cpu, kernel, redis, goVersion string
	cores                         int
	versions                      []string
}

func describe(f *fleet) machine {
	m := machine{cpu: "unknown", kernel: "unknown", redis: "unknown", goVersion: runtime.Version(), cores: runtime.NumCPU()}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.kernel = strings.TrimSpace(string(text))
	}
	if text, err := exec.Command("redis-server", "--version").Output(); err == nil {
		if _, after, ok := strings.Cut(string(text), "v="); ok {
			m.redis = strings.Fields(after)[0]
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if interesting(d.Path) {
				m.versions = append(m.versions, fmt.Sprintf("%s %s", d.Path, d.Version))
			}
		}
	}
	return m
}

func interesting(path string) bool {
	for _, p := range []string{"go-redsync/", "gomodule/redigo", "redis/go-redis", "redis/rueidis", "bsm/redislock"} {
		if strings.Contains(path, p) {
			return true
		}
	}
	return false
}
