package calls

import "testing"

func TestCallsAreAwaitedAndNoneBeginsAfterTheEnd(t *testing.T) {
	c := New()
	quiet := func() bool {
		select {
		case <-c.Quiet():
			return true
		default:
			return false
		}
	}
	for range 2 {
		if !c.Begin() {
			t.Fatal("a call does not begin")
		}
	}
	c.Done()
	if quiet() || !c.End() {
		t.Error("the end has begun before, or has not begun")
	}
	if quiet() {
		t.Error("the end has not waited for a call")
	}
	if c.Begin() || c.End() {
		t.Error("a call has begun after the end, or the end has begun twice")
	}
	if c.Done(); !quiet() {
		t.Error("no call is under way, but the end waits")
	}
	if c = New(); !c.End() || !quiet() {
		t.Error("without calls, the end waits")
	}
}
