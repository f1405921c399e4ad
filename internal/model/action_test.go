package model

import "fmt"

// An action describes one step, for the output.
type action struct {
	verb    verb
	client  int
	master  int
	phase   phase // the phase that ended
	command command
	fence   uint8
	done    bool // whether the command had its effect
}

// A verb is the kind of a step.
type verb uint8

const (
	begins verb = iota
	raises
	commits
	ends
	renews
	asksAgain
	prolongs
	givesUp
	executes
	loses
	overtakes
	probes
	expires
	forgets
	restores
	votesAgain
	sleeps
	outlives
	dies
	verbs // the number of verbs
)

// maxFence is the largest fence that fits in a command.
const maxFence = 15

// always is a number of restarts that does not decrease.
const always = 255

func (a action) String() string {
	who := "nobody"
	if a.client < nClients {
		who = string(rune('A' + a.client))
	}
	switch a.verb {
	case begins:
		return who + " asks all masters for the lock"
	case raises:
		return fmt.Sprintf("%s asks all masters to raise the fence to %d", who, a.fence)
	case commits:
		if a.fence > 0 {
			return fmt.Sprintf("%s has a quorum for fence %d and HOLDS the lock", who, a.fence)
		}
		return who + " has a quorum and HOLDS the lock"
	case ends:
		if a.phase == acquiring {
			return who + " gives up its attempt; releases are sent"
		}
		return who + "'s lease ENDS, unlocked or run out; releases are sent"
	case renews:
		return who + " begins to renew its lease"
	case prolongs:
		return who + " has a quorum and its lease is RENEWED"
	case givesUp:
		return who + "'s renewal fails"
	case sleeps:
		return who + " sleeps past the end of its lease, and no clock tells it"
	case outlives:
		return who + "'s lease runs out while its renewal is undecided, and the renewal goes on"
	case dies:
		return who + " dies"
	}
	return a.masterString(who)
}

func (a action) masterString(who string) string {
	where := fmt.Sprintf("master %d", a.master+1)
	switch a.verb {
	case asksAgain:
		return fmt.Sprintf("%s asks %s again", who, where)
	case executes:
		return fmt.Sprintf("%s executes %s's %v: %s", where, who, a.command, a.outcome())
	case loses:
		return fmt.Sprintf("%s's %v to %s is lost", who, a.command, where)
	case overtakes:
		return fmt.Sprintf("%s's release to %s overtakes its %v", who, where, a.command)
	case probes:
		if a.done {
			return fmt.Sprintf("%s's probe at %s finds the memory it knows: the vote counts", who, where)
		}
		return fmt.Sprintf("%s's probe at %s finds a quarantine: the vote is void", who, where)
	case expires:
		return fmt.Sprintf("%s's key at %s is gone", who, where)
	case forgets:
		return where + " LOSES ITS MEMORY"
	case restores:
		return fmt.Sprintf("%s LOSES ITS MEMORY and wakes with an earlier key of %s", where, who)
	case votesAgain:
		return where + "'s quarantine is over"
	}
	panic("model: bug: a step without words")
}

func (a action) outcome() string {
	switch k := a.command.kind(); {
	case !a.done && k == release:
		return "not its key"
	case !a.done:
		return "refused"
	case k == release:
		return "deleted"
	case k == heal:
		return "set"
	case k == raise:
		return fmt.Sprintf("still its key, fence %d", a.fence)
	case a.fence > 0:
		return fmt.Sprintf("granted with fence %d", a.fence)
	default:
		return "granted"
	}
}

func (k command) String() string {
	name := [...]string{"nothing", "SET", "raise", "extend", "heal", "release"}[k.kind()]
	if k.fence() > 0 {
		return fmt.Sprintf("%s to fence %d", name, k.fence())
	}
	return name
}
