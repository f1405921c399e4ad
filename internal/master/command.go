package master

import (
	_ "embed"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

//go:embed batch.lua
var batchScript string

var batchSHA = redis.NewScript(-1, batchScript).Hash()

// A Kind says what a command does. Except for Ping it does so to its claim's key
// and token; batch.lua says it in full. A value above 0 means that it was done.
type Kind uint8

const (
	// Set sets the key unless it exists: value 1, or 0 if somebody holds it.
	Set Kind = iota
	// Acquire is Set, which joins the key's queue if somebody holds it: value 1,
	// or what Left explains.
	Acquire
	// Behind is Acquire by a client that has just woken another: it does not
	// overtake those who queue.
	Behind
	// Heal is Set by the key's holder at a master that has lost it. It is no vote.
	Heal
	// Commit raises the key's fence to Claim.Fix's, if the key still holds the token:
	// value 1 if that is the fence now, -2 if it is a higher one; 0 if there is no key,
	// -1 if it holds another token. It makes no key.
	Commit
	// Renew gives the key its full TTL again: value 1, 0 if there is no key, -1 if
	// it holds another token. It never makes a key.
	Renew
	// Release deletes the key and wakes the client that has queued longest: value
	// 1, 2 if somebody was woken, 0 if there was no key, -1 if it holds another
	// token.
	Release
	// Undo is Release that wakes nobody.
	Undo
	// Quit is Undo that leaves the queue.
	Quit
	// Wake wakes the client that has queued longest, if the key is free.
	Wake
	// Ping asks for a sign of life, and whether votes count: value 1. It has no claim.
	Ping
	// Glance asks whether the server's clock goes as it went, and its memory is what it
	// was, in a quarantine or not: value 1. It has no claim.
	Glance
	// load loads the scripts; its reply does not matter, since a command that
	// needs them says so itself.
	load
	// probe asks, behind votes, whether they count, and look looks again at a
	// server of which that is not certain: see guard. Nobody is told the answer.
	probe
	look
)

// kinds are the kinds' properties.
var kinds = [...]struct {
	name string
	word any // what the script calls it; nil if it is no scripted command
}{
	Set:     {"acquire", nil}, // of a fenced claim it is scripted, as Acquire is
	Acquire: {"acquire", "acquire"},
	Behind:  {"acquire", "behind"},
	Heal:    {"heal", nil}, // likewise
	Commit:  {"fence", "commit"},
	Renew:   {"renew", "renew"},
	Release: {"release", "release"},
	Undo:    {"release", "undo"},
	Quit:    {"release", "quit"},
	Wake:    {"wake", "wake"},
	Ping:    {"ping", nil},
	Glance:  {"glance", nil},
	load:    {"script load", nil},
	probe:   {"probe", nil},
	look:    {"look", nil},
}

func (k Kind) String() string { return kinds[k].name }

// scripted reports whether the command travels in a batch.
func (it *item) scripted() bool {
	return kinds[it.kind].word != nil || it.kind.sets() && it.claim.fenced()
}

// sets reports whether a command of the kind may set the key.
func (k Kind) sets() bool { return k <= Heal }

// acquires reports whether a command of the kind is a new acquisition's.
func (k Kind) acquires() bool { return k <= Behind }

// votes reports whether the answer to a command of the kind is a vote, which
// counts only if the master has forgotten nothing.
func (k Kind) votes() bool {
	return k.acquires() || k == Commit || k == Renew || k == Ping || k == Glance
}

// releases reports whether a command of the kind deletes the key.
func (k Kind) releases() bool { return k == Release || k == Undo || k == Quit }

// Left returns how long the key will live that refused an Acquire or Behind, as
// the master says; false if it does not know, or the key may live for ever.
func (a Answer) Left() (time.Duration, bool) {
	if a.Err != nil || a.Value > -2 {
		return 0, false
	}
	return time.Duration(-2-a.Value) * time.Millisecond, true
}

// A Claim is one acquisition's stake in a key: the token that it writes there,
// and at which masters that token may stand. It is shared by all masters.
type Claim struct {
	name            string        // immutable; the key
	key, token, ttl any           // immutable; boxed once here, not once per master by redigo
	waited          string        // immutable; how long its client has waited, in ms
	proposal        string        // immutable once asked for; the fence that it proposes; "" for none
	word            any           // likewise; what a Set with a proposal is to the script
	fence           atomic.Int64  // to be committed, or committed
	admitted        atomic.Uint64 // masters whose queue took a SET
	written         atomic.Uint64 // masters that a SET was written to
	granted         atomic.Uint64 // masters that have answered a SET with yes
	released        atomic.Uint64 // masters that were to be sent a release
	adrift          atomic.Uint64 // masters whose connection was lost with the SET unanswered
}

// MaxMasters is how many masters a Claim can keep track of.
const MaxMasters = 64

// NewClaim returns a claim on key by token, for ttl in whole milliseconds, of a
// client that has waited for it already.
func NewClaim(key, token string, ttl, waited time.Duration) *Claim {
	c := &Claim{name: key, key: key, token: token, ttl: strconv.FormatInt(ttl.Milliseconds(), 10), waited: "0"}
	if waited >= time.Millisecond {
		c.waited = strconv.FormatInt(waited.Milliseconds(), 10)
	}
	return c
}

// Propose has the claim's acquisition ask for a fence, which is to be number unless
// that is not above the last. It is called before the claim is asked for.
func (c *Claim) Propose(number int64) {
	c.proposal = strconv.FormatInt(number, 10)
	c.word = "acquire " + c.ttl.(string) + " - " + c.proposal // as acquisition words it
}

func (c *Claim) fenced() bool { return c.proposal != "" }

// Fix sets the fence that Commit asks for, and that Heal raises a master's to.
func (c *Claim) Fix(number int64) { c.fence.Store(number) }

// Key returns the claim's key.
func (c *Claim) Key() string { return c.name }

// Token returns the claim's token.
func (c *Claim) Token() string { return c.token.(string) }

// mayStandAt reports whether a master may hold the token, now or later.
func (c *Claim) mayStandAt(index int) bool { return has(&c.written, index) }

// answered notes what a master said to a SET. One that has refused it, by an
// error or because somebody else's token stands there, has nothing of ours and
// need not be told so until it agrees: it may never, if it is the name that is
// forbidden to us.
func (c *Claim) answered(index int, a Answer) {
	switch {
	case a.Value > 0:
		mark(&c.granted, index)
	case !has(&c.granted, index) && !has(&c.adrift, index):
		c.written.And(^(uint64(1) << index))
	}
}

func mark(masters *atomic.Uint64, index int)     { masters.Or(1 << index) }
func has(masters *atomic.Uint64, index int) bool { return masters.Load()&(1<<index) != 0 }

// An Answer is what a master replied to one command.
type Answer struct {
	Value int64 // see Kind; 0 with an Err
	Fence int64 // the key's, where the claim wants one
	Err   error // why there is no value
}

// An Asker is told the answer to its command: once for each command that Ask
// took, by the goroutine that read the reply or found that there will be none.
// It must not block.
type Asker interface {
	Answered(master int, a Answer)
}

// Errors that stand for an answer.
var (
	ErrClosed = errors.New("client closed")
	errFull   = errors.New("too many commands are waiting for this master")
)

// decodeScripted makes an Answer of what the script said of one key: see decode.
func decodeScripted(reply any) (a Answer, ok bool) {
	if pair, isList := reply.([]any); isList && len(pair) == 2 {
		if a.Fence, ok = pair[1].(int64); !ok {
			return Answer{}, false
		}
		reply = pair[0]
	}
	switch r := reply.(type) {
	case int64:
		a.Value = r
		return a, r <= 2
	case redis.Error:
		return Answer{Err: r}, true
	}
	return Answer{}, false
}

// decode makes an Answer of a reply. A reply of the wrong shape means that
// this connection can no longer be trusted to keep replies in order: then it
// reports false.
func decode(k Kind, reply any) (a Answer, ok bool) {
	switch k {
	case Set, Heal:
		if reply == nil {
			return Answer{Value: 0}, true
		}
		if s, isString := reply.(string); isString && s == "OK" {
			return Answer{Value: 1}, true
		}
	case Ping, Glance:
		if s, isString := reply.(string); isString && s == "PONG" {
			return Answer{Value: 1}, true
		}
	case load:
		return Answer{}, true
	}
	return Answer{}, false
}

// isReply reports whether err is an error reply: the connection is well, the
// command was refused.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
