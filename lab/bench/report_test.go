package main

import (
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/lab/internal/servers"
)

// fake returns results of a run in which ours took and peers took that long.
func fake(oursTook, redsyncTook float64) *results {
	r := &results{
		at: time.Unix(0, 0), plan: fullPlan(), workloads: workloads(), subjects: subjects(),
		found: make(map[key][]figures), machine: machine{cores: 2},
	}
	for range 3 {
		r.add(idOne, oursID, figures{middle: oursTook, tail: 2 * oursTook, allocations: 30})
		r.add(idOne, reference, figures{middle: redsyncTook, allocations: 96})
		r.add(idFrozen1, oursID, figures{middle: oursTook, tail: 11 * oursTook}.to(figures{middle: oursTook}))
	}
	r.add(idFrozen1, reference, figures{hung: 1})
	r.add(idFrozen1, "redsync, WithFailFast", figures{hung: 1})
	r.add(idFrozen1, "redsync, WithFailFast", figures{middle: 300})
	return r
}

// verdictOf returns the verdict on a workload's first target.
func verdictOf(t *testing.T, r *results, workload string) string {
	t.Helper()
	for _, row := range r.verdicts().rows {
		if row[0] == workload {
			return row[len(row)-1]
		}
	}
	t.Fatalf("no target of %q", workload)
	return ""
}

func TestVerdictsFollowTheFigures(t *testing.T) {
	for _, row := range []struct {
		name     string
		oursTook float64
		want     string
	}{
		{"below the target is met", 60, "met"},
		{"above is missed, by so much", 120, "**missed** by a factor of 2.00"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := verdictOf(t, fake(row.oursTook, 100), idOne); got != row.want {
				t.Errorf("verdict = %q, want %q", got, row.want)
			}
		})
	}
}

func TestRatiosAreOfPairs(t *testing.T) {
	r := fake(50, 100)
	for _, x := range []float64{100, 200, 1000} { // the machine is slow now and then
		r.add(idGuard1, unguardedID, figures{middle: x})
		r.add(idGuard1, oursID, figures{middle: 1.07 * x})
	}
	r.add(idGuard1, oursID, figures{middle: 1}) // without its counterpart
	ratios := r.ratios(idGuard1, oursID, unguardedID, middle)
	if len(ratios) != 3 || number(median(ratios)) != "1.07" {
		t.Errorf("ratios = %v, want three times 1.07", ratios)
	}
	if x := r.ratios(idGuard64, oursID, unguardedID, middle); len(x) != 0 {
		t.Errorf("ratios of what was not measured = %v", x)
	}
	if text := markdown(r); !strings.Contains(text, "| "+string(failures)+" | × "+unguardedID+" |") {
		t.Errorf("RESULTS.md does not compare with %q:\n%s", unguardedID, text)
	}
}

func TestTheRangeIsShownWithTheMedian(t *testing.T) {
	for _, row := range []struct {
		values []float64
		want   string
	}{
		{[]float64{0.5}, "0.50 ×"},
		{[]float64{0.5, 0.5}, "0.50 ×"},
		{[]float64{0.7, 0.5, 0.6}, "0.60 × (0.50–0.70)"},
	} {
		if got := withRange(row.values, " ×"); got != row.want {
			t.Errorf("withRange(%v) = %q, want %q", row.values, got, row.want)
		}
	}
}

func TestAnAttemptThatFailedInAnyRepetitionMissesTheTarget(t *testing.T) {
	r := fake(50, 100)
	for _, n := range []float64{0, 1, 0} {
		r.add(idTrip(40), oursID, figures{trips: 1, failedAttempts: n})
	}
	for _, row := range r.verdicts().rows {
		if row[0] != idTrip(40) {
			continue
		}
		if want := "**missed**"; row[2] == string(failedAttempts) && row[len(row)-1] != want {
			t.Errorf("%q, want %q", row, want)
		}
	}
}

func TestAnotherCommitIsComparedWhereItsProgramCanRun(t *testing.T) {
	b := &bench{}
	b.compareWith("other")
	if len(b.subjects) != 4 || b.subjects[1].program != filepath.Join("other", "bench") {
		t.Fatalf("subjects = %v, want ours and the others", b.subjects)
	}
	for _, w := range b.workloads {
		of := b.subjects[:2]
		if w.id == idReaders || w.id == idWriters || w.id == idFirstRead {
			of = b.subjects[2:]
		}
		if w.id == idLeases || w.reference() != of[1].id || !w.takes(of[0]) || !w.takes(of[1]) {
			t.Errorf("%s is compared with %q", w.id, w.reference())
		}
	}
}

func TestATargetIsMissedByWhoeverHangs(t *testing.T) {
	r := fake(50, 100)
	r.add(idFrozen1, oursID, figures{hung: 1})
	for _, row := range r.verdicts().rows {
		if row[0] == idFrozen1 && !strings.Contains(row[len(row)-1], "missed") {
			t.Errorf("verdict = %q for a library that hung", row)
		}
	}
}

func TestWhatWasNotMeasuredIsNotJudged(t *testing.T) {
	for _, row := range fake(50, 100).verdicts().rows {
		if row[0] == id512 && row[len(row)-1] != "not measured in this run" {
			t.Errorf("verdict = %q without figures", row)
		}
	}
}

func TestMarkdownSaysWhoHung(t *testing.T) {
	text := markdown(fake(50, 100))
	for _, want := range []string{
		"| " + reference + " | never within 1.5s |",
		"| redsync, WithFailFast | 300; over 1.5s in 1 of 2 |",
		"| " + oursID + " | 50.0 | 100 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("RESULTS.md lacks %q:\n%s", want, text)
		}
	}
}

func TestTheChartIsWellFormed(t *testing.T) {
	text := chart(fake(50, 100))
	dec := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	if !strings.Contains(text, "never within 1.5s") {
		t.Error("the chart does not show who never returned")
	}
}

func TestNumber(t *testing.T) {
	for _, row := range []struct {
		x    float64
		want string
	}{
		{0, "0"}, {0.0044, "0.0044"}, {0.58, "0.58"}, {0.997, "0.9970"}, {0.99997, "1.0000"}, {1, "1.00"}, {9.37, "9.37"},
		{42.44, "42.4"}, {199.6, "200"}, {7012, "7012"}, {117_000, "117\u2009000"}, {-12_345_678, "-12\u2009345\u2009678"}, {-0.5, "-0.50"},
	} {
		if got := number(row.x); got != row.want {
			t.Errorf("number(%v) = %q, want %q", row.x, got, row.want)
		}
	}
}

func TestAdministrativeCommandsAreNoLoad(t *testing.T) {
	got := commandsOf(servers.Load{Calls: map[string]int64{"set": 10, "evalsha": 4, "client|setinfo": 3, "info": 2}})
	if want := int64(14); got != want {
		t.Errorf("commandsOf = %d, want %d", got, want)
	}
}
