package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redlock-go/redlock/internal/defects"
	"github.com/redlock-go/redlock/internal/history"
)

// A verdict is the result of a run.
type verdict struct {
	violations []history.Violation
	writing    map[string]writing
	linear     map[string]porcupine.CheckResult
	checkedIn  time.Duration // how long porcupine took
	overlap    time.Duration // the total time with two holders
	all        tally
	uses       []tally // of each use
	together   int     // readers that entered while others read
	waits      []wait
}

// A tally counts operations.
type tally struct {
	asked, entered, refused, lost, died int

	waits []time.Duration // of those that got the lock; sorted
}

// slack is how much longer than a TTL a key may live, because a master's clock was set back.
const slack = 2 * maxOffset

// judge checks the history.
func (r *run) judge() *verdict {
	v := &verdict{writing: make(map[string]writing), linear: make(map[string]porcupine.CheckResult), uses: make([]tally, len(r.uses()))}
	ops := r.history.Snapshot()
	v.violations = slices.Concat(r.found, r.crashes(), outlasted(ops, r.notRunning), r.judgePermits(ops))
	byName, log := history.PerName(r.bySlot(ops)), r.store.log()
	for _, n := range r.checked() {
		v.judgeName(r, n, byName[n.Name], log)
	}
	v.count(r, ops)
	if r.subject == ours && r.workload != semaphores {
		v.waits = r.waits(ops)
		v.violations = append(v.violations, r.starved(v.waits)...)
	}
	if least := int(r.length.Seconds()); r.ended != 0 && r.healed != 0 && v.all.entered < least && len(v.violations) == 0 {
		v.violations = append(v.violations, history.Violation{Kind: idle, Text: fmt.Sprintf("%d times the lock was had in %v, want %d at least: nothing is shown", v.all.entered, r.length, least)})
	}
	// Those without a time, 0, come last.
	slices.SortStableFunc(v.violations, func(a, b history.Violation) int { return cmp.Compare(uint64(a.At)-1, uint64(b.At)-1) })
	return v
}

// judgeName checks the history of one name.
func (v *verdict) judgeName(r *run, n lockName, ops []history.Operation, log []entry) {
	all, total := history.Overlaps(ops)
	v.overlap += total
	v.together += readTogether(ops)
	all = append(all, r.fencesWrong(n, ops)...)
	w, late := writes(n.Name, ops, log)
	v.writing[n.Name] = w
	if n.Fenced {
		all = append(all, late...)
	}
	began := time.Now()
	v.linear[n.Name] = linear(steps(ops, r.end))
	v.checkedIn += time.Since(began)
	if v.linear[n.Name] != porcupine.Ok {
		all = append(all, history.Violation{Kind: illegal, Name: n.Name, Text: fmt.Sprintf("%q: porcupine says %s", n.Name, v.linear[n.Name])})
	}
	v.violations = append(v.violations, all...)
}

// end returns the latest possible end of a lease that has no record of its end, because the client
// died or the run ended.
func (r *run) end(o history.Operation) int64 {
	if at := r.clients[o.Client].died(o.Life); at != 0 {
		return at + int64(r.ttl+slack)
	}
	return history.Now()
}

// useOf returns the index of the use that the goroutine of an operation belongs to.
func useOf(o history.Operation) int {
	f := strings.Split(o.ID, ".")
	n, _ := strconv.Atoi(f[len(f)-2])
	return n / 10
}

// count counts the operations, of each use and all.
func (v *verdict) count(r *run, ops []history.Operation) {
	for _, o := range ops {
		v.all.add(o)
		if i := useOf(o); i < len(v.uses) {
			v.uses[i].add(o)
		}
	}
	slices.Sort(v.all.waits)
	for _, t := range v.uses {
		slices.Sort(t.waits)
	}
}

func (t *tally) add(o history.Operation) {
	t.asked++
	switch {
	case o.Entered != 0:
		t.entered++
		t.waits = append(t.waits, time.Duration(o.Entered-o.Asked))
	case o.Refused != 0:
		t.refused++
	}
	if o.Lost != 0 {
		t.lost++
	}
	if !o.Over() {
		t.died++
	}
}

func (t *tally) String() string {
	s := fmt.Sprintf("%d calls, the lock was had %d times and refused %d times; %d leases were lost, %d calls were cut short by the death of their client",
		t.asked, t.entered, t.refused, t.lost, t.died)
	if n := len(t.waits); n > 0 {
		s += "; waits:"
		for _, q := range []struct {
			name string
			part float64
		}{{"median", 0.5}, {"99th percentile", 0.99}, {"longest", 1}} {
			s += fmt.Sprintf(" %s %v", q.name, t.waits[int(q.part*float64(n-1))].Round(time.Millisecond))
		}
	}
	return s
}

