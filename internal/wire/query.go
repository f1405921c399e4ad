package wire

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Query is a few commands that read, each a name and its arguments. They are sent together. A query is for people
// who look at a lock: no lock depends on it. It also reaches a master in quarantine.
type Query [][]any

// Kind implements Request.
func (q Query) Kind() Kind { return Asks }

// memberMost is how long a member of a queue may be: an id, a token and a g, of a reader the first two.
const memberMost = 2*tokenMost + 16

// waitersMost is how many clients of a queue are listed.
const waitersMost = 256

// countMost is how many clients of a queue are believed in.
const countMost = 1 << 24

// NewLook returns a query for what a master knows of a lock's key. DecodeLook reads the replies. The
// key and the queue may hold anything, so no more is read of each value than a token's length. The script is
// loaded each time: this costs no round trip, and somebody may have flushed the scripts.
func NewLook(key string) Query {
	queue := queueKey + key
	return Query{
		{"GETRANGE", key, 0, tokenMost},
		{"PTTL", key},
		{"GETRANGE", fenceKey + key, 0, fenceDigits},
		{"TIME"},
		{"ZCARD", queue},
		{"SCRIPT", "LOAD", membersLua.text()},
		{"EVALSHA", membersLua.sha(), 1, queue, waitersMost - 1, memberMost},
		{"EVALSHA", membersLua.sha(), 1, readersKey + key, waitersMost - 1, memberMost},
		{"ZCARD", readersQueueKey + key},
		{"EVALSHA", membersLua.sha(), 1, readersQueueKey + key, waitersMost - 1, memberMost},
	}
}

// NewPeek returns a query for who holds a lock, which costs less than NewLook's. DecodePeek reads the replies.
func NewPeek(key string) Query {
	return Query{
		{"GETRANGE", key, 0, tokenMost},
		{"PTTL", key},
		{"TIME"},
		{"SCRIPT", "LOAD", membersLua.text()},
		{"EVALSHA", membersLua.sha(), 1, readersKey + key, waitersMost - 1, memberMost},
	}
}

// DecodePeek returns what the replies to NewPeek's query mean: a Look with a token and readers. If the key is not a lock, the error says
// so: see IsNotALock. A key of another type that expires may be a lock of another library, such as a hash of Redisson.
func DecodePeek(replies []any) (look Look, err error) {
	if len(replies) != 5 {
		return look, errOddReply
	}
	if look.Token, err = decodeToken(replies[0]); err != nil {
		_, otherType := replies[0].(error)
		if ms, _ := redis.Int64(replies[1], nil); err == ErrNotALock && otherType && ms > 0 {
			return look, errForeignLock
		}
		return look, err
	}
	if ms, err := redis.Int64(replies[1], nil); err == nil && ms == -1 && look.Token != "" {
		return look, ErrNoExpiry
	}
	if look.Token == ReadersMarker {
		look.readers(replies[2], replies[4])
	}
	return look, nil
}

// NewCensus returns a query for which of some clients still have subscriptions. DecodeCensus reads
// the reply.
func NewCensus(ids []string) Query {
	args := []any{"PUBSUB", "NUMSUB"}
	for _, id := range ids {
		args = append(args, WakeChannel+id)
	}
	return Query{args}
}

// Keys beside a lock's key, which follows. The script has them, too.
const (
	queueKey = "redlock:queue:"
	fenceKey = "redlock:fence:"

	readersKey      = "redlock:readers:"
	readersQueueKey = "redlock:rqueue:"
)

// fenceDigits is how many digits a fence has at most.
const fenceDigits = 15

// Forever is the value of Look.Left for a key that does not expire.
const Forever time.Duration = -1

// A Look is what one master knows of a lock's key.
type Look struct {
	Holder
	Fence   int64    // the last fence of the name, or 0
	Readers []string // the ids of some of the clients whose readers hold the key
	Queue            // of the clients that wait, and of those that wait to read
}

// A Holder is who has a key, or a slot of a semaphore.
type Holder struct {
	Token string        // that stands there; empty for none
	Left  time.Duration // for how long it stands there, or Forever; 0 if there is none
	Limit int           // of a slot: with which it was acquired; 0 if that is unknown
}

// Owner returns the owner in the token: who holds the lock, or tries to acquire it. It is empty if the token
// names no owner.
func (h Holder) Owner() string { return OwnerOf(h.Token) }

// A Queue is who waits.
type Queue struct {
	Waiting int      // how many clients wait; for a semaphore: how many claims
	Waiters []Waiter // the first of them; only some if many wait
}

