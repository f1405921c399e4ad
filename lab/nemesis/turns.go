package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/history"
)

// A ran is a fault that was done, and when.
type ran struct {
	fault
	during history.Span
}

// recovery is how long after a fault of its links, or its process, a client may need to be connected as before.
const recovery = time.Second

// disturbed returns when a client could not be expected to lock: a fault of its own, and the time after that. Faults of masters
// concern all clients.
func (r *run) disturbed(client int) (all []history.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.ran {
		if f.client != client {
			continue
		}
		s := f.during
		if s.To != 0 {
			s.To += int64(recovery)
		}
		all = append(all, s)
	}
	return all
}

// kindOf returns the kind of a call, which decides how long it may wait while others have their turns.
func (r *run) kindOf(o history.Operation) string {
	t := r.clients[o.Client].job.Traits
	switch {
	case o.Side == asReader:
		return "reader"
	case t.Polls || t.Denied == "subscribe":
		return "polls"
	case o.Side == asWriter || strings.Contains(o.Name, " ") || !t.Renewed:
		return "unrenewed"
	}
	return "queueing"
}

// A demand is what a waiting call may demand: it has a violation if it has waited for longer than within while its client was not
// disturbed, and other clients have had more turns meanwhile.
type demand struct {
	turns  int
	within time.Duration
}

// demands are twice those of internal/simulation for five clients, since the machine may be busy, and three times for clients that poll.
var demands = map[string]demand{
	"queueing":  {80, 2 * time.Second},
	"unrenewed": {80, 3 * time.Second},
	"polls":     {120, 5 * time.Second},
	"reader":    {80, 3 * time.Second},
}

// A wait is a call that has waited.
type wait struct {
	op     history.Operation
	during history.Span
	turns  int           // of other clients, while its own was not disturbed; several of one client in a row are one
	calm   time.Duration // how long it has waited while its client was not disturbed
}

// waits returns the waits of all calls for locks.
func (r *run) waits(ops []history.Operation) (all []wait) {
	entered := make(map[string][]history.Operation) // by name, in the order of entering
	for name, of := range history.PerName(ops) {
		of = slices.DeleteFunc(slices.Clone(of), func(o history.Operation) bool { return o.Entered == 0 })
		slices.SortFunc(of, func(a, b history.Operation) int { return cmp.Compare(a.Entered, b.Entered) })
		entered[name] = of
	}
	end := cmp.Or(r.ended, history.Now())
	spans := make([][]history.Span, len(r.clients))
	for i := range r.clients {
		stalls, _ := r.stalls.during(history.Span{From: r.began, To: end})
		spans[i] = append(append(r.disturbed(i), stalls...), r.clients[i].stopped()...)
	}
	for _, o := range ops {
		w := wait{op: o, during: history.Span{From: o.Asked, To: cmp.Or(o.Entered, o.Refused, r.clients[o.Client].died(o.Life), end)}}
		w.calm = time.Duration(w.during.To - w.during.From - history.Covered(w.during, spans[o.Client]))
		for _, name := range strings.Fields(o.Name) {
			w.turns = max(w.turns, turnsOf(entered[name], w, spans[o.Client]))
		}
		all = append(all, w)
	}
	return all
}

// turnsOf counts the turns of others that began during a wait, while no span covered them.
func turnsOf(entered []history.Operation, w wait, spans []history.Span) (n int) {
	last := w.op.Client
	i, _ := slices.BinarySearchFunc(entered, w.during.From, func(o history.Operation, at int64) int { return cmp.Compare(o.Entered, at) })
	for ; i < len(entered) && entered[i].Entered < w.during.To; i++ {
		o := entered[i]
		covered := slices.ContainsFunc(spans, func(s history.Span) bool {
			return s.From <= o.Entered && (s.To == 0 || o.Entered < s.To)
		})
		if o.Client != w.op.Client && o.Client != last && !covered {
			n++
		}
		last = o.Client
	}
	return n
}

