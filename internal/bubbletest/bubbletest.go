// Package bubbletest runs tests in testing/synctest bubbles.
//
// The package exists because of golang/go#78156. All timers of a bubble share one race context. A timer that
// is already due when it is made runs at once, on the thread of the goroutine that makes it. Under the race
// detector two threads may then use the race context at the same time. This crashes the process, by a SIGSEGV
// below internal/synctest.Run or a failed CHECK of ThreadSanitizer. Limiting the process to one thread
// prevents the crash. A test of this package crashes without that limit.
package bubbletest

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/stall"
)

// most is how much processor time a bubble may use: many times as much as any needs.
func most() time.Duration {
	if RaceEnabled {
		return 4 * time.Minute
	}
	return time.Minute
}

// Test runs f in a bubble, as synctest.Test does. Under the race detector at most one goroutine of
// the process runs at a time until the bubble ends. A bubble that does not end ends the process: see package stall.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	Named(t, "the bubble of "+t.Name(), f)
}

// Named is Test for a bubble that has a name of its own, for the report if it does not end.
func Named(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	defer stall.Watch(name, most())()
	if RaceEnabled {
		serial.begin()
		defer serial.end()
	}
	synctest.Test(t, f)
}

// Stacks returns the stacks of all goroutines of the caller's bubble except for the caller and those of package synctest. The
// runtime's count of goroutines has those of other bubbles as well, and now and then one that runs a cleanup. Stacks panics outside
// of a bubble.
func Stacks() []string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	all := strings.Split(string(buf), "\n\n")
	_, bubble, ok := strings.Cut(strings.SplitN(all[0], "\n", 2)[0], "synctest bubble ")
	if !ok {
		panic("bubbletest: Stacks was called outside of a bubble")
	}
	return slices.DeleteFunc(all[1:], func(stack string) bool {
		first, rest, _ := strings.Cut(stack, "\n")
		return !strings.HasSuffix(first, "synctest bubble "+bubble) || // of another bubble, or of none
			strings.HasPrefix(rest, "internal/synctest.Run(") || strings.HasPrefix(rest, "testing/synctest.testingSynctestTest(")
	})
}

// serial limits the process to one thread that runs Go code.
var serial limit

// A limit counts the bubbles that need it, since tests may run in parallel.
type limit struct {
	mu       sync.Mutex // guards the fields below
	bubbles  int
	previous int // GOMAXPROCS before the first bubble
}

func (l *limit) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bubbles++; l.bubbles == 1 {
		l.previous = runtime.GOMAXPROCS(1)
	}
}

func (l *limit) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bubbles--; l.bubbles == 0 {
		runtime.GOMAXPROCS(l.previous)
	}
}
