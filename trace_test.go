package redlock

import (
	"context"
	"testing"

	"github.com/redlock-go/redlock/internal/clock"
)

// untraced returns a wait of a Client without a Trace.
func untraced() *wait {
	return &wait{ctx: context.Background(), locker: &Locker{name: "a", client: &Client{opts: &Options{Trace: &Trace{}}, clock: clock.System}}}
}

func TestAnUnusedTraceAllocatesNothing(t *testing.T) {
	w := untraced()
	n := testing.AllocsPerRun(100, func() {
		w.traceStart()
		w.traceDone(nil)
	})
	if n != 0 {
		t.Errorf("%v allocations for each call, want none", n)
	}
}

// BenchmarkUnusedTrace measures what Options.Trace adds to a call that locks if it is nil.
func BenchmarkUnusedTrace(b *testing.B) {
	w := untraced()
	b.ReportAllocs()
	for b.Loop() {
		w.traceStart()
		w.traceDone(nil)
	}
}
