//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/programs"
	"github.com/redlock-go/redlock/internal/redisserver"
)

func init() {
	verbs["server"] = func([]string) int { return serve() }
	verbs["worker"] = func([]string) int { return serveWork() }
}

// serve is a child with a child of its own, a worker. At SIGTERM it asks the worker to end by the end of its input, and waits for it.
func serve() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	worker := exec.Command(os.Args[0], runChildName, "worker")
	worker.Stdout = os.Stdout
	in, err := worker.StdinPipe()
	if err != nil || worker.Start() != nil {
		return 98
	}
	<-signals
	time.Sleep(100 * time.Millisecond) // a signal to the whole group has reached the worker by now
	in.Close()
	if worker.Wait() != nil {
		return 97
	}
	return 40
}

// serveWork is a worker of serve. It prints the signals that it receives.
func serveWork() int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	fmt.Println("ready")
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for {
		select {
		case s := <-signals:
			fmt.Println("the worker got", s)
		case <-ended:
			fmt.Println("the worker ends")
			return 0
		}
	}
}

// The child of the command ignores the signals that ask it to end, and has the output of the command.
func TestTheProcessesOfTheCommandAreKilledWhenRedlockIsKilled(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	for i := range 3 {
		r := startRun(t, masters, []string{"--name", fmt.Sprint("n", i)}, "family") // the lock of a run that is killed lasts for its TTL
		r.expect("ready")
		if err := r.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, rest := r.end(); rest != "" { // the output ends when every process that could write has ended
			t.Errorf("a process of the command said %q, want it killed without a word", rest)
		}
	}
}

func TestTERMGoesToTheCommandAlone(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	r := startRun(t, masters, nil, "server")
	r.expect("ready")
	r.cmd.Process.Signal(syscall.SIGTERM)
	status, rest := r.end()
	if status != 40 || rest != "the worker ends\n" {
		t.Errorf("status %d, the command said %q, want 40, and a worker that only the command has asked to end", status, rest)
	}
}

// The lock is held until the processes that a shell has left behind have ended. The next holder does not run beside them.
func TestProcessesThatTheCommandLeavesAfterTERMEndBeforeTheRelease(t *testing.T) {
	t.Parallel()
	servers, masters := embedMasters(t, 3)
	r := startRun(t, masters, []string{"--ttl", "5s"}, "family")
	r.expect("ready")
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.expect("got terminated")
	status, rest := r.end()
	if status != 40 || rest != "" {
		t.Errorf("status %d, the command said %q, want 40 and no process that survives", status, rest)
	}
	for _, s := range servers {
		until(t, func() bool { return !s.Exists("n") })
	}
}

func TestAScriptWithoutAnInterpreterIsRunBySh(t *testing.T) {
	t.Parallel()
	programs.Need(t, "sh")
	_, masters := embedMasters(t, 3)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "job"), []byte("echo it ran with \"$@\"\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ path, command string }{
		{os.Getenv("PATH"), "./job"},
		{"." + string(filepath.ListSeparator) + os.Getenv("PATH"), "job"}, // as in a shell, a PATH may have a relative directory
	} {
		cmd := exec.Command(os.Args[0], runCommandName, "n", "--", row.command, "two  words", "-x")
		cmd.Dir = dir
		cmd.Env = slices.DeleteFunc(runEnv(masters), func(v string) bool { return strings.HasPrefix(v, "PATH=") })
		cmd.Env = append(cmd.Env, "PATH="+row.path)
		out, _ := cmd.CombinedOutput()
		if status := cmd.ProcessState.ExitCode(); status != 3 || string(out) != "it ran with two  words -x\n" {
			t.Errorf("%s: status %d, output %q, want 3, and the script to have run", row.command, status, out)
		}
	}
}

// A process of a verification is stopped when redlock verify is killed. It does not stay for ever, nor do the keys.
func TestNothingIsLeftOfAVerificationThatIsKilled(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3, "--requirepass", "s3kret")
	var list []string
	for _, s := range servers {
		list = append(list, "redis://:s3kret@"+s.Addr())
	}
	history := filepath.Join(t.TempDir(), "history.jsonl")
	cmd := exec.Command(os.Args[0], "verify", "--for", "10m", "--history", history)
	cmd.Env = runEnv(strings.Join(list, ","))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Every process of the verification can write to the standard error, and does so only if it fails.
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	hung := time.AfterFunc(2*childPatience, kill)
	defer kill()
	until(t, func() bool {
		text, _ := os.ReadFile(history)
		return strings.Count(string(text), `"k":"stopped"`) > strings.Count(string(text), `"k":"continued"`)
	})
	cmd.Process.Kill()
	said, _ := io.ReadAll(stderr)
	if !hung.Stop() {
		t.Error("a process of the verification is left")
	}
	cmd.Wait()
	for _, s := range servers {
		until(t, func() bool {
			return !slices.ContainsFunc(keysOf(t, s), func(key string) bool { return strings.Contains(key, "redlock-verify-") })
		})
	}
	if strings.Contains(string(said), "s3kret") {
		t.Errorf("the output shows a password: %s", said)
	}
}
