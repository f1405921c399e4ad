package grant

import (
	"fmt"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// A step describes what has happened, for the output.
type step struct {
	verb    explore.Verb
	client  int
	master  int
	command command
	fence   uint8
	done    bool    // the command had its effect, or the message counts
	open    bool    // the key was left free
	grants  owner   // the writer that the master has granted the lock
	letsIn  members // the readers that it has
}

const (
	registers  = "%[1]s registers a claim at all masters"
	tries      = "%[1]s sends a SET to all masters"
	stays      = "%[1]s registers the claim that it has sent a SET for"
	commits    = "%[1]s has a quorum and HOLDS the lock"
	raises     = "%[1]s asks all masters to raise the fence to %[4]d"
	polls      = "%[1]s polls master %[2]d"
	pings      = "%[1]s pings master %[2]d on its subscription"
	asksAgain  = "%[1]s has too few grants and asks all masters again"
	yields     = "%[1]s gives up in favour of another side, and registers a new claim"
	insists    = "%[1]s finds that the others are to give up"
	gives      = "%[1]s GIVES UP; releases are sent"
	ends       = "%[1]s ENDS its lease, unlocked or run out; releases are sent"
	dies       = "%[1]s dies"
	sleeps     = "%[1]s sleeps past the end of its lease, and no clock tells it"
	renews     = "%[1]s begins to renew its lease"
	repeats    = "%[1]s repeats the renewal to master %[2]d"
	prolongs   = "%[1]s has a quorum and its lease is RENEWED"
	fails      = "%[1]s gives its renewal up"
	executes   = "master %[2]d executes %[1]s's %[3]v: "
	loses      = "%[1]s's %[3]v to master %[2]d is lost"
	overtakes  = "%[1]s's release to master %[2]d overtakes its %[3]v"
	hears      = "master %[2]d's grant reaches %[1]s"
	hearsLate  = "master %[2]d's grant reaches %[1]s, whose mark is too old"
	isToLook   = "%[1]s is told by master %[2]d to look"
	isRecalled = "%[1]s is told by master %[2]d that another waits"
	pongs      = "master %[2]d answers %[1]s's PING"
	hearsPong  = "master %[2]d's PONG reaches %[1]s"
	ages       = "the time is over that %[1]s counts from "
	expires    = "what %[1]s has at master %[2]d expires"
	lapses     = "the announcement at master %[2]d ends"
	forgets    = "master %[2]d LOSES ITS MEMORY"
	restores   = "master %[2]d LOSES ITS MEMORY and wakes with what %[1]s had"
	votesAgain = "master %[2]d's quarantine is over"
)

func name(c int) string {
	if c < 0 || c >= mostClients {
		return "nobody"
	}
	return string(rune('A' + c))
}

func (s members) String() (text string) {
	for c := range mostClients {
		if s.has(c) {
			text += name(c)
		}
	}
	if s&dead != 0 {
		text += " and the dead"
	}
	return text
}

func (k command) String() string {
	name := [...]string{"nothing", "SET", "registration", "poll", "question", "raise", "renewal", "heal", "release", "open release", "undo"}[k.kind()]
	if k.fence() > 0 {
		return fmt.Sprintf("%s to fence %d", name, k.fence())
	}
	return name
}

func (a step) String() string {
	return a.verb.Say(name(a.client), a.master, a.command, a.fence) + a.outcome()
}

func (a step) outcome() (text string) {
	switch {
	case a.verb == hears && !a.done:
		return " and does not count"
	case a.verb == ages && a.open:
		return "its registration"
	case a.verb == ages:
		return fmt.Sprintf("its PING or poll at master %d", a.master+1)
	case a.verb == commits && a.fence > 0:
		return fmt.Sprintf(" with fence %d", a.fence)
	case a.verb != executes:
		return ""
	case a.command.releases() && a.done:
		text = "the key is free"
	case a.command.releases():
		text = "the key is not free by that"
	case a.done:
		text = "set or extended"
	default:
		text = "refused"
	}
	if a.open {
		text += "; it is left free"
	}
	if a.grants != free {
		text += "; GRANTED TO " + name(int(a.grants)-1)
	}
	if a.letsIn != 0 {
		text += "; GRANTED TO " + a.letsIn.String()
	}
	if a.fence > 0 {
		text += fmt.Sprintf(" with fence %d", a.fence)
	}
	return text
}
