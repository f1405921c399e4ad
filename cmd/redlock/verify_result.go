package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/history"
)

// A verdict is what a history shows.
type verdict struct {
	kinds      map[string]*verifyTally
	faults     map[string]int
	holdings   int
	overlaps   int
	together   time.Duration // for how long two held a lock
	lost       int
	violations []history.Violation
}

// A verifyTally counts the operations of one kind of client.
type verifyTally struct {
	holdings, lost int
	waits          []time.Duration // without the times at which the process was stopped; sorted
}

// judge checks a history.
func judge(h *history.History) *verdict {
	v := &verdict{kinds: make(map[string]*verifyTally), faults: make(map[string]int)}
	for _, f := range h.Faults() {
		v.faults[f.Name]++
	}
	ops := h.Snapshot()
	v.violations = history.Contradictions(ops)
	byName := history.PerName(ops)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		overlaps, together := history.Overlaps(byName[name])
		v.overlaps += len(overlaps)
		v.together += together
		v.violations = slices.Concat(v.violations, overlaps, history.Fences(byName[name]))
	}
	var untold []history.Violation
	v.lost, untold = history.Losses(ops)
	v.violations = append(v.violations, untold...)
	for _, o := range ops {
		v.count(o, h.Stopped(o.Client))
	}
	for _, t := range v.kinds {
		slices.Sort(t.waits)
	}
	return v
}

// count counts one operation. stopped is when the process of its client was stopped.
func (v *verdict) count(o history.Operation, stopped []history.Span) {
	t := v.kinds[o.How]
	if t == nil {
		t = &verifyTally{}
		v.kinds[o.How] = t
	}
	if o.Confirmed() {
		t.holdings++
		v.holdings++
	}
	if o.Lost != 0 {
		t.lost++
	}
	if end := max(o.Entered, o.Refused); end != 0 {
		wait := history.Span{From: o.Asked, To: end}
		t.waits = append(t.waits, time.Duration(end-o.Asked-history.Covered(wait, stopped)))
	}
}

// notShown is what a good result does not show.
var notShown = []string{
	"what your masters do when they restart, fail over, lose data, fill up or have a wrong clock: nothing of that was done to them. redlock doctor looks at their settings;",
	"clients on other machines, and a machine or process that is frozen together with its clocks: only fences protect a resource then;",
	"other clients of yours, with other options or of other libraries;",
	"that a resource is safe: a holder that is stopped notices the end of its lease when it looks, not when it writes;",
	"more time than it ran for.",
}

// table returns what each kind of client has done.
func (v *verdict) table() sheet {
	table := sheet{head: []string{"CLIENTS", "HELD", "LEASES LOST", "MEDIAN WAIT", "99 % WAIT", "LONGEST WAIT"}}
	for _, kind := range slices.Sorted(maps.Keys(v.kinds)) {
		t := v.kinds[kind]
		cells := []string{kind, strconv.Itoa(t.holdings), strconv.Itoa(t.lost)}
		for _, part := range []float64{0.5, 0.99, 1} {
			cells = append(cells, t.wait(part))
		}
		table.rows = append(table.rows, sheetRow{cells: cells})
	}
	return table
}

// counted returns how many faults there were of each kind; "" without faults.
func (v *verdict) counted() string {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(v.faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", name, v.faults[name]))
	}
	if len(faults) == 0 {
		return ""
	}
	return "faults: " + strings.Join(faults, ", ")
}

// facts returns the numbers that the result is read for.
func (v *verdict) facts() [][2]string {
	overlaps := "0"
	if v.overlaps > 0 {
		overlaps = fmt.Sprintf("%d, together for %v", v.overlaps, v.together)
	}
	return [][2]string{
		{"locks held", strconv.Itoa(v.holdings)},
		{"two holders", overlaps},
		{"fences that fell", strconv.Itoa(v.number(history.Falling))},
		{"leases lost", fmt.Sprintf("%d, of which %d without an error of the unlock", v.lost, v.number(history.Untold))},
	}
}

// printVerdict prints what a history shows. It returns an error if there is a violation, or nothing was held.
func printVerdict(v *verdict, out io.Writer) error {
	fmt.Fprint(out, v.table())
	if faults := v.counted(); faults != "" {
		fmt.Fprintf(out, "\n%s", fold(faults+"\n", "", "  "))
	}
	fmt.Fprintln(out)
	for _, f := range v.facts() {
		fmt.Fprintf(out, "%-18s %s\n", f[0]+":", f[1])
	}
	fmt.Fprintln(out)
	for i, x := range v.violations {
		if i == 10 {
			fmt.Fprintf(out, "and %d more violations\n", len(v.violations)-i)
			break
		}
		fmt.Fprint(out, fold(fmt.Sprintf("VIOLATION: %s: %s\n", x.Kind, x.Text), "", "  "))
	}
	switch {
	case len(v.violations) > 0:
		return withHint(fmt.Errorf("the history has %s", plural(len(v.violations), "violation")),
			"please report it as a bug of redlock, with the history and this output")
	case v.holdings == 0:
		return errors.New("nobody held a lock, so nothing is shown")
	}
	fmt.Fprintln(out, "What this does not show:")
	for _, what := range notShown {
		fmt.Fprint(out, fold("- "+what, "", "  "))
	}
	return nil
}

// number returns how many violations of a kind there are.
func (v *verdict) number(kind string) (n int) {
	for _, x := range v.violations {
		if x.Kind == kind {
			n++
		}
	}
	return n
}

// wait returns a quantile of the waits.
func (t *verifyTally) wait(part float64) string {
	if len(t.waits) == 0 {
		return "-"
	}
	return t.waits[int(part*float64(len(t.waits)-1))].Round(time.Millisecond).String()
}
