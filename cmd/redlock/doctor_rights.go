package main

import (
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/incarnation"
)

// A need is what a client uses a command for.
type need int

const (
	forLocks need = iota
	forGuard
	forFences
	forQueues
	forReconnects
	forRestarts
	forDatabases
	forLooking
	forBatches
	forScripts
	forReaders
	forSemaphores
)

// without says what a client does without the commands of a need.
var without = [...]string{
	forLocks:      "so no lock can be acquired, renewed or released here",
	forGuard:      "so its votes count only with DisableRestartGuard",
	forFences:     "so it grants no lock with a fence",
	forQueues:     "so a release grants no waiting client the lock",
	forReconnects: "so a delayed command of a lost connection can leave a key for one TTL",
	forRestarts:   "so replicas are not detected, and restarts only by the loss of its record",
	forDatabases:  "so swapped databases are not detected",
	forLooking:    "so errors, logs and Inspect do not say who holds or waits",
	forBatches:    "so it needs more time to release several locks at once",
	forScripts:    "so each connection is sent the scripts, up to 134 KB, although it has them",
	forReaders:    "so it grants no read lock of an RWLocker",
	forSemaphores: "so it gives no permit of a Semaphore",
}

// votes reports whether a master may vote without the commands of the need.
func (n need) votes() bool { return n != forLocks && n != forGuard }

// A try is a command that clients send, with arguments that do no harm. Redis checks the
// rights before it looks at the arguments, so a try may fail, as long as the rights suffice.
type try struct {
	need need
	args []any
}

// trialLife is how long the keys live that the doctor writes, in ms, should it not be able to
// delete them.
const trialLife = 10_000

// What the name of a trial's lock, and its channel, begin with.
const (
	trialName    = "redlock-doctor-"
	trialChannel = "redlock:wake:doctor-"
)

// tries returns a try of every command that a client sends, for locks under a prefix. The
// last ones change the state of the connection. listening are those for a connection of their
// own.
func tries(prefix string) (tries, listening []try) {
	id := rand.Text()
	key, channel := prefix+trialName+id, trialChannel+id
	tries = slices.Concat(triesOfLocks(key, id), triesOfQueues(key, id, channel), triesOfConnections(key), triesOfReaders(key, id), triesOfSemaphores(key, id), []try{
		{forGuard, []any{"MULTI"}},
		{forGuard, []any{"EXEC"}},
	})
	return tries, []try{
		{forQueues, []any{"SUBSCRIBE", channel}},
		{forQueues, []any{"UNSUBSCRIBE", channel}},
	}
}

// trialScript is a script that does nothing.
const trialScript = "return 1"

func triesOfLocks(key, id string) []try {
	fence := "redlock:fence:" + key
	return []try{
		{forLocks, []any{"PING"}},
		{forLocks, []any{"SET", key, id, "NX", "PX", trialLife}},
		{forLocks, []any{"GET", key}},
		{forLocks, []any{"PTTL", key}},
		{forLocks, []any{"PEXPIRE", key, trialLife}},
		{forLocks, []any{"SCRIPT", "LOAD", trialScript}},
		{forLocks, []any{"EVALSHA", redis.NewScript(1, trialScript).Hash(), 1, key}},
		{forLocks, []any{"DEL", key}},
		{forGuard, []any{"GET", incarnation.Key}},
		{forGuard, []any{"PTTL", incarnation.Key}},
		{forGuard, []any{"SET", incarnation.Key, "x", "PX", 0}},  // fails: no valid expiry
		{forGuard, []any{"PEXPIREAT", incarnation.Key, "never"}}, // fails: no integer
		{forGuard, []any{"TIME"}},
		{forFences, []any{"SET", fence, 1, "PX", trialLife}},
		{forFences, []any{"GET", fence}},
		{forFences, []any{"DEL", fence}},
		{forFences, []any{"GET", "redlock:fence:redlock:slots:" + key}},
	}
}

func triesOfQueues(key, id, channel string) []try {
	queue, waiter := "redlock:queue:"+key, "redlock:waiter:doctor-"+id
	return []try{
		{forQueues, []any{"ZADD", queue, "NX", 1, id}},
		{forQueues, []any{"PEXPIRE", queue, trialLife}},
		{forQueues, []any{"EXISTS", queue}},
		{forQueues, []any{"ZREM", queue, id}},
		{forQueues, []any{"ZRANGE", queue, 0, 0}},
		{forQueues, []any{"ZRANK", queue, id}},
		{forQueues, []any{"ZSCORE", queue, id}},
		{forQueues, []any{"PUBSUB", "NUMSUB", channel}},
		{forQueues, []any{"PUBLISH", channel, "x"}},
		{forQueues, []any{"SET", waiter, "x", "PX", 0}}, // fails: no valid expiry
		{forQueues, []any{"MGET", waiter}},
		{forLooking, []any{"GETRANGE", key, 0, 0}},
		{forLooking, []any{"ZCARD", queue}},
		{forLooking, []any{"ZRANGE", queue, 0, 0, "WITHSCORES"}},
	}
}

