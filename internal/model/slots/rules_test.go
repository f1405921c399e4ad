package slots

import (
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

func TestEachRuleIsNeeded(t *testing.T) {
	var (
		aiming = world{clients: 2, turns: 1, aims: 1, quiet: true}
		again  = world{clients: 2, turns: 2, releases: 1, quiet: true, deadOne: true}
		once   = world{clients: 2, turns: 1, quiet: true, deadOne: true}
		three  = world{clients: 3, turns: 1, quiet: true, patient: true}
		giveUp = world{clients: 3, turns: 1, quiet: true, deadOne: true}
		pair   = world{clients: 2, turns: 1, releases: 1, patient: true, deadOne: true}
		gives  = world{clients: 3, turns: 1, patient: true, deadOne: true}
	)
	explore.Check(t, []explore.Case[world, rules]{
		{Name: "a slot is given although another token has it", World: once, Off: rules{overwrites: true}, Want: two, Steps: 12},
		{Name: "votes for several slots are added up", World: three, Off: rules{countsAnySlot: true}, Want: many, Steps: 18},
		{Name: "votes for other slots count after an aim", World: aiming, Off: rules{countsOthers: true, keepsCounted: true}, Want: two, Steps: 14},
		{Name: "an aim takes a slot from another token", World: aiming, Off: rules{aimOverwrites: true}, Want: two, Steps: 14},
		{Name: "an aim exchanges the slots of two tokens", World: aiming, Off: rules{swapsAtOnce: true}, Want: two, Steps: 14},
		{Name: "a new claim has the old token", World: again, Off: rules{tokenTwice: true}, Want: two, Steps: 16},
		{Name: "nothing passes slots on", World: pair, Off: rules{silentRelease: true, silentPoll: true}, Want: lost, Steps: 15},
		{Name: "a winner stays in other slots", World: pair, Off: rules{noTidy: true}, Want: lost, Steps: 14},
		{Name: "an aim stays in other slots", World: pair, Off: rules{staysElsewhere: true}, Want: lost, Steps: 12},
		{Name: "an aim leaves no wish", World: pair, Off: rules{noWish: true}, Want: lost, Steps: 15},
		{Name: "a release leaves the wishes", World: pair, Off: rules{keepsWishes: true}, Want: lost, Steps: 24},
		{Name: "a claim does not aim", World: pair, Off: rules{noAim: true}, Want: lost, Steps: 5},
		{Name: "a claim that is beaten stays", World: gives, Off: rules{noYield: true}, Want: lost, Steps: 8},
		{Name: "a release stays in the queue", World: giveUp, Off: rules{staysQueued: true}, Want: left, Steps: 18},
	}, world.explore)
}

// Other rules keep what these would. They are for speed and fairness, or a second guard at the same place.
func TestRulesThatOtherRulesCover(t *testing.T) {
	explore.Check(t, []explore.Case[world, rules]{
		{Name: "votes are kept, and do not count after an aim", World: world{clients: 2, turns: 1, aims: 1, quiet: true}, Off: rules{keepsCounted: true}},
		{Name: "what an aim leaves goes to the head of the queue", World: calmCut, Off: rules{noPartner: true}},
		{Name: "a free slot goes to the head of the queue, although a claim is in the way of another one", World: calmThree, Off: rules{noExchange: true}},
		{Name: "a newcomer overtakes the queue", World: calmCut, Off: rules{newcomersTake: true}},
	}, world.explore)
}
