// Package wire has what is said to a Redis master and what it answers, as values: encoded and decoded here, sent and
// received by package master. It does no I/O.
//
//   - A command is asked for with a Request, mostly a Kind: command.go. How it is written: call.go. What it concerns:
//     the Claim of claim.go, and for several names set.go, for readers readers.go, for semaphores slots.go.
//   - What is answered: answer.go.
//   - Messages to a client, mostly about grants: message.go. What a server says of itself: info.go.
//   - What people ask about a lock: query.go; about a semaphore: taken.go. Who that is: owner.go.
//   - The scripts: batch.lua, set.lua, slots.lua, members.lua, taken.lua and flight.lua, and their parts, in scripts.go.
package wire

import (
	"strings"
	"time"
)

// A Request is what is asked of all masters: a Kind, a Query, or what a method of Claim returns.
type Request interface {
	// Kind says what the request is.
	Kind() Kind
}

// Kind implements Request.
func (k Kind) Kind() Kind { return k }

// A Command is a request as one master is sent it.
type Command struct {
	Kind      Kind      // what is to be done
	Request   Request   // what was asked for
	Claim     *Claim    // nil for Ping, Asks, Probe and what loads a script
	Sent      time.Time // when it was sent
	Listening bool      // the subscription stood when it was sent, so an Again may join the queue
}

// A Kind says what a command does. All but Ping concern their claim's key and token. batch.lua describes
// them in full. Each kind lists its outcomes beside Failed.
type Kind uint8

const (
	// Set sets the key unless it exists: Granted or Taken.
	Set Kind = iota
	// Again is Register, repeated for a claim that has registered before, as a poll. If the key is free, and
	// another claim is the head of the queue, the lock is passed on to that one: Granted or Taken.
	Again
	// Register is Set that does not overtake the claims in the key's queue. If the key exists, or others queue,
	// the claim joins the queue: Granted or Taken.
	Register
	// Heal is Set by the key's holder at a master that has lost it. It is no vote.
	Heal
	// Commit raises the key's fence to a number, see Committing, and gives the key its full TTL, if it still holds the token:
	// Granted if that is the fence now, Overtaken if the fence is higher, Missing or OtherToken. It makes no key. Of slots: see FenceSlots.
	Commit
	// Renew gives the key its full TTL again: Granted, Missing or OtherToken. It never makes a key.
	Renew
	// Release deletes the key and passes the lock on to the claim that has waited longest: Granted, PassedOn, Missing
	// or OtherToken. It also leaves the queue.
	Release
	// Undo deletes the key and passes the lock on, as Release does. It does not leave the queue.
	Undo
	// Ping is granted if the server answers and its votes count. It has no claim.
	Ping
	// Asks is a Query: Granted, with Answer.Replies.
	Asks
	// Announce asks the readers that hold the key to leave, on behalf of a client that was refused:
	// Granted, or Missing if no readers hold it.
	Announce
	// Retract ends the announcement, on behalf of the same client, which holds the lock: Granted, or Missing if there is none.
	Retract
	// Forget deletes the note that this client waits: always Granted.
	Forget
	// Publish sends a value to the clients that wait for the lock, if the key holds the token: see Publishing. Always Granted.
	Publish
	// Load loads a script: see Command.Script. A command that needs the script reports if that failed.
	Load
	// Probe checks behind votes whether they count: see package master. It has no Asker.
	Probe
)

// kinds are the properties of the kinds.
var kinds = [...]struct {
	name string
	word any // its word in the script; nil for a command that needs no script
}{
	Set:      {"acquire", nil}, // with a fence it is scripted: see Scripted
	Again:    {"acquire", "again"},
	Register: {"acquire", "register"},
	Heal:     {"heal", nil}, // as Set
	Commit:   {"fence", "commit"},
	Renew:    {"renew", "renew"},
	Release:  {"release", "release"},
	Undo:     {"release", "undo"},
	Ping:     {"ping", nil},
	Asks:     {"inspect", nil},
	Announce: {"announce", "announce"},
	Retract:  {"retract", "retract"},
	Forget:   {"forget", nil},
	Publish:  {"publish", nil},
	Load:     {"script load", nil},
	Probe:    {"probe", nil},
}

