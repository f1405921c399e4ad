package turns

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
)

func TestALockThatOthersWantIsNotKeptForAWhile(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := NewUnkept()
		pause := func() time.Duration {
			start := time.Now()
			for !r.Keeps("a") {
				time.Sleep(time.Second / 4)
			}
			return time.Since(start)
		}
		if got := pause(); got != 0 {
			t.Errorf("a lock that nobody else wants is not kept for %v", got)
		}
		for want := unkeptLeast; want <= 2*unkeptMost; want *= 2 { // in vain each time
			r.Note("a", false)
			if got := pause(); got != min(want, unkeptMost) {
				t.Errorf("not kept for %v, want %v", got, min(want, unkeptMost))
			}
		}
		r.Note("a", true)
		r.Note("a", false) // while it is not kept anyway
		if got := pause(); got != unkeptLeast {
			t.Errorf("after it had been of use, not kept for %v, want %v", got, unkeptLeast)
		}
	})
}