// starved returns a violation for each call that has waited for longer than it may demand.
func (r *run) starved(all []wait) (found []history.Violation) {
	for _, w := range all {
		kind := r.kindOf(w.op)
		if d := demands[kind]; w.turns > d.turns && w.calm > d.within {
			found = append(found, history.Violation{Kind: noTurn, At: w.during.To, Name: w.op.Name, Text: fmt.Sprintf(
				"%v (%s) has waited for %q for %v, for %v of which nothing disturbed its client, and others have had %d turns meanwhile",
				&w.op, kind, w.op.Name, w.length(), w.calm.Round(time.Millisecond), w.turns)})
		}
	}
	return found
}

func (w wait) length() time.Duration {
	return time.Duration(w.during.To - w.during.From).Round(time.Millisecond)
}

// printWaits prints the longest waits of each kind of call, and the most turns of others.
func (r *run) printWaits(out io.Writer, all []wait) {
	fmt.Fprintln(out, "| kind of call | calls | longest wait | of which undisturbed | most turns of others meanwhile | may demand |\n|---|---|---|---|---|---|")
	for _, kind := range []string{"queueing", "unrenewed", "polls", "reader"} {
		n, longest, most := 0, wait{}, 0
		for _, w := range all {
			if r.kindOf(w.op) != kind {
				continue
			}
			n, most = n+1, max(most, w.turns)
			if w.length() > longest.length() {
				longest = w
			}
		}
		if n > 0 {
			fmt.Fprintf(out, "| %s | %d | %v | %v | %d | %d in %v |\n", kind, n, longest.length(), longest.calm.Round(time.Millisecond), most, demands[kind].turns, demands[kind].within)
		}
	}
}

// writeWaits writes the history of the longest wait of each kind of call: what others did with its names, and the faults.
func (r *run) writeWaits(out io.Writer, all []wait, ops []history.Operation) {
	longest := make(map[string]wait)
	for _, w := range all {
		kind := r.kindOf(w.op) + " " + w.op.Name
		if w.length() > longest[kind].length() {
			longest[kind] = w
		}
	}
	for _, w := range slices.SortedFunc(func(yield func(wait) bool) {
		for _, w := range longest {
			if !yield(w) {
				return
			}
		}
	}, func(a, b wait) int { return cmp.Compare(b.length(), a.length()) }) {
		r.writeWait(out, w, ops)
	}
}

// writeWait writes the history of a wait.
func (r *run) writeWait(out io.Writer, w wait, ops []history.Operation) {
	type line struct {
		at   int64
		text string
	}
	var lines []line
	seconds := func(at int64) string { return fmt.Sprintf("%.3f", history.Seconds(at-r.log.began)) }
	overlaps := func(s history.Span) bool { return s.From < w.during.To && (s.To == 0 || s.To > w.during.From) }
	names := strings.Fields(w.op.Name)
	for _, o := range ops {
		shares := slices.ContainsFunc(strings.Fields(o.Name), func(n string) bool { return slices.Contains(names, n) })
		if shares && o.Entered != 0 && o.ID != w.op.ID && overlaps(history.Span{From: o.Entered, To: o.Left}) {
			lost := ""
			if o.Lost != 0 {
				lost = ", lost at " + seconds(o.Lost)
			}
			lines = append(lines, line{o.Entered, fmt.Sprintf("%v had %q until %s%s, asked at %s", &o, o.Name, seconds(o.Left), lost, seconds(o.Asked))})
		}
	}
	r.mu.Lock()
	for _, f := range r.ran {
		if (f.client < 0 || f.client == w.op.Client) && overlaps(f.during) {
			lines = append(lines, line{f.during.From, fmt.Sprintf("fault until %s: %v", seconds(f.during.To), f.fault)})
		}
	}
	r.mu.Unlock()
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	fmt.Fprintf(out, "%v (%s, %s) waited for %q from %s to %s, %v, of which %v undisturbed, %d turns of others\n", &w.op, r.kindOf(w.op), w.op.How, w.op.Name,
		seconds(w.during.From), seconds(w.during.To), w.length(), w.calm.Round(time.Millisecond), w.turns)
	for _, l := range lines {
		fmt.Fprintf(out, "  %9s %s\n", seconds(l.at), l.text)
	}
}
