package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redlock-go/redlock/internal/defects"
)

// A verdict is the result of a run.
type verdict struct {
	violations []violation
	writing    map[string]writing
	linear     map[string]porcupine.CheckResult
	checkedIn  time.Duration // how long porcupine took

	asked, entered, refused, lost, died int
	overlap                             time.Duration   // the total time with two holders
	longest                             []time.Duration // waits: the median, the 99th percentile and the longest
}

// slack is how much longer than a TTL a key may live, because a master's clock was set back.
const slack = 2 * maxOffset

// judge checks the history.
func (r *run) judge() *verdict {
	v := &verdict{writing: make(map[string]writing), linear: make(map[string]porcupine.CheckResult)}
	byName := r.history.snapshot()
	log := r.store.log()
	v.violations = append(r.found, r.crashes()...)
	var waits []time.Duration
	for _, n := range r.names() {
		ops := byName[n.Name]
		all, total := overlaps(ops)
		v.overlap += total
		if n.Fenced {
			all = append(all, fences(ops)...)
		}
		w, late := writes(n.Name, ops, log)
		v.writing[n.Name] = w
		if n.Fenced {
			all = append(all, late...)
		}
		all = append(all, outlasted(ops, func(client int, s span) int64 { return r.clients[client].pausedFor(s) })...)
		began := time.Now()
		v.linear[n.Name] = linear(steps(ops, r.end))
		v.checkedIn += time.Since(began)
		if v.linear[n.Name] != porcupine.Ok {
			all = append(all, violation{kind: illegal, name: n.Name, text: fmt.Sprintf("%q: porcupine says %s", n.Name, v.linear[n.Name])})
		}
		v.violations = append(v.violations, all...)
		waits = append(waits, v.count(r, ops)...)
	}
	slices.Sort(waits)
	for _, part := range []float64{0.5, 0.99, 1} {
		if len(waits) > 0 {
			v.longest = append(v.longest, waits[int(part*float64(len(waits)-1))])
		}
	}
	if least := int(r.length.Seconds()); r.ended != 0 && r.healed != 0 && v.entered < least && len(v.violations) == 0 {
		v.violations = append(v.violations, violation{kind: idle, text: fmt.Sprintf("%d times the lock was had in %v, want %d at least: nothing is shown", v.entered, r.length, least)})
	}
	// Those without a time, 0, come last.
	slices.SortStableFunc(v.violations, func(a, b violation) int { return cmp.Compare(uint64(a.at)-1, uint64(b.at)-1) })
	return v
}

// end returns the latest possible end of a lease that has no record of its end, because the client
// died or the run ended.
func (r *run) end(o operation) int64 {
	if at := r.clients[o.client].died(o.life); at != 0 {
		return at + int64(r.ttl+slack)
	}
	return now()
}

// count counts one name's operations, and returns the waits of those that got the lock.
func (v *verdict) count(r *run, ops []operation) (waits []time.Duration) {
	for _, o := range ops {
		v.asked++
		switch {
		case o.entered != 0:
			v.entered++
			waits = append(waits, time.Duration(o.entered-o.asked))
		case o.refused != 0:
			v.refused++
		}
		if o.lost != 0 {
			v.lost++
		}
		if !o.over() {
			v.died++
		}
	}
	return waits
}

// number returns how many violations of a kind there are.
func (v *verdict) number(kind string) int {
	n := 0
	for _, x := range v.violations {
		if x.kind == kind {
			n++
		}
	}
	return n
}

// caught says how a defect was caught.
func (v *verdict) caught(r *run) string {
	if len(v.violations) == 0 {
		return fmt.Sprintf("NOT caught in %v", r.length)
	}
	x := v.violations[0]
	if x.at == 0 {
		return "caught: " + x.kind
	}
	return fmt.Sprintf("caught after %.1f s: %s", seconds(x.at-r.began), x.kind)
}

// print prints the verdict as text.
func (v *verdict) print(out io.Writer, r *run) {
	fmt.Fprintf(out, "faults:")
	for _, k := range kinds {
		if n := r.done[k.name]; n > 0 {
			fmt.Fprintf(out, " %s %d,", k.name, n)
		}
	}
	fmt.Fprintf(out, " skipped %d\n", r.skipped)
	fmt.Fprintf(out, "calls: %d, the lock was had %d times and refused %d times; %d leases were lost, %d calls were cut short by the death of their client\n",
		v.asked, v.entered, v.refused, v.lost, v.died)
	if len(v.longest) == 3 {
		fmt.Fprintf(out, "waits: median %v, 99th percentile %v, longest %v\n",
			v.longest[0].Round(time.Millisecond), v.longest[1].Round(time.Millisecond), v.longest[2].Round(time.Millisecond))
	}
	for _, n := range r.names() {
		w := v.writing[n.Name]
		fmt.Fprintf(out, "%s: the store accepted %d writes, %d of them late, and refused %d for their fence; porcupine: %s\n",
			n.Name, w.accepted, w.late, w.refused, v.linear[n.Name])
	}
	fmt.Fprintf(out, "porcupine took %v\n", v.checkedIn.Round(time.Millisecond))
	for i, x := range v.violations {
		if i == 20 {
			fmt.Fprintf(out, "and %d more\n", len(v.violations)-i)
			break
		}
		at := ""
		if x.at != 0 {
			at = fmt.Sprintf(" at %.3fs", seconds(x.at-r.log.began))
		}
		fmt.Fprintf(out, "VIOLATION%s: %s: %s\n", at, x.kind, x.text)
	}
	fmt.Fprintf(out, "| subject | seed | faults for | acquired | leases lost | leases overlapped | two holders for | fences wrong | late writes accepted | stuck | keys left | keys left for ever |\n")
	late := 0
	for _, w := range v.writing {
		late += w.late
	}
	fmt.Fprintf(out, "| %s | %d | %v | %d | %d | %d | %v | %d | %d | %d | %d | %d |\n", r.subject.name, r.seed, r.length, v.entered, v.lost,
		v.number(overlapping), v.overlap.Round(time.Millisecond), v.number(falling), late, v.number(stuckWait), v.number(keyLeft), len(r.forever))
}

// save writes the history, and a picture of each illegal one.
func (r *run) save(v *verdict) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	for _, n := range r.names() {
		ops := r.history.snapshot()[n.Name]
		for _, o := range ops {
			enc.Encode(o.record())
		}
		if v.linear[n.Name] != porcupine.Illegal {
			continue
		}
		for _, x := range v.violations {
			if x.name == n.Name && x.at != 0 {
				ops = around(ops, x.at, 5*time.Second)
				break
			}
		}
		if err := picture(steps(ops, r.end), filepath.Join(r.dir, n.Name+".html")); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(r.dir, "history.jsonl"), []byte(b.String()), 0o644)
}

// printPlan prints a schedule, and the names of faults and defects.
func printPlan(out io.Writer, p plan) {
	for _, f := range schedule(p) {
		fmt.Fprintln(out, f)
	}
	fmt.Fprint(out, "\nfaults:")
	for _, k := range kinds {
		fmt.Fprint(out, " ", k.name)
	}
	fmt.Fprintln(out, "\n\ndefects:")
	for _, d := range defects.All {
		fmt.Fprintf(out, "  %-24s strikes out: %s\n", d.Name, d.Rule)
	}
}
