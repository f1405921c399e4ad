package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redlock-go/redlock/internal/history"
	"github.com/redlock-go/redlock/internal/history/report"
)

// notShown is what a good run does not show.
var notShown = []string{
	"machines: all processes run on one, with one clock of the history;",
	"clocks of masters that are wrong by half a second or more, and clocks of clients that are wrong by more than a quarter;",
	"what a holder writes after the end of its lease: only the store, by its fences, protects a resource then;",
	"that another run of the seed is the same: the seed does not decide how the kernel schedules processes and packets;",
	"more time than it ran for.",
}

// page returns the report of a run.
func (r *run) page(v *verdict) report.Page {
	ops := r.bySlot(r.history.Snapshot())
	p := report.Page{
		Title:  "nemesis: " + r.subject.name,
		Source: fmt.Sprintf("workload %s, seed %d, TTL %v, Keep %v, %v of faults, until %s", r.workload, r.seed, r.ttl, r.keep(0), r.length, time.Now().UTC().Format("2006-01-02 15:04:05 MST")),
		Ops:    ops, Stopped: make(map[int][]history.Span), Violations: slices.Clone(v.violations), Counted: r.counted(),
		Table: [][]string{{"LOCKS", "CALLS", "HAD", "REFUSED", "LEASES LOST", "CUT SHORT", "LONGEST WAIT"}}, NotShown: notShown,
		Facts: [][2]string{
			{"locks had", strconv.Itoa(v.all.entered)},
			{"two holders", fmt.Sprintf("%d, together for %v", v.number(history.Overlapping), v.overlap.Round(time.Millisecond))},
			{"fences that fell", strconv.Itoa(v.number(history.Falling))},
			{"leases lost", strconv.Itoa(v.all.lost)},
			{"all violations", strconv.Itoa(len(v.violations))},
		},
	}
	// What is worst comes first, and what has a time before what has none.
	slices.SortStableFunc(p.Violations, func(a, b history.Violation) int { return rank(a) - rank(b) })
	for i, u := range r.uses() {
		p.Table = append(p.Table, v.uses[i].row(u.String()))
	}
	p.Table = append(p.Table, v.all.row("all"))
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.ran {
		p.Faults = append(p.Faults, report.Fault{Name: f.kind.name, Client: f.client, Masters: f.masters, Span: f.during})
		if f.kind.name == "pause" {
			p.Stopped[f.client] = append(p.Stopped[f.client], f.during)
		}
	}
	return p
}

// rank orders violations in a report.
func rank(v history.Violation) int {
	switch {
	case v.Kind == history.Overlapping:
		return 0
	case v.At != 0:
		return 1
	}
	return 2
}

// row returns the counts as cells of a table.
func (t *tally) row(of string) []string {
	longest := "-"
	if len(t.waits) > 0 {
		longest = t.waits[len(t.waits)-1].Round(time.Millisecond).String()
	}
	row := []string{of}
	for _, n := range []int{t.asked, t.entered, t.refused, t.lost, t.died} {
		row = append(row, strconv.Itoa(n))
	}
	return append(row, longest)
}
