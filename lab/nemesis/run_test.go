package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/programs"
)

// TestMain lets the test binary be the clients.
func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func testConfig(s *subject, seed uint64, length time.Duration) config {
	c := config{plan: plan{seed: seed, length: length, clients: 5, ttl: time.Second}, subject: s, strict: s == ours, kept: -1, entryMost: time.Minute}
	if err := c.pickWorkload(allOfThem); err != nil {
		panic(err)
	}
	return c
}

func TestAShortRunOfEachSubject(t *testing.T) {
	programs.Need(t, "redis-server", "go")
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			dir := t.TempDir()
			c := testConfig(s, 5, 4*time.Second)
			if s != ours { // which are to show that they run, not what they make of faults
				c.length, c.entryMost, c.only = time.Second, 2*time.Second, regexp.MustCompile("^$")
			}
			c.report = filepath.Join(dir, "report.html")
			code, err := c.run(t.Context(), dir)
			if err != nil || code != exitGood {
				t.Errorf("run = %d, %v, want %d", code, err, exitGood)
			}
			page, err := os.ReadFile(c.report)
			if err != nil || !strings.Contains(string(page), "<h1>nemesis: "+s.name+"</h1>") || s == ours && !strings.Contains(string(page), "No two clients held a lock") {
				t.Errorf("the report has %d bytes, %v, want that of the run", len(page), err)
			}
			history, err := os.ReadFile(filepath.Join(dir, "history.jsonl"))
			if err != nil || len(history) < 1000 {
				t.Errorf("the history has %d bytes, %v, want that of a run", len(history), err)
			}
		})
	}
}

// TestDefectsAreCaught shows that the nemesis can fail, in each of its workloads. Other defects take longer: see
// README.md.
func TestDefectsAreCaught(t *testing.T) {
	programs.Need(t, "redis-server", "go")
	for _, test := range []struct{ workload, defect string }{
		{plainLocks, "release-without-compare"},
		{plainLocks, "grant-overwrites"},
		{readWrite, "read-beside-writer"},
		{readWrite, "write-beside-reader"},
		{manyNames, "part-of-a-set"},
		{semaphores, "aim-overwrites"},
	} {
		t.Run(test.defect, func(t *testing.T) {
			c := testConfig(ours, 1, time.Minute)
			c.workload, c.defect = test.workload, test.defect
			dir := t.TempDir()
			code, err := c.run(t.Context(), dir)
			if err != nil || code != exitGood {
				t.Errorf("run with a defect = %d, %v, want it caught, %d", code, err, exitGood)
			}
			if pictures, _ := filepath.Glob(filepath.Join(dir, "*.html")); len(pictures) == 0 {
				t.Error("there is no picture of the history")
			}
		})
	}
}

func TestAnUnknownDefectIsAnError(t *testing.T) {
	c := testConfig(ours, 1, time.Minute)
	c.defect = "no such defect"
	if code, err := c.run(t.Context(), t.TempDir()); err == nil || code != exitError {
		t.Errorf("run with an unknown defect = %d, %v, want an error", code, err)
	}
}

func TestPeersHaveOneWorkload(t *testing.T) {
	for _, test := range []struct {
		subject *subject
		name    string
		want    string // "": an error
	}{
		{ours, allOfThem, allOfThem},
		{ours, readWrite, readWrite},
		{redsyncRedigo, allOfThem, plainLocks},
		{redsyncRedigo, readWrite, ""},
		{ours, "no such workload", ""},
	} {
		c := config{subject: test.subject}
		err := c.pickWorkload(test.name)
		if test.want == "" && err == nil || test.want != "" && (err != nil || c.workload != test.want) {
			t.Errorf("workload %s of %s: %q, %v, want %q", test.name, test.subject.name, c.workload, err, test.want)
		}
	}
}

func TestEverySecondClientIsOfTheCommitBeside(t *testing.T) {
	for _, test := range []struct {
		beside string
		all    bool
		seed   uint64
		want   [5]bool
	}{
		{"", false, 1, [5]bool{}},
		{"2fc0af6", false, 1, [5]bool{true, false, true, false, true}},
		{"2fc0af6", false, 2, [5]bool{false, true, false, true, false}},
		{"2fc0af6", true, 2, [5]bool{true, true, true, true, true}},
	} {
		c := testConfig(ours, test.seed, time.Second)
		c.beside, c.allBeside = test.beside, test.all
		for client, want := range test.want {
			if got := c.old(client); got != want {
				t.Errorf("beside %q, all %t, seed %d: client %d is old: %t, want %t", test.beside, test.all, test.seed, client, got, want)
			}
		}
	}
}

func TestACommitThatIsNoneIsAnError(t *testing.T) {
	if _, err := buildCommit("no-such-commit", t.TempDir()); err == nil {
		t.Error("there is a program of a commit that is none")
	}
}
