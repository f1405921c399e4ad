package guard

import (
	"fmt"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/incarnation"
)

// A scene is the guards of a client's masters, whose servers answer at once.
type scene struct {
	t       *testing.T
	servers *Servers
	guards  []*Guard
	asked   int // how often a master was asked to prolong
}

func (s *scene) Prolong() { s.asked++; s.guards[0].Quarantine() }
func (s *scene) Report()  {}

// newScene returns n guards of a client with a MaxTTL of a minute. Their memories began at different times: see begin.
func newScene(t *testing.T, n int) *scene {
	s := &scene{t: t, servers: NewServers(Settings{Names: make([]string, n), MaxTTL: time.Minute})}
	for i := range n {
		s.guards = append(s.guards, s.servers.Guard(i, s))
	}
	return s
}

// memory returns a memory that is known for a time.
func (s *scene) memory(age time.Duration, why incarnation.Why, more string) *Memory {
	now := clock.System()
	r, ok := incarnation.Parse(fmt.Sprintf("run %d 0 0 0%s", now.Time().Add(-age).UnixMicro(), more))
	if !ok {
		s.t.Fatal("no record")
	}
	found := incarnation.Inspection{Record: r, Now: now.Time(), Why: why, Run: "run"}
	return &Memory{known: incarnation.Know(found), found: found, before: now, after: now}
}

// confirm has a master answer a probe that finds all as it was.
func (s *scene) confirm(i int) error {
	if _, needed := s.guards[i].Next(true, false); !needed {
		s.t.Fatal("no probe behind votes")
	}
	now := clock.System()
	counts, err := s.guards[i].Confirm(Found{After: now, now: now.Time(), same: true})
	if err == nil && !counts {
		s.t.Fatal("a probe that finds all as it was confirms nothing")
	}
	return err
}

// left returns how long the quarantine of a master lasts; 0: its votes count.
func (s *scene) left(i int) time.Duration {
	if err := s.guards[i].Quarantine(); err != nil {
		return time.Until(err.Until).Round(time.Second)
	}
	return 0
}

func TestAMemoryIsInQuarantineUntilItIsOlderThanTheLargestMaxTTL(t *testing.T) {
	for _, row := range []struct {
		name string
		age  time.Duration
		why  incarnation.Why
		more string
		want time.Duration
	}{
		{"old", time.Hour, incarnation.Holds, "", 0},
		{"as old as MaxTTL", time.Minute, incarnation.Holds, "", incarnation.Margin},
		{"young", time.Second, incarnation.Holds, "", time.Minute - time.Second + incarnation.Margin},
		{"new", 0, incarnation.Absent, "", time.Minute + incarnation.Margin},
		{"adopted", 0, incarnation.Holds, " adopted", 0},
		{"adopted for as many masters", 0, incarnation.Holds, " adopted 2", 0},
		{"adopted for more masters", 0, incarnation.Holds, " adopted 3", time.Minute + incarnation.Margin},
	} {
		bubbletest.Test(t, func(t *testing.T) {
			s := newScene(t, 2)
			s.guards[0].Begin(s.memory(row.age, row.why, row.more))
			if got := s.left(0); got != row.want {
				t.Errorf("%s: the quarantine lasts for %v, want %v", row.name, got, row.want)
			}
			s.servers.declare(time.Hour)
			if got, want := s.left(0), row.want; want > 0 && got != want+59*time.Minute || s.asked != 2 {
				t.Errorf("%s: with a MaxTTL of an hour, of %d masters asked, it lasts for %v", row.name, s.asked, got)
			}
		})
	}
}

