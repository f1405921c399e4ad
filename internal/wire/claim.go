package wire

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Claim is what the commands of one acquisition have in common: the key, the token and the fence. All masters share
// it. A claim that is registered waits in the masters' queues; most claims are not. It is immutable: see NewClaim. What
// differs from one of its commands to the next belongs to the Request.
type Claim struct {
	Terms
	token       any       // boxed as in Terms
	waited      string    // how long the client has waited, in ms
	proposal    string    // the fence to propose; "": none is wanted
	now         int64     // see Proposal
	most        int64     // the same; 0: there is no limit
	kind        Kind      // of the acquisition that has word
	word        any       // of an acquisition at each master with a subscription; nil: it is made for each master
	g           string    // for how many ms the lock may be granted, and wantsFence; "": the client does not wait
	release     any       // with a g: the word of a Release to the head of the queue
	registerTTL string    // with a g: the ttl of a Register, in ms
	spared      uint64    // see ClaimOf
	made        time.Time // see ClaimOf
	contended   bool      // see ClaimOf
	fresh       bool      // with a g: its client waits since a moment ago, and not behind those that come later
}

// Terms are what all claims on a key have in common. They are made once, since that costs some
// allocations.
type Terms struct {
	name     string   // immutable; the key
	key, ttl any      // immutable; boxed once, so that redigo need not for each master
	set      *set     // immutable; of a claim on several names; nil for one
	reads    bool     // immutable; of readers, who share the lock
	slots    *permits // immutable; of a claim on slots of a semaphore; nil for a lock
}

// NewTerms returns the terms for a key and a time to live in whole milliseconds.
func NewTerms(key string, ttl time.Duration) Terms {
	return Terms{name: key, key: key, ttl: strconv.FormatInt(ttl.Milliseconds(), 10)}
}

// A ClaimOf is what makes a claim. Only Token is needed.
type ClaimOf struct {
	Token string // which nobody else has
	// Waited is how long the client has waited already. If it is negative, the claim joins the queue behind clients that
	// join it until that time has passed. If it is NoQueue or TakesFree, a refused Again or Register does not join the queue.
	Waited time.Duration
	Fence  Proposal
	// Kind is that of the acquisition that will be asked for. Its word is made once, rather than once for each master.
	Kind Kind

	// Grant is g: for how long releases of other clients may grant the lock to the claim, in whole ms. Zero: they may not.
	Grant time.Duration
	// RegisterTTL is for how long the Register of a claim with a g sets a free key, in whole ms.
	RegisterTTL time.Duration
	// Spared are masters, as bits, where the Register of a claim with a g leaves a free key alone, and only joins the
	// queue: the holder of a lease may heal the key.
	Spared uint64
	// Contended says that the Register of a claim with a g is likely to be refused, since others wait. Then no probe is sent with it.
	Contended bool
	// Made is when a claim with a g was made. It is sent again for as long as the client waits.
	Made time.Time
}

// A Proposal is what an acquisition with a fence asks for: this number, or a higher one if it is not above the last
// fence. A grant with a fence above Most is a failure.
type Proposal struct {
	Number int64 // 0: no fence is wanted
	Now    int64 // the client's clock as a fence
	Most   int64 // 0: there is no limit. That of a claim with a g does not count: its fence is given much later
}

// NewClaim returns a claim with these terms.
func NewClaim(terms *Terms, of ClaimOf) Claim {
	c := Claim{Terms: *terms, token: of.Token, waited: waitedFor(of.Waited), now: of.Fence.Now, most: of.Fence.Most, kind: of.Kind}
	if of.Fence.Number != 0 {
		c.proposal = strconv.FormatInt(of.Fence.Number, 10)
	}
	if of.Grant != 0 {
		c.g, c.registerTTL = strconv.FormatInt(of.Grant.Milliseconds(), 10), strconv.FormatInt(of.RegisterTTL.Milliseconds(), 10)
		if c.fenced() {
			c.g += wantsFence
		}
		c.release, c.most = "release "+c.g, 0
		c.spared, c.made, c.contended = of.Spared, of.Made, of.Contended
		c.fresh = of.Waited >= 0 && of.Waited < freshMost
		return c
	}
	if c.set == nil && c.slots == nil && !c.reads && (of.Kind != Set || c.fenced()) { // the others have words of their own
		c.word = c.acquisition(of.Kind, c.waited, false)
	}
	return c
}

// freshMost is how long the client of a claim has waited at most for the place in the queue to say when it joined. It is short beside the
// time for which a claim counts as live then: see batch.lua.
const freshMost = 100 * time.Millisecond

// waitedFor returns how long a client has waited, for the script.
func waitedFor(waited time.Duration) string {
	switch {
	case waited == NoQueue:
		return noQueue
	case waited == TakesFree:
		return takesFree
	case waited > -time.Millisecond && waited < time.Millisecond:
		return "0"
	}
	return strconv.FormatInt(waited.Milliseconds(), 10)
}

const (
	// NoQueue says that a client does not wait for the lock, or not yet.
	NoQueue time.Duration = -1
	// TakesFree says that a client will not wait for the lock. Its Register takes a free lock although others queue.
	TakesFree time.Duration = -2
)

// These are NoQueue and TakesFree for the script.
const noQueue, takesFree = "-", "--"

// queues reports whether the claim joins a queue if it is refused.
func (c *Claim) queues() bool { return c.waited != noQueue && c.waited != takesFree }

