package wire

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/redisconn"
)

// An Outcome is what a master did about a command.
type Outcome uint8

const (
	Failed     Outcome = iota // nothing is known about the key; Answer.Err says why
	Granted                   // the command was carried out
	PassedOn                  // the command was carried out, and the lock was passed on to a waiting client
	Taken                     // an acquisition found another token under the key
	Missing                   // there is no such key
	OtherToken                // the key holds another token, or is no lock
	Overtaken                 // a Commit found a higher fence
)

// String returns the outcome's name.
func (o Outcome) String() string {
	return [...]string{"failed", "granted", "passed on", "taken", "missing", "other token", "overtaken"}[o]
}

// Unknown is the value of Answer.Left if the master does not report a time to live.
const Unknown time.Duration = -1

// An Answer is what a master replied to one command.
type Answer struct {
	Outcome  Outcome       // what the master did
	Which    uint8         // with Taken, for several names: the number of a name that is in the way, from 1 on
	Left     time.Duration // with Taken: how long the key lives if nobody renews it, or Unknown
	Odd      bool          // with Taken: the key may be no lock, since its value is long or, as a claim that is near is told, it does not expire
	Readers  bool          // with Taken: the master has told that readers hold the lock, and nobody else is in the way
	Fence    int64         // the key's fence, if the command asks for it
	Recalled bool          // with Granted: to a reader, a writer waits for the readers to leave; to Renew, somebody waits for the lock: see RenewingAsked

	// To an acquisition by a claim with a g:
	Standing string        // with Taken: what the key holds: the whole token, if it is ours; on slots: see Rivals
	Holds    time.Duration // with Granted: how long the key lives for the claim, or 0 if it was set just now
	New      bool          // the claim was not in the queue before
	Ahead    int           // with Taken: how many are ahead of it in the queue
	Slots    Slots         // with Granted, on slots: all in which the token stands, in ascending order; to a Commit, those of these that it names

	OtherLimit int // to the Register of a claim on slots: another limit that was in use last; 0: none

	Err     error // with Failed: the reason
	Replies []any // to a Query
}

// Done reports whether the master carried the command out.
func (a Answer) Done() bool { return a.Outcome == Granted || a.Outcome == PassedOn }

// leftMost bounds Answer.Left. The keys of this library live for a week at most.
const leftMost = 10 * 365 * 24 * time.Hour

// taken returns the answer to an acquisition that found another token. The key lives for another ms
// milliseconds. A number out of range is unknown.
func taken(ms int64) Answer {
	if ms < 0 || ms > leftMost.Milliseconds() {
		return Answer{Outcome: Taken, Left: Unknown}
	}
	return Answer{Outcome: Taken, Left: time.Duration(ms) * time.Millisecond}
}

// holds returns the answer to an acquisition by a claim with a g that was granted, and reports false for a number out of range. n is 1 if
// the key was set just now, otherwise 2 more than the milliseconds for which the key lives.
func holds(n int64) (a Answer, ok bool) {
	if n == 1 {
		return Answer{Outcome: Granted}, true
	}
	return Answer{Outcome: Granted, Holds: max(time.Duration(n-2)*time.Millisecond, 1)}, n-2 <= leftMost.Milliseconds()
}

// scan stores the elements of a list, each an *int64 or a *[]byte. It reports false if the reply is no list of these types.
func scan(reply any, elements ...any) (ok bool) {
	list, _ := reply.([]any)
	if len(list) != len(elements) {
		return false
	}
	for i, e := range elements {
		switch e := e.(type) {
		case *int64:
			*e, ok = list[i].(int64)
		case *[]byte:
			*e, ok = list[i].([]byte)
		}
		if !ok {
			return false
		}
	}
	return true
}

// Decode decodes the reply to a command, or to one member of a batch. It reports false for a reply of the
// wrong shape: the replies on that connection may be out of step with the commands.
func Decode(cmd *Command, reply any) (a Answer, ok bool) {
	if cmd.OfSet() {
		return decodeSet(cmd, reply)
	} else if cmd.Scripted() {
		return decodeScripted(cmd, reply)
	}
	switch k := cmd.Kind; {
	case k == Load: // the commands that need the script report whether it was loaded
		return Answer{}, true
	case k == Ping && reply == "PONG", k.Sets() && reply == "OK":
		return Answer{Outcome: Granted}, true
	case k == Publish, k == Forget:
		_, ok = reply.(int64)
		return Answer{Outcome: Granted}, ok
	case k.Sets() && reply == nil:
		return taken(-1), true
	}
	return Answer{}, false
}

