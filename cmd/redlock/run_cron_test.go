//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func init() {
	verbs["pid"] = func([]string) int { fmt.Println(os.Getpid()); return 0 }
}

// awaitJob waits until the command, which is "pid", has ended.
func (r *running) awaitJob() {
	r.t.Helper()
	if !r.lines.Scan() {
		r.t.Fatalf("the job did not run:\n%s", r.said())
	}
	pid, err := strconv.Atoi(r.lines.Text())
	if err != nil {
		r.t.Fatal(err)
	}
	until(r.t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// Three machines start a job of a few milliseconds one after the other. It runs once.
func TestAShortJobRunsOnceIfTheLockIsKept(t *testing.T) {
	t.Parallel()
	servers, masters := embedMasters(t, 3)
	cron := []string{"--wait", "0", "--at-least", "1h", "--owner", "cron-1"}
	first := startRun(t, masters, cron, "pid")
	first.awaitJob()
	for range 2 {
		startRun(t, masters, cron, "exit", "3").wantEnd(exitHeld, `redlock: error: "n" is held by `) // cron-1, or another if no answer named it in time
	}
	startRun(t, masters, append(cron, "--held-exit", "0"), "exit", "3").wantEnd(exitOK, `redlock: error: "n" is held by `)
	quiet := startRun(t, masters, append(cron, "--quiet"), "exit", "3")
	if quiet.wantEnd(exitHeld); quiet.said() != "" {
		t.Errorf("with --quiet it says %q", quiet.said())
	}
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	first.wantEnd(exitOK)
	for i, s := range servers {
		if s.Exists("n") {
			t.Errorf("master %d still has the key after the signal", i+1)
		}
	}
	startRun(t, masters, nil, "exit", "3").wantEnd(3)
}

func TestALockIsKeptNoLongerThanAsked(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	began := time.Now()
	startRun(t, masters, []string{"--wait", "0", "--at-least", "300ms"}, "exit", "4").wantEnd(4)
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("the lock was kept for less than %v, want 300ms", took)
	}
	// The lease is lost after the job has ended. That is not a failure of the job.
	servers, masters := embedMasters(t, 3)
	r := startRun(t, masters, []string{"--wait", "1m", "--at-least", "1h", "--ttl", "3s"}, "pid")
	r.awaitJob()
	for _, s := range servers {
		s.Del("n")
	}
	r.wantEnd(exitOK, "the lease was lost after the command had ended")
}

// The lock of a job that was ended is kept for as long as that of any other job.
func TestRunEndsAJobThatRunsForTooLong(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	began := time.Now()
	r := startRun(t, masters, []string{"--max", "100ms", "--wait", "0", "--at-least", "500ms"}, "hold")
	r.wantEnd(exitLate, "the command has run for too long", "redlock: error: the command ran for longer than --max, 100ms, and was ended")
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("the lock was kept for %v, want 500ms at least", took)
	}
	startRun(t, masters, []string{"--max", "1m"}, "exit", "3").wantEnd(3)
}

func TestAWaitNamesTheHolder(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	holder := startRun(t, masters, []string{"--owner", "web-1/4711", "--wait", "1m", "--at-least", "1h"}, "echo")
	until(t, func() bool { return holder.said() != "" })
	until(t, func() bool {
		r := startRun(t, masters, []string{"--wait", "6s"}, "exit", "0")
		r.wantEnd(exitHeld, `msg="redlock: still waiting for locks"`, `redlock: error: "n" is held by web-1/4711; waited 6s for it`)
		return strings.Contains(r.said(), "holders=web-1/4711") // on a busy machine, it may not know yet after a second
	})
	holder.cmd.Process.Kill()
}