// deafWaited returns how long the client has waited, for a command to a master where it has no subscription.
func (c *Claim) deafWaited(sent time.Time) string {
	waited, err := strconv.ParseInt(c.waited, 10, 64)
	if err != nil {
		return c.waited
	} else if c.Grantable() { // it is sent again for as long as the client waits
		waited += max(sent.Sub(c.made), 0).Milliseconds()
	}
	return strconv.FormatInt(waited, 10) + "-"
}

// wantsFence is behind the g of a claim that wants a fence.
const wantsFence = "f"

// Grantable reports whether the lock can be granted to the claim.
func (c *Claim) Grantable() bool { return c.g != "" }

// How the Release of a claim passes the lock on: see batch.lua, and ToToken.
const (
	ToHead = "-"    // to the head of the queue
	Open   = "open" // to nobody: the key stays free, and the head is told so
)

// ToToken returns how the Release of a claim that gives way passes the lock on to the claim in the queue whose token begins with this
// text, or else to the head of the queue.
func ToToken(text string) string { return toNamed("=", text) }

// ToNext returns how the Release of a lease passes the lock on to the claim with this token, or else to the head of the queue.
func ToNext(token string) string { return toNamed("+", token) }

// toNamed returns the mark and the text, or ToHead if the text cannot be a part of the script's word.
func toNamed(mark, text string) string {
	if text == "" || strings.ContainsFunc(text, notGraphic) {
		return ToHead
	}
	return mark + text
}

// A request is one whose word is made once. It is immutable.
type request struct {
	kind Kind
	word any
	free uint64 // of a Release: masters, as bits, that leave the key free
	to   string // of a Release: to whom it passes the lock on, if it names somebody
}

func (r *request) Kind() Kind { return r.kind }

// releaseOpen is the Release of a claim without a g that leaves the lock open.
var releaseOpen = &request{kind: Release, word: "release 0 " + Open + " 0"}

// Releasing returns a Release: how it passes the lock on, and the fence that it proposes; 0 proposes none. A plain Release
// passes the lock on to the head of the queue.
func (c *Claim) Releasing(how string, fence int64) Request {
	switch {
	case how == ToHead && fence == 0:
		return Release
	case how == Open && fence == 0 && c.g == "":
		return releaseOpen
	}
	r := &request{kind: Release, word: "release " + cmp.Or(c.g, "0") + " " + how + " " + strconv.FormatInt(fence, 10)}
	if strings.HasPrefix(how, "=") {
		r.to = how
	}
	return r
}

// ReleasingFree returns a Release of a claim with a g that leaves the key free at some masters, as bits. At the others it
// passes the lock on to the head of the queue.
func (c *Claim) ReleasingFree(masters uint64) Request {
	return &request{kind: Release, word: c.release, free: masters}
}

// A poll is an Again of a claim with a g that is not a plain one.
type poll struct {
	spared  uint64 // masters, as bits, where it leaves a free key alone
	refused bool   // it is likely to be refused
	voted   bool   // the claim has votes
}

func (*poll) Kind() Kind { return Again }

// Polling returns an Again of a claim with a g. At the spared masters, as bits, it neither sets a free key nor passes it on. With
// refused, it is likely to be refused, so that no probe is sent with it. With voted, the claim has votes: beside readers, that of a reader
// then stands although a writer waits. Else neither of the two could have a quorum.
func Polling(spared uint64, refused, voted bool) Request {
	if spared == 0 && !refused && !voted {
		return Again
	}
	return &poll{spared, refused, voted}
}

// A publishing is a Publish.
type publishing struct {
	queue, value any
	unsure       bool
}

func (*publishing) Kind() Kind { return Publish }

// Publishing returns a Publish of a value, of ValueMost bytes at most. The claim is for one name. sure says that the master set
// the token before the function began, and not since: see Value.Sure.
func (c *Claim) Publishing(value []byte, sure bool) Request {
	return &publishing{queue: queueKey + c.name, value: value, unsure: !sure}
}

// Committing returns a Commit of a fence.
func (c *Claim) Committing(fence int64) Request {
	return &request{kind: Commit, word: "commit " + strconv.FormatInt(fence, 10) + " " + c.ttl.(string)}
}

// RenewingAsked returns a Renew whose answer says whether somebody waits for the lock: see Answer.Recalled. Those of readers, and of
// a token from KeptBy, say so anyway.
func (c *Claim) RenewingAsked() Request {
	if c.reads {
		return Renew
	}
	return &request{kind: Renew, word: "renew " + c.ttl.(string) + " -"}
}

// Healing returns a Heal that raises the fence to this number; 0: there is none.
func (c *Claim) Healing(fence int64) Request {
	if fence == 0 {
		return Heal
	}
	return &request{kind: Heal, word: "heal " + c.ttl.(string) + " " + strconv.FormatInt(fence, 10)}
}

func (c *Claim) fenced() bool { return c.proposal != "" }

// FenceBits is how many low bits of Lease.Fence count handovers. The others are the fence that the masters know.
const FenceBits = 10

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
		return Answer{Err: Ahead(a.Fence, c.now)}
	}
	a.Fence = 0
	return a
}

// Key returns the key. For several names it is that of the set: see NewSetTerms.
func (t *Terms) Key() string { return t.name }

// Age returns how long ago a claim with a g was made; 0: it has none.
func (c *Claim) Age(now time.Time) time.Duration {
	if !c.Grantable() {
		return 0
	}
	return now.Sub(c.made)
}

// Token returns the claim's token.
func (c *Claim) Token() string { return c.token.(string) }