// A Waiter is a client in a queue of a name.
type Waiter struct {
	ID    string        // the client's
	For   time.Duration // since when it waits
	Reads bool          // it waits to read

	// Of a claim on slots of a semaphore, of which a client can have several:
	Token   string // the claim's
	Permits int    // how many slots it waits for
	Limit   int    // with which it waits
}

// Owner returns the owner in the client's id. It is empty if the id names none.
func (w Waiter) Owner() string { return OwnerOf(w.ID) }

// DecodeLook returns what the replies to NewLook's query mean. The error says why the key could not be
// read. What else could not be read is left out.
func DecodeLook(replies []any) (Look, error) {
	var look Look
	if len(replies) != 10 {
		return look, errOddReply
	}
	ms, err := redis.Int64(replies[1], nil)
	if err != nil {
		return look, oddReply(replies[1])
	}
	switch {
	case ms >= 0 && ms <= leftMost.Milliseconds():
		look.Left = time.Duration(ms) * time.Millisecond
	case ms == -2: // no such key
	default:
		look.Left = Forever
	}
	if look.Token, err = decodeToken(replies[0]); err != nil {
		return look, err
	}
	if text, err := redis.String(replies[2], nil); err == nil && len(text) <= fenceDigits {
		if fence, err := strconv.ParseInt(text, 10, 64); err == nil && fence > 0 {
			look.Fence = fence
		}
	}
	look.add(replies[3], replies[4], replies[6], func(*Waiter, string) {})
	look.add(replies[3], replies[8], replies[9], func(w *Waiter, _ string) { w.Reads = true })
	if look.Token == ReadersMarker {
		look.readers(replies[3], replies[7])
	}
	return look, nil
}

// readers decodes the set of readers, which are scored by their expiry in ms.
func (look *Look) readers(clock, set any) {
	now, err := redis.Int64s(clock, nil)
	if err != nil || len(now) != 2 {
		return
	}
	members, _ := redis.Strings(set, nil)
	for i := 0; i+1 < len(members); i += 2 {
		id, _, ok := strings.Cut(members[i], " ")
		score, err := strconv.ParseFloat(members[i+1], 64)
		if ok && err == nil && score > float64(now[0]*1000+now[1]/1000) && !slices.Contains(look.Readers, id) {
			look.Readers = append(look.Readers, id)
		}
	}
}

// add decodes a queue, and adds those who wait there. The score of a client is the server's time in µs, less what the client
// had waited for. What follows the client's id in a member is for complete.
func (q *Queue) add(clock, count, queue any, complete func(w *Waiter, rest string)) {
	now, err := redis.Int64s(clock, nil)
	if err != nil || len(now) != 2 {
		return
	}
	micros := float64(now[0])*1e6 + float64(now[1])
	entries, _ := redis.Strings(queue, nil)
	before := len(q.Waiters)
	for i := 0; i+1 < len(entries); i += 2 {
		score, err := strconv.ParseFloat(entries[i+1], 64)
		if err != nil || math.IsInf(score, 0) || math.IsNaN(score) {
			continue
		}
		if score >= setAside {
			score -= setAside
		}
		waited := min(max(micros-score, 0), float64(math.MaxInt64/2/int64(time.Microsecond)))
		id, rest, _ := strings.Cut(entries[i], " ") // behind it are the token and how long it may be granted
		w := Waiter{ID: id, For: time.Duration(waited) * time.Microsecond}
		complete(&w, rest)
		q.Waiters = append(q.Waiters, w)
	}
	listed := len(q.Waiters) - before
	if n, _ := redis.Int(count, nil); n > waitersMost {
		listed = min(n, countMost)
	}
	q.Waiting += listed
}

// Errors of a key that is not a lock. No client can acquire the lock while it is there.
var (
	ErrNotALock = errors.New("the key holds data that is not a lock")
	ErrNoExpiry = errors.New("the key has no expiry, so it is not a lock")
)

// errForeignLock says that the key of a lock may be the lock of another library. It expires, so it counts as held.
var errForeignLock = errors.New("the key holds data of another type, which expires")

// IsNotALock reports whether err says that a key is not a lock.
func IsNotALock(err error) bool { return errors.Is(err, ErrNotALock) || errors.Is(err, ErrNoExpiry) }

// decodeToken returns the token that stands under the key, or empty text if there is none.
func decodeToken(reply any) (string, error) {
	switch r := reply.(type) {
	case []byte:
		if len(r) > tokenMost {
			return "", ErrNotALock
		}
		return string(r), nil
	case error:
		if strings.HasPrefix(r.Error(), "WRONGTYPE") {
			return "", ErrNotALock
		}
		return "", r
	}
	return "", errOddReply
}

