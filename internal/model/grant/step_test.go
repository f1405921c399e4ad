package grant

import "fmt"

// A step describes what has happened, for the output.
type step struct {
	verb    verb
	client  int
	master  int
	command command
	fence   uint8
	done    bool    // the command had its effect, or the message counts
	open    bool    // the key was left free
	grants  owner   // the writer that the master has granted the lock
	letsIn  members // the readers that it has
}

// A verb is the kind of a step.
type verb uint8

const (
	registers verb = iota
	tries
	stays
	commits
	raises
	polls
	pings
	asksAgain
	yields
	insists
	gives
	ends
	dies
	sleeps
	renews
	repeats
	prolongs
	fails
	executes
	loses
	overtakes
	hears
	hearsLate
	isToLook
	isRecalled
	pongs
	hearsPong
	ages
	expires
	lapses
	forgets
	restores
	votesAgain
	verbs // the number of verbs
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
	who, where := name(a.client), fmt.Sprintf("master %d", a.master+1)
	switch a.verb {
	case commits:
		if a.fence > 0 {
			return fmt.Sprintf("%s has a quorum for fence %d and HOLDS the lock", who, a.fence)
		}
		return who + " has a quorum and HOLDS the lock"
	case raises:
		return fmt.Sprintf("%s asks all masters to raise the fence to %d", who, a.fence)
	case executes:
		return fmt.Sprintf("%s executes %s's %v: %s", where, who, a.command, a.outcome())
	case loses:
		return fmt.Sprintf("%s's %v to %s is lost", who, a.command, where)
	case overtakes:
		return fmt.Sprintf("%s's release to %s overtakes its %v", who, where, a.command)
	case polls:
		return fmt.Sprintf("%s polls %s", who, where)
	case pings:
		return fmt.Sprintf("%s pings %s on its subscription", who, where)
	case pongs:
		return fmt.Sprintf("%s answers %s's PING", where, who)
	case hearsPong:
		return fmt.Sprintf("%s's PONG reaches %s", where, who)
	case hears:
		if a.done {
			return fmt.Sprintf("%s's grant reaches %s and counts", where, who)
		}
		return fmt.Sprintf("%s's grant reaches %s and does not count", where, who)
	case hearsLate:
		return fmt.Sprintf("%s's grant reaches %s, whose mark is too old", where, who)
	case isToLook:
		return fmt.Sprintf("%s is told by %s to look", who, where)
	case isRecalled:
		return fmt.Sprintf("%s is told by %s that another waits", who, where)
	case ages:
		if a.open {
			return who + " has registered so long ago that the time is over which it counts from there"
		}
		return fmt.Sprintf("the time is over that %s counts from its PING or poll at %s", who, where)
	case expires:
		return fmt.Sprintf("what %s has at %s expires", who, where)
	case lapses:
		return "the announcement at " + where + " ends"
	case forgets:
		return where + " LOSES ITS MEMORY"
	case restores:
		return fmt.Sprintf("%s LOSES ITS MEMORY and wakes with what %s had", where, who)
	case votesAgain:
		return where + "'s quarantine is over"
	case repeats:
		return fmt.Sprintf("%s repeats the renewal to %s", who, where)
	}
	return who + " " + [...]string{
		registers: "registers a claim at all masters", tries: "sends a SET to all masters", stays: "registers the claim that it has sent a SET for",
		asksAgain: "has too few grants and asks all masters again",
		yields:    "gives up in favour of another side, and registers a new claim", insists: "finds that the others are to give up",
		gives: "GIVES UP; releases are sent", ends: "ENDS its lease, unlocked or run out; releases are sent", dies: "dies",
		sleeps: "sleeps past the end of its lease, and no clock tells it", renews: "begins to renew its lease",
		prolongs: "has a quorum and its lease is RENEWED", fails: "gives its renewal up",
	}[a.verb]
}

func (a step) outcome() (text string) {
	switch {
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
