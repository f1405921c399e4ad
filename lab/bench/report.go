package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// number formats a figure with three digits that count.
func number(x float64) string {
	switch a := math.Abs(x); {
	case a == 0:
		return "0"
	case a >= 10_000:
		return thousands(int64(math.Round(x)))
	case a >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case a >= 0.99 && a < 1: // an index of fairness
		return strconv.FormatFloat(x, 'f', 4, 64)
	}
	return strconv.FormatFloat(x, 'f', 2+max(0, int(-math.Floor(math.Log10(math.Abs(x))))-1), 64)
}

// thousands separates them by thin spaces.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u2009" + s[i:]
	}
	return s
}

// withRange shows the median of the values and, if there are several that differ, the least and the
// greatest.
func withRange(values []float64, unit string) string {
	got, low, high := number(median(values)), number(slices.Min(values)), number(slices.Max(values))
	if low == high {
		return got + unit
	}
	return got + unit + " (" + low + "–" + high + ")"
}

// table is one workload's.
type table struct {
	head []string
	rows [][]string
}

func (r *results) table(w *workload) table {
	t := table{head: []string{w.id}}
	for _, m := range w.columns {
		t.head = append(t.head, string(m))
	}
	t.head = append(t.head, "× "+w.reference())
	for _, s := range r.subjects {
		if len(r.found[key{w.id, s.id}]) == 0 {
			continue
		}
		row := []string{s.id}
		hangs, of := r.hangs(w.id, s.id)
		for i, m := range w.columns {
			v, ok := r.value(w.id, s.id, m)
			switch {
			case i == 0 && hangs > 0:
				row = append(row, r.hungCell(v, ok, hangs, of))
			case !ok:
				row = append(row, "–")
			case i == 0 && !summed[m]:
				row = append(row, withRange(r.values(w.id, s.id, m), ""))
			default:
				row = append(row, number(v))
			}
		}
		last := "–"
		if x := r.ratios(w.id, s.id, w.reference(), w.columns[0]); len(x) > 0 && hangs == 0 {
			last = withRange(x, "")
		}
		t.rows = append(t.rows, append(row, last))
	}
	return t
}

// hungCell is the first figure of a row that has passed the bound.
func (r *results) hungCell(v float64, ok bool, hangs, of int) string {
	if !ok {
		return fmt.Sprintf("never within %v", r.plan.bound)
	}
	return fmt.Sprintf("%s; over %v in %d of %d", number(v), r.plan.bound, hangs, of)
}

// brief is what the progress shows of one repetition.
func brief(w *workload, f figures) string {
	if f[hung] > 0 {
		return "hung"
	}
	var parts []string
	for _, m := range w.columns {
		if v, ok := f[m]; ok {
			parts = append(parts, number(v)+" "+string(m))
		}
	}
	return strings.Join(parts[:min(len(parts), 3)], ", ")
}

func printTables(out io.Writer, r *results) {
	for _, w := range r.workloads {
		fmt.Fprintf(out, "\n%s\n", w.title)
		tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		t := r.table(w)
		t.head[0] = ""
		fmt.Fprintln(tw, strings.Join(t.head, "\t"))
		for _, row := range t.rows {
			fmt.Fprintln(tw, strings.Join(row, "\t"))
		}
		tw.Flush()
	}
	if r.old {
		return // the targets are not about other commits
	}
	fmt.Fprintln(out, "\nTargets")
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	t := r.verdicts()
	for _, row := range append([][]string{t.head}, t.rows...) {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	tw.Flush()
}

// verdicts compares the figures with the targets of the workloads that ran.
func (r *results) verdicts() table {
	t := table{head: []string{"workload", "", "figure", "measured", "target", ""}}
	for _, g := range targets() {
		if !r.ran(g.workload) {
			continue
		}
		for _, b := range g.reach(r) {
			verdict := b.verdict()
			if hangs, _ := r.hangs(g.workload, oursID); hangs > 0 {
				verdict = "**missed**: an operation did not return"
			}
			t.rows = append(t.rows, []string{g.workload, g.what, b.name, b.measured(), b.wanted(), verdict})
		}
	}
	return t
}

func (r *results) ran(id string) bool {
	for _, w := range r.workloads {
		if w.id == id {
			return true
		}
	}
	return false
}

func (t table) markdown() string {
	var s strings.Builder
	line := func(cells []string) {
		s.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	line(t.head)
	s.WriteString("|" + strings.Repeat("---|", len(t.head)) + "\n")
	for _, row := range t.rows {
		line(row)
	}
	return s.String()
}
