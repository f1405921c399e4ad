package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A violation is a broken promise that a check has found.
type violation struct {
	kind string
	text string
	at   int64
	name string
}

// The kinds of violations.
const (
	overlapping = "two holders"
	falling     = "fences do not rise"
	overwritten = "late write accepted"
	stuckWait   = "stuck"
	keyLeft     = "key left"
	illegal     = "history illegal"
	crashed     = "client ended by itself"
	idle        = "too little was done"
)

// overlaps returns the leases of one name during which somebody else entered who was not to, and the total time for
// which two such leases were valid. Readers exclude writers, but not each other. ops are in any order.
func overlaps(ops []operation) (all []violation, total time.Duration) {
	var reader, writer operation  // who held longest of those that entered earlier
	seen := make(map[string]bool) // leases that are in all
	for _, o := range confirmedOps(ops) {
		before := writer
		if !o.reads() && reader.held > writer.held {
			before = reader
		}
		if o.reads() && o.held > reader.held {
			reader = o
		} else if !o.reads() && o.held > writer.held {
			writer = o
		}
		if o.entered >= before.held {
			continue
		}
		d := time.Duration(min(o.held, before.held) - o.entered)
		total += d
		if seen[before.id] {
			continue
		}
		seen[before.id] = true
		all = append(all, violation{
			kind: overlapping, at: o.entered, name: o.name,
			text: fmt.Sprintf("%v held %q from %.6f to %.6f, and %v from %.6f to %.6f: %v together",
				&before, o.name, seconds(before.entered), seconds(before.held), &o, seconds(o.entered), seconds(o.held), d),
		})
	}
	return all, total
}

// readTogether counts the readers of one name that entered while one of another client held it, too.
func readTogether(ops []operation) (n int) {
	until := make(map[int]int64) // of the readers of each client that entered before
	for _, o := range confirmedOps(ops) {
		if !o.reads() {
			continue
		}
		for client, held := range until {
			if client != o.client && held > o.entered {
				n++
				break
			}
		}
		until[o.client] = max(until[o.client], o.held)
	}
	return n
}

// confirmedOps returns the confirmed operations, by the time of entering.
func confirmedOps(ops []operation) []operation {
	var stays []operation
	for _, o := range ops {
		if o.confirmed() {
			stays = append(stays, o)
		}
	}
	slices.SortFunc(stays, func(a, b operation) int { return cmp.Compare(a.entered, b.entered) })
	return stays
}

// fences returns the violations of the order of fences of one name: a lease without a fence, two leases of writers
// with the same fence, and fences that do not rise in the order of holding. A reader's fence may be equal to that of an
// earlier writer. Among readers there is no order.
func fences(ops []operation) (all []violation) {
	var order []operation
	for _, o := range ops {
		if o.entered != 0 {
			order = append(order, o)
		}
	}
	slices.SortFunc(order, func(a, b operation) int { return cmp.Compare(a.entered, b.entered) })
	add := func(o operation, format string, args ...any) {
		all = append(all, violation{kind: falling, at: o.entered, name: o.name, text: fmt.Sprintf("%q: ", o.name) + fmt.Sprintf(format, args...)})
	}
	given := make(map[uint64]operation) // to writers
	for _, o := range order {
		if o.fence == 0 {
			add(o, "%v has no fence", &o)
		} else if other, taken := given[o.fence]; taken && !o.reads() {
			add(o, "%v and %v have the same, %d", &other, &o, o.fence)
		}
		if !o.reads() {
			given[o.fence] = o
		}
	}
	// An operation that had entered before another one asked must have a lower fence.
	ordered(order, func(o operation) int64 { return o.entered }, func(o operation) int64 { return o.asked }, func(b, o operation) {
		add(o, "%v has %d, and %v, which asked after it had entered, has %d", &b, b.fence, &o, o.fence)
	})
	// An operation that held before another one did must have a lower fence, too.
	ordered(confirmedOps(ops), func(o operation) int64 { return o.held }, func(o operation) int64 { return o.entered }, func(b, o operation) {
		add(o, "%v has %d, and %v, which held after it, has %d", &b, b.fence, &o, o.fence)
	})
	return all
}

// ordered calls report for each operation that has too low a fence, with the earlier one that shows it. An operation
// is earlier than another if its end is before the other's beginning.
func ordered(ops []operation, end, beginning func(operation) int64, report func(b, o operation)) {
	ended := slices.SortedFunc(slices.Values(ops), func(a, b operation) int { return cmp.Compare(end(a), end(b)) })
	begun := slices.SortedFunc(slices.Values(ops), func(a, b operation) int { return cmp.Compare(beginning(a), beginning(b)) })
	var reader, writer operation // with the highest fences of those that are earlier
	for _, o := range begun {
		for ; len(ended) > 0 && end(ended[0]) < beginning(o); ended = ended[1:] {
			b := ended[0]
			if b.reads() && b.fence > reader.fence {
				reader = b
			} else if !b.reads() && b.fence > writer.fence {
				writer = b
			}
		}
		switch {
		case writer.fence > o.fence: // equal fences of writers are found elsewhere
			report(writer, o)
		case !o.reads() && reader.fence > 0 && reader.fence >= o.fence:
			report(reader, o)
		}
	}
}

// A writing counts the writes to the store for one name.
type writing struct {
	accepted int
	refused  int // because of their fence
	late     int // accepted after a write of a later holder, which is an update lost
}

// writes counts the writes of one name, and returns the late ones that the store accepted. Only
// fences can prevent these, so they are violations only for a fenced name.
func writes(name string, ops []operation, log []entry) (w writing, all []violation) {
	byID := make(map[string]operation)
	for _, o := range ops {
		byID[o.id] = o
	}
	var last operation // the latest holder of which a write was accepted
	for _, e := range log {
		if e.Name != name {
			continue
		}
		if !e.accepted {
			w.refused++
			continue
		}
		w.accepted++
		o, known := byID[e.Op]
		if !known || o.entered == 0 {
			continue
		}
		if last.entered > o.held && o.confirmed() {
			w.late++
			all = append(all, violation{
				kind: overwritten, at: e.at, name: name,
				text: fmt.Sprintf("%q: a write of %s (fence %d) was accepted after one of %s (fence %d), which held after it", name, o.id, o.fence, last.id, last.fence),
			})
		}
		if o.confirmed() && o.entered > last.entered {
			last = o
		}
	}
	return w, all
}

// patienceMost is how much longer than its limit a call may take, and how long an unlock may take.
const patienceMost = 2 * time.Second

// outlasted returns the calls and unlocks that took too long. The time for which the client was
// stopped by SIGSTOP does not count, nor the time for which the machine stood still.
func outlasted(ops []operation, pausedFor func(client int, s span) int64) (all []violation) {
	for _, o := range ops {
		end := o.refused
		if end == 0 {
			end = o.entered
		}
		if o.limit > 0 && end != 0 {
			took := end - o.asked - pausedFor(o.client, span{o.asked, end})
			if took > o.limit+int64(patienceMost) {
				all = append(all, violation{kind: stuckWait, at: end, name: o.name,
					text: fmt.Sprintf("%s waited %v for %q, which was to be %v", o.id, time.Duration(took), o.name, time.Duration(o.limit))})
			}
		}
		if o.left != 0 {
			took := o.left - o.leaving - pausedFor(o.client, span{o.leaving, o.left})
			if took > int64(patienceMost) {
				all = append(all, violation{kind: stuckWait, at: o.left, name: o.name,
					text: fmt.Sprintf("%s took %v to unlock %q", o.id, time.Duration(took), o.name)})
			}
		}
	}
	return all
}
