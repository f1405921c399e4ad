package main

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/history"
)

// hangEnv makes TestACallThatDoesNotReturnEndsTheClient hang.
const hangEnv = "REDLOCK_NEMESIS_HANG"

func TestACallThatDoesNotReturnEndsTheClient(t *testing.T) {
	if os.Getenv(hangEnv) != "" {
		w := &worker{job: job{Subject: ours.name}, stalls: &stalls{}}
		w.must("a call that returns", time.Hour, func() {})
		w.must("Close", 100*time.Millisecond, hangs)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), hangEnv+"=1")
	defer time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }).Stop()
	out, err := cmd.CombinedOutput()
	if want := regexp.MustCompile(`(?s)^stalled: Close, after \d+s: it has not ended\n.*nemesis\.hangs`); !want.Match(out) || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("the client has ended with %v, and has written\n%s", err, out)
	}
}

// hangs never returns.
func hangs() { select {} }

func TestStallsDoNotCount(t *testing.T) {
	s := &stalls{}
	began := history.Now()
	if left := s.left(began-int64(time.Hour), time.Minute); left > 0 {
		t.Errorf("after an hour %v of a minute are left", left)
	}
	s.all = []history.Span{{From: began - int64(time.Hour), To: began}}
	if left := s.left(began-int64(time.Hour), time.Minute); left <= 0 {
		t.Error("after a stall of an hour nothing of a minute is left")
	}
	if s.within(time.Millisecond, make(chan struct{}), nil) {
		t.Error("a channel that is open counts as closed")
	}
	if !s.within(time.Hour, nil, closed()) {
		t.Error("a channel that is closed counts as open")
	}
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
