package engine

import (
	"context"
	"testing"

	"github.com/redlock-go/redlock/internal/clock"
)

// untraced returns a wait of a Core without hooks.
func untraced() *wait {
	return &wait{ctx: context.Background(), locker: &Locker{name: "a", core: &Core{clock: clock.System}}}
}

func TestUnusedHooksAllocateNothing(t *testing.T) {
	w := untraced()
	n := testing.AllocsPerRun(100, func() {
		w.traceStart()
		w.traceDone(nil)
	})
	if n != 0 {
		t.Errorf("%v allocations for each call, want none", n)
	}
}

// BenchmarkUnusedHooks measures what hooks add to a call that locks if they are nil.
func BenchmarkUnusedHooks(b *testing.B) {
	w := untraced()
	b.ReportAllocs()
	for b.Loop() {
		w.traceStart()
		w.traceDone(nil)
	}
}
