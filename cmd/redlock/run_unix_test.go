//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/programs"
	"github.com/redlock-go/redlock/internal/proxy"
	"github.com/redlock-go/redlock/internal/redisserver"
)

func init() {
	for _, verb := range []string{"hold", "stubborn", "family", "deaf"} {
		verbs[verb] = func([]string) int { return holdOn(verb) }
	}
	verbs["die"] = func([]string) int {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// holdOn is a child that keeps running and prints the signals that it receives. "hold" ends with the first signal
// that asks it to end, "stubborn" with none. "family" ends as "hold" does, and leaves behind a child that ignores
// signals.
func holdOn(verb string) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	switch verb {
	case "deaf":
		signal.Ignore(passedOn...)
	case "family":
		child := exec.Command(os.Args[0], runChildName, "deaf")
		child.ExtraFiles = []*os.File{os.Stdout} // open for as long as it lives
		out, err := child.StdoutPipe()
		if err != nil {
			return 98
		}
		if err := child.Start(); err != nil {
			return 98
		}
		out.Read(make([]byte, 1)) // it is ready
	}
	fmt.Println("ready")
	end := time.After(childPatience)
	for {
		select {
		case s := <-signals:
			fmt.Println("got", s)
			if verb != "stubborn" && s != syscall.SIGUSR1 {
				return 40
			}
		case <-end:
			out := os.Stdout
			if verb == "deaf" {
				out = os.NewFile(3, "output")
			}
			fmt.Fprintln(out, "survived")
			return 99
		}
	}
}

func TestRunPassesSignalsOn(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR2} {
		if signal.Ignored(s) {
			t.Logf("%v is ignored here, as nohup has it, and so it is by the command", s)
			continue
		}
		r := startRun(t, masters, nil, "hold")
		r.expect("ready")
		for _, s := range []syscall.Signal{syscall.SIGUSR1, s} {
			if err := r.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			r.expect("got " + s.String())
		}
		r.wantEnd(40)
	}
}

func TestRunReleasesTheLockOfACommandThatDoesNotStart(t *testing.T) {
	t.Parallel()
	servers, masters := embedMasters(t, 3)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(os.Args[0], runCommandName, "--masters", masters, "n", "--", script).CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != exitNotFound {
		t.Errorf("it ended with %v, want %d: %s", err, exitNotFound, out)
	}
	for i, s := range servers {
		if s.Exists("n") {
			t.Errorf("master %d still has the key", i+1)
		}
	}
}

func TestTheStatusSaysWhyTheCommandDidNotStart(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{syscall.EAGAIN, exitRunFailed}, // too many processes
		{syscall.ENOMEM, exitRunFailed},
		{syscall.EACCES, exitCannotExec},
		{syscall.ENOEXEC, exitCannotExec},
		{syscall.ENOENT, exitNotFound},
		{exec.ErrNotFound, exitNotFound},
	} {
		status := (*statusError)(nil)
		if err := notExecuted(fmt.Errorf("fork/exec: %w", tt.err)); !errors.As(err, &status) || status.status != tt.want {
			t.Errorf("%v has the status of %v, want %d", tt.err, err, tt.want)
		}
	}
}

func TestRunSaysWhichSignalEndedTheCommand(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	startRun(t, masters, nil, "die").wantEnd(128 + 9)
}

func TestRunLeavesAnIgnoredSignalIgnored(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	r := newRun(t, masters, nil, "hold")
	// A shell sets this, as nohup does: in this process it could not be undone.
	r.cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, r.cmd.Args...)
	r.cmd.Path = programs.Command(t, "sh").Path
	r.start()
	r.expect("ready")
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1} {
		if err := r.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	r.expect("got " + syscall.SIGUSR1.String())
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.wantEnd(40)
}

func TestASignalEndsTheWaitForTheLock(t *testing.T) {
	t.Parallel()
	servers, masters := embedMasters(t, 3)
	for _, s := range servers {
		s.Set("n", "another's")
		s.SetTTL("n", time.Hour)
	}
	r := startRun(t, masters, nil, "exit", "0")
	until(t, func() bool { return strings.Contains(r.said(), "held by another") }) // a busy machine connects late
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.wantEnd(128+15, "held by another", `redlock: error: ended by a signal (terminated) while waiting for the lock "n"`)
}

// realMasters starts five real masters.
func realMasters(t *testing.T) (servers []*redisserver.Server, list string) {
	t.Helper()
	servers = redisserver.AdoptedTB(t, 5)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return servers, strings.Join(addrs, ",")
}

func TestRunEndsItsCommandWhenTheMastersFreeze(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ child, stderr string }{
		{"hold", "ending the command"},
		{"stubborn", "the command was killed"},
		{"family", "ending the command"},
	} {
		t.Run(tt.child, func(t *testing.T) {
			t.Parallel()
			servers, masters := realMasters(t)
			r := startRun(t, masters, []string{"--ttl", "9s"}, tt.child) // a busy machine may stop all processes for most of a second
			r.expect("ready")
			for _, s := range servers[:3] {
				if err := s.Freeze(); err != nil {
					t.Fatal(err)
				}
			}
			r.expect("got terminated")
			r.wantEnd(exitLost, tt.stderr, "redlock: error: ")
		})
	}
}

