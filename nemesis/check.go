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

// overlaps returns the leases of one name during which somebody else entered, and the total time
// for which two leases were valid. ops are in any order.
func overlaps(ops []operation) (all []violation, total time.Duration) {
	stays := confirmedOps(ops)
	seen := make(map[string]bool) // leases that are in all
	for i := range stays {
		if i == 0 {
			continue
		}
		// Comparing with the earlier holder that held longest finds every overlap.
		before := slices.MaxFunc(stays[max(0, i-50):i], func(a, b operation) int { return cmp.Compare(a.held, b.held) })
		o := stays[i]
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
			text: fmt.Sprintf("%s held %q from %.6f to %.6f, and %s from %.6f to %.6f: %v together",
				before.id, o.name, seconds(before.entered), seconds(before.held), o.id, seconds(o.entered), seconds(o.held), d),
		})
	}
	return all, total
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

// fences returns the violations of the order of fences of one name: a lease without a fence, two
// leases with the same fence, and fences that do not rise in the order of holding.
func fences(ops []operation) (all []violation) {
	var order []operation
	for _, o := range ops {
		if o.entered != 0 {
			order = append(order, o)
		}
	}
	slices.SortFunc(order, func(a, b operation) int { return cmp.Compare(a.entered, b.entered) })
	given := make(map[uint64]string)
	var highest operation // the confirmed operation with the highest fence so far
	for i, o := range order {
		add := func(format string, args ...any) {
			all = append(all, violation{kind: falling, at: o.entered, name: o.name, text: fmt.Sprintf("%q: ", o.name) + fmt.Sprintf(format, args...)})
		}
		if o.fence == 0 {
			add("%s has no fence", o.id)
		} else if other, taken := given[o.fence]; taken {
			add("%s and %s have the same, %d", other, o.id, o.fence)
		}
		given[o.fence] = o.id
		// An operation that had entered before this one asked must have a lower fence.
		for j := i - 1; j >= 0 && j > i-50; j-- {
			if b := order[j]; b.entered < o.asked && b.fence > o.fence {
				add("%s has %d, above %d of %s, which asked after it had entered", b.id, b.fence, o.fence, o.id)
			}
		}
		// An operation that held before this one did must have a lower fence, too.
		if !o.confirmed() {
			continue
		}
		if highest.fence > o.fence && highest.held < o.entered {
			add("%s has %d, above %d of %s, which held after it", highest.id, highest.fence, o.fence, o.id)
		}
		if o.fence > highest.fence {
			highest = o
		}
	}
	return all
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
// stopped by SIGSTOP does not count.
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
