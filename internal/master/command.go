package master

import (
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

//go:embed batch.lua
var batchScript string

var batchSHA = redis.NewScript(-1, batchScript).Hash()

// A Kind says what a command does. All but Ping concern their claim's key and token. batch.lua describes
// them in full. Each kind lists its outcomes beside Failed.
type Kind uint8

const (
	// Set sets the key unless it exists: Granted or Taken.
	Set Kind = iota
	// Again is Register, repeated by a client that has registered before, as a poll. If the key is free, and
	// another client is the head of the queue, the lock is passed on to that client: Granted or Taken.
	Again
	// Register is Set that does not overtake the clients in the key's queue. If the key exists, or others queue,
	// it joins the queue: Granted or Taken.
	Register
	// Heal is Set by the key's holder at a master that has lost it. It is no vote.
	Heal
	// Commit raises the key's fence to Claim.Fix's, and gives the key its full TTL, if it still holds the token:
	// Granted if that is the fence now, Overtaken if the fence is higher, Missing or OtherToken. It makes no key.
	Commit
	// Renew gives the key its full TTL again: Granted, Missing or OtherToken. It never makes a key.
	Renew
	// Release deletes the key and passes the lock on to the client that has queued longest: Granted, Woke, Missing
	// or OtherToken. It also leaves the queue.
	Release
	// Undo deletes the key, and grants the lock to the client that has queued longest, but does not wake one that
	// cannot be granted it. It does not leave the queue.
	Undo
	// Quit is Release on behalf of a reader that leaves the readers' queue, too.
	Quit
	// Wake passes the lock on, if the key is free: Woke, Granted, Missing or OtherToken.
	Wake
	// Ping is granted if the server answers and its votes count. It has no claim.
	Ping
	// Query reads: Granted, with Answer.Replies. Its claim is made by NewLook, NewPeek or NewCensus.
	Query
	// Announce asks the readers that hold the key to leave, on behalf of a client that was refused:
	// Granted, or Missing if no readers hold it.
	Announce
	// load loads the script. A command that needs the script reports if that failed.
	load
	// loadSet loads the script for several names.
	loadSet
	// loadReaders loads the script of the readers.
	loadReaders
	// probe checks behind votes whether they count: see probe.go. It has no Asker.
	probe
)

// kinds are the properties of the kinds.
var kinds = [...]struct {
	name string
	word any // its word in the script; nil for a command that needs no script
}{
	Set:         {"acquire", nil}, // with a fence it is scripted: see scripted
	Again:       {"acquire", "again"},
	Register:    {"acquire", "register"},
	Heal:        {"heal", nil}, // as Set
	Commit:      {"fence", "commit"},
	Renew:       {"renew", "renew"},
	Release:     {"release", "release"},
	Undo:        {"release", "undo"},
	Quit:        {"release", "quit"},
	Wake:        {"wake", "pass"},
	Ping:        {"ping", nil},
	Query:       {"inspect", nil},
	Announce:    {"announce", "announce"},
	load:        {"script load", nil},
	loadSet:     {"script load", nil},
	loadReaders: {"script load", nil},
	probe:       {"probe", nil},
}

func (k Kind) String() string { return kinds[k].name }

// scripted reports whether the command is sent as a call of the script, which it may share with others.
func (it *item) scripted() bool {
	return kinds[it.kind].word != nil || it.kind.sets() && (it.claim.fenced() || it.claim.set != nil || it.claim.reads)
}

// sets reports whether a command of the kind may set the key.
func (k Kind) sets() bool { return k <= Heal }

// Acquires reports whether a command of the kind is an acquisition.
func (k Kind) Acquires() bool { return k <= Register }

// votes reports whether the answer to a command of the kind is a vote, which counts only if the master
// has lost no lock.
func (k Kind) votes() bool {
	return k.Acquires() || k == Commit || k == Renew || k == Ping
}

// releases reports whether a command of the kind deletes the key.
func (k Kind) releases() bool { return k == Release || k == Undo || k == Quit }

// word returns the command for the script of a master: see batch.lua.
func (it *item) word(master int) any {
	word := kinds[it.kind].word
	if it.lua() == readersLua {
		switch {
		case it.kind.Acquires():
			return it.readWord()
		case it.kind == Commit:
			return word.(string) + " " + strconv.FormatInt(it.claim.fence.Load(), 10)
		case it.kind == Announce:
			return word.(string) + " " + it.claim.waited
		case it.kind == Quit:
			return word
		}
	}
	switch it.kind {
	case Set: // with a fence, since it is scripted
		return it.claim.word
	case Again, Register:
		switch {
		case !it.listening: // nobody could wake us
			return it.claim.acquisition(it.kind, it.claim.polling(it.sent), master)
		case it.claim.joining == nil || it.claim.grantable():
			return it.claim.acquisition(it.kind, it.claim.waited, master)
		}
		return it.claim.joining
	case Heal:
		return "heal " + it.claim.ttl.(string) + " " + strconv.FormatInt(it.claim.fence.Load(), 10)
	case Commit:
		return word.(string) + " " + strconv.FormatInt(it.claim.fence.Load(), 10) + " " + it.claim.ttl.(string)
	case Renew:
		return word.(string) + " " + it.claim.ttl.(string)
	case Release:
		if it.claim.freed>>master&1 == 1 {
			return "release " + it.claim.g + " free 0"
		} else if it.claim.ending != nil {
			return it.claim.ending
		}
	case Quit:
		if !it.listening {
			return "quit"
		}
		return "release"
	}
	return word
}

// joins reports whether the command may join a queue of batch.lua, so that its call tells the client's turn and patience.
func (it *item) joins() bool {
	return (it.kind == Again || it.kind == Register) && it.listening && it.lua() != readersLua && it.claim.waited != noQueue
}

// A boxedTime is a time in ms as an argument. It is kept, so that it is seldom boxed.
type boxedTime struct {
	ms   int64
	text any
}

// boxed returns the argument for the time that now returns. Nil returns 0.
func (t *boxedTime) boxed(now func() time.Duration) any {
	ms := int64(0)
	if now != nil {
		ms = now().Milliseconds() + 1
	}
	if t.text == nil || t.ms != ms {
		t.ms, t.text = ms, strconv.FormatInt(ms, 10)
	}
	return t.text
}

// acquisition returns the word of an Again or Register for a master, by a client that has waited for some ms.
func (c *Claim) acquisition(k Kind, waited string, master int) string {
	ttl, g := c.ttl.(string), c.g
	switch {
	case g == "":
		g = "0"
	case k == Again:
		ttl = strings.TrimSuffix(g, wantsFence)
	case c.spared>>master&1 == 1:
		ttl = "0"
	case c.first != "":
		ttl = c.first
	}
	word := kinds[k].word.(string) + " " + ttl + " " + waited + " " + g
	if c.fenced() {
		word += " " + c.proposal
	}
	return word
}

// An Asker receives the answers to commands.
type Asker interface {
	// Answered is called once for each command that Ask has let in, by the goroutine that read the reply
	// or found that there will be none. It must not block.
	Answered(master int, a Answer)
}

// Errors of answers.
var (
	ErrClosed   = errors.New("client closed")
	errReleased = errors.New("given up before it was sent")
	errFull     = errors.New("too many commands are waiting for this master")
)
