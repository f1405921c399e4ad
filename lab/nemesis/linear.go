package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redlock-go/redlock/internal/history"
)

// A lockState is the state of a lock in porcupine's model.
type lockState struct {
	writer  string
	readers string // sorted, and separated by spaces, because states are compared by ==
	fence   uint64 // the highest of a writer
	seen    uint64 // the highest of a reader
}

// A step is a transition of the model: the lock is taken, or the lease ends.
type step struct {
	op    string
	reads bool
	takes bool
	fence uint64 // 0: the name has none
}

var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(lockState), input.(step)
		if in.reads {
			return s.read(in)
		}
		return s.write(in)
	},
	DescribeOperation: func(input, _ any) string {
		in := input.(step)
		what := "takes it"
		if in.reads {
			what = "reads"
		}
		if in.takes {
			return fmt.Sprintf("%s %s, fence %d", in.op, what, in.fence)
		}
		return in.op + " ends"
	},
	DescribeState: func(state any) string {
		s := state.(lockState)
		return fmt.Sprintf("held by %q, read by %q, fence %d, a reader's %d", s.writer, s.readers, s.fence, s.seen)
	},
}

// write takes the step of a writer.
func (s lockState) write(in step) (ok bool, next lockState) {
	if !in.takes {
		ok = s.writer == in.op
		s.writer = ""
		return ok, s
	}
	ok = s.writer == "" && s.readers == "" && (in.fence == 0 || in.fence > max(s.fence, s.seen))
	s.writer, s.fence = in.op, max(s.fence, in.fence)
	return ok, s
}

// read takes the step of a reader.
func (s lockState) read(in step) (ok bool, next lockState) {
	all := strings.Fields(s.readers)
	i, found := slices.BinarySearch(all, in.op)
	if in.takes {
		ok = s.writer == "" && !found && (in.fence == 0 || in.fence >= s.fence)
		all = slices.Insert(all, i, in.op)
		s.seen = max(s.seen, in.fence)
	} else if ok = found; ok {
		all = slices.Delete(all, i, i+1)
	}
	s.readers = strings.Join(all, " ")
	return ok, s
}

// steps returns one name's history for porcupine. Each lease has two steps:
//   - it is taken between the call and its return;
//   - it ends after the last moment at which it was seen to be valid, and before it was seen to be
//     invalid, or the unlock returned, or at end(o) if the client died.
//
// A call that did not return with the lock is left out. It may have taken the lock for a while, but
// no other step depends on that.
//
// A reader that was seen to hold takes the lock at the moment when it entered, and ends at the last moment when it was
// seen to hold. Where a history with these steps is illegal, other times between the same limits do not make it legal:
// the lease would only last longer, and while it lasts no writer can take the lock, so the fences of writers do not
// change. Without this, porcupine would try each order of many readers, and not come to an end.
func steps(ops []history.Operation, end func(o history.Operation) int64) []porcupine.Operation {
	var all []porcupine.Operation
	for _, o := range ops {
		if o.Entered == 0 {
			continue
		}
		takes, ends := step{op: o.ID, reads: o.Reads(), takes: true, fence: o.Fence}, step{op: o.ID, reads: o.Reads()}
		if o.Reads() && o.Confirmed() {
			all = append(all,
				porcupine.Operation{ClientId: o.Client, Input: takes, Call: o.Entered, Return: o.Entered},
				porcupine.Operation{ClientId: o.Client, Input: ends, Call: o.Held, Return: o.Held},
			)
			continue
		}
		call := o.Asked
		if o.Confirmed() {
			call = o.Held
		}
		over := o.Lost
		if over == 0 {
			over = o.Left
		}
		if over == 0 {
			over = max(end(o), call)
		}
		all = append(all,
			porcupine.Operation{ClientId: o.Client, Input: takes, Call: o.Asked, Return: o.Entered},
			porcupine.Operation{ClientId: o.Client, Input: ends, Call: call, Return: over},
		)
	}
	return all
}

// linearMost bounds porcupine's time for one name.
const linearMost = time.Minute

// linear checks one name's steps.
func linear(all []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(lockModel, all, linearMost)
}

// picture writes porcupine's visualization of the steps to a file.
func picture(all []porcupine.Operation, file string) error {
	var first int64
	for i, o := range all {
		if i == 0 || o.Call < first {
			first = o.Call
		}
	}
	for i := range all {
		all[i].Call -= first
		all[i].Return -= first
	}
	_, info := porcupine.CheckOperationsVerbose(lockModel, all, linearMost)
	return porcupine.VisualizePath(lockModel, info, file)
}

// around returns the operations that entered near a moment. A picture of a whole run would be too
// large.
func around(ops []history.Operation, at int64, within time.Duration) []history.Operation {
	var near []history.Operation
	for _, o := range ops {
		if o.Entered >= at-int64(within) && o.Entered <= at+int64(within) {
			near = append(near, o)
		}
	}
	return near
}