func triesOfConnections(key string) []try {
	return []try{
		{forReconnects, []any{"CLIENT", "ID"}},
		{forReconnects, []any{"CLIENT", "KILL", "ID", int64(math.MaxInt64)}}, // no client has this id
		{forRestarts, []any{"INFO", "server"}},
		{forDatabases, []any{"CLIENT", "INFO"}},
		{forBatches, []any{"MGET", key}},
		{forScripts, []any{"SCRIPT", "EXISTS", redis.NewScript(1, trialScript).Hash()}},
	}
}

func triesOfReaders(key, id string) []try {
	readers, readersQueue, intent := "redlock:readers:"+key, "redlock:rqueue:"+key, "redlock:intent:"+key
	return []try{
		{forReaders, []any{"ZADD", readers, 1, id}},
		{forReaders, []any{"PEXPIRE", readers, trialLife}},
		{forReaders, []any{"ZSCORE", readers, id}},
		{forReaders, []any{"ZREVRANGE", readers, 0, 0, "WITHSCORES"}},
		{forReaders, []any{"ZRANGEBYSCORE", readers, 0, 0}},
		{forReaders, []any{"ZRANDMEMBER", readers, 1}},
		{forReaders, []any{"ZREMRANGEBYSCORE", readers, 0, 0}},
		{forReaders, []any{"DEL", readers}},
		{forReaders, []any{"ZREM", readersQueue, id}},
		{forReaders, []any{"MGET", intent}},
	}
}

func triesOfSemaphores(key, id string) []try {
	slots, until, taken, permits := "redlock:slots:"+key, "redlock:until:"+key, "redlock:taken:"+key, "redlock:permits:"+key
	return []try{
		{forSemaphores, []any{"HSET", slots, "0", id}},
		{forSemaphores, []any{"HGET", slots, "0"}},
		{forSemaphores, []any{"HDEL", slots, "0"}},
		{forSemaphores, []any{"ZADD", until, 1, "0"}},
		{forSemaphores, []any{"DEL", until}},
		{forSemaphores, []any{"SETBIT", taken, 0, 0}},
		{forSemaphores, []any{"BITPOS", taken, 0}},
		{forSemaphores, []any{"DEL", taken}},
		{forSemaphores, []any{"ZREM", permits, id}},
	}
}

// A lack is what a server refuses to do.
type lack struct {
	need need
	what string // a command, and the key or channel if that is why
	err  error  // why it fails although it is allowed; nil if it is forbidden
}

