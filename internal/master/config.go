package master

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/wire"
)

// Config configures a Master. ID and Sample are optional.
type Config struct {
	Pool        *redis.Pool    // where connections come from
	Index       int            // the master's position in the list, below MaxMasters
	NodeTimeout time.Duration  // how long a healthy master may take to answer
	DialTimeout time.Duration  // bounds connecting, and how late a reply may be
	Servers     *guard.Servers // shared by the Client's masters
	Listener    Listener       // the Client; its masters may share it
	Heart       *Heart         // shared by the Client's masters; nil: the master has one of its own
	// ID identifies the client in queues and to the masters' messages. Empty: the client uses neither.
	ID string
	// Deaf says that this client opens no subscription, so that no master can tell it anything.
	Deaf bool
	// Sample is a key that a lock could have and none has. The user's rights are tried on it, and whether the
	// server accepts writes. Empty: they are not tried.
	Sample string
}

// A Listener is what a Master knows of its Client. It is told what the server says, and answers what the Client waits for. Its methods must not
// block, but for Raising. They may be called from several goroutines at a time, and without any mutex of the Master. The integer is Config.Index.
//
// The methods that return expected take well-formed messages. They report whether this Client may have been sent the message: every
// client that may publish on the channel can name any key.
type Listener interface {
	// Changed is called after each change of the state, and of whether WakeErr, WriteErr or ListErr is nil. The calls are
	// in order, one at a time.
	Changed(master int, now Status)
	// Up is called when the master has come up, ahead of Changed, and when a subscription begins: from then on a claim can be in its queue.
	Up(master int)

	// Freed takes the message that the release of a token has left a key free.
	Freed(master int, key, token string) (expected bool)
	// Granted takes a grant.
	Granted(master int, g Grant) (expected bool)
	// Near takes the message that a claim has become one of the first at a master. released is the claim if it was released; else nil. If the claim
	// is near by now, Near calls PingOften of the masters that say so.
	Near(master int, key, token string) (released *SentClaim, expected bool)
	// Recalled takes a recall: another client wants the lock of key, which this client may keep with this token.
	Recalled(master int, key, token string) (expected bool)
	// Value takes a value.
	Value(master int, v wire.Value) (expected bool)

	// Waiting reports whether a claim of this client is near at a master, so that a grant may come soon. Such a grant counts from
	// since on, at the earliest, and lasts for g at least.
	Waiting(master int) (since time.Time, g time.Duration, near bool)
	// Calm reports whether this client holds no lock, and waits far from the heads of all queues. Then its polls are its
	// heartbeats.
	Calm() bool
	// Patience returns how long it takes at most until a claim that is near is sent again, and how much longer while none is.
	Patience() (near, far time.Duration)

	// Raising is called before this client's MaxTTL replaces a smaller one in the master's record; 0 if there was none. It
	// must not block for long.
	Raising(before, now time.Duration)
	// Redial returns a new schedule of waits between dials.
	Redial() Schedule
}

// A Schedule returns one wait after the other. It need not be safe for concurrent use.
type Schedule interface{ NextBackOff() time.Duration }

// An Asker receives the answers to commands.
type Asker interface {
	// Answered is called once for each command that Ask has let in, by the goroutine that read the reply
	// or found that there will be none. It must not block.
	Answered(master int, a wire.Answer)
}
