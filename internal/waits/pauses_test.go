package waits

import (
	"testing"
	"time"
)

// A wait may be woken, or find the votes split, again and again. Its delays then begin anew.
func TestAScheduleThatBeginsAnewStopsNoLater(t *testing.T) {
	delays := func() Schedule {
		n := 0
		return backOffFunc(func() time.Duration {
			if n++; n > 4 {
				return -1
			}
			return time.Duration(n) * time.Millisecond
		})
	}
	r := Delays{Start: delays}
	for i, want := range []time.Duration{1, 2, 1, 2} {
		if i == 2 {
			r.Reset()
		}
		if d, more := r.Next(); d != want*time.Millisecond || !more {
			t.Errorf("delay %d is %v, %v, want %dms", i+1, d, more, want)
		}
	}
	r.Reset()
	if d, more := r.Next(); more {
		t.Errorf("a fifth delay of %v, want none", d)
	}
}

type backOffFunc func() time.Duration

func (f backOffFunc) NextBackOff() time.Duration { return f() }