// number returns how many violations of a kind there are.
func (v *verdict) number(kind string) int {
	n := 0
	for _, x := range v.violations {
		if x.Kind == kind {
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
	if x.At == 0 {
		return "caught: " + x.Kind
	}
	return fmt.Sprintf("caught after %.1f s: %s", history.Seconds(max(x.At-r.began, 0)), x.Kind)
}

// counted returns how many faults there were of each kind.
func (r *run) counted() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := "faults:"
	for _, k := range slices.Concat(kinds, settings) {
		if n := r.done[k.name]; n > 0 {
			s += fmt.Sprintf(" %s %d,", k.name, n)
		}
	}
	return s + fmt.Sprintf(" skipped %d", r.skipped)
}

// print prints the verdict as text.
func (v *verdict) print(out io.Writer, r *run) {
	fmt.Fprintln(out, r.counted())
	for i, u := range r.uses() {
		fmt.Fprintf(out, "%v: %v\n", u, &v.uses[i])
	}
	fmt.Fprintf(out, "all: %v\n", &v.all)
	if len(v.waits) > 0 {
		r.printWaits(out, v.waits)
	}
	if v.together > 0 {
		fmt.Fprintf(out, "readers that entered beside readers of other clients: %d\n", v.together)
	}
	for _, n := range r.names() {
		if n.Limit > 0 {
			ops := history.PerName(r.history.Snapshot())[n.Name]
			most, _ := overLimit(n, ops, r.permitsOf)
			fences, none := countFences(ops)
			fmt.Fprintf(out, "%s: %d permits at most were valid at a time, of %d; %d acquisitions had a fence, and %d had none\n", n.Name, most, n.Limit, fences, none)
		}
	}
	for _, n := range r.checked() {
		w := v.writing[n.Name]
		if n.Limit > 0 {
			fmt.Fprintf(out, "%s: porcupine: %s\n", n.Name, v.linear[n.Name])
			continue
		}
		fmt.Fprintf(out, "%s: the store accepted %d writes, %d of them late, and refused %d for their fence; porcupine: %s\n",
			n.Name, w.accepted, w.late, w.refused, v.linear[n.Name])
	}
	if all, sum := r.stalls.during(history.Span{From: r.began, To: history.Now()}); len(all) > 0 {
		fmt.Fprintf(out, "the machine stood still %d times, together for %v\n", len(all), sum.Round(time.Millisecond))
	}
	fmt.Fprintf(out, "porcupine took %v\n", v.checkedIn.Round(time.Millisecond))
	for i, x := range v.violations {
		if i == 20 {
			fmt.Fprintf(out, "and %d more\n", len(v.violations)-i)
			break
		}
		at := ""
		if x.At != 0 {
			at = fmt.Sprintf(" at %.3fs", history.Seconds(x.At-r.log.began))
		}
		fmt.Fprintf(out, "VIOLATION%s: %s: %s\n", at, x.Kind, x.Text)
	}
	fmt.Fprintf(out, "| subject | seed | faults for | acquired | leases lost | leases overlapped | two holders for | fences wrong | late writes accepted | stuck | keys left | keys left for ever |\n")
	late := 0
	for _, w := range v.writing {
		late += w.late
	}
	fmt.Fprintf(out, "| %s | %d | %v | %d | %d | %d | %v | %d | %d | %d | %d | %d |\n", r.subject.name, r.seed, r.length, v.all.entered, v.all.lost,
		v.number(history.Overlapping), v.overlap.Round(time.Millisecond), v.number(history.Falling), late, v.number(stuckWait), v.number(keyLeft), len(r.forever))
}

// save writes the history, and a picture of each illegal one.
func (r *run) save(v *verdict) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	all := r.history.Snapshot()
	for _, o := range all {
		enc.Encode(saved(o))
	}
	var waits strings.Builder
	r.writeWaits(&waits, v.waits, all)
	if err := os.WriteFile(filepath.Join(r.dir, "waits.txt"), []byte(waits.String()), 0o644); err != nil {
		return err
	}
	byName := history.PerName(r.bySlot(all))
	for _, n := range r.checked() {
		ops := byName[n.Name]
		if v.linear[n.Name] != porcupine.Illegal {
			continue
		}
		for _, x := range v.violations {
			if x.Name == n.Name && x.At != 0 {
				ops = around(ops, x.At, 5*time.Second)
				break
			}
		}
		if err := picture(steps(ops, r.end), filepath.Join(r.dir, n.Name+".html")); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(r.dir, "history.jsonl"), []byte(b.String()), 0o644)
}

// saved returns the operation as it is saved.
func saved(o history.Operation) any {
	return map[string]any{
		"id": o.ID, "name": o.Name, "side": o.Side, "how": o.How, "limit": o.Limit, "token": o.Token, "fence": o.Fence, "slots": o.Slots, "err": o.Err,
		"asked": o.Asked, "refused": o.Refused, "entered": o.Entered, "held": o.Held, "lost": o.Lost, "leaving": o.Leaving, "left": o.Left,
	}
}

// printPlan prints a schedule, and the names of faults and defects.
func printPlan(out io.Writer, p plan) {
	for _, f := range schedule(p) {
		fmt.Fprintln(out, f)
	}
	for i := range p.clients {
		fmt.Fprintf(out, "\nclient %d: %v", i, drawTraits(p.seed, i, p.ttl))
	}
	fmt.Fprint(out, "\n\nfaults:")
	for _, k := range slices.Concat(kinds, settings) {
		fmt.Fprint(out, " ", k.name)
	}
	fmt.Fprintln(out, "\n\ndefects:")
	for _, d := range defects.All {
		fmt.Fprintf(out, "  %-24s strikes out: %s\n", d.Name, d.Rule)
	}
}
