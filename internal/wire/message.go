package wire

import (
	"strconv"
	"strings"
	"time"
)

// WakeChannel is the prefix of the channel on which masters tell a client. The client's id follows it.
const WakeChannel = "redlock:wake:"

// KeyMost is how long a lock's key may be, in bytes. A message names the key, and must be
// read within the bound on replies.
const KeyMost = 64 << 10

// A Mark begins a message that is only about a token: it is followed by the token, a space, and the key. No token is a mark.
type Mark string

const (
	Freed  Mark = ""   // the lock was left free: the token is that of the lock that was released
	Recall Mark = "? " // another client wants the lock that has the token
	IsNear Mark = "= " // the claim with the token is near
)

// Parse splits a message with the mark. Whoever may publish on the channel decides what comes, so it reports false for anything else.
func (m Mark) Parse(text string) (token, key string, ok bool) {
	text, marked := strings.CutPrefix(text, string(m))
	token, key, ok = strings.Cut(text, " ")
	return token, key, ok && marked && token != "" && len(token) <= tokenMost && key != ""
}

// OfSlots reports whether a key that a message names is that of the slots of a semaphore.
func OfSlots(key string) bool { return strings.HasPrefix(key, slotsKey) }

// ValueMost is how many bytes a value has at most that is sent to those who wait.
const ValueMost = 4 << 10

// HolderMost is how many bytes of the holder's token Value.Holder has at most. Those of ours include all random ones.
const HolderMost = 32

// These begin the message with a value: see Value.Sure.
const (
	sureMark   = "! "
	unsureMark = "; "
)

// A Value is the message with the value of another client's function: see flight.lua.
type Value struct {
	Key    string // of the lock
	Token  string // of the claim that waits
	Holder string // the first HolderMost bytes of the token of the other client
	Value  []byte // what the function returned
	Sure   bool   // the other client is sure that the master set its token before the function began, and not since
}

// ParseValue splits the message with a value: ! or ;, the claim's token, the beginning of the holder's, how many bytes the key has, the
// key, and the value. It reports false for anything else.
func ParseValue(text string) (v Value, ok bool) {
	parts := strings.SplitN(text, " ", 5)
	sure := strings.HasPrefix(text, sureMark)
	if !sure && !strings.HasPrefix(text, unsureMark) || len(parts) != 5 {
		return Value{}, false
	}
	n, err := strconv.ParseUint(parts[3], 10, 32)
	rest := parts[4]
	if err != nil || n == 0 || n > uint64(len(rest)) || len(rest)-int(n) > ValueMost ||
		parts[1] == "" || len(parts[1]) > tokenMost || parts[2] == "" || len(parts[2]) > HolderMost {
		return Value{}, false
	}
	return Value{Key: rest[:n], Token: parts[1], Holder: parts[2], Value: []byte(rest[n:]), Sure: sure}, true
}

// A Grant is the message that a master has set a key to the token of a client that was in its queue.
type Grant struct {
	Key   string // the key that was set
	Token string // of the client's claim
	Fence int64  // 0: none
	Slots Slots  // of a semaphore: all of the token; empty for a lock
	Next  string // the token of the claim that is the head of the queue now; "": there is none, or the master has not told
	Memory
}

// NoRun is the run_id in a grant by a client that has no right to INFO.
const NoRun = "-"

// A Memory is what a grant says of the memory in which it was made.
type Memory struct {
	Run  string // the server's run_id, or NoRun
	Left int64  // how many ms the record lives
}

// ParseGrant splits the message about a grant: +, the token, the run_id, how long the record lives, the fence or 0, perhaps a / and the
// token of the next head, and the key. For a semaphore it begins with a *, and all slots of the token are in the place of the fence. It reports
// false for anything else. The message that a lock was left free never begins with one of these and a space, since no token is one of them.
func ParseGrant(text string) (g Grant, ok bool) {
	parts := strings.SplitN(text, " ", 6)
	if len(parts) != 6 || parts[1] == "" || len(parts[1]) > tokenMost || len(parts[3]) > fenceDigits || parts[5] == "" {
		return Grant{}, false
	}
	left, err := strconv.ParseInt(parts[3], 10, 64)
	g = Grant{Key: parts[5], Token: parts[1], Memory: Memory{parts[2], left}}
	switch parts[0] {
	case "+":
		number, next, named := strings.Cut(parts[4], "/")
		g.Fence, ok = parseFence(number)
		g.Next, ok = next, ok && (next != "" || !named) && len(next) <= tokenMost
	case "*":
		g.Slots, ok = parseSlots(parts[4])
		ok = ok && g.Slots != "" && OfSlots(g.Key)
	}
	if !ok || err != nil {
		return Grant{}, false
	}
	return g, true
}

// parseFence parses a fence, or 0.
func parseFence(text string) (fence int64, ok bool) {
	fence, err := strconv.ParseInt(text, 10, 64)
	return fence, err == nil && fence >= 0 && len(text) <= fenceDigits
}

// GrantLeast is the least time for which a lock may be granted. A client that was granted the lock must learn it,
// and renew the lease, within the time for which it was granted: see bounds.Bounds.Grant.
const GrantLeast = 400 * time.Millisecond
