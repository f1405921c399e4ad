package main

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/history"
)

// The kinds of violations that package history does not look for.
const (
	overwritten = "late write accepted"
	stuckWait   = "stuck"
	keyLeft     = "key left"
	illegal     = "history illegal"
	crashed     = "client ended by itself"
	idle        = "too little was done"
	noTurn      = "no turn"
)

// readTogether counts the readers of one name that entered while one of another client held it, too.
func readTogether(ops []history.Operation) (n int) {
	until := make(map[int]int64) // of the readers of each client that entered before
	for _, o := range history.ConfirmedOps(ops) {
		if !o.Reads() {
			continue
		}
		for client, held := range until {
			if client != o.Client && held > o.Entered {
				n++
				break
			}
		}
		until[o.Client] = max(until[o.Client], o.Held)
	}
	return n
}

// A writing counts the writes to the store for one name.
type writing struct {
	accepted int
	refused  int // because of their fence
	late     int // accepted after a write of a later holder, which is an update lost
}

// writes counts the writes of one name, and returns the late ones that the store accepted. Only
// fences can prevent these, so they are violations only for a fenced name.
func writes(name string, ops []history.Operation, log []entry) (w writing, all []history.Violation) {
	byID := make(map[string]history.Operation)
	for _, o := range ops {
		byID[o.ID] = o
	}
	var last history.Operation // the latest holder of which a write was accepted
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
		if !known || o.Entered == 0 {
			continue
		}
		if last.Entered > o.Held && o.Confirmed() {
			w.late++
			all = append(all, history.Violation{Kind: overwritten, At: e.at, Name: name,
				Text: fmt.Sprintf("%q: a write of %s (fence %d) was accepted after one of %s (fence %d), which held after it", name, o.ID, o.Fence, last.ID, last.Fence),
			})
		}
		if o.Confirmed() && o.Entered > last.Entered {
			last = o
		}
	}
	return w, all
}

// patienceMost is how much longer than its limit a call may take, and how long an unlock may take.
const patienceMost = 2 * time.Second

// outlasted returns the calls and unlocks that took too long. The time for which the client was
// stopped by SIGSTOP does not count, nor the time for which the machine stood still.
func outlasted(ops []history.Operation, pausedFor func(client int, s history.Span) int64) (all []history.Violation) {
	for _, o := range ops {
		end := o.Refused
		if end == 0 {
			end = o.Entered
		}
		if o.Limit > 0 && end != 0 {
			took := end - o.Asked - pausedFor(o.Client, history.Span{From: o.Asked, To: end})
			if took > o.Limit+int64(patienceMost) {
				all = append(all, history.Violation{Kind: stuckWait, At: end, Name: o.Name,
					Text: fmt.Sprintf("%s waited %v for %q, which was to be %v", o.ID, time.Duration(took), o.Name, time.Duration(o.Limit))})
			}
		}
		if o.Left != 0 {
			took := o.Left - o.Leaving - pausedFor(o.Client, history.Span{From: o.Leaving, To: o.Left})
			if took > int64(patienceMost) {
				all = append(all, history.Violation{Kind: stuckWait, At: o.Left, Name: o.Name,
					Text: fmt.Sprintf("%s took %v to unlock %q", o.ID, time.Duration(took), o.Name)})
			}
		}
	}
	return all
}
