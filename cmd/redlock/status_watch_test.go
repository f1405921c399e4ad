package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/wire"
)

func TestWatchMarksLocksWithAnotherHolderForAWhile(t *testing.T) {
	lock := func(name, token string) lockOfNames {
		l := lockOfNames{name: name}
		if token != "" {
			l.Holding = holding.Of([]wire.Look{{Holder: wire.Holder{Token: token, Left: time.Second}}}, 1)
		}
		return l
	}
	w := &watching{every: time.Second}
	began := time.Now()
	for _, tt := range []struct {
		after   time.Duration
		locks   []lockOfNames
		without bool // a quorum
		marked  string
	}{
		{0, []lockOfNames{lock("a", "aaaaaaaaaaaaaaaaaaaaaaaaaaa@x"), lock("b", "")}, false, ""}, // nobody knows who held them before
		{1, []lockOfNames{lock("a", "aaaaaaaaaaaaaaaaaaaaaaaaaaa@x"), lock("b", "")}, false, ""},
		{2, []lockOfNames{lock("a", ""), lock("b", "")}, true, ""}, // it may be held as before
		{3, []lockOfNames{lock("a", "bbbbbbbbbbbbbbbbbbbbbbbbbbb@x"), lock("b", "")}, false, "a"},
		{4, []lockOfNames{lock("a", "bbbbbbbbbbbbbbbbbbbbbbbbbbb@x"), lock("b", "ccccccccccccccccccccccccccc@x")}, false, "a b"},
		{8, []lockOfNames{lock("a", "bbbbbbbbbbbbbbbbbbbbbbbbbbb@x"), lock("b", "ccccccccccccccccccccccccccc@x")}, false, "b"},
		{9, []lockOfNames{lock("a", ""), lock("b", "ccccccccccccccccccccccccccc@x")}, false, "a"},
	} {
		seen := observation{masters: 1, need: 1, answered: 1, locks: tt.locks}
		if tt.without {
			seen.answered = 0
		}
		w.look(seen, began.Add(tt.after*time.Second))
		var marked []string
		for line := range strings.Lines(locksTable(seen, w).String()) {
			if f := strings.Fields(line); f[1] == "*" {
				marked = append(marked, f[0])
			}
		}
		if got := strings.Join(marked, " "); got != tt.marked {
			t.Errorf("after %d s, %q are marked, want %q", tt.after, got, tt.marked)
		}
	}
}

func TestWatchShowsAHandover(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 1)
	a := openQuietly(t, masters, redlock.Options{Owner: "web-1"})
	l := a.Locker("stock")
	if err := l.LockContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	// The same client takes the lock again when it has been seen, and the command ends when that has been seen.
	out := &onText{at: map[string]func(){
		"web-1  ": func() {
			if err := l.UnlockContext(ctx); err != nil {
				t.Error(err)
			}
			if err := l.LockContext(ctx); err != nil {
				t.Error(err)
			}
		},
		"* web-1": cancel,
	}}
	var errOut bytes.Buffer
	if status := run(ctx, []string{"redlock", "status", "--watch=100ms", "--masters", masters, "stock"}, strings.NewReader(""), out, &errOut); status != exitInterrupted {
		t.Errorf("exit status %d, want %d: %s", status, exitInterrupted, &errOut)
	}
	want(t, out.String(), "* web-1", "* another holder than before\n", "Every 100ms, for as much as one redlock status costs the masters.")
	l.Unlock()
}

// An onText is output that calls a function once when it has a text.
type onText struct {
	bytes.Buffer
	at map[string]func()
}

func (o *onText) Write(p []byte) (int, error) {
	n, err := o.Buffer.Write(p)
	for text, f := range o.at {
		if strings.Contains(o.String(), text) {
			delete(o.at, text)
			f()
		}
	}
	return n, err
}

func TestWatchOfJSONPrintsAnObjectALine(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	out := &cancelling{on: "}\n", times: 3, cancel: cancel}
	var errOut bytes.Buffer
	run(ctx, []string{"redlock", "status", "--watch=100ms", "--json", "--masters", masters, "stock"}, strings.NewReader(""), out, &errOut)
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, `{"masters":1,`) || errOut.Len() > 0 {
			t.Errorf("a line is %q, with %q", line, &errOut)
		}
	}
}

func TestWatchEndsWhenItsOutputIsClosed(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 1)
	for _, args := range [][]string{{"--watch"}, {"--watch", "--json"}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it might go on for ever
		defer cancel()
		var errOut bytes.Buffer
		status := run(ctx, append([]string{"redlock", "status", "--masters", masters}, args...), strings.NewReader(""), closedOutput{}, &errOut)
		if status != exitFailure || !strings.Contains(errOut.String(), "the terminal is gone") {
			t.Errorf("%q: exit status %d, %q, want %d", args, status, &errOut, exitFailure)
		}
	}
}

type closedOutput struct{}

func (closedOutput) Write([]byte) (int, error) { return 0, errors.New("the terminal is gone") }

func TestWatchNeedsATimeThatTheMastersCanBear(t *testing.T) {
	for _, value := range []string{"0s", "10ms", "-1s", "2", "often"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it might go on for ever
		defer cancel()
		var out, errOut bytes.Buffer
		if status := run(ctx, []string{"redlock", "status", "--watch=" + value, "--masters", "127.0.0.1:1"}, strings.NewReader(""), &out, &errOut); status != exitUsage {
			t.Errorf("--watch=%s: exit status %d, want %d: %s", value, status, exitUsage, &errOut)
		}
		want(t, errOut.String(), "watch", value)
	}
}
