package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
)

// A permitRun is a run of the child "slot".
type permitRun struct {
	*running
	stdin io.Closer // its end is that of the child
}

func startPermit(t *testing.T, masters string) permitRun {
	t.Helper()
	// A busy machine may be late with renewals. The permits outlast the test.
	r := newRun(t, masters, []string{"--limit", "2", "--ttl", "1h", "--raise-max-ttl", "--node-timeout", "4s"}, "slot")
	r.cmd.Env = append(r.cmd.Env, fenceEnv+"=7") // as if it were the command of a run under a lock
	stdin, err := r.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.start()
	return permitRun{r, stdin}
}

// slot waits until the run has a permit, and returns its slot and its fence.
func (r permitRun) slot() (slot string, fence uint64) {
	r.t.Helper()
	if r.lines.Scan() {
		if _, err := fmt.Sscan(r.lines.Text(), &slot, &fence); err == nil && fence > 7 {
			return slot, fence
		}
	}
	r.t.Fatalf("the command said %q, want a slot and a fence; standard error:\n%s", r.lines.Text(), r.said())
	return "", 0
}

// finish ends the child.
func (r permitRun) finish() {
	r.t.Helper()
	r.stdin.Close()
	r.wantEnd(0)
}

func TestRunsWithALimitHoldPermits(t *testing.T) {
	t.Parallel()
	servers, masters := embedMasters(t, 3)
	a := startPermit(t, masters)
	b := startPermit(t, masters)
	first, fence := a.slot()
	second, _ := b.slot()
	slots := []string{first, second}
	if slices.Sort(slots); !slices.Equal(slots, []string{"0", "1"}) {
		t.Fatalf("the slots are %q", slots)
	}
	until(t, func() bool { return servers[0].Exists("redlock:slots:n") })
	startRun(t, masters, []string{"--limit", "2", "--wait", "0"}, "exit", "0").wantEnd(exitHeld, `redlock: error: no permit of "n" is free`+"\n")
	startRun(t, masters, []string{"--limit", "2", "--wait", "6s"}, "exit", "0").wantEnd(exitHeld,
		`redlock: error: no permit of "n" is free; waited 6s`)
	quiet := startRun(t, masters, []string{"--limit", "2", "--wait", "0", "--quiet", "--held-exit", "3"}, "exit", "0")
	if quiet.wantEnd(3); strings.Contains(quiet.said(), "permit") {
		t.Errorf("with --quiet it says %q", quiet.said())
	}
	startRun(t, masters, []string{"--wait", "0"}, "exit", "5").wantEnd(5) // the lock of the name

	next := startPermit(t, masters)
	until(t, func() bool {
		return strings.Contains(next.said(), "still waiting for locks")
	})
	a.finish()
	if got, f := next.slot(); got != first || f <= fence {
		t.Errorf("slot %s became free, whose run had fence %d; the next run has slot %s and fence %d", first, fence, got, f)
	}
	next.finish()
	b.finish()
	for _, s := range servers {
		until(t, func() bool { return !s.Exists("redlock:slots:n") && !s.Exists("redlock:permits:n") })
	}
	startRun(t, firstDown(masters, 2), []string{"--limit", "2", "--wait", "0"}, "exit", "0").wantEnd(exitNoQuorum, "redlock: error: no quorum of the masters")
}

func TestTheCommandHasTheVariablesOfItsOwnRun(t *testing.T) {
	t.Setenv(fenceEnv, "7")
	t.Setenv(slotEnv, "3")
	t.Setenv(nameEnv, "outer")
	for _, v := range (runConfig{name: "n"}).environment() {
		if strings.HasPrefix(v, "REDLOCK_FENCE=") || strings.HasPrefix(v, "REDLOCK_SLOT=") {
			t.Errorf("it has %s", v)
		}
	}
	if os.Getenv(slotEnv) != "3" {
		t.Error("the environment of this process has changed")
	}
}

// A master may answer a release later than within the time for votes. Nobody waits for a run that has ended.
func TestTheEndOfARunWaitsForLateAnswersToItsRelease(t *testing.T) {
	late := errors.New("granted by 0, 2 needed")
	for _, row := range []struct {
		name    string
		release error
		asks    int // after how many the lease does not stand
		want    error
	}{
		{"at once", nil, 0, nil},
		{"late", late, 5, nil},
		{"never", late, 1000, late},
		{"it was lost", redlock.ErrLost, 0, redlock.ErrLost},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				asked := 0
				l := &runLease{
					release: func(context.Context) error { return row.release },
					stands: func(context.Context) (bool, error) {
						if asked++; asked == 2 {
							return false, errors.New("no quorum")
						}
						return asked < row.asks, nil
					},
				}
				began := time.Now()
				if err := l.end(); err != row.want {
					t.Errorf("the end of the run says %v, want %v", err, row.want)
				}
				if waited := time.Since(began); waited > releasePatience {
					t.Errorf("it waited %v, want at most %v", waited, releasePatience)
				}
			})
		})
	}
}
