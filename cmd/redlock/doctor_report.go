package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redlock-go/redlock/internal/incarnation"
)

// table renders what was found, a line for each master.
func table(findings []finding, quarantine time.Duration) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MASTER\tVOTES\tROLE\tWHY")
	for _, f := range findings {
		role := f.role
		switch {
		case role == "" && f.unheard != nil:
			role = "-"
		case role == "":
			role = "not told"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.name, f.votes(quarantine), role, f.why())
	}
	w.Flush()
	return b.String()
}

// votes says whether the master's votes count.
func (f finding) votes(quarantine time.Duration) string {
	wait, ok := f.wait(quarantine)
	switch {
	case !ok:
		return "no"
	case wait == 0:
		return "yes"
	case f.look.Why != incarnation.Holds:
		return "not yet" // nobody has begun to count
	}
	return "in " + whole(wait)
}

// clockTolerance is by how much the clocks of clients and masters may differ: see
// redlock.LockOptions.Fencing.
const clockTolerance = 500 * time.Millisecond

// why says why the master's votes count, or do not.
func (f finding) why() string {
	if f.unheard != nil {
		return f.unheard.Error()
	}
	if f.refusal != nil {
		return "must not vote: " + f.refusal.Error()
	}
	parts := []string{f.memory()}
	if f.run == "" {
		parts = append(parts, "does not tell its run_id, so a restart that keeps the record is not noticed")
	}
	if f.ahead > clockTolerance {
		parts = append(parts, fmt.Sprintf("its clock is %v ahead of ours", f.ahead.Round(100*time.Millisecond)))
	} else if f.ahead < -clockTolerance {
		parts = append(parts, fmt.Sprintf("its clock is %v behind ours", -f.ahead.Round(100*time.Millisecond)))
	}
	return strings.Join(parts, "; ")
}

// memory says since when the master's memory is known.
func (f finding) memory() string {
	since := f.look.Record.Since.Format("2006-01-02 15:04:05")
	switch {
	case f.look.Why == incarnation.Absent:
		return "no record: new to redlock, or has lost its memory"
	case f.look.Why != incarnation.Holds:
		return "its record does not hold: " + f.look.Why.String()
	case f.look.Record.Adopted:
		return fmt.Sprintf("adopted %s, %s ago", since, long(f.look.Age()))
	}
	return fmt.Sprintf("known since %s, for %s", since, long(f.look.Age()))
}

// A diagnosis is what the findings add up to.
type diagnosis struct {
	masters    int
	need       int // for a quorum
	now        int // may vote at once
	later      int // may vote when time has passed, beside those
	maxTTL     time.Duration
	quarantine time.Duration // of clients with that MaxTTL
	wait       time.Duration // until a quorum may vote, if now and later are one
}

// diagnose adds up findings, for clients with a MaxTTL.
func diagnose(findings []finding, maxTTL time.Duration) diagnosis {
	d := diagnosis{
		masters: len(findings), need: len(findings)/2 + 1,
		maxTTL: maxTTL, quarantine: maxTTL + incarnation.Margin,
	}
	var waits []time.Duration
	for _, f := range findings {
		wait, ok := f.wait(d.quarantine)
		switch {
		case ok && wait == 0:
			d.now++
		case ok:
			d.later++
			waits = append(waits, wait)
		}
	}
	if missing := d.need - d.now; missing > 0 && missing <= len(waits) {
		slices.Sort(waits)
		d.wait = waits[missing-1]
	}
	return d
}

func (d diagnosis) String() string {
	text := fmt.Sprintf("%d of %s may vote at once", d.now, plural(d.masters, "master"))
	if d.now < d.need && d.later > 0 && d.wait == 0 {
		text += fmt.Sprintf(", %d more after %s", d.later, whole(d.quarantine))
	}
	text += fmt.Sprintf("; a lock needs %d", d.need)
	switch {
	case d.now >= d.need:
		return text + ".\n"
	case d.wait > 0:
		return fmt.Sprintf("%s. A first Lock will wait %s, for leases that they\n"+
			"may have forgotten to run out (with a MaxTTL of %v). Only if nobody holds a lock on these\n"+
			"masters, let them vote at once:  redlock doctor --adopt\n", text, whole(d.wait), d.maxTTL)
	}
	return text + ": there is none to be had before others are back.\n"
}

// whole renders a wait in whole seconds, rounded up.
func whole(d time.Duration) string {
	return (d + time.Second - 1).Truncate(time.Second).String()
}

// long renders an age as a person would say it.
func long(d time.Duration) string {
	switch {
	case d < time.Hour:
		return d.Truncate(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}