func TestRunRenewsTheLeaseWhileItsCommandRuns(t *testing.T) {
	t.Parallel()
	servers, masters := realMasters(t)
	r := startRun(t, masters, []string{"--ttl", "3s"}, "hold")
	r.expect("ready")
	tokens := func() []string { // of the masters that have one
		var all []string
		for _, s := range servers {
			if token, err := redis.String(s.Do("GET", "n")); err == nil {
				all = append(all, token)
			}
		}
		return all
	}
	before := tokens()
	// This key lives for more than two TTLs by a master's own clock.
	if _, err := servers[0].Do("SET", "clock", "x", "PX", 7000); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		got, err := servers[0].Do("EXISTS", "clock")
		return err == nil && got == int64(0)
	})
	after := tokens()
	if len(before) < 3 || len(after) < 3 || len(slices.Compact(slices.Concat(before, after))) != 1 {
		t.Errorf("masters had %q, and now have %q, want one token at a quorum", before, after)
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.wantEnd(40)
}

func TestRunEndsItsCommandWhenTheKeysAreDeleted(t *testing.T) {
	t.Parallel()
	servers, masters := realMasters(t)
	r := startRun(t, masters, []string{"--ttl", "2s"}, "stubborn")
	r.expect("ready")
	for _, s := range servers {
		if _, err := s.Do("DEL", "n"); err != nil {
			t.Fatal(err)
		}
	}
	r.wantEnd(exitLost, "redlock: error: ", "the command was killed")
	if said := r.said(); strings.Count(said, "deleted by hand or by redlock break") != 1 {
		t.Errorf("it says %q, want the cause once", said)
	}
}

// The lease of a process to which a release grants the lock is shorter at first than the time that the command has
// between SIGTERM and SIGKILL.
func TestRunDoesNotEndTheCommandOfALeaseThatWasGranted(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, ttl string
		delay     time.Duration // of each way to a master
	}{
		{"masters that are near", "10s", 0},
		{"masters that are far", "5s", 80 * time.Millisecond}, // a little more than the grace is left of such a lease
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			servers, masters := realMasters(t)
			if row.delay > 0 {
				var far []string
				for _, s := range servers {
					p := proxy.TB(t, s.Addr())
					p.Delay(row.delay)
					far = append(far, p.Addr())
				}
				masters = strings.Join(far, ",")
			}
			first := startRun(t, masters, []string{"--ttl", row.ttl}, "hold")
			first.expect("ready")
			second := startRun(t, masters, []string{"--ttl", row.ttl, "--wait", "20s"}, "hold")
			for _, s := range servers {
				until(t, func() bool {
					n, err := s.Do("ZCARD", "redlock:queue:n")
					return err == nil && n == int64(1)
				})
			}
			first.cmd.Process.Signal(syscall.SIGTERM)
			first.wantEnd(40)
			second.expect("ready")
			time.Sleep(300 * time.Millisecond) // a defect would have asked the command to end at its start
			second.cmd.Process.Signal(syscall.SIGTERM)
			second.wantEnd(40)
			if said := second.said(); strings.Contains(said, "cannot be renewed") {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// A permit that is passed on is short at first, too.
func TestRunEndsItsCommandWhenThePermitIsLost(t *testing.T) {
	t.Parallel()
	servers, masters := realMasters(t)
	first := startRun(t, masters, []string{"--limit", "1"}, "hold")
	first.expect("ready")
	second := startRun(t, masters, []string{"--limit", "1", "--ttl", "2s", "--wait", "20s"}, "stubborn")
	for _, s := range servers {
		until(t, func() bool {
			n, err := s.Do("ZCARD", "redlock:permits:n")
			return err == nil && n == int64(1)
		})
	}
	ended := startRun(t, masters, []string{"--limit", "1"}, "exit", "0")
	until(t, func() bool { return strings.Contains(ended.said(), "still waiting for locks") })
	ended.cmd.Process.Signal(syscall.SIGTERM)
	ended.wantEnd(128+15, `redlock: error: ended by a signal (terminated) while waiting for a permit of "n"`)
	first.cmd.Process.Signal(syscall.SIGTERM)
	first.wantEnd(40)
	second.expect("ready")
	if said := second.said(); strings.Contains(said, "cannot be renewed") {
		t.Errorf("it says %q", said)
	}
	for _, s := range servers {
		if _, err := s.Do("DEL", "redlock:slots:n", "redlock:until:n", "redlock:taken:n"); err != nil {
			t.Fatal(err)
		}
	}
	second.wantEnd(exitLost, "redlock: error: ", "the command was killed")
}

func TestRunKillsItsCommandIfItWasStoppedForLongerThanTheLease(t *testing.T) {
	t.Parallel()
	_, masters := realMasters(t)
	r := startRun(t, masters, []string{"--ttl", "3s"}, "hold")
	r.expect("ready")
	if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	startRun(t, masters, []string{"--wait", "20s"}, "exit", "0").wantEnd(0)
	if err := r.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	status, rest := r.end()
	if status != exitLost || rest != "" {
		t.Errorf("exit status %d after %q, want %d and no word: the command was to be killed; standard error:\n%s",
			status, rest, exitLost, r.said())
	}
}
