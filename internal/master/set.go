package master

import (
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A claim on several names sets all keys of a master or none, by a script of its own: set.lua. Each other command
// of the claim is one call of another script with all keys, and one vote: the master has carried it out if it has
// for every key.

//go:embed set.lua
var setScript string

var (
	setSHA        = redis.NewScript(-1, setScript).Hash()
	argSetSHA any = setSHA
)

// NamesMost is how many names a claim can have. A call of a script delays the commands of other clients.
const NamesMost = batchMost

// A set is what a claim on several names has beside its token.
type set struct {
	keys    []any // immutable; two or more, all different
	earlier []any // immutable; nil, or for each key an earlier token of this client, which gives way
}

// NewSetTerms returns the terms for several keys, which must all be different. Their Key is no key on the masters: it
// stands for the set, and differs from that of every other set and from all keys of locks.
func NewSetTerms(keys []string, ttl time.Duration) Terms {
	name := strings.Builder{}
	name.WriteString("redlock:set:")
	s := &set{}
	for _, key := range keys {
		fmt.Fprintf(&name, "%d:%s", len(key), key)
		s.keys = append(s.keys, key)
	}
	terms := NewTerms(name.String(), ttl)
	terms.set = s
	return terms
}

// Merge returns the terms for one claim that takes over the keys of several claims with these tokens, one for each
// key.
func (t Terms) Merge(tokens []string) Terms {
	s := &set{keys: t.set.keys}
	for _, token := range tokens {
		s.earlier = append(s.earlier, token)
	}
	t.set = s
	return t
}

// Keys calls yield with each key on the masters, until it returns false.
func (t *Terms) Keys(yield func(key string) bool) {
	if t.set == nil {
		yield(t.name)
		return
	}
	for _, key := range t.set.keys {
		if !yield(key.(string)) {
			return
		}
	}
}

// ofSet reports whether the command is for several names.
func (it *item) ofSet() bool { return it.claim != nil && it.claim.set != nil }

// script returns the kind of command that loads the script of a scripted command.
func (it *item) script() Kind {
	if it.ofSet() && (it.kind.Acquires() || it.batch == 2) {
		return loadSet
	}
	return it.lua().load
}

// setArgs appends the arguments of EVALSHA for a command on several names.
func (it *item) setArgs(args []any, id any) []any {
	c := it.claim
	if it.kind.Acquires() {
		args = append(args, argSetSHA, len(c.set.keys))
		args = append(args, c.set.keys...)
		word := "acquire"
		if it.kind == Register {
			word = "behind"
		}
		args = append(args, id, word, c.ttl, c.proposal, c.token)
		return append(args, c.set.earlier...)
	}
	args = append(args, it.lua().sha, len(c.set.keys))
	args = append(args, c.set.keys...)
	args = append(args, id)
	word := it.word(0) // the same for all masters
	for range c.set.keys {
		args = append(args, word, c.token)
	}
	return args
}

// follows reports whether an acquisition of several names can share a call with the release right before it, of the
// same names. That is usual for a loop of locks and unlocks without contention. If the master finds a client in a
// queue, it does nothing, and both are sent again, each by itself, which takes one more round trip. So for a while
// after that, they do not share calls.
func (p *plan) follows(it *item) bool {
	if len(p.items) == 0 || !it.ofSet() || it.kind != Register || it.alone || it.claim.fenced() || it.claim.set.earlier != nil {
		return false
	}
	last := &p.items[len(p.items)-1]
	return last.kind == Release && last.batch == 1 && !last.alone && last.debt == nil && last.claim.name == it.claim.name
}

// apartFor is how long releases and acquisitions do not share calls after a client was in a queue.
const apartFor = time.Second

// followArgs appends the arguments of EVALSHA for a release of several names and the next acquisition of them.
func followArgs(args []any, id any, items []item) []any {
	release, c := items[0].claim, items[1].claim
	args = append(args, argSetSHA, len(c.set.keys))
	args = append(args, c.set.keys...)
	args = append(args, id, "follow", c.ttl, "", c.token)
	for range c.set.keys {
		args = append(args, release.token)
	}
	return args
}

// decodeSet decodes the reply to a command for several names, and reports false as decode does.
func decodeSet(it *item, reply any) (a Answer, ok bool) {
	list, _ := reply.([]any)
	switch {
	case reply == int64(1): // for all keys
		return decodeScripted(it, reply)
	case it.kind.Acquires():
		return decodeSetAcquisition(it.claim, list)
	}
	if len(list) != len(it.claim.set.keys) {
		return Answer{}, false
	}
	fence := int64(0)
	for i, reply := range list {
		one, ok := decodeScripted(it, reply)
		if !ok {
			return Answer{}, false
		}
		fence = max(fence, one.Fence)
		if i == 0 || it.kind.decides(one, a) {
			a = one
		}
	}
	a.Fence = fence
	return a, true
}

// decodeSetAcquisition decodes the reply of set.lua.
func decodeSetAcquisition(c *Claim, list []any) (a Answer, ok bool) {
	var n [4]int64
	if len(list) != len(n) {
		return Answer{}, false
	}
	for i := range n {
		if n[i], ok = list[i].(int64); !ok {
			return Answer{}, false
		}
	}
	result, fence, which, readers := n[0], n[1], n[2], n[3]
	if a, ok = Set.decode(result); !ok || fence < 0 || which < 0 || which > int64(len(c.set.keys)) {
		return Answer{}, false
	}
	a.Fence, a.Which, a.Readers = fence, uint8(which), readers == 1
	if a.Done() {
		return a, which == 0 && readers == 0 && c.fenced() && fence > 0
	}
	return a, which > 0 && readers>>1 == 0
}

// decides reports whether the answer a for one key, rather than b, is the answer for all keys. A heal that has
// set one key must be undone, whatever happened to the other keys. All other commands need all keys.
func (k Kind) decides(a, b Answer) bool {
	if k == Heal {
		return a.Done() && !b.Done()
	}
	return rank(a) > rank(b)
}

// rank orders the answers for the keys of one command. A key that holds another token ranks above a
// missing one: a missing key may be set again.
func rank(a Answer) int {
	switch a.Outcome {
	case Granted:
		return 0
	case Woke:
		return 1
	case Overtaken:
		return 2
	case Missing:
		return 3
	case Failed:
		return 5
	}
	return 4
}
