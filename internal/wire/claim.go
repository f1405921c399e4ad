package wire

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A Claim is what the commands of one acquisition have in common: the key, the token and the fence. All masters share
// it. A claim that is registered waits in the masters' queues; most claims are not.
type Claim struct {
	Terms         // immutable
	token  any    // immutable; boxed as in Terms
	waited string // immutable; how long the client has waited, in ms

	// Immutable after the first Ask:
	proposal    string    // the fence to propose; "": none is wanted
	word        any       // the word of a Set with a proposal
	joining     any       // the word of an acquisition that may join the queue, if it was prepared
	turn        string    // how long a reader takes to come back when it is woken, in ms
	g           string    // for how many ms the lock may be granted, and wantsFence; "": it cannot be granted
	first       string    // the ttl of a Register with a g, in ms; "": that of the terms
	spared      uint64    // see Spare
	queued      time.Time // when a claim with a g was made
	clock, most int64     // the client's clock as a fence, and the highest useful fence

	ending any          // the word of the Release; nil: "release". Immutable after it is asked for
	freed  uint64       // see LeaveFree; immutable as ending
	fence  atomic.Int64 // the fence for Commit and Heal
}

// Terms are what all claims on a key have in common. They are made once, since that costs some
// allocations.
type Terms struct {
	name     string // immutable; the key
	key, ttl any    // immutable; boxed once, so that redigo need not for each master
	set      *set   // immutable; of a claim on several names; nil for one
	reads    bool   // immutable; of readers, who share the lock
}

// NewTerms returns the terms for a key and a time to live in whole milliseconds.
func NewTerms(key string, ttl time.Duration) Terms {
	return Terms{name: key, key: key, ttl: strconv.FormatInt(ttl.Milliseconds(), 10)}
}

// Init makes a zero Claim one on the terms' key by token. waited is how long the client has waited already. If it is
// negative, the claim joins the queue behind clients that join it until that time has passed. If it is NoQueue, a refused Again or Register does not join the queue.
func (c *Claim) Init(terms *Terms, token string, waited time.Duration) {
	c.Terms, c.token, c.waited = *terms, token, "0"
	if waited >= time.Millisecond || waited <= -time.Millisecond {
		c.waited = strconv.FormatInt(waited.Milliseconds(), 10)
	} else if waited == NoQueue {
		c.waited = noQueue
	}
}

// NoQueue says that a client does not wait for the lock.
const NoQueue time.Duration = -1

// noQueue is NoQueue for the script.
const noQueue = "-"

// polling returns how long the client has waited, for a command to a master where it has no subscription.
func (c *Claim) polling(sent time.Time) string {
	waited, err := strconv.ParseInt(c.waited, 10, 64)
	if err != nil {
		return noQueue
	} else if c.Grantable() { // it is sent again for as long as the client waits
		waited += max(sent.Sub(c.queued), 0).Milliseconds()
	}
	return strconv.FormatInt(waited, 10) + "-"
}

// Propose has the acquisition ask for a fence: number, or a higher one if number is not above the last
// fence. It is called before the first Ask with the claim.
func (c *Claim) Propose(number int64) {
	c.proposal = strconv.FormatInt(number, 10)
	c.word = "acquire " + c.ttl.(string) + " - - " + c.proposal // as acquisition does
}

// Prepare makes the word of an acquisition once, rather than once for each master. It is called before
// the first Ask with the claim, and after Propose and Turn.
func (c *Claim) Prepare(k Kind) {
	if c.reads {
		c.joining = c.reading(c.turn)
	} else if k == Again || k == Register {
		c.joining = c.acquisition(k, c.waited, 0) // a claim with a g is not prepared
	}
}

// Queue makes the claim one that releases of other clients may grant the lock to, for g in whole milliseconds. Its
// Register sets a free key for first. Queue is called after Propose, and before the first Ask.
func (c *Claim) Queue(g, first time.Duration) {
	c.g, c.first = strconv.FormatInt(g.Milliseconds(), 10), strconv.FormatInt(first.Milliseconds(), 10)
	if c.fenced() {
		c.g += wantsFence
	}
	c.queued = time.Now()
	c.ending, c.most = "release "+c.g, 0 // its fence is given much later than it is proposed
}

