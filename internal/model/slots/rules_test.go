package slots

import "testing"

func TestEachRuleIsNeeded(t *testing.T) {
	var (
		aiming = world{clients: 2, turns: 1, aims: 1, quiet: true}
		again  = world{clients: 2, turns: 2, releases: 1, quiet: true, deadOne: true}
		once   = world{clients: 2, turns: 1, quiet: true, deadOne: true}
		three  = world{clients: 3, turns: 1, quiet: true, patient: true}
		giveUp = world{clients: 3, turns: 1, quiet: true, deadOne: true}
		two    = world{clients: 2, turns: 1, releases: 1, patient: true, deadOne: true}
		left   = world{clients: 3, turns: 1, patient: true, deadOne: true}
	)
	for _, v := range []struct {
		name  string
		world world
		off   rules
		want  string
		steps int
	}{
		{"a slot is given although another token has it", once, rules{overwrites: true}, "two hold a slot", 12},
		{"votes for several slots are added up", three, rules{countsAnySlot: true}, "more than K hold", 18},
		{"votes for other slots count after an aim", aiming, rules{countsOthers: true, keepsCounted: true}, "two hold a slot", 14},
		{"an aim takes a slot from another token", aiming, rules{aimOverwrites: true}, "two hold a slot", 14},
		{"an aim exchanges the slots of two tokens", aiming, rules{swapsAtOnce: true}, "two hold a slot", 14},
		{"a new claim has the old token", again, rules{tokenTwice: true}, "two hold a slot", 16},
		{"nothing passes slots on", two, rules{silentRelease: true, silentPoll: true}, lost, 15},
		{"a winner stays in other slots", two, rules{noTidy: true}, lost, 14},
		{"an aim stays in other slots", two, rules{staysElsewhere: true}, lost, 12},
		{"an aim leaves no wish", two, rules{noWish: true}, lost, 15},
		{"a release leaves the wishes", two, rules{keepsWishes: true}, lost, 24},
		{"a claim does not aim", two, rules{noAim: true}, lost, 5},
		{"a claim that is beaten stays", left, rules{noYield: true}, lost, 8},
		{"a release stays in the queue", giveUp, rules{staysQueued: true}, "something is left", 18},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			w := v.world
			w.rules = v.off
			if r := w.explore(); r.broken != v.want || len(r.trace) != v.steps {
				t.Errorf("want %q in %d steps; %v", v.want, v.steps, r)
			} else {
				t.Log(r)
			}
		})
	}
}

// Other rules keep what these would. They are for speed and fairness, or a second guard at the same place.
func TestRulesThatOtherRulesCover(t *testing.T) {
	for _, v := range []struct {
		name  string
		world world
		off   rules
	}{
		{"votes are kept, and do not count after an aim", world{clients: 2, turns: 1, aims: 1, quiet: true}, rules{keepsCounted: true}},
		{"what an aim leaves goes to the head of the queue", calmCut, rules{noPartner: true}},
		{"a free slot goes to the head of the queue, although a claim is in the way of another one", calmThree, rules{noExchange: true}},
		{"a newcomer overtakes the queue", calmCut, rules{newcomersTake: true}},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			w := v.world
			w.rules = v.off
			if r := w.explore(); r.broken != "" {
				t.Error(r)
			}
		})
	}
}
