// Package stall ends a test process in which something never ends, and shows its goroutines.
//
// In a testing/synctest bubble, a goroutine that waits for a mutex is not durably blocked. If it waits for ever, the time
// of the bubble stands still, and nothing is reported. If a test waits for something that never comes while the Client goes
// on, the time of the bubble passes for ever. In both cases go test would report the hang after its time-out of many
// minutes, or not at all.
//
// The limits do not depend on how fast the machine is:
//
//   - The process is stuck if none of its goroutines could run for a few seconds, and it has used no processor time. A
//     process that is slow because the machine is busy has goroutines that can run.
//   - Otherwise the processor time is limited.
package stall

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// idleMost is how many checks in a row must find the process stuck.
	idleMost = 5
	// idleUse is how much processor time a process that is stuck uses between two checks: for the check itself, and for
	// the garbage collector.
	idleUse = 50 * time.Millisecond
)

// every is the time between two checks. A test changes it.
var every = time.Second

// A watch is a call of Watch that has not been stopped.
type watch struct {
	what  string        // immutable
	limit time.Duration // immutable
	began time.Time     // immutable
	used  time.Duration // guarded by watches.mu; how much processor time it has used
}

// watches are those of the process.
type watches struct {
	mu      sync.Mutex // guards what follows
	all     []*watch
	stop    chan struct{} // closed to end the goroutine that checks
	process func() time.Duration
	stacks  func() []string
	fire    func(report string)
}

var process = watches{process: processorTime, stacks: stacks, fire: func(report string) {
	fmt.Fprint(os.Stderr, report)
	os.Exit(2)
}}

// Watch ends the process if what it watches does not end: if the process is stuck, or has used more than limit of
// processor time for it. If several things are watched at the same time, each is taken to use an equal part. The caller
// must be outside of any bubble. It calls stop when what is watched has ended.
func Watch(what string, limit time.Duration) (stop func()) { return process.watch(what, limit) }

func (ws *watches) watch(what string, limit time.Duration) (stop func()) {
	w := &watch{what: what, limit: limit, began: time.Now()}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.all = append(ws.all, w)
	if len(ws.all) == 1 {
		ws.stop = make(chan struct{})
		go ws.check(ws.stop)
	}
	return func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		ws.all = slices.DeleteFunc(ws.all, func(o *watch) bool { return o == w })
		if len(ws.all) == 0 {
			close(ws.stop)
		}
	}
}

// check checks the watches until stop is closed.
func (ws *watches) check(stop <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	idle, last := 0, ws.process()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		now := ws.process()
		used := now - last
		last = now
		if over := ws.use(used); over != nil {
			ws.report(over, fmt.Sprintf("it has used %v of processor time, and has not ended", over.limit))
			return
		}
		if idle++; used > idleUse {
			idle = 0
		}
		// Goroutines are shown only if that decides, since it stops the process for a moment.
		if idle == 0 || slices.ContainsFunc(ws.stacks(), canRun) {
			idle = 0
			continue
		}
		if oldest := ws.oldest(); idle >= idleMost && oldest != nil {
			ws.report(oldest, fmt.Sprintf("no goroutine could run in the last %v", idleMost*every))
			return
		}
	}
}

// use counts processor time, and returns a watch that has used too much.
func (ws *watches) use(used time.Duration) (over *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.all {
		w.used += used / time.Duration(len(ws.all))
		if w.used > w.limit {
			over = w
		}
	}
	return over
}

// oldest returns the watch that began first.
func (ws *watches) oldest() *watch {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.all) == 0 {
		return nil
	}
	return ws.all[0]
}

// report reports that something never ends.
func (ws *watches) report(w *watch, why string) {
	ws.fire(report(w.what, time.Since(w.began), why, ws.stacks()))
}

// End ends the process because something has not ended for so long, and shows its goroutines. It is for what does not run
// in a bubble: there the caller knows how long it may take.
func End(what string, after time.Duration) {
	process.fire(report(what, after, "it has not ended", stacks()))
}

// report returns a report. The goroutines that explain it come first.
func report(what string, after time.Duration, why string, stacks []string) string {
	slices.SortStableFunc(stacks, func(a, b string) int { return rank(a) - rank(b) })
	return fmt.Sprintf("stalled: %s, after %v: %s\n\n%s\n", what, after.Round(time.Second), why, strings.Join(stacks, "\n\n"))
}

// stacks returns all goroutines but the calling one.
func stacks() []string {
	buf := make([]byte, 1<<16)
	for {
		if n := runtime.Stack(buf, true); n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	return strings.Split(string(bytes.TrimSpace(buf)), "\n\n")[1:]
}

// state finds the state of a goroutine in its stack.
var state = regexp.MustCompile(`^goroutine \d+ [^\[]*\[([^\]]*)\]`)

func stateOf(stack string) string {
	if m := state.FindStringSubmatch(stack); m != nil {
		return m[1]
	}
	return ""
}

// canRun reports whether a goroutine runs, or would if there were a processor.
func canRun(stack string) bool {
	s := stateOf(stack)
	return strings.HasPrefix(s, "running") || strings.HasPrefix(s, "runnable")
}

// rank orders goroutines: those that wait for a mutex, those that run, those in a bubble that are not durably blocked, and
// the others.
func rank(stack string) int {
	switch s := stateOf(stack); {
	case strings.HasPrefix(s, "sync.Mutex") || strings.HasPrefix(s, "sync.RWMutex") || strings.HasPrefix(s, "semacquire"):
		return 0
	case canRun(stack):
		return 1
	case strings.Contains(s, "bubble") && !strings.Contains(s, "durable"):
		return 2
	}
	return 3
}