// wantsFence is behind the g of a claim that wants a fence.
const wantsFence = "f"

// Grantable reports whether the lock can be granted to the claim.
func (c *Claim) Grantable() bool { return c.g != "" }

// Spare has a Register leave a free key alone at some masters, as bits, and only join the queue there: the holder of a
// lease may heal the key. It is called before the first Ask.
func (c *Claim) Spare(masters uint64) { c.spared = masters }

// LeaveFree has the Release leave the key free at some masters, as bits. It is called before the Release is asked for.
func (c *Claim) LeaveFree(masters uint64) { c.freed = masters }

// How the Release of a claim passes the lock on: see batch.lua, and ToToken.
const (
	ToHead = "-"    // to the head of the queue
	Open   = "open" // to nobody: the head is woken, and the key stays free
)

// ToToken returns how a Release passes the lock on to the claim in the queue whose token begins with this text. If the
// text cannot be a part of the script's word, that is ToHead.
func ToToken(text string) string {
	if len(text) <= len(Open) || strings.ContainsFunc(text, notGraphic) {
		return ToHead
	}
	return text
}

// releaseOpen is the word of a Release that leaves the lock open.
var releaseOpen any = "release 0 " + Open + " 0"

// PassOn sets how the Release of the claim passes the lock on, and the fence that it proposes; 0 proposes none. It is
// called before the Release is asked for. Without it, the lock is passed on to the head of the queue.
func (c *Claim) PassOn(how string, fence int64) {
	if how == ToHead && fence == 0 {
		return
	}
	if c.g == "" && how == Open && fence == 0 {
		c.ending = releaseOpen
		return
	}
	g := cmp.Or(c.g, "0")
	c.ending = "release " + g + " " + how + " " + strconv.FormatInt(fence, 10)
}

func (c *Claim) fenced() bool { return c.proposal != "" }

// FenceTick is the unit in which fences count the time, as in batch.lua.
const FenceTick = 250 * time.Microsecond

// FenceBits is how many low bits of Lease.Fence count handovers. The others are the fence that the masters know.
const FenceBits = 10

// Expect turns a grant with a fence above most into a failure. now is the client's clock as a fence. It is
// called before the first Ask with the claim. Without Expect there is no limit.
func (c *Claim) Expect(now, most int64) { c.clock, c.most = now, most }

// An AheadError says that a master's fence for a name is so far ahead of the clock that waiting is no
// use: it was written by hand, or by a clock that was wrong.
type AheadError struct {
	By time.Duration // ahead of the client's clock
}

func (e *AheadError) Error() string {
	return fmt.Sprintf("its fence for this name is %v ahead of our clock", e.By.Round(time.Millisecond))
}

// Ahead returns the error for a fence. now is the client's clock as a fence.
func Ahead(fence, now int64) *AheadError {
	return &AheadError{By: time.Duration(min(fence-now, int64(math.MaxInt64/FenceTick))) * FenceTick}
}

// Judged removes a fence that is too far ahead from an answer. Then a grant, whose fence is above it, is a
// failure, and so is a Commit, which would raise it on all masters. A refusal remains a refusal.
func (c *Claim) Judged(k Kind, a Answer) Answer {
	switch {
	case c.most == 0 || a.Fence <= c.most:
		return a
	case a.Done() || k == Commit:
		return Answer{Err: Ahead(a.Fence, c.clock)}
	}
	a.Fence = 0
	return a
}

// Fix sets the fence that Commit and Heal raise a master's fence to.
func (c *Claim) Fix(number int64) { c.fence.Store(number) }

// Key returns the key. For several names it is that of the set: see NewSetTerms.
func (t *Terms) Key() string { return t.name }

// Token returns the claim's token.
func (c *Claim) Token() string { return c.token.(string) }
