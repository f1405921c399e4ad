package master

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

//go:embed batch.lua
var batchScript string

var batchSHA = sha1Hex(batchScript)

func sha1Hex(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// A Kind says what a command does.
type Kind uint8

const (
	// Set sets the claim's key to its token unless it exists: value 1 if it
	// was set, 0 if somebody holds it.
	Set Kind = iota
	// Renew gives the claim's key its full TTL again if it holds the claim's
	// token: value 1 if it did, 0 if there is no key, -1 if it holds another
	// token. It never makes a key.
	Renew
	// Release deletes the claim's key if it holds the claim's token: value 1
	// if it was deleted, 0 if there was no key, -1 if it holds another token.
	Release
	// Ping asks for a sign of life: value 1. It has no claim.
	Ping
	// load loads the scripts; its reply does not matter, since a release that
	// needs it says so itself.
	load
)

func (k Kind) String() string {
	switch k {
	case Set:
		return "acquire"
	case Renew:
		return "renew"
	case Release:
		return "release"
	case Ping:
		return "ping"
	case load:
		return "script load"
	}
	panic("redlock: bug: unknown kind of command")
}

// A Claim is one acquisition's stake in a key: the token that it writes there,
// and at which masters that token may stand. It is shared by all masters.
type Claim struct {
	name            string        // immutable; the key
	key, token, ttl any           // immutable; boxed once here, not once per master by redigo
	admitted        atomic.Uint64 // masters whose queue took a SET
	written         atomic.Uint64 // masters that a SET was written to
	adrift          atomic.Uint64 // masters whose connection was lost with the SET unanswered
}

// MaxMasters is how many masters a Claim can keep track of.
const MaxMasters = 64

// NewClaim returns a claim on key by token, for ttl in whole milliseconds.
func NewClaim(key, token string, ttl time.Duration) *Claim {
	return &Claim{name: key, key: key, token: token, ttl: strconv.FormatInt(ttl.Milliseconds(), 10)}
}

// Token returns the claim's token.
func (c *Claim) Token() string { return c.token.(string) }

// mayStandAt reports whether a master may hold the token, now or later.
func (c *Claim) mayStandAt(index int) bool { return has(&c.written, index) }

func mark(masters *atomic.Uint64, index int)     { masters.Or(1 << index) }
func has(masters *atomic.Uint64, index int) bool { return masters.Load()&(1<<index) != 0 }

// An Answer is what a master replied to one command.
type Answer struct {
	Value int64 // see Kind; 0 with an Err
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
	ErrClosed     = errors.New("client closed")
	ErrConnecting = errors.New("not connected yet")
	errFull       = errors.New("too many commands are waiting for this master")
)

// scripted reports whether commands of the kind travel in a batch.
func (k Kind) scripted() bool { return k == Renew || k == Release }

// decode makes an Answer of a reply. A reply of the wrong shape means that
// this connection can no longer be trusted to keep replies in order: then it
// reports false.
func decode(k Kind, reply any) (a Answer, ok bool) {
	if e, isErr := reply.(redis.Error); isErr { // of a batch's member
		return Answer{Err: e}, true
	}
	switch k {
	case Set:
		if reply == nil {
			return Answer{Value: 0}, true
		}
		if s, isString := reply.(string); isString && s == "OK" {
			return Answer{Value: 1}, true
		}
	case Renew, Release:
		if n, isInt := reply.(int64); isInt && n >= -1 && n <= 1 {
			return Answer{Value: n}, true
		}
	case Ping:
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
