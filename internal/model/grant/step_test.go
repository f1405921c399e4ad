package grant

import "fmt"

// A step describes what has happened, for the output.
type step struct {
	verb    verb
	client  int
	master  int
	command command
	fence   uint8
	done    bool  // the command had its effect, or the message counts
	open    bool  // the key was left open
	grants  owner // whom the master has granted the lock
	queue   uint8 // what a restored queue holds
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
	prolongs
	fails
	executes
	loses
	overtakes
	hears
	pongs
	hearsPong
	ages
	expires
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

func (a step) String() string {
	who, where := name(a.client), fmt.Sprintf("master %d", a.master+1)
	switch a.verb {
	case registers:
		return who + " registers a claim at all masters"
	case tries:
		return who + " sends a SET to all masters"
	case stays:
		return who + " registers the claim that it has sent a SET for"
	case commits:
		if a.fence > 0 {
			return fmt.Sprintf("%s has a quorum for fence %d and HOLDS the lock", who, a.fence)
		}
		return who + " has a quorum and HOLDS the lock"
	case raises:
		return fmt.Sprintf("%s asks all masters to raise the fence to %d", who, a.fence)
	case polls:
		return fmt.Sprintf("%s polls %s", who, where)
	case pings:
		return fmt.Sprintf("%s pings %s on its subscription", who, where)
	case asksAgain:
		return who + " has too few grants and asks all masters again"
	case yields:
		return who + " gives up in favour of another claim, and registers a new one"
	case insists:
		return who + " finds that the others are to give up"
	case gives:
		return who + " GIVES UP; releases are sent"
	case ends:
		return who + "'s lease ENDS, unlocked or run out; releases are sent"
	case dies:
		return who + " dies"
	case sleeps:
		return who + " sleeps past the end of its lease, and no clock tells it"
	case renews:
		return who + " begins to renew its lease"
	case prolongs:
		return who + " has a quorum and its lease is RENEWED"
	case fails:
		return who + "'s renewal fails"
	case executes:
		return fmt.Sprintf("%s executes %s's %v: %s", where, who, a.command, a.outcome())
	case loses:
		return fmt.Sprintf("%s's %v to %s is lost", who, a.command, where)
	case overtakes:
		return fmt.Sprintf("%s's release to %s overtakes its %v", who, where, a.command)
	case hears:
		switch {
		case a.open:
			return fmt.Sprintf("%s tells %s to look, who polls", where, who)
		case a.done:
			return fmt.Sprintf("%s's grant reaches %s and counts", where, who)
		}
		return fmt.Sprintf("%s's grant reaches %s and does not count", where, who)
	case pongs:
		return fmt.Sprintf("%s answers %s's PING", where, who)
	case hearsPong:
		return fmt.Sprintf("%s's PONG reaches %s", where, who)
	case ages:
		if a.open {
			return who + " has registered so long ago that the time is over which it counts from there"
		}
		return fmt.Sprintf("the time is over that %s counts from its PING or poll at %s", who, where)
	case expires:
		return fmt.Sprintf("%s's key at %s is gone", who, where)
	case forgets:
		return where + " LOSES ITS MEMORY"
	case restores:
		queue := [...]string{"no queue", "a queue of nobody", "the queue"}[a.queue]
		return fmt.Sprintf("%s LOSES ITS MEMORY and wakes with a key of %s and %s", where, who, queue)
	case votesAgain:
		return where + "'s quarantine is over"
	}
	panic("grant: bug: a step without words")
}

func (a step) outcome() (text string) {
	switch k := a.command.kind(); {
	case (k == release || k == undo) && a.done:
		text = "deleted"
	case k == release || k == undo:
		text = "not its key"
	case a.done:
		text = "set or extended"
	case k == acquire || k == again:
		text = "refused, and queued"
	default:
		text = "refused"
	}
	switch {
	case a.open:
		text += "; left open, the head of the queue is told to look"
	case a.grants != free:
		text += "; GRANTED TO " + name(int(a.grants)-1)
	}
	if a.fence > 0 {
		text += fmt.Sprintf(" with fence %d", a.fence)
	}
	return text
}

func (k command) String() string {
	name := [...]string{"nothing", "SET", "registration", "poll", "raise", "extension", "heal", "release", "undo"}[k.kind()]
	if k.fence() > 0 {
		return fmt.Sprintf("%s to fence %d", name, k.fence())
	}
	return name
}
