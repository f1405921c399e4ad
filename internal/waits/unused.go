package waits

import (
	"sync"
	"time"
)

// A process that runs for a moment now and then, as one that is throttled, may be granted the lock while it does not run.
// The grant ends unused, and nobody has the lock meanwhile. If it then went on with the waiting time that it has, it
// would be granted the lock again at once, before clients that would use it. So a grant that was not used puts the claims
// of the Client behind those of others for some time, which is doubled if it happens again soon. A stop may
// leave a grant of each name unused for which the Client waits: these count once. If nobody else waits, all that costs
// nothing.

const (
	// behindLeast is for how long one unused grant puts the claims of the Client behind others.
	behindLeast = time.Second
	// behindMost is the longest such time. Beside others, a Client that is stopped again and again waits for as long in addition.
	behindMost = 8 * time.Second
)

// Unused are the grants of a Client that came too late.
type Unused struct {
	mu    sync.Mutex    // guards what follows
	delay time.Duration // that of the last stop; 0: there was none
	until time.Time     // until then the claims of the Client are behind others; zero: there was no stop
	noted time.Time     // when the last stop was noted; zero: never
}

// Note notes a grant that was over when the Client learned of it, to a claim that was registered at a time. If a stop was noted after that
// time, the grant belongs to that stop.
func (u *Unused) Note(now, registered time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !registered.After(u.noted) {
		return
	}
	if now.Sub(u.until) > u.delay { // the Client has run for as long as it was behind
		u.delay = 0
	}
	u.delay = min(max(2*u.delay, behindLeast), behindMost)
	u.until, u.noted = now.Add(u.delay), now
}

// Waited returns the waiting time of a claim that is registered now, instead of waited. It is negative while the claims of
// the Client are behind others.
func (u *Unused) Waited(now time.Time, waited time.Duration) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return min(waited, now.Sub(u.until)).Truncate(time.Millisecond)
}
