package model

import (
	"fmt"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// An action describes one step, for the output.
type action struct {
	verb    explore.Verb
	client  int
	master  int
	command command
	fence   uint8
	done    bool // whether the command had its effect
}

const (
	begins     = "%[1]s asks all masters for the lock"
	raises     = "%[1]s asks all masters to raise the fence to %[4]d"
	commits    = "%[1]s has a quorum and HOLDS the lock"
	gives      = "%[1]s gives up its attempt; releases are sent"
	ends       = "%[1]s's lease ENDS, unlocked or run out; releases are sent"
	renews     = "%[1]s begins to renew its lease"
	asksAgain  = "%[1]s asks master %[2]d again"
	prolongs   = "%[1]s has a quorum and its lease is RENEWED"
	givesUp    = "%[1]s's renewal fails"
	executes   = "master %[2]d executes %[1]s's %[3]v: "
	loses      = "%[1]s's %[3]v to master %[2]d is lost"
	overtakes  = "%[1]s's release to master %[2]d overtakes its %[3]v"
	probes     = "%[1]s's probe at master %[2]d is executed: "
	expires    = "%[1]s's key at master %[2]d is gone"
	forgets    = "master %[2]d LOSES ITS MEMORY"
	restores   = "master %[2]d LOSES ITS MEMORY and wakes with an earlier key of %[1]s"
	votesAgain = "master %[2]d's quarantine is over"
	sleeps     = "%[1]s sleeps past the end of its lease, and no clock tells it"
	outlives   = "%[1]s's lease runs out while its renewal is undecided, and the renewal goes on"
	dies       = "%[1]s dies"
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
	return a.verb.Say(who, a.master, a.command, a.fence) + a.outcome()
}

func (a action) outcome() string {
	switch k := a.command.kind(); {
	case a.verb == commits && a.fence > 0:
		return fmt.Sprintf(" with fence %d", a.fence)
	case a.verb == probes && a.done:
		return "it finds the memory it knows, and the vote counts"
	case a.verb == probes:
		return "it finds a quarantine, and the vote is void"
	case a.verb != executes:
		return ""
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
