package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/redlock-go/redlock/internal/farexpiry"
)

// runChildName makes the test binary a command for `redlock run`: see TestMain.
const runChildName = "run-test-child"

// childPatience bounds the life of a child, so that a failing test leaves no process behind.
const childPatience = time.Minute

// nodeTimeout is for clients that expect answers. On a busy machine the masters answer late. If an attempt must end within
// --wait, the test gives a longer --wait.
const nodeTimeout = 4 * time.Second

// verbs are further things that a child can do on some systems.
var verbs = make(map[string]func(args []string) int)

// runChild runs the child, and returns its exit status.
func runChild(verb string, args []string) int {
	switch verb {
	case "exit":
		n, _ := strconv.Atoi(args[0])
		return n
	case "echo":
		fmt.Fprintln(os.Stderr, "under", os.Getenv(nameEnv))
		io.Copy(os.Stdout, os.Stdin)
		return 0
	case "fence":
		fmt.Println(os.Getenv(fenceEnv))
		return 0
	case "slot": // prints what a run under a permit has, and ends with its input
		fmt.Println(os.Getenv(slotEnv), os.Getenv(fenceEnv))
		io.Copy(io.Discard, os.Stdin)
		return 0
	case "alone": // fails if another child is in the critical section
		f, err := os.OpenFile(args[0], os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		f.Close()
		time.Sleep(20 * time.Millisecond) // the work of the critical section
		if os.Remove(args[0]) != nil {
			return 1
		}
		return 0
	}
	if f := verbs[verb]; f != nil {
		return f(args)
	}
	return 2
}

// embedMasters starts n masters, adopted, and returns them and what --masters takes.
func embedMasters(t *testing.T, n int) (servers []*miniredis.Miniredis, list string) {
	t.Helper()
	servers, list = freshMasters(t, n)
	for _, m := range mustParse(t, list) {
		if err := adopt(t.Context(), m, 0, n); err != nil {
			t.Fatal(err)
		}
	}
	return servers, list
}

// mustParse parses what --masters takes.
func mustParse(t *testing.T, list string) []master {
	t.Helper()
	masters, err := parseMasters("--masters", list)
	if err != nil {
		t.Fatal(err)
	}
	return masters
}

// freshMasters is embedMasters without the adopting.
func freshMasters(t *testing.T, n int) (servers []*miniredis.Miniredis, list string) {
	t.Helper()
	var urls []string
	for range n {
		s := miniredis.RunT(t)
		farexpiry.Help(s)
		s.ClockTTL(true)
		s.RequireAuth("s3kret")
		servers = append(servers, s)
		urls = append(urls, "redis://:s3kret@"+s.Addr())
	}
	return servers, strings.Join(urls, ",")
}

// firstDown returns a list of masters, the first n of which have addresses at which no server listens. A server that is stopped
// leaves its port to others.
func firstDown(masters string, n int) string {
	urls := strings.Split(masters, ",")
	for i := range n {
		urls[i] = fmt.Sprint("127.0.0.1:", i+1)
	}
	return strings.Join(urls, ",")
}

// A running is a `redlock run` of a child, in a process of its own.
type running struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner // the child's output; it ends when every process that can write there has ended

	mu     sync.Mutex // guards stderr
	stderr bytes.Buffer
}

// startRun starts `redlock run` with flags and a child. Unless a flag is --name, the lock is "n".
func startRun(t *testing.T, masters string, flags []string, child ...string) *running {
	t.Helper()
	r := newRun(t, masters, flags, child...)
	r.start()
	return r
}

// newRun prepares what startRun starts.
func newRun(t *testing.T, masters string, flags []string, child ...string) *running {
	t.Helper()
	patience := nodeTimeout
	if i := slices.Index(flags, "--ttl"); i >= 0 {
		ttl, err := time.ParseDuration(flags[i+1])
		if err != nil {
			t.Fatal(err)
		}
		patience = min(patience, ttl*3/10) // validity must be left
	}
	args := append([]string{runCommandName, "--node-timeout", patience.String()}, flags...)
	if !slices.Contains(flags, "--name") {
		args = append(args, "n")
	}
	args = slices.Concat(args, []string{"--", os.Args[0], runChildName}, child)
	r := &running{t: t, cmd: exec.Command(os.Args[0], args...)}
	r.cmd.Env = runEnv(masters)
	r.cmd.Stderr = r
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.lines = bufio.NewScanner(out)
	return r
}

func (r *running) start() {
	r.t.Helper()
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	hung := time.AfterFunc(childPatience, func() { r.cmd.Process.Kill() })
	r.t.Cleanup(func() { hung.Stop(); r.cmd.Process.Kill() })
}

// runEnv returns the environment for a `redlock run` on these masters.
func runEnv(masters string) []string {
	// With -race a process that succeeds would sleep for a second before it exits.
	return append(os.Environ(), mastersEnv+"="+masters, "GORACE=atexit_sleep_ms=0")
}

// Write receives the standard error.
func (r *running) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stderr.Write(b)
}

func (r *running) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stderr.String()
}

// expect reads the child's next line.
func (r *running) expect(want string) {
	r.t.Helper()
	if !r.lines.Scan() || r.lines.Text() != want {
		r.t.Fatalf("the command said %q, want %q; standard error:\n%s", r.lines.Text(), want, r.said())
	}
}

// end waits for the end, and returns the exit status and the output of the child.
func (r *running) end() (status int, rest string) {
	r.t.Helper()
	for r.lines.Scan() {
		rest += r.lines.Text() + "\n"
	}
	err := r.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	if strings.Contains(r.said(), "s3kret") {
		r.t.Errorf("the output shows a password:\n%s", r.said())
	}
	return r.cmd.ProcessState.ExitCode(), rest
}