// A MaxTTL that becomes known late concerns a memory that has voted, unless the records of all other masters were confirmed since it began.
func TestALargerMaxTTLRevokesTheVotesOfAMemoryThatIsNotSettled(t *testing.T) {
	for _, settled := range []bool{true, false} {
		bubbletest.Test(t, func(t *testing.T) {
			s := newScene(t, 2)
			s.guards[0].Begin(s.memory(0, incarnation.Absent, ""))
			s.guards[1].Begin(s.memory(time.Hour, incarnation.Holds, ""))
			s.left(1)
			time.Sleep(2 * time.Minute)
			if left := s.left(0); left != 0 {
				t.Fatalf("the quarantine lasts for another %v", left)
			}
			if settled {
				s.confirm(1)
			}
			s.confirm(0)
			s.servers.declare(time.Hour)
			if got := s.left(0) == 0; got != settled {
				t.Errorf("the other record confirmed: %t; the votes count: %t", settled, got)
			}
			if got := s.servers.Revoked() == 0; got != settled {
				t.Errorf("the other record confirmed: %t; votes revoked: %t", settled, !got)
			}
		})
	}
}

func TestAProbeWithAnOddResultEndsTheConnection(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		g := s.guards[0]
		g.Begin(s.memory(time.Hour, incarnation.Holds, ""))
		s.left(0)
		if err := s.confirm(0); err != nil {
			t.Errorf("a probe that finds all as it was: %v", err)
		}
		now := clock.System()
		for name, found := range map[string]Found{
			"another record": {After: now, now: now.Time()},
			"a jump":         {After: now, now: now.Time().Add(time.Second), same: true},
		} {
			g.Next(true, false)
			if counts, err := g.Confirm(found); counts || err != ErrChanged {
				t.Errorf("%s: the votes count: %t, %v", name, counts, err)
			}
			if d := RedialAfter(ErrChanged); d < 0 || d >= doubtSpread {
				t.Errorf("the next dial is %v later", d)
			}
		}
	})
}

// Votes before a probe that finds no script wait for one inspection, however many such probes there are.
func TestAProbeThatFindsNoScriptIsFollowedByOneInspection(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		g := s.guards[0]
		g.Begin(s.memory(time.Hour, incarnation.Holds, ""))
		s.left(0)
		if _, needed := g.Next(false, false); needed {
			t.Error("a probe is needed without votes")
		}
		for range 3 {
			g.Next(true, false)
		}
		now := clock.System()
		g.Confirm(Found{flushed: true, After: now})
		if p, needed := g.Next(false, false); !needed || !p.anew {
			t.Errorf("the next probe is %+v, needed: %t; want an inspection", p, needed)
		}
		for range 2 {
			if counts, err := g.Confirm(Found{flushed: true, After: now}); counts || err != nil {
				t.Errorf("a probe without its script: the votes count: %t, %v", counts, err)
			}
		}
		if p, needed := g.Next(false, false); needed {
			t.Errorf("another probe is needed: %+v", p)
		}
		if counts, err := g.Confirm(Found{After: now, now: now.Time(), same: true, anew: true}); !counts || err != nil {
			t.Errorf("the inspection: the votes count: %t, %v", counts, err)
		}
	})
}

// Commands that are likely to be refused have no probe, but when a look is due. Votes have one, which is a look if the last one was long ago.
func TestALookFollowsPollsSeldom(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		g := s.guards[0]
		g.Begin(s.memory(time.Hour, incarnation.Holds, ""))
		s.left(0)
		looks := func(votes bool) (needed, thorough bool) {
			p, needed := g.Next(votes, !votes)
			if needed {
				g.Confirm(Found{After: clock.System(), now: time.Now(), same: true})
			}
			return needed, p.thorough
		}
		g.Beat(false)
		if needed, thorough := looks(true); !needed || !thorough {
			t.Fatalf("a vote after a beat: a probe %v, a look %v; want both", needed, thorough)
		}
		for _, row := range []struct {
			name             string
			after            time.Duration // since the row before
			votes            bool
			needed, thorough bool
		}{
			{"a poll", time.Second, false, false, false},
			{"a vote", time.Second, true, true, false},
			{"a poll, later", 5 * time.Second, false, false, false},
			{"a vote, later", 5 * time.Second, true, true, true},
			{"a poll, still later", calmLooks + time.Second, false, true, true},
		} {
			time.Sleep(row.after)
			g.Beat(true)
			if needed, thorough := looks(row.votes); needed != row.needed || thorough != row.thorough {
				t.Errorf("%s: a probe %v, a look %v; want %v, %v", row.name, needed, thorough, row.needed, row.thorough)
			}
		}
	})
}