func (k Kind) String() string { return kinds[k].name }

// Scripted reports whether the command is sent as a call of the script, which it may share with others.
func (cmd *Command) Scripted() bool {
	return kinds[cmd.Kind].word != nil || cmd.Kind.Sets() && (cmd.Claim.fenced() || cmd.Claim.set != nil || cmd.Claim.reads || cmd.Claim.slots != nil)
}

// Sets reports whether a command of the kind may set the key.
func (k Kind) Sets() bool { return k <= Heal }

// Acquires reports whether a command of the kind is an acquisition.
func (k Kind) Acquires() bool { return k <= Register }

// Votes reports whether the answer to a command of the kind is a vote, which counts only if the master
// has lost no lock.
func (k Kind) Votes() bool {
	return k.Acquires() || k == Commit || k == Renew || k == Ping
}

// Unproved reports whether the command is sent without a probe, although its answer may be a vote: it is likely to be refused. If it
// is granted after all, the vote counts when a later probe is answered.
func (cmd *Command) Unproved() bool {
	if r, ok := cmd.Request.(*poll); ok {
		return r.refused
	}
	return cmd.Kind == Register && cmd.Claim.contended
}

// Releases reports whether a command of the kind deletes the key.
func (k Kind) Releases() bool { return k == Release || k == Undo }

// word returns the command for the script of a master: see batch.lua.
func (cmd *Command) word(master int) any {
	c := cmd.Claim
	if c.slots != nil {
		return cmd.slotWord()
	}
	if c.reads || cmd.Kind == Announce || cmd.Kind == Retract {
		return cmd.readerWord(master)
	}
	if r, ok := cmd.Request.(*request); ok {
		if r.free>>master&1 == 1 {
			return "release " + c.g + " free 0"
		}
		return r.word
	}
	word := kinds[cmd.Kind].word
	switch k := cmd.Kind; {
	case k.Acquires() && c.word != nil && c.kind == k && (cmd.Listening || k == Set):
		return c.word
	case k.Acquires() && !cmd.Listening: // nobody could tell us of a grant
		return c.acquisition(k, c.deafWaited(cmd.Sent), cmd.spares(master))
	case k.Acquires():
		return c.acquisition(k, c.waited, cmd.spares(master))
	case k == Heal:
		return "heal " + c.ttl.(string) + " 0"
	case k == Renew:
		return word.(string) + " " + c.ttl.(string)
	case k == Release && c.release != nil:
		return c.release
	}
	return word
}

// Joins reports whether the command may join a queue of batch.lua or slots.lua, so that its call may tell the client's patience. It
// must, unless the client has told them a short time ago and new is true: a claim on a lock that has joined lately counts as live.
func (cmd *Command) Joins() (joins, new bool) {
	c := cmd.Claim
	joins = (cmd.Kind == Again || cmd.Kind == Register) && cmd.Listening && c.queues() && (!c.reads || c.Grantable())
	return joins, joins && cmd.Kind == Register && c.fresh && c.slots == nil
}

// spares reports whether the command leaves a free key alone at a master.
func (cmd *Command) spares(master int) bool {
	spared := uint64(0)
	if r, ok := cmd.Request.(*poll); ok {
		spared = r.spared
	} else if cmd.Kind == Register {
		spared = cmd.Claim.spared
	}
	return spared>>master&1 == 1
}

// acquisition returns the word of an acquisition by a client that has waited for some ms. With a g, it can leave a free key alone.
func (c *Claim) acquisition(k Kind, waited string, spares bool) string {
	ttl, g := c.ttl.(string), c.g
	switch {
	case k == Set:
		return "acquire " + ttl + " - - " + c.proposal
	case g == "":
		g = "0"
	case spares:
		ttl = "0"
	case k == Again:
		ttl = strings.TrimSuffix(g, wantsFence)
	default:
		ttl = c.registerTTL
	}
	word := kinds[k].word.(string) + " " + ttl + " " + waited + " " + g
	if c.fenced() {
		word += " " + c.proposal
	}
	return word
}