// wantEnd waits for the end, and fails t unless the exit status and the standard error are as wanted.
func (r *running) wantEnd(status int, stderr ...string) {
	r.t.Helper()
	if got, _ := r.end(); got != status {
		r.t.Errorf("exit status %d, want %d; standard error:\n%s", got, status, r.said())
	}
	want(r.t, r.said(), stderr...)
}

func TestRunPassesTheExitStatusOn(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	for _, status := range []int{0, 1, 42, 255} {
		r := startRun(t, masters, nil, "exit", strconv.Itoa(status))
		r.wantEnd(status)
		if r.said() != "" {
			t.Errorf("with status %d redlock said %q, want nothing", status, r.said())
		}
	}
}

func TestRunPassesInputAndOutputThrough(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	text := strings.Repeat("a line\n", 20_000)
	cmd := exec.Command(os.Args[0], runCommandName, "--node-timeout", "4s", "n", "--", os.Args[0], runChildName, "echo")
	cmd.Env = runEnv(masters)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, errOut.String())
	}
	if out.String() != text {
		t.Errorf("%d bytes came out, want the %d that went in", out.Len(), len(text))
	}
	if !strings.HasSuffix(errOut.String(), "under n\n") { // after what redlock may have logged
		t.Errorf("standard error %q, want what the command wrote there", errOut.String())
	}
}

func TestRunReleasesTheLock(t *testing.T) {
	t.Parallel()
	servers, masters := embedMasters(t, 3)
	// With so long a TTL, only a release can free the lock for the single attempt of the next run.
	for range 3 {
		startRun(t, masters, []string{"--ttl", "1h", "--raise-max-ttl", "--wait", "0"}, "exit", "3").wantEnd(3)
	}
	r := startRun(t, masters, []string{"--ttl", "1h", "--raise-max-ttl", "--wait", "0"}, "no-such-verb")
	r.wantEnd(2)
	for i, s := range servers {
		if s.Exists("n") {
			t.Errorf("master %d still has the key", i+1)
		}
	}
}

func TestRunSaysThatTheLockIsHeld(t *testing.T) {
	t.Parallel()
	servers, masters := embedMasters(t, 5)
	for _, s := range servers {
		s.Set("n", "another's")
		s.SetTTL("n", time.Hour)
	}
	startRun(t, masters, []string{"--wait", "0"}, "exit", "0").wantEnd(exitHeld, `redlock: error: "n" is held by another`)
	startRun(t, masters, []string{"--wait", "6s"}, "exit", "0").wantEnd(exitHeld, `redlock: error: "n" is held by another; waited 6s for it`)
	for i, s := range servers {
		if got, _ := s.Get("n"); got != "another's" {
			t.Errorf("master %d has %q, want the other's token", i+1, got)
		}
	}
}

func TestRunSaysThatTheMastersAreDown(t *testing.T) {
	t.Parallel()
	servers, list := embedMasters(t, 5)
	for _, s := range servers {
		s.Set("n", "another's")
		s.SetTTL("n", time.Hour) // two refusals of five do not mean that the lock is held
	}
	masters, down := firstDown(list, 3), "127.0.0.1:1"
	for _, wait := range []string{"0", "1s"} {
		startRun(t, masters, []string{"--wait", wait}, "exit", "0").wantEnd(exitNoQuorum,
			"redlock: error: no quorum of the masters", down, "redlock: hint: a majority")
	}
}

func TestRunWaitsForLateMastersAsLongAsTheNodeTimeout(t *testing.T) {
	t.Parallel()
	servers, masters := embedMasters(t, 3)
	for _, s := range servers {
		s.Server().SetPreHook(func(_ *server.Peer, _ string, args ...string) bool {
			if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "acquire ") }) {
				time.Sleep(time.Second)
			}
			return false
		})
	}
	flags := []string{"--wait", "0", "--node-timeout"}
	startRun(t, masters, append(flags, "100ms"), "exit", "0").wantEnd(exitNoQuorum, "no answer within 100ms")
	startRun(t, masters, append(flags, "4s"), "exit", "3").wantEnd(3)
}

func TestRunTellsItsCommandTheFence(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	last := uint64(0)
	for range 3 {
		r := startRun(t, masters, nil, "fence")
		status, said := r.end()
		fence, err := strconv.ParseUint(strings.TrimSpace(said), 10, 64)
		if status != 0 || err != nil || fence <= last {
			t.Errorf("exit status %d, $%s is %q, want a number above %d; standard error:\n%s", status, fenceEnv, said, last, r.said())
		}
		last = fence
	}
}

func TestRunLocksSeveralNames(t *testing.T) {
	t.Parallel()
	servers, masters := embedMasters(t, 3)
	r := startRun(t, masters, []string{"--name", "b", "--name", "a,c"}, "echo") // without input it ends at once
	r.wantEnd(0, "under a,c, b")
	for _, s := range servers {
		if s.Exists("b") || s.Exists("a,c") {
			t.Error("a key is left")
		}
		s.Set("b", "somebody else's")
		s.SetTTL("b", time.Hour)
	}
	flags := []string{"--name", "a", "--name", "b", "--wait"}
	startRun(t, masters, append(flags, "0"), "exit", "0").wantEnd(exitHeld, `"b" is held by`)
	startRun(t, masters, append(flags, "6s"), "exit", "0").wantEnd(exitHeld, `"b" is held by`, "waited 6s")
}

func TestRunsExcludeEachOther(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 5)
	section := filepath.Join(t.TempDir(), "section")
	var runs []*running
	for range 6 {
		runs = append(runs, startRun(t, masters, nil, "alone", section))
	}
	for _, r := range runs {
		r.wantEnd(0)
	}
}
