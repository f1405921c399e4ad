package master

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisconn"
)

// A query is a few commands that read, sent together on the ordered connection. It is for people who
// look at a lock: no lock depends on it. It also reaches a master in quarantine.

// Commands of a query, each a name and its arguments.
type commands [][]any

// sendQuery sends the commands of a query.
func (l *link) sendQuery(it *item) error { return it.claim.query.send(l.conn) }

func (c commands) send(conn redis.Conn) error {
	for _, one := range c {
		if err := conn.Send(one[0].(string), one[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// receiveQuery reads the replies to a query. An error reply is one of them.
func (l *link) receiveQuery(it item) error {
	replies := make([]any, len(it.claim.query))
	patience := l.patience(it)
	for i := range replies {
		reply, err := redisconn.ReceiveWithin(l.conn, patience)
		if err != nil && !redisconn.IsReply(err) {
			return redisconn.Ended(err)
		} else if err != nil {
			reply = err
		}
		replies[i] = reply
	}
	l.now = time.Now()
	l.settle(Answer{Outcome: Granted, Replies: replies}, 0)
	return nil
}

// ReadQueries sends queries together on a connection of the caller, and returns the replies to each.
func ReadQueries(conn redis.Conn, queries []*Claim) ([][]any, error) {
	for _, q := range queries {
		if err := q.query.send(conn); err != nil {
			return nil, err
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	all := make([][]any, len(queries))
	for i, q := range queries {
		for range q.query {
			reply, err := conn.Receive()
			if err != nil && !redisconn.IsReply(err) {
				return nil, err
			} else if err != nil {
				reply = redisconn.PrintableError(err)
			}
			all[i] = append(all[i], reply)
		}
	}
	return all, nil
}

// Break deletes a key that holds the token, on a connection of the caller, and wakes the client that has
// queued longest. The outcome is that of a Release.
func Break(conn redis.Conn, key, token string) (Outcome, error) {
	return breakWith(conn, key, Release, token)
}

func breakWith(conn redis.Conn, key string, k Kind, token string) (Outcome, error) {
	n, err := redis.Int64(callAsBreaker(conn, batchScript, batchSHA, key, kinds[k].word, token))
	if err != nil {
		return Failed, err
	}
	a, ok := k.decode(n)
	if !ok {
		return Failed, errOddReply
	}
	return a.Outcome, nil
}

// BreakReaders ends those of the readers of a key, or all if none is given, on a connection of the caller, and wakes
// the client that has queued longest. It returns the readers that it has ended. The outcome is that of a Release.
func BreakReaders(conn redis.Conn, key string, readers []string) (ended []string, o Outcome, err error) {
	reply, err := redis.Values(callAsBreaker(conn, readersScript, readersLua.sha, key, "break", strings.Join(readers, "\n")))
	if err != nil {
		return nil, Failed, err
	} else if len(reply) == 0 {
		return nil, Failed, errOddReply
	}
	n, numberErr := redis.Int64(reply[0], nil)
	ended, err = redis.Strings(reply[1:], nil)
	a, ok := Release.decode(n)
	if numberErr != nil || err != nil || !ok {
		return nil, Failed, errOddReply
	}
	if a.Outcome != Granted {
		return nil, a.Outcome, nil
	}
	_, err = breakWith(conn, key, Wake, breaker) // not Recall, which is for readers
	return ended, Granted, err
}

// breaker is the id of a client that breaks leases. No client has it.
const breaker = "redlock-break"

// callAsBreaker loads a script and calls it for one key. Without a client's id it would wake nobody.
func callAsBreaker(conn redis.Conn, script string, sha any, key string, word, token any) (any, error) {
	if _, err := conn.Do("SCRIPT", "LOAD", script); err != nil {
		return nil, fmt.Errorf("SCRIPT LOAD: %w", redisconn.PrintableError(err))
	}
	reply, err := conn.Do("EVALSHA", sha, 1, key, breaker, word, token)
	return reply, redisconn.PrintableError(err)
}

// memberMost is how long a member of a queue may be: an id, a token and a g, of a reader the first two.
const memberMost = 2*tokenMost + 16

// waitersMost is how many clients of a queue are listed.
const waitersMost = 256

//go:embed queue.lua
var queueScript string

var queueSHA = redis.NewScript(1, queueScript).Hash()

// NewLook returns a query for what a master knows of a lock's key. DecodeLook reads the replies. The
// key and the queue may hold anything, so no more is read of each value than a token's length. The script is
// loaded each time: this costs no round trip, and somebody may have flushed the scripts.
func NewLook(key string) *Claim {
	queue := queueKey + key
	return newQuery(key, commands{
		{"GETRANGE", key, 0, tokenMost},
		{"PTTL", key},
		{"GETRANGE", fenceKey + key, 0, fenceDigits},
		{"TIME"},
		{"ZCARD", queue},
		{"SCRIPT", "LOAD", queueScript},
		{"EVALSHA", queueSHA, 1, queue, waitersMost - 1, memberMost},
		{"EVALSHA", queueSHA, 1, readersKey + key, waitersMost - 1, memberMost},
	})
}

// NewPeek returns a query for who holds a lock, which costs less than NewLook's. DecodePeek reads the replies.
func NewPeek(key string) *Claim {
	return newQuery(key, commands{
		{"GETRANGE", key, 0, tokenMost},
		{"TIME"},
		{"SCRIPT", "LOAD", queueScript},
		{"EVALSHA", queueSHA, 1, readersKey + key, waitersMost - 1, memberMost},
	})
}

// DecodePeek returns what the replies to NewPeek's query mean: a Look with a token and readers.
func DecodePeek(replies []any) (look Look, err error) {
	if len(replies) != 4 {
		return look, errOddReply
	}
	if look.Token, err = decodeToken(replies[0]); look.Token == ReadersMarker {
		look.readers(replies[1], replies[3])
	}
	return look, err
}

// NewCensus returns a query for which of some clients still listen for wake-ups. DecodeCensus reads
// the reply.
func NewCensus(ids []string) *Claim {
	args := []any{"PUBSUB", "NUMSUB"}
	for _, id := range ids {
		args = append(args, wakeChannel+id)
	}
	return newQuery("", commands{args})
}

func newQuery(key string, c commands) *Claim {
	return &Claim{Terms: NewTerms(key, 0), token: "", query: c}
}

// Keys beside a lock's key, which follows. The script has them, too.
const (
	queueKey = "redlock:queue:"
	fenceKey = "redlock:fence:"

	readersKey = "redlock:readers:"
)

// fenceDigits is how many digits a fence has at most.
const fenceDigits = 15

// Forever is the value of Look.Left for a key that does not expire.
const Forever time.Duration = -1

// A Look is what one master knows of a lock's key.
type Look struct {
	Token   string        // what stands there; empty for nothing
	Left    time.Duration // how long the key lives, or Forever; 0 if there is none
	Fence   int64         // the last fence of the name, or 0
	Waiting int           // how many clients are in the queue
	Waiters []Waiter      // the first of them
	Readers []string      // the ids of some of the clients whose readers hold the key
}

// A Waiter is a client in the queue of a name.
type Waiter struct {
	ID  string        // the client's
	For time.Duration // since when it waits
}

// DecodeLook returns what the replies to NewLook's query mean. The error says why the key could not be
// read. What else could not be read is left out.
func DecodeLook(replies []any) (Look, error) {
	var look Look
	if len(replies) != 8 {
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
	look.waiters(replies[3], replies[4], replies[6])
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

// waiters decodes the queue. The score of a client is the server's time in µs, less what the client
// had waited for.
func (look *Look) waiters(clock, count, queue any) {
	now, err := redis.Int64s(clock, nil)
	if err != nil || len(now) != 2 {
		return
	}
	micros := float64(now[0])*1e6 + float64(now[1])
	entries, _ := redis.Strings(queue, nil)
	for i := 0; i+1 < len(entries); i += 2 {
		score, err := strconv.ParseFloat(entries[i+1], 64)
		if err != nil || math.IsInf(score, 0) || math.IsNaN(score) || entries[i] == "woken" || entries[i] == "polling" {
			continue // the script's own members, which stand for no single client
		}
		waited := min(max(micros-score, 0), float64(math.MaxInt64/2/int64(time.Microsecond)))
		id, _, _ := strings.Cut(entries[i], " ") // behind it are the token and how long it may be granted
		look.Waiters = append(look.Waiters, Waiter{id, time.Duration(waited) * time.Microsecond})
	}
	look.Waiting = len(look.Waiters)
	if n, _ := redis.Int(count, nil); n > waitersMost {
		look.Waiting = n
	}
}

// errNoLock says that the key holds other data. No client can acquire the lock then.
var errNoLock = errors.New("the value of the key is not a lock")

// decodeToken returns the token that stands under the key, or empty text if there is none.
func decodeToken(reply any) (string, error) {
	switch r := reply.(type) {
	case []byte:
		if len(r) > tokenMost {
			return "", errNoLock
		}
		return string(r), nil
	case error:
		if strings.HasPrefix(r.Error(), "WRONGTYPE") {
			return "", errNoLock
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
			listening[strings.TrimPrefix(channel, wakeChannel)] = true
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
