package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// An operation is one call for a lock and what followed. Times are those of now; 0 means that the
// event has not happened, or is not known.
type operation struct {
	id     string // client.life.goroutine.number
	name   string // several names are separated by spaces
	side   string
	how    string
	limit  int64
	token  string
	fence  uint64
	err    string // of the call, or of the unlock
	client int
	life   int

	asked   int64
	refused int64
	entered int64
	held    int64 // the last moment at which the lease is known to be valid
	lost    int64 // the first at which it is known not to be
	leaving int64
	left    int64
}

// String returns the id, and the side.
func (o *operation) String() string { return strings.TrimSpace(o.side + " " + o.id) }

// goroutine returns the id without its number.
func (o *operation) goroutine() string { return o.id[:strings.LastIndexByte(o.id, '.')] }

// use returns the index of the use that the goroutine belongs to.
func (o *operation) use() int {
	f := strings.Split(o.id, ".")
	n, _ := strconv.Atoi(f[len(f)-2])
	return n / 10
}

// reads reports whether others may hold the lock at the same time, if they read, too.
func (o *operation) reads() bool { return o.side == asReader }

// confirmed reports whether the lease was seen to be valid at least once after the call had
// returned. Then the client held the lock from entered to held.
func (o *operation) confirmed() bool { return o.entered != 0 && o.held >= o.entered }

// over reports whether the client has written the last record of the operation.
func (o *operation) over() bool { return o.refused != 0 || o.left != 0 }

// A history has the operations of all clients. It is safe for concurrent use.
type history struct {
	mu   sync.Mutex // guards what follows
	ops  []*operation
	byID map[string]*operation
}

func newHistory() *history { return &history{byID: make(map[string]*operation)} }

// add takes in a record.
func (h *history) add(r record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.byID[r.Op]
	if o == nil {
		o = &operation{id: r.Op}
		if f := strings.Split(r.Op, "."); len(f) == 4 {
			o.client, _ = strconv.Atoi(f[0])
			o.life, _ = strconv.Atoi(f[1])
		}
		h.byID[r.Op] = o
		h.ops = append(h.ops, o)
	}
	switch r.Kind {
	case asked:
		o.asked, o.name, o.side, o.how, o.limit = r.At, r.Name, r.Side, r.How, r.Limit
	case refused:
		o.refused, o.err = r.At, r.Err
	case entered:
		o.entered, o.token, o.fence = r.At, r.Token, r.Fence
	case held:
		o.held = r.At
	case lost:
		o.lost = r.At
	case leaving:
		o.leaving = r.At
	case left:
		o.left, o.err = r.At, r.Err
	}
}

// snapshot returns a copy of the operations, in the order of asking.
func (h *history) snapshot() []operation {
	h.mu.Lock()
	ops := make([]operation, len(h.ops))
	for i, o := range h.ops {
		ops[i] = *o
	}
	h.mu.Unlock()
	slices.SortStableFunc(ops, func(a, b operation) int { return cmp.Compare(a.asked, b.asked) })
	return ops
}

// perName returns the operations of each name, in the same order. An operation on several names counts for each of
// them, as if it were on this name alone: it holds all of them from its entering on, and until it leaves.
func perName(ops []operation) map[string][]operation {
	byName := make(map[string][]operation)
	for _, o := range ops {
		for name := range strings.SplitSeq(o.name, " ") {
			o.name = name
			byName[name] = append(byName[name], o)
		}
	}
	return byName
}

// record returns the operation as it is saved.
func (o *operation) record() any {
	return map[string]any{
		"id": o.id, "name": o.name, "side": o.side, "how": o.how, "limit": o.limit, "token": o.token, "fence": o.fence, "err": o.err,
		"asked": o.asked, "refused": o.refused, "entered": o.entered, "held": o.held, "lost": o.lost, "leaving": o.leaving, "left": o.left,
	}
}
