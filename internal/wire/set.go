package wire

import (
	"fmt"
	"strings"
	"time"
)

// A claim on several names sets all keys of a master or none, by a script of its own: set.lua. Each other command
// of the claim is one call of another script with all keys, and one vote: the master has carried it out if it has
// for every key.

// NamesMost is how many names a claim can have. A call of a script delays the commands of other clients.
const NamesMost = BatchMost

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

// Keys calls yield with each key of a lock on the masters, until it returns false. A semaphore has none.
func (t *Terms) Keys(yield func(key string) bool) {
	if t.slots != nil {
		return
	}
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

// OfSet reports whether the command is for several names.
func (cmd *Command) OfSet() bool { return cmd.Claim != nil && cmd.Claim.set != nil }

// Follows reports whether an acquisition of several names can share a call with the release right before it, of the
// same names: see AppendFollow.
func (cmd *Command) Follows(release *Command) bool {
	return cmd.OfSet() && cmd.Kind == Register && !cmd.Claim.fenced() && cmd.Claim.set.earlier == nil &&
		release.Kind == Release && release.Claim.name == cmd.Claim.name
}

// appendSet appends the arguments of EVALSHA for a command on several names.
func (cmd *Command) appendSet(args []any, id any) []any {
	c := cmd.Claim
	args = append(args, cmd.lua().sha(), len(c.set.keys))
	args = append(args, c.set.keys...)
	args = append(args, id)
	if cmd.Kind.Acquires() {
		word := "acquire"
		if cmd.Kind == Register {
			word = "behind"
		}
		args = append(args, word, c.ttl, c.proposal, c.token)
		return append(args, c.set.earlier...)
	}
	word := cmd.word(0) // the same for all masters
	for range c.set.keys {
		args = append(args, word, c.token)
	}
	return args
}

// AppendFollow appends the arguments of EVALSHA for a release of several names and the next acquisition of them. If a
// client is in a queue, the master does nothing, and answers with an error.
func (cmd *Command) AppendFollow(args []any, id any, release *Claim) []any {
	c := cmd.Claim
	args = append(args, setLua.sha(), len(c.set.keys))
	args = append(args, c.set.keys...)
	args = append(args, id, "follow", c.ttl, "", c.token)
	for range c.set.keys {
		args = append(args, release.token)
	}
	return args
}

// decodeSet decodes the reply to a command for several names, and reports false as Decode does.
func decodeSet(cmd *Command, reply any) (a Answer, ok bool) {
	list, _ := reply.([]any)
	switch {
	case reply == int64(1): // for all keys
		return decodeScripted(cmd, reply)
	case cmd.Kind.Acquires():
		return decodeSetAcquisition(cmd.Claim, reply)
	}
	if len(list) != len(cmd.Claim.set.keys) {
		return Answer{}, false
	}
	fence, recalled := int64(0), false
	for i, reply := range list {
		one, ok := decodeScripted(cmd, reply)
		if !ok {
			return Answer{}, false
		}
		fence, recalled = max(fence, one.Fence), recalled || one.Recalled
		if i == 0 || cmd.Kind.decides(one, a) {
			a = one
		}
	}
	a.Fence, a.Recalled = fence, recalled && a.Done()
	return a, true
}

// decodeSetAcquisition decodes the reply of set.lua.
func decodeSetAcquisition(c *Claim, reply any) (a Answer, ok bool) {
	var result, fence, which, readers int64
	if !scan(reply, &result, &fence, &which, &readers) {
		return Answer{}, false
	}
	if a, ok = Set.decode(result, false); !ok || fence < 0 || which < 0 || which > int64(len(c.set.keys)) {
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
	return ranks[a.Outcome] > ranks[b.Outcome]
}

// ranks orders the answers for the keys of one command. A key that holds another token ranks above a
// missing one: a missing key may be set again.
var ranks = [...]int{Granted: 0, PassedOn: 1, Overtaken: 2, Missing: 3, Taken: 4, OtherToken: 4, Failed: 5}
