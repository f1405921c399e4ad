package redlock

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
)

func TestUnusedGrantsPutAClientBehindOthers(t *testing.T) {
	var s stalls
	now, waited := time.Unix(1000, 0), 9*time.Second
	want := func(when string, want time.Duration) {
		t.Helper()
		if got := s.waited(now, waited); got != want {
			t.Errorf("%s: a claim counts as having waited for %v, want %v", when, got, want)
		}
	}
	want("no unused grant", waited)
	s.unused(now)
	want("one unused grant", -time.Second)
	s.used(now)
	want("a grant that was used too early to tell", -time.Second)
	now = now.Add(3 * time.Second)
	want("2s after the time behind others", 2*time.Second)
	s.unused(now)
	want("two unused grants", -2*time.Second)
	for range 10 {
		s.unused(now)
	}
	want("many unused grants", -32*time.Second)
	for range 6 {
		now = now.Add(time.Minute)
		s.used(now)
	}
	want("grants that were used", waited)
}

func TestAGrantThatIsOverWhenItsMessageComesIsUnused(t *testing.T) {
	s := newSleepers(3)
	sl := s.add("a")
	c := &queuedClaim{Claim: master.NewClaim("a", "token", time.Second, 0), g: 400 * time.Millisecond, votes: make([]claimVote, 3)}
	s.setClaim(sl, c)
	now := clock.System()
	time.Sleep(2 * time.Millisecond)
	for i, g := range []time.Duration{time.Millisecond, time.Hour, time.Millisecond} {
		c.g = g
		s.granted(i, master.Grant{Key: "a", Token: "token", Mark: now, Sure: true})
	}
	if got := s.unusedAt(c); got != 2 {
		t.Errorf("%d grants were over, want 2", got)
	}
}
