//go:build unix

package cron

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/programs"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// Three machines run the command of the crontab at once, with masters that are up.
func TestOneOfThreeMachinesRunsTheJob(t *testing.T) {
	var list []string
	for _, s := range redisserver.AdoptedTB(t, 3) {
		list = append(list, s.Addr())
	}
	dir := t.TempDir()
	build := programs.Command(t, "go", "build", "-o", filepath.Join(dir, "redlock"), "../../cmd/redlock")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ran := filepath.Join(dir, "ran")
	write(t, filepath.Join(dir, "masters"), "# the masters\n"+strings.Join(list, "\n")+"\n", 0o600)
	write(t, filepath.Join(dir, "report.sh"), "#!/bin/sh\ntrap '' INT\necho ran >>"+ran+"\n", 0o700)

	command := commandOf(t)
	command = strings.ReplaceAll(command, "/usr/local/bin/report.sh", filepath.Join(dir, "report.sh"))
	var machines []*exec.Cmd
	for range 3 {
		c := programs.Command(t, "sh", "-c", command)
		c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "REDLOCK_MASTERS=@"+filepath.Join(dir, "masters"))
		c.Stderr = t.Output()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		machines = append(machines, c)
	}
	ended := make(chan int)
	for _, c := range machines {
		go func() {
			var exit *exec.ExitError
			if err := c.Wait(); err != nil && !errors.As(err, &exit) {
				t.Error(err)
			}
			ended <- c.ProcessState.ExitCode()
		}()
	}
	for range 2 { // two end at once; the third keeps the lock
		// 69 is that too few masters have answered the last attempt in time, on a busy machine.
		if status := <-ended; status != 75 && status != 69 {
			t.Errorf("exit status %d, want 75", status)
		}
	}
	for range 3000 { // the job may still be starting
		if text, _ := os.ReadFile(ran); len(text) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, c := range machines {
		c.Process.Signal(os.Interrupt) // ends the third one's --at-least
	}
	if status := <-ended; status != 0 {
		t.Errorf("exit status %d of the one that ran the job, want 0", status)
	}
	if text, err := os.ReadFile(ran); err != nil || string(text) != "ran\n" {
		t.Errorf("the job has written %q, %v, want that it ran once", text, err)
	}
}

// commandOf returns the command of the crontab.
func commandOf(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("crontab")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "*/5 * * * * "); ok {
			return "exec " + strings.TrimSpace(rest) // so that a signal reaches redlock
		}
	}
	t.Fatal("the crontab has no job")
	return ""
}

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
