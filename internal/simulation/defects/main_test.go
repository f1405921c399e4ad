package main

import (
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/defects"
)

func TestEveryTargetIsADefect(t *testing.T) {
	for _, target := range targets {
		if _, err := defects.Find(target.defect); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatCaughtADefectIsFoundInTheOutput(t *testing.T) {
	for _, row := range []struct{ name, out, want string }{
		{"a violation", "    simulation_test.go:48: 1.2s: one holder: process 1 enters\n    seed 33, split: 5 masters", "one holder: seed 33"},
		{"a test of its own", "--- FAIL: TestThis (0.02s)\n    this_test.go:7: wrong", "TestThis"},
		{"a crash", "seeds 0, 2, ...: exit status 2; the last was 17\n\npanic: deadlock: blocked\n", "panic: deadlock: blocked: seed 17"},
	} {
		if got, err := explain(row.out); got != row.want || err != nil {
			t.Errorf("%s: explain = %q, %v, want %q", row.name, got, err, row.want)
		}
	}
	if _, err := explain("does not compile"); err == nil || !strings.Contains(err.Error(), "compile") {
		t.Errorf("explain of a failed build = %v, want an error that repeats it", err)
	}
}
