package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/wire"
)

// table renders what was found: a line for each master, and remarks below it.
func table(findings []finding, quarantine time.Duration, color bool) string {
	s := sheet{head: []string{"MASTER", "VOTES", "SERVER", "ROLE", "RTT", "CLOCK", "CLIENTS"}}
	if color {
		s.paint = paintVotes
	}
	for _, f := range findings {
		cells := []string{f.name, f.votes(quarantine), cmp.Or(f.facts.server, "-"), f.roleShown(), "-", f.clock(), "-"}
		if f.rtt > 0 {
			cells[4] = milliseconds(f.rtt)
		}
		if f.ids != nil {
			cells[6] = strconv.Itoa(len(f.ids))
		}
		why := f.why()
		if facts := f.facts.list(f.look.Record.MaxTTL); len(facts) > 0 {
			why = slices.Insert(why, 1, strings.Join(facts, ", "))
		}
		s.rows = append(s.rows, sheetRow{cells, why})
	}
	return s.String()
}

// paintVotes colors whether a master votes.
func paintVotes(column int, cell string) string {
	switch {
	case column != 1:
		return cell
	case cell == "yes":
		return colored(green, cell)
	case cell == "no":
		return colored(red, cell)
	}
	return colored(yellow, cell)
}

// roleShown returns the role for the table.
func (f finding) roleShown() string {
	switch {
	case f.role == "" && f.failure != nil:
		return "-"
	case f.role == "":
		return "unknown"
	}
	return f.role
}

// clock returns by how much the master's clock differs from ours, as far as that can be told.
func (f finding) clock() string {
	switch {
	case f.failure != nil || f.refusal != nil:
		return "-"
	case f.ahead == 0:
		return "same"
	case f.ahead.Abs() < time.Second:
		return fmt.Sprintf("%+dms", f.ahead.Milliseconds())
	case f.ahead.Abs() < time.Minute:
		return fmt.Sprintf("%+.1fs", f.ahead.Seconds())
	}
	return map[bool]string{true: "+", false: "-"}[f.ahead > 0] + long(f.ahead.Abs())
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
		return "not yet" // the wait begins when a client connects
	}
	return "in " + whole(wait)
}

// clockTolerance is by how much the clocks of clients and masters may differ: see
// redlock.LockOptions.Fencing.
const clockTolerance = 500 * time.Millisecond

// errLacks stands for the remarks on lacks.
var errLacks = errors.New("it refuses commands that clients need")

// why says why the master's votes count, or do not, and what else is remarkable. There is at
// least one remark.
func (f finding) why() (remarks []string) {
	switch {
	case f.failure != nil:
		if f.advice != "" {
			return []string{f.failure.Error(), f.advice}
		}
		return []string{f.failure.Error()}
	case f.refusal == errLacks:
		// describe returns it below.
	case f.refusal != nil:
		return []string{"must not vote: " + f.refusal.Error()}
	default:
		remarks = append(remarks, f.memory())
	}
	remarks = append(remarks, describe(f.lacks)...)
	if f.ahead > clockTolerance {
		remarks = append(remarks, fmt.Sprintf("its clock is %v ahead of ours", f.ahead.Round(100*time.Millisecond)))
	} else if f.ahead < -clockTolerance {
		remarks = append(remarks, fmt.Sprintf("its clock is %v behind ours", -f.ahead.Round(100*time.Millisecond)))
	}
	return append(remarks, f.facts.remarks()...)
}

// memory says for how long the master's data is known.
func (f finding) memory() string {
	switch {
	case f.look.Why == incarnation.Absent:
		return "no record: new to redlock, or has lost its data"
	case f.look.Why != incarnation.Holds:
		return "its record is not valid: " + f.look.Why.String()
	case f.look.Record.Adopted:
		text := fmt.Sprintf("adopted %s ago", long(f.look.Age()))
		if n := f.look.Record.Masters; n > 0 && n != f.masters {
			text += fmt.Sprintf(" for a list of %d", n)
		}
		return text
	}
	return fmt.Sprintf("known for %s", long(f.look.Age()))
}

// roleOf returns a server's role by its INFO, in redlock's words, or "".
func roleOf(info string) string {
	role := wire.InfoField(info, "role")
	switch {
	case wire.InfoField(info, "cluster_enabled") == "1":
		return "cluster"
	case role == "slave":
		return "replica"
	}
	return role
}

// milliseconds renders a round trip.
func milliseconds(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.2gms", max(0.01, d.Seconds()*1000))
	}
	return d.Round(time.Millisecond).String()
}

// whole renders a wait in whole seconds, rounded up.
func whole(d time.Duration) string {
	return (d + time.Second - 1).Truncate(time.Second).String()
}

// long renders an age in at most two units.
func long(d time.Duration) string {
	switch {
	case d < time.Hour:
		return d.Truncate(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}