// tryAll sends the tries in one flush and returns what the server refuses. It deletes the keys
// that they have written. An error means that the connection is lost.
func tryAll(conn redis.Conn, tries []try) ([]lack, error) {
	for _, t := range tries {
		if err := conn.Send(t.args[0].(string), t.args[1:]...); err != nil {
			return nil, err
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	var lacks []lack
	for _, t := range tries {
		_, err := conn.Receive()
		if err != nil && conn.Err() != nil {
			return nil, err
		}
		switch {
		case err == nil:
		case forbidden(err):
			lacks = append(lacks, lack{t.need, t.name(err), nil})
		case t.need == forLocks && t.args[0] == "SET":
			lacks = append(lacks, lack{t.need, "SET", err}) // the server refuses to write
		}
	}
	return lacks, nil
}

// forbidden reports whether a server refuses a command to this user, or to everybody.
func forbidden(err error) bool {
	text := strings.ToLower(err.Error())
	// EXEC answers by EXECABORT, and repeats the reason.
	return strings.Contains(text, "noperm") || strings.Contains(text, "unknown command") || strings.Contains(text, "unknown subcommand")
}

// name returns the command as ACL rules name it, and the pattern that is missing if err
// says that the command would be allowed for other keys or channels.
func (t try) name(err error) string {
	name := t.command()
	text := err.Error()
	if !strings.HasPrefix(text, "NOPERM") || !strings.Contains(text, " key") && !strings.Contains(text, "channel") {
		return strings.ToUpper(name)
	}
	for _, arg := range t.args[1:] {
		of, ok := arg.(string)
		if before, _, cut := strings.Cut(of, trialName); ok && cut {
			return strings.ToUpper(name) + " " + before + "*"
		} else if ok && strings.HasPrefix(of, "redlock:") {
			before, _, _ := strings.Cut(of, "doctor-")
			return strings.ToUpper(name) + " " + before + map[bool]string{true: "*"}[before != of]
		}
	}
	return strings.ToUpper(name)
}

// command returns the command as ACL rules name it, such as set or client|id.
func (t try) command() string {
	name := strings.ToLower(t.args[0].(string))
	switch name {
	case "client", "script", "pubsub":
		name += "|" + strings.ToLower(t.args[1].(string))
	}
	return name
}

// describe returns one sentence for each need that is not met.
func describe(lacks []lack) []string {
	var lines []string
	for n := range need(len(without)) {
		var names []string
		for _, l := range lacks {
			switch {
			case l.need != n:
			case l.err != nil:
				line := fmt.Sprintf("refuses %s (%v), %s", l.what, plain(l.err), without[n])
				if _, advice := explain(l.err); advice != "" {
					line += ": " + advice
				}
				lines = append(lines, line)
			case !slices.Contains(names, l.what):
				names = append(names, l.what)
			}
		}
		if len(names) > 0 {
			lines = append(lines, fmt.Sprintf("does not allow %s, %s", strings.Join(names, ", "), without[n]))
		}
	}
	return lines
}

// aclLine returns the command that gives a user the least rights that a client needs for
// locks under a prefix; with a database other than 0 if selects is set, and with what
// `redlock doctor --adopt` needs if adopts is set.
func aclLine(prefix string, selects, adopts bool) string {
	regular, listening := tries(prefix)
	var names []string
	for _, t := range append(regular, listening...) {
		names = append(names, t.command())
	}
	if adopts {
		names = append(names, "scan", "pubsub|channels")
	}
	keys := globEscape(prefix) + "*"
	return aclRule("redlock", keys, selects, names, incarnation.Key, "redlock:queue:"+keys, "redlock:waiter:*", "redlock:fence:"+keys,
		"redlock:readers:"+keys, "redlock:rqueue:"+keys, "redlock:intent:"+keys,
		"redlock:slots:"+keys, "redlock:until:"+keys, "redlock:taken:"+keys, "redlock:permits:"+keys, "redlock:fence:redlock:slots:"+keys)
}

// statusLine returns the command that gives a user the least rights that `redlock status` needs.
func statusLine(prefix string, selects bool) string {
	names := []string{"evalsha", "getrange", "hget", "pttl", "pubsub|numsub", "scan", "script|load", "time", "zcard", "zrange", "zscore"}
	keys := globEscape(prefix) + "*"
	return aclRule("redlock-status", keys, selects, names, "redlock:queue:"+keys, "redlock:rqueue:"+keys, "redlock:fence:"+keys, "redlock:readers:"+keys,
		"redlock:slots:"+keys, "redlock:until:"+keys, "redlock:taken:"+keys, "redlock:permits:"+keys)
}

// aclRule returns the command that allows a user some commands, with the keys of locks and those beside them.
func aclRule(user, keys string, selects bool, commands []string, beside ...string) string {
	rule := "ACL SETUSER " + user + " reset on >PASSWORD ~" + keys
	if keys != "*" { // which includes the others
		rule += " ~" + strings.Join(beside, " ~")
	}
	rule += " &redlock:wake:*"
	if selects {
		commands = append(commands, "select")
	}
	slices.Sort(commands)
	return rule + " +" + strings.Join(slices.Compact(commands), " +")
}

// globEscape returns a pattern that matches text. Redis takes no blanks in a pattern, and
// redis-cli treats quotes in a way of its own: a ? stands for one such byte.
func globEscape(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case c <= ' ' || c == 0x7f || c == '"' || c == '\'':
			b.WriteByte('?')
		case strings.IndexByte(`*?[]\`, c) >= 0:
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// pings is how often the round trip is measured.
const pings = 5

// roundTrip returns the median of some round trips. It is measured from the second on: the
// first may wait for the server's memory, or for ours.
func roundTrip(conn redis.Conn) (time.Duration, error) {
	var times []time.Duration
	for i := range pings + 1 {
		start := time.Now()
		if _, err := conn.Do("PING"); err != nil && conn.Err() != nil {
			return 0, err
		}
		if i > 0 {
			times = append(times, time.Since(start))
		}
	}
	slices.Sort(times)
	return times[pings/2], nil
}
