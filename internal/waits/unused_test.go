package waits

import (
	"testing"
	"time"
)

func TestUnusedGrantsPutAClientBehindOthers(t *testing.T) {
	var s Unused
	now, waited := time.Unix(1000, 0), 9*time.Second
	want := func(when string, want time.Duration) {
		t.Helper()
		if got := s.Waited(now, waited); got != want {
			t.Errorf("%s: a claim counts as having waited for %v, want %v", when, got, want)
		}
	}
	want("no unused grant", waited)
	registered := now.Add(-time.Millisecond)
	s.Note(now, registered)
	want("one unused grant", -time.Second)
	for range 10 {
		s.Note(now.Add(time.Millisecond), registered)
	}
	want("unused grants of ten other names, of the same stop", -time.Second)
	now = now.Add(1500 * time.Millisecond)
	want("half a second after the time behind others", 500*time.Millisecond)
	s.Note(now, now)
	want("a second stop", -2*time.Second)
	for range 10 {
		now = now.Add(time.Millisecond)
		s.Note(now, now)
	}
	want("many stops", -8*time.Second)
	now = now.Add(17 * time.Second)
	want("9s after the time behind others", waited)
	s.Note(now, now)
	want("a stop after the Client has run for longer than it was behind", -time.Second)
}
