package history

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// An Operation is one call for a lock and what followed. Times are those of Now; 0 means that the
// event has not happened, or is not known.
type Operation struct {
	ID     string // client.life.goroutine.number
	Name   string // several names are separated by spaces
	Side   string // of an RWLocker
	How    string // by which call, or by which kind of client
	Limit  int64  // how long it may wait; 0: for ever
	Token  string // of the lease
	Fence  uint64 // 0: none
	Slots  string // of a semaphore; several are separated by spaces
	Err    string // of the call, or of the unlock
	Client int    // of the ID
	Life   int    // of the ID

	Asked   int64 // before the call
	Refused int64 // after it, without the lock
	Entered int64 // after it, with the lock
	Held    int64 // the last moment at which the lease is known to be valid
	Lost    int64 // the first at which it is known not to be
	Leaving int64 // before the unlock
	Left    int64 // after it
}

// String returns the id, and the side.
func (o *Operation) String() string { return strings.TrimSpace(o.Side + " " + o.ID) }

// Goroutine returns the id without its number.
func (o *Operation) Goroutine() string { return o.ID[:strings.LastIndexByte(o.ID, '.')] }

// Reads reports whether others may hold the lock at the same time, if they read, too.
func (o *Operation) Reads() bool { return o.Side == AsReader }

// Confirmed reports whether the lease was seen to be valid at least once after the call had
// returned. Then the client held the lock from entered to held.
func (o *Operation) Confirmed() bool { return o.Entered != 0 && o.Held >= o.Entered }

// Over reports whether the client has written the last record of the operation.
func (o *Operation) Over() bool { return o.Refused != 0 || o.Left != 0 }

// A History has the operations of all clients. It is safe for concurrent use.
type History struct {
	mu      sync.Mutex // guards what follows
	ops     []*Operation
	byID    map[string]*Operation
	stopped map[int][]Span // of each client
	faults  []FaultSpan    // in the order of their records
}

// A FaultSpan is a fault of one client, and when it was.
type FaultSpan struct {
	Name   string // which
	Client int    // whose
	Span          // To is 0 if its end was not recorded
}

// New returns an empty History.
func New() *History {
	return &History{byID: make(map[string]*Operation), stopped: make(map[int][]Span)}
}

// Add takes in a record.
func (h *History) Add(r Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r.Kind {
	case Ready, Done:
		return
	case Fault:
		client, _ := strconv.Atoi(r.Op)
		h.faults = append(h.faults, FaultSpan{r.Name, client, Span{From: r.At}})
		return
	case Mended:
		client, _ := strconv.Atoi(r.Op)
		for i := len(h.faults) - 1; i >= 0; i-- {
			if h.faults[i].Client == client {
				h.faults[i].To = r.At
				break
			}
		}
		return
	case Stopped:
		client, _ := strconv.Atoi(r.Op)
		h.stopped[client] = append(h.stopped[client], Span{From: r.At})
		return
	case Continued:
		client, _ := strconv.Atoi(r.Op)
		if all := h.stopped[client]; len(all) > 0 {
			all[len(all)-1].To = r.At
		}
		return
	}
	o := h.byID[r.Op]
	if o == nil {
		o = &Operation{ID: r.Op}
		if f := strings.Split(r.Op, "."); len(f) == 4 {
			o.Client, _ = strconv.Atoi(f[0])
			o.Life, _ = strconv.Atoi(f[1])
		}
		h.byID[r.Op] = o
		h.ops = append(h.ops, o)
	}
	switch r.Kind {
	case Asked:
		o.Asked, o.Name, o.Side, o.How, o.Limit = r.At, r.Name, r.Side, r.How, r.Limit
	case Refused:
		o.Refused, o.Err = r.At, r.Err
	case Entered:
		o.Entered, o.Token, o.Fence, o.Slots = r.At, r.Token, r.Fence, r.Slots
	case Held:
		o.Held = r.At
	case Lost:
		o.Lost = r.At
	case Leaving:
		o.Leaving = r.At
	case Left:
		o.Left, o.Err = r.At, r.Err
	}
}

// Snapshot returns a copy of the operations, in the order of asking.
func (h *History) Snapshot() []Operation {
	h.mu.Lock()
	ops := make([]Operation, len(h.ops))
	for i, o := range h.ops {
		ops[i] = *o
	}
	h.mu.Unlock()
	slices.SortStableFunc(ops, func(a, b Operation) int { return cmp.Compare(a.Asked, b.Asked) })
	return ops
}

// Stopped returns when the process of a client was stopped.
func (h *History) Stopped(client int) []Span {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.stopped[client])
}

// Faults returns the faults, in the order of their records.
func (h *History) Faults() []FaultSpan {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.faults)
}

// PerName returns the operations of each name, in the same order. An operation on several names counts for each of
// them, as if it were on this name alone: it holds all of them from its entering on, and until it leaves.
func PerName(ops []Operation) map[string][]Operation {
	byName := make(map[string][]Operation)
	for _, o := range ops {
		for name := range strings.SplitSeq(o.Name, " ") {
			o.Name = name
			byName[name] = append(byName[name], o)
		}
	}
	return byName
}
