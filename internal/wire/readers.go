package wire

import "strings"

// Commands of readers, and about them: see readers.lua. A writer's commands are those of any lock, but for Announce.

// ForReaders makes the claims with these terms those of readers.
func (t Terms) ForReaders() Terms {
	t.reads = true
	return t
}

// Reads reports whether the claims are those of readers.
func (t *Terms) Reads() bool { return t.reads }

// ofReaders begins each word that is about readers.
const ofReaders = "readers "

// readerWord returns a command of a reader, or about readers, for the script.
func (cmd *Command) readerWord(master int) any {
	c, k := cmd.Claim, cmd.Kind
	switch r := cmd.Request.(type) {
	case *request:
		if k == Release {
			return c.leaving(r, master)
		}
		return ofReaders + r.word.(string)
	}
	switch {
	case k.Acquires():
		return c.reading(cmd, master)
	case k == Heal:
		return ofReaders + "heal " + c.ttl.(string) + " 0"
	case k == Renew:
		return ofReaders + "renew " + c.ttl.(string)
	case k == Announce:
		return ofReaders + "announce " + c.waited
	case k == Release:
		return strings.TrimSuffix(ofReaders+"release "+c.g, " ")
	}
	return ofReaders + kinds[k].word.(string)
}

// reading returns the word of an acquisition by a reader. One without a g stands in no queue.
func (c *Claim) reading(cmd *Command, master int) string {
	word, ttl, g, waited := "register ", c.ttl.(string), noQueue, c.waited
	if c.Grantable() {
		ttl, g = c.registerTTL, c.g
		if cmd.Kind == Again {
			word, ttl = "again ", strings.TrimSuffix(g, wantsFence)
		}
		if r, ok := cmd.Request.(*poll); ok && r.voted {
			word = "asks "
		}
		if cmd.spares(master) {
			ttl = "0"
		}
	}
	switch {
	case !c.queues():
		waited, g = "0", noQueue
	case !cmd.Listening && g != noQueue: // nobody could tell us of a grant
		waited = c.deafWaited(cmd.Sent)
	}
	word = ofReaders + word + ttl + " " + waited + " " + g
	if c.fenced() {
		word += " " + c.proposal
	}
	return word
}

// leaving returns the word of a Release that says how it passes the lock on.
func (c *Claim) leaving(r *request, master int) string {
	word := ofReaders + "release " + c.g
	if r.free>>master&1 == 1 {
		return word + " free"
	} else if r.to != "" {
		return word + " " + r.to
	}
	return strings.TrimSuffix(word, " ")
}