// DecodeCensus returns the ids of the clients that listen. It reports false if the master does not say.
func DecodeCensus(replies []any) (listening map[string]bool, ok bool) {
	if len(replies) != 1 {
		return nil, false
	}
	counts, err := redis.IntMap(replies[0], nil)
	if err != nil {
		return nil, false
	}
	listening = make(map[string]bool)
	for channel, n := range counts {
		if n > 0 {
			listening[strings.TrimPrefix(channel, WakeChannel)] = true
		}
	}
	return listening, true
}

var errOddReply = errors.New("an unexpected reply")

// oddReply returns a reply that is an error, or an error for one that is of the wrong shape.
func oddReply(reply any) error {
	if err, ok := reply.(error); ok {
		return err
	}
	return errOddReply
}

// NewBreak returns a query that deletes a key that holds the token, and passes the lock on.
// DecodeBreak reads the replies.
func NewBreak(key, token string) Query {
	return newBreak(batchLua, key, kinds[Release].word, token)
}

// NewPass returns a query that passes the lock on, if the key is free. It follows NewBreakReaders.
func NewPass(key string) Query {
	return newBreak(batchLua, key, kinds[Release].word, breaker)
}

// NewBreakReaders returns a query that ends those of the readers of a key, or all if none is given. DecodeBreak reads
// the replies.
func NewBreakReaders(key string, readers []string) Query {
	return newBreak(batchLua, key, "readers break", strings.Join(readers, "\n"))
}

// NewBreakPermit returns a query that takes a token out of all slots of a semaphore, and passes these on. DecodeBreak reads the replies.
func NewBreakPermit(key, token string) Query {
	return newBreak(slotsLua, slotsKey+key, "release 1 1 0 "+strconv.FormatInt(GrantLeast.Milliseconds(), 10), token)
}

// breaker is the id of a client that breaks leases, and a token. No client has it, and no lock.
const breaker = "redlock-break"

func newBreak(l *lua, key string, word, token any) Query {
	return Query{{"SCRIPT", "LOAD", l.text()}, {"EVALSHA", l.sha(), 1, key, breaker, word, token}}
}

// DecodeBreak returns what the replies to a query of NewBreak, NewBreakPermit, NewPass or NewBreakReaders mean. The outcome is that of a
// Release. ended are the readers that NewBreakReaders has ended.
func DecodeBreak(replies []any) (ended []string, o Outcome, err error) {
	if len(replies) != 2 {
		return nil, Failed, errOddReply
	}
	if err, ok := replies[0].(error); ok {
		return nil, Failed, fmt.Errorf("SCRIPT LOAD: %w", err)
	}
	reply := replies[1]
	if list, ok := reply.([]any); ok && len(list) > 0 {
		if ended, err = redis.Strings(list[1:], nil); err != nil {
			return nil, Failed, errOddReply
		}
		reply = list[0]
	}
	n, ok := reply.(int64)
	if !ok {
		return nil, Failed, oddReply(reply)
	}
	a, ok := Release.decode(n, false)
	if !ok {
		return nil, Failed, errOddReply
	}
	return ended, a.Outcome, nil
}

// Trial returns a command that changes nothing, since no lock has the key sample. If the server would refuse to set the key of a lock, for want of a
// right or since it refuses writes, it answers by the same error.
func Trial(sample string) Query { return Query{{"SET", sample, "x", "XX", "PX", 1}} }

// Rights returns commands that every lock needs, on a sample of a key that no lock has, with arguments that change
// nothing: the server checks the user's rights before the arguments. The script must have been loaded before.
func Rights(sample string) Query {
	return Query{
		Trial(sample)[0],
		{"GET", sample},
		{"PEXPIRE", sample, 1}, // no such key
		{"DEL", sample},
		{"EVALSHA", batchLua.sha(), 1, sample, "", "undo", ""}, // nothing to undo
	}
}

// SlotRights returns commands that a release of permits needs and that their acquisition may do without, as Rights does.
func SlotRights(sample string) Query {
	slots, taken, permits := slotsKey+sample, takenKey+sample, permitsKey+sample
	return Query{
		{"BITPOS", taken, 0},
		{"EXISTS", permits},
		{"HDEL", slots, "0"},
		{"HSET", slots, "0", "x", "1"}, // fails: no value of the last field
		{"PUBLISH", WakeChannel + "-", ""},
		{"PUBSUB", "NUMSUB", WakeChannel + "-"},
		{"SETBIT", taken, 0, 2}, // fails: no bit
		{"ZREM", permits, "x"},
	}
}
