// Package history records what clients hold, and checks the records: at most one of them may hold a lock at a time, and
// their fences must rise. A history is independent of the library: whoever reads it need not believe what made it.
//
// A history is a text of one record a line, each of which is a JSON object:
//
//	{"k":"asked","op":"2.0.1.17","t":8123456789,"n":"a b","how":"lock"}
//	{"k":"entered","op":"2.0.1.17","t":8125456789,"token":"…","fence":1843}
//	{"k":"held","op":"2.0.1.17","t":8127456789}
//	{"k":"leaving","op":"2.0.1.17","t":8127556789}
//	{"k":"left","op":"2.0.1.17","t":8128456789}
//
// k is one of the kinds below. op names the operation: its client, which process of this client, which goroutine of this
// process, and a number. t is the time in nanoseconds of one clock for all clients of a machine: see Now. The records of
// one operation are in their order; those of different operations are in any order.
//
// An operation has held the lock from entered to its last held. Its client has relied on the lock at both moments, and
// in between. A lock of several names counts for each of them.
package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Record is one event of an operation, or of a client.
type Record struct {
	Kind  string `json:"k"`               // one of the kinds below
	Op    string `json:"op"`              // client.life.goroutine.number
	At    int64  `json:"t"`               // by Now
	Name  string `json:"n,omitempty"`     // Asked: the lock; several names are separated by spaces
	Side  string `json:"side,omitempty"`  // Asked: of an RWLocker
	How   string `json:"how,omitempty"`   // Asked: by which call, or by which kind of client
	Limit int64  `json:"limit,omitempty"` // Asked: how long it may wait; 0: for ever
	Token string `json:"token,omitempty"` // Entered
	Fence uint64 `json:"fence,omitempty"` // Entered; 0: none
	Slots string `json:"slots,omitempty"` // Entered: of a semaphore; several are separated by spaces
	Err   string `json:"err,omitempty"`   // Refused, Left
}

// The kinds of records of an operation, in their order. If the client is killed, the last ones are
// missing.
const (
	Asked   = "asked"   // before the call
	Entered = "entered" // after the call has returned with the lock
	Refused = "refused" // after the call has returned without the lock
	Held    = "held"    // before a call of Valid that returned true
	Lost    = "lost"    // after a call of Valid that returned false
	Leaving = "leaving" // before the call that unlocks
	Left    = "left"    // after that call
)

// Records of a client as a whole.
const (
	Ready = "ready" // it is connected
	Done  = "done"  // it has unlocked and closed everything
)

// Records of whoever makes the faults. Op is the client.
const (
	Stopped   = "stopped"   // before its process is stopped
	Continued = "continued" // after its process was continued, or has ended
	Fault     = "fault"     // any fault, when it begins; Name says which
	Mended    = "mended"    // after the last fault of the client
)

var kinds = []string{Asked, Entered, Refused, Held, Lost, Leaving, Left, Ready, Done, Stopped, Continued, Fault, Mended}

// AsReader is the side of a reader: others may hold the lock at the same time, if they read, too.
const AsReader = "reader"

// A Recorder writes records. It uses one write for each, without a buffer, so that a client that
// is killed leaves no half record and loses none.
type Recorder struct {
	mu  sync.Mutex // guards out
	out io.Writer
}

// NewRecorder returns a Recorder that writes to out.
func NewRecorder(out io.Writer) *Recorder { return &Recorder{out: out} }

// Write writes a record. It panics if that fails: a history with a hole shows nothing.
func (r *Recorder) Write(rec Record) {
	b, err := json.Marshal(rec)
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.out.Write(append(b, '\n')); err != nil {
		panic(fmt.Sprint("the records cannot be written: ", err))
	}
}

// lineMost is how long a line of a history may be.
const lineMost = 1 << 20

// Read calls f with each record of a text, until it ends. Lines that are no records are left out. The error names the first
// of them, and what is wrong with it.
func Read(in io.Reader, f func(Record)) error {
	var first error // of a line that is no record
	lines, n := bufio.NewReaderSize(in, lineMost), 0
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		n++
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return cmp.Or(first, fmt.Errorf("line %d is no record: it is longer than %d bytes", n, lineMost))
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("line %d: %w", n, err)
		}
		r, wrong := parse(line, err != nil)
		if wrong == nil {
			f(r)
		} else if first == nil {
			first = fmt.Errorf("line %d %w", n, wrong)
		}
		if err != nil {
			break
		}
	}
	return first
}

// parse returns the record of a line. last means that no line feed follows.
func parse(line []byte, last bool) (r Record, err error) {
	known := json.NewDecoder(bytes.NewReader(line))
	known.DisallowUnknownFields() // they may change what a record means
	switch err = known.Decode(&r); {
	case err == nil && slices.Contains(kinds, r.Kind) && len(bytes.TrimSpace(line[known.InputOffset():])) == 0 && r.whose():
		return r, nil
	case json.Unmarshal(line, &r) == nil && r.Kind != "" && (err != nil || !slices.Contains(kinds, r.Kind)):
		return r, fmt.Errorf("is of a later version: this version does not know all of %.100q", bytes.TrimSpace(line))
	case last && bytes.HasPrefix(line, []byte(`{"k":`)):
		return r, errors.New("is cut off, so the history is not whole")
	}
	return r, fmt.Errorf("is no record of a history: %.100q", bytes.TrimSpace(line))
}

// whose reports whether a record says in the right form which operation, or which client, it is of.
func (r Record) whose() bool {
	switch r.Kind {
	case Ready, Done:
		return true
	case Stopped, Continued, Fault, Mended:
		_, err := strconv.Atoi(r.Op)
		return err == nil
	}
	return strings.Count(r.Op, ".") == 3
}
