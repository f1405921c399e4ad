//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
)

// A lateLease is a lease that is not renewed.
type lateLease struct {
	until time.Time
	done  chan struct{}
}

func (l lateLease) Until() time.Time      { return l.until }
func (l lateLease) Done() <-chan struct{} { return l.done }
func (l lateLease) Err() error {
	select {
	case <-l.done:
		return redlock.ErrLost
	default:
	}
	if !time.Now().Before(l.until) {
		return redlock.ErrLost
	}
	return nil
}

// A leaseView has the methods of a Lease.
var _ leaseView = (*redlock.Lease)(nil)

// runJob runs a child under l, for limit at most, and returns the reading end of a pipe with the output.
func runJob(t *testing.T, l leaseView, grace, limit time.Duration, child string) (j *job, out io.Reader, ended chan int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	cmd := exec.Command(os.Args[0], runChildName, child)
	cmd.Stdout = w
	j = &job{lease: l, grace: grace, inbox: &inbox{}, log: slog.New(slog.DiscardHandler), max: limit}
	ended = make(chan int)
	go func() {
		status, err := j.run(cmd)
		if err != nil {
			t.Error(err)
		}
		w.Close()
		ended <- status
	}()
	return j, r, ended
}

func TestJobKillsItsCommandAtOnceWhenTheLeaseEndsEarly(t *testing.T) {
	t.Parallel()
	l := lateLease{time.Now().Add(time.Hour), make(chan struct{})}
	j, out, ended := runJob(t, l, time.Second, 0, "stubborn")
	out.Read(make([]byte, len("ready\n")))
	close(l.done)
	if status := <-ended; status != 128+9 || j.asked || !j.killed {
		t.Errorf("status %d, told %v, killed %v, want it killed without a word", status, j.asked, j.killed)
	}
}

func TestJobDoesNotStartItsCommandAfterTheLeaseHasEnded(t *testing.T) {
	t.Parallel()
	j, out, ended := runJob(t, lateLease{time.Now(), nil}, time.Second, 0, "hold")
	if status := <-ended; status != 0 || !j.killed {
		t.Errorf("status %d, killed %v, want 0 and true", status, j.killed)
	}
	if text, _ := io.ReadAll(out); len(text) != 0 {
		t.Errorf("the command ran and said %q", text)
	}
}

func TestJobKillsTheProcessesThatItsCommandLeftBehind(t *testing.T) {
	t.Parallel()
	until := time.Now().Add(8 * time.Second)
	j, out, ended := runJob(t, lateLease{until, nil}, 5*time.Second, 0, "family")
	text, _ := io.ReadAll(out) // until every process that could write has ended
	if status := <-ended; status != 40 || !j.asked || j.killed {
		t.Errorf("status %d, told %v, killed %v, want 40: it ended when it was told", status, j.asked, j.killed)
	}
	if string(text) != "ready\ngot terminated\n" {
		t.Errorf("the command said %q", text)
	}
}

// A command that runs for too long is ended as one whose lease ends, and so are the processes that it has left behind. The lease
// lasts.
func TestJobEndsACommandThatRunsForTooLong(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		child  string
		status int
		said   string
	}{
		{"hold", 40, "ready\ngot terminated\n"},
		{"stubborn", 128 + 9, "ready\ngot terminated\n"},
		{"family", 40, "ready\ngot terminated\n"},
	} {
		t.Run(row.child, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			j, out, ended := runJob(t, lateLease{began.Add(time.Hour), nil}, 2*time.Second, 5*time.Second, row.child)
			text, _ := io.ReadAll(out) // until every process that could write has ended
			if status := <-ended; status != row.status || !j.late || j.killed || j.lease.Err() != nil {
				t.Errorf("status %d, late %v, killed with the lease %v", status, j.late, j.killed)
			}
			if string(text) != row.said {
				t.Errorf("the command said %q, want %q", text, row.said)
			}
			if took := time.Since(began); took < 5*time.Second {
				t.Errorf("it was ended after %v, want 5s at least", took)
			}
		})
	}
}
