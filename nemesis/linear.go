package main

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// A lockState is the state of a lock in porcupine's model: its holder, or "", and the highest fence
// so far.
type lockState struct {
	holder string
	fence  uint64
}

// A step is a transition of the model: the lock is taken, or the lease ends.
type step struct {
	op    string
	takes bool
	fence uint64 // 0: the name has none
}

var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(lockState), input.(step)
		if !in.takes {
			return s.holder == in.op, lockState{fence: s.fence}
		}
		ok := s.holder == "" && (in.fence == 0 || in.fence > s.fence)
		return ok, lockState{holder: in.op, fence: max(s.fence, in.fence)}
	},
	DescribeOperation: func(input, _ any) string {
		in := input.(step)
		if in.takes {
			return fmt.Sprintf("%s takes it, fence %d", in.op, in.fence)
		}
		return in.op + " ends"
	},
	DescribeState: func(state any) string {
		s := state.(lockState)
		return fmt.Sprintf("held by %q, fence %d", s.holder, s.fence)
	},
}

// steps returns one name's history for porcupine. Each lease has two steps:
//   - it is taken between the call and its return;
//   - it ends after the last moment at which it was seen to be valid, and before it was seen to be
//     invalid, or the unlock returned, or at end(o) if the client died.
//
// A call that did not return with the lock is left out. It may have taken the lock for a while, but
// no other step depends on that.
func steps(ops []operation, end func(o operation) int64) []porcupine.Operation {
	var all []porcupine.Operation
	for _, o := range ops {
		if o.entered == 0 {
			continue
		}
		call := o.asked
		if o.confirmed() {
			call = o.held
		}
		over := o.lost
		if over == 0 {
			over = o.left
		}
		if over == 0 {
			over = max(end(o), call)
		}
		all = append(all,
			porcupine.Operation{ClientId: o.client, Input: step{op: o.id, takes: true, fence: o.fence}, Call: o.asked, Return: o.entered},
			porcupine.Operation{ClientId: o.client, Input: step{op: o.id}, Call: call, Return: over},
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
func around(ops []operation, at int64, within time.Duration) []operation {
	var near []operation
	for _, o := range ops {
		if o.entered >= at-int64(within) && o.entered <= at+int64(within) {
			near = append(near, o)
		}
	}
	return near
}
