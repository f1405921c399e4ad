package simulation

import (
	"strings"
	"testing"
	"time"
)

func TestAReportShowsTheEndOfTheHistoryUpToTheViolation(t *testing.T) {
	h := &history{}
	for i := range 100 {
		h.lines = append(h.lines, line{time.Duration(i) * time.Second, "event"})
	}
	got := h.before(90 * time.Second)
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if len(lines) != linesShown+1 || !strings.Contains(lines[0], "51 lines before") || !strings.Contains(lines[linesShown], "1m30s event") {
		t.Errorf("before(90 s) =\n%s\nwant the %d lines up to 90 s", got, linesShown)
	}
	if got := h.before(2 * time.Second); strings.Count(got, "\n") != 3 || strings.Contains(got, "lines before") {
		t.Errorf("before(2 s) =\n%s\nwant the first three lines", got)
	}
}

func TestTheCommandOfAReportLeavesOutTheParts(t *testing.T) {
	p := makePlanOf(17, profiles[0])
	want := "go test ./internal/simulation -run 'TestSeed$' -v -args -repeat 20 -seed 17 -drop fault:1,process:2"
	if got := command(p, []string{"fault:1", "process:2"}); got != want {
		t.Errorf("command = %s, want %s", got, want)
	}
}
