package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

// play counts to 1000 in 10 s, one update per 10 ms, with a note half way, and returns
// what was written.
func play(terminal bool) string {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := &progress{out: &out, terminal: terminal, now: func() time.Time { return now }}
	p.wait("waiting ...")
	p.begin("with the lock", 1000)
	for done := 1; done <= 1000; done++ {
		now = now.Add(10 * time.Millisecond)
		p.update(done)
		if done == 500 {
			p.note("master 3 was stopped")
		}
	}
	p.end(1000)
	return out.String()
}

func TestProgressInAPipeIsFewLines(t *testing.T) {
	want := `  with the lock      300 of 1000    3.0 s
  master 3 was stopped
  with the lock      600 of 1000    6.0 s
  with the lock      900 of 1000    9.0 s
  with the lock     1000 of 1000   10.0 s
`
	if got := play(false); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestProgressOnATerminalRewritesOneLine(t *testing.T) {
	got := play(true)
	lines := screen(got)
	want := []string{
		"  master 3 was stopped",
		"  with the lock     [########################]  1000 of 1000   10.0 s",
		"",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("the screen shows %q, want %q", lines, want)
	}
	if redraws := strings.Count(got, "\r"); redraws < 100 || redraws > 300 {
		t.Errorf("%d redraws in 10 s, want some 200", redraws)
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(got, "\n", "\r"), "\r") {
		if len(line) >= 80 {
			t.Errorf("%d columns would wrap: %q", len(line), line)
		}
	}
}

func TestProgressClearsItsLineForAnError(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out, terminal: true, now: time.Now}
	p.begin("with the lock", 10)
	p.clear()
	p.clear() // nothing left to do
	out.WriteString("redlock: error: no")
	if got := screen(out.String()); len(got) != 1 || got[0] != "redlock: error: no" {
		t.Errorf("the screen shows %q", got)
	}
}

func TestIsTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if isTerminal(w) || isTerminal(new(bytes.Buffer)) {
		t.Error("a pipe or a buffer passes for a terminal")
	}
}

// screen returns the lines that a terminal shows after text.
func screen(text string) []string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		var row []byte
		for i, part := range strings.Split(line, "\r") {
			if i > 0 && len(part) < len(row) {
				part += string(row[len(part):]) // what is not overwritten stays
			}
			row = []byte(part)
		}
		lines = append(lines, strings.TrimRight(string(row), " "))
	}
	return lines
}
