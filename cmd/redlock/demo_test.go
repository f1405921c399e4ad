package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// smallDemo is the demo in a second.
var smallDemo = demoConfig{workers: 4, each: 10, hold: time.Millisecond}

func TestDemoOnEmbeddedMasters(t *testing.T) {
	out := playDemo(t, smallDemo)
	want(t, out, "4 processes add 1", "5 embedded Redis masters",
		"  with the lock           40       40      0\n",
		"master 3 of 5 (127.0.0.1:", ") was stopped at ", "a lock needs any 3 of 5 masters")
}

func TestDemoOnGivenMastersStopsNoneAndAdoptsNone(t *testing.T) {
	servers, list := freshMasters(t, 3)
	cfg := smallDemo
	cfg.masters = mustParse(t, list)
	out := playDemo(t, cfg)
	want(t, out, "3 given Redis masters", "  with the lock           40       40      0\n",
		"master 2 of 3 ("+servers[1].Addr()+") was cut off at ", "it was left alone",
		"A lock has to wait 5s: ", "at once:  redlock doctor --adopt\n")
	if n := strings.Count(out, "has to wait"); n != 1 {
		t.Errorf("the wait is told %d times, want once:\n%s", n, out)
	}
	if strings.Contains(out, "s3kret") {
		t.Errorf("the output shows a password:\n%s", out)
	}
	conn, err := redis.Dial("tcp", servers[1].Addr(), redis.DialPassword("s3kret"))
	if err != nil {
		t.Fatalf("the server that was cut off is gone: %v", err)
	}
	conn.Close()
}

// playDemo runs the demo, which must succeed and leave no file behind.
func playDemo(t *testing.T, cfg demoConfig) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} { // os.TempDir's, on all systems
		t.Setenv(name, dir)
	}
	var out bytes.Buffer
	if err := runDemo(t.Context(), cfg, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("the demo left %v behind", left)
	}
	return out.String()
}

func want(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

func TestCrewFailsWithItsWorkersMessage(t *testing.T) {
	c := counter{t.TempDir() + "/n"}
	if err := os.WriteFile(c.path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := runCrew(t.Context(), 2, workerConfig{Counter: c.path, Each: 3}, func(tally) {})
	if err == nil || !strings.Contains(err.Error(), "of 2: reading the counter: ") {
		t.Errorf("runCrew = %v, want the worker's error", err)
	}
}

func TestCrewEndsWithItsContext(t *testing.T) {
	c, err := newCounter(t.TempDir(), "n")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// Returning at all is the proof: a million increments would take half an hour.
	_, err = runCrew(ctx, 2, workerConfig{Counter: c.path, Each: 1_000_000, Hold: time.Millisecond},
		func(now tally) {
			if now.done > 10 {
				cancel()
			}
		})
	if err != context.Canceled {
		t.Errorf("runCrew = %v, want %v", err, context.Canceled)
	}
}

func TestWorkerDoesNotOutliveItsParent(t *testing.T) {
	c, err := newCounter(t.TempDir(), "n")
	if err != nil {
		t.Fatal(err)
	}
	env, err := workerConfig{Counter: c.path, Each: 1_000_000, Hold: time.Millisecond}.environ()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], workerCommandName)
	cmd.Env = env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, first := range []string{"ready", "done 1"} {
		if !lines.Scan() || lines.Text() != first {
			t.Fatalf("the worker said %q, want %q", lines.Text(), first)
		}
		fmt.Fprintln(in, "go")
	}
	in.Close() // as the death of a parent does
	for lines.Scan() {
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the worker ended well, want a failure: it was not through")
	}
}

func TestCrewRefusesAWorkerThatMiscounts(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		gone  bool
		want  string
	}{
		{"in order", []string{"done 1", "done 2", "end 7"}, true, ""},
		{"one missing", []string{"done 2"}, false, `said "done 2" after 0 increments`},
		{"one twice", []string{"done 1", "done 1"}, false, `said "done 1" after 1 increments`},
		{"ends too early", []string{"done 1", "end 7"}, false, `said "end 7" after 1 increments`},
		{"gone without a word", []string{"done 1"}, true, "ended after 1 of 2 increments"},
		{"babble", []string{"hello"}, false, `said "hello" after 0 increments`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &crew{done: make([]int, 1), ended: make([]bool, 1)}
			var err error
			for _, line := range tt.lines {
				if err = c.handle(event{line: line}, 2); err != nil {
					break
				}
			}
			if tt.gone && err == nil {
				err = c.handle(event{gone: true}, 2)
			}
			if got := fmt.Sprint(err); err != nil && got != tt.want || err == nil && tt.want != "" {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestWorkerErrorIsInItsOwnWords(t *testing.T) {
	died := fmt.Errorf("exit status 2")
	for _, tt := range []struct{ name, stderr, want string }{
		{"its error", "time=… level=WARN\nredlock: error: no quorum\nredlock: hint: x\n", "no quorum"},
		{"a panic", "panic: oh\n\ngoroutine 1 [running]:\n", "panic: oh (exit status 2)"},
		{"something", "one\ntwo\n", "exit status 2: two"},
		{"nothing", "", "exit status 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := workerError(died, tt.stderr); got.Error() != tt.want {
				t.Errorf("workerError(%q) = %q, want %q", tt.stderr, got, tt.want)
			}
		})
	}
	if err := workerError(nil, "level=WARN"); err != nil {
		t.Errorf("a worker that only logged failed: %v", err)
	}
}

func TestRelayIsCut(t *testing.T) {
	s := miniredis.RunT(t)
	s.RequireAuth("s3kret")
	m, err := parseMaster("redis://:s3kret@" + s.Addr() + "/3")
	if err != nil {
		t.Fatal(err)
	}
	r, err := startRelay(m)
	if err != nil {
		t.Fatal(err)
	}
	defer r.cut()
	conn, err := redis.DialURL(r.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Do("SET", "k", "v"); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.DB(3).Get("k"); got != "v" {
		t.Errorf("database 3 of the master holds %q, want %q", got, "v")
	}
	r.cut()
	if _, err := conn.Do("PING"); err == nil {
		t.Error("a connection survived the cut")
	}
	if _, err := redis.DialURL(r.url); err == nil {
		t.Error("the relay took a connection after the cut")
	}
}

func TestConclusionSaysWhatHappened(t *testing.T) {
	set := &demoMasters{names: []string{"h:1", "h:2", "h:3"}, embedded: true, victim: 1}
	count := func(counted int) demoCount {
		return demoCount{tally{took: 2 * time.Second, longest: 41 * time.Millisecond}, 1000, counted}
	}
	for _, tt := range []struct {
		name string
		set  *demoMasters
		r    demoResult
		want []string
	}{
		{"as it should be", set, demoResult{without: count(263), with: count(1000), taken: true, takenAt: 500, takenAfter: time.Second},
			[]string{"1000      263    737\n", "500 locks per second; the longest wait for one was 41 ms.", "at 500 and after 1.0 s, master 2 of 3 (h:2) was stopped"}},
		{"luck", set, demoResult{without: count(1000), with: count(1000)}, []string{"luck, not safety"}},
		{"a broken lock", set, demoResult{without: count(263), with: count(999)}, []string{"That is a bug in redlock"}},
		{"one master", &demoMasters{names: []string{"h:1"}, victim: -1}, demoResult{without: count(1), with: count(1000)},
			[]string{"of 1 master every one is needed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := conclusion(tt.set, tt.r)
			want(t, got, tt.want...)
			for line := range strings.Lines(got) {
				if len(line) > 100 {
					t.Errorf("%d columns: %s", len(line), line)
				}
			}
		})
	}
}
