package gate

import (
	"context"
	"errors"
	"testing"
)

func TestOneGoroutineLeadsAndOthersShareWhatItHasOrLeadAfterIt(t *testing.T) {
	var l Lead[int]
	errHeld := errors.New("held")
	type joined struct {
		value *int
		leads bool
	}
	join := func() <-chan joined {
		waits, done := make(chan struct{}), make(chan joined, 1)
		go func() {
			value, leads, err := l.Join(t.Context(), nil, func() { close(waits) })
			if err != nil {
				t.Error(err)
			}
			done <- joined{value, leads}
		}()
		<-waits
		return done
	}
	if !l.Try() || l.Try() {
		t.Fatal("nobody leads, or two do")
	}
	first, second := join(), join()
	ended, cancel := context.WithCancel(t.Context())
	if _, leads, err := l.Join(ended, nil, cancel); leads || err != ended.Err() {
		t.Errorf("a goroutine that has given up leads: %t, %v", leads, err)
	}
	l.Resign(errHeld)
	if x := <-first; !x.leads || x.value != nil || l.Reason() != errHeld {
		t.Errorf("after the leader has resigned, the first one that waits: %+v, %v", x, l.Reason())
	}
	n := 7
	l.Share(func(waiting int) *int {
		if waiting != 1 {
			t.Errorf("%d goroutines wait, want 1", waiting)
		}
		return &n
	})
	if x := <-second; x.leads || x.value != &n || l.Reason() != nil {
		t.Errorf("the goroutine that waits: %+v, %v", x, l.Reason())
	}
	if _, leads, _ := l.Join(t.Context(), nil, nil); !leads {
		t.Error("nobody leads")
	}
	l.Resign(nil)
	l.Look(func(leading bool) {
		if leading {
			t.Error("a goroutine leads that has resigned")
		}
	})
}
