package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// A record is one event of an operation, or of a client. A client writes them to its standard
// output, one JSON object a line.
type record struct {
	Kind  string `json:"k"`
	Op    string `json:"op"` // client.life.goroutine.number
	At    int64  `json:"t"`
	Name  string `json:"n,omitempty"`     // asked: the lock; several names are separated by spaces
	Side  string `json:"side,omitempty"`  // asked: of an RWLocker
	How   string `json:"how,omitempty"`   // asked: by which call
	Limit int64  `json:"limit,omitempty"` // asked: how long it may wait; 0: for ever
	Token string `json:"token,omitempty"` // entered
	Fence uint64 `json:"fence,omitempty"` // entered
	Err   string `json:"err,omitempty"`
}

// The kinds of records of an operation, in their order. If the client is killed, the last ones are
// missing.
const (
	asked   = "asked"   // before the call
	entered = "entered" // after the call has returned with the lock
	refused = "refused" // after the call has returned without the lock
	held    = "held"    // before a call of Valid that returned true
	lost    = "lost"    // after a call of Valid that returned false
	leaving = "leaving" // before the call that unlocks
	left    = "left"    // after that call
)

// Records of a client as a whole.
const (
	ready = "ready" // it is connected
	done  = "done"  // it has unlocked and closed everything
)

// A recorder writes records. It uses one write for each, without a buffer, so that a client that
// is killed leaves no half record and loses none.
type recorder struct {
	mu  sync.Mutex // guards out
	out io.Writer
}

func (r *recorder) write(rec record) {
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
