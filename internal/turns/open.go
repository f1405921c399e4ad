package turns

import (
	"math/rand/v2"
	"time"
)

// Some releases leave the lock open: otherwise, clients that do not queue would never find it free while others
// queue. An open release costs the next holder a round trip. It is one release in openOneIn. Where both that
// round trip and the hold are short, it is one in openOneInShort, since the lock is then free for a short time
// only. In a crowd it is one in openOneInCrowd: a client's fair share is smaller there, and the round trips of all would cost more than
// they give.
const (
	openOneIn      = 8
	openOneInCrowd = 16
	openOneInShort = 2                     // divides openOneIn
	openTrip       = time.Millisecond      // the longest short round trip
	openHold       = 10 * time.Millisecond // the longest short hold
)

// DrawOpen draws at random whether a release leaves the lock open, after it was held for a time. crowded says that several clients
// wait for it. distance returns the round trip. DrawOpen calls it only if that decides, because the distance has to be computed.
func DrawOpen(crowded bool, held time.Duration, distance func() time.Duration) bool {
	if crowded {
		return rand.N(openOneInCrowd) == 0
	}
	switch n := rand.N(openOneIn); {
	case n == 0:
		return true
	case n >= openOneIn/openOneInShort:
		return false
	}
	return held <= openHold && distance() <= openTrip
}