// decodeScripted decodes the script's reply for one key, and reports false as Decode does. The reply is an error,
// a number, or, if the command asks for a fence, a pair of numbers.
func decodeScripted(cmd *Command, reply any) (a Answer, ok bool) {
	if err, isError := reply.(redis.Error); isError {
		return Answer{Err: redisconn.PrintableError(err)}, true
	}
	if cmd.Kind.Acquires() && cmd.Claim.slots != nil {
		return decodeSlots(reply)
	} else if cmd.Kind == Commit && cmd.Claim.slots != nil {
		return decodeSlotCommit(reply)
	}
	if list, _ := reply.([]any); cmd.Kind.Acquires() && (len(list) == 5 || cmd.Claim.Grantable() && !cmd.Claim.reads) {
		return decodeGrantable(cmd, reply)
	}
	var n, fence int64
	fenced := cmd.Kind.Acquires() && cmd.Claim.fenced()
	if cmd.Kind == Commit || fenced {
		ok = scan(reply, &n, &fence)
	} else {
		n, ok = reply.(int64)
	}
	if !ok || fence < 0 {
		return Answer{}, false
	}
	a, ok = cmd.Kind.decode(n, cmd.Claim.reads)
	a.Fence = fence
	return a, ok && !(fenced && a.Done() && fence == 0 && !cmd.Claim.reads)
}

// standingMost is how many bytes of a token Answer.Standing has at most. Ours are shorter.
const standingMost = tokenMost

// aheadMost bounds Answer.Ahead.
const aheadMost = 1 << 20

// decodeGrantable decodes the reply to an acquisition of a claim with a g, or of one that readers have refused.
func decodeGrantable(cmd *Command, reply any) (a Answer, ok bool) {
	if reply == int64(1) {
		return Answer{Outcome: Granted}, !cmd.Claim.fenced()
	}
	var n, fence, isNew, ahead int64
	var standing []byte
	if !scan(reply, &n, &fence, &standing, &isNew, &ahead) || n == 0 || fence < 0 || len(standing) > standingMost || isNew < 0 || isNew > 1 || ahead < 0 {
		return Answer{}, false
	}
	switch {
	case n < 0:
		a = taken(-2 - n)
		a.Standing = string(standing)
		a.Readers = a.Standing == ReadersMarker
		a.Ahead = int(min(ahead, aheadMost))
		a.Odd = n == -1 && ahead < Near && len(standing) > 0 || len(standing) == standingMost
		if !cmd.Claim.Grantable() && !a.Readers {
			return Answer{}, false
		}
	case !cmd.Claim.Grantable():
		return Answer{}, false
	default:
		if a, ok = holds(n); !ok {
			return Answer{}, false
		}
	}
	a.Fence, a.New = fence, isNew == 1
	if cmd.Claim.reads { // its fence may be that of readers before, or 0
		a.Recalled, a.Readers = a.Done() && ahead == 1, false
		return a, true
	}
	return a, !(cmd.Claim.fenced() && a.Done() && fence == 0)
}

// decode returns the meaning of the script's number for a command of this kind, which may be a reader's: see batch.lua. It
// reports false for a number that the script does not return.
func (k Kind) decode(n int64, reads bool) (a Answer, ok bool) {
	switch {
	case n == 1:
		return Answer{Outcome: Granted}, true
	case n == 2 && (k == Renew || reads && k.Acquires()):
		return Answer{Outcome: Granted, Recalled: true}, true
	case k.Acquires():
		return taken(-2 - n), n < 0
	case k == Heal:
		return taken(-1), n == 0
	case n == 2:
		return Answer{Outcome: PassedOn}, k.Releases()
	case n == 0:
		return Answer{Outcome: Missing}, true
	case n == -1:
		return Answer{Outcome: OtherToken}, true
	case n == -2:
		return Answer{Outcome: Overtaken}, k == Commit
	}
	return Answer{}, false
}
