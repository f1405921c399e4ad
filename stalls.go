package redlock

import (
	"sync"
	"time"
)

// A process that runs for a moment now and then, as one that is throttled, may be granted the lock while it does not run.
// The grant ends unused, and nobody has the lock meanwhile. If it then went on with the waiting time that it has, it
// would be granted the lock again at once, before clients that would use it. So a grant that was not used puts the claims
// of the Client behind those of others for some time, which is doubled with each further one. If nobody else waits, that
// costs nothing.

const (
	// stallLeast is for how long one unused grant puts the claims of the Client behind others.
	stallLeast = time.Second
	// stallMost is the longest such time.
	stallMost = 32 * time.Second
)

// stalls are the unused grants of a Client.
type stalls struct {
	mu    sync.Mutex    // guards what follows
	delay time.Duration // that of the last unused grant; 0: there was none
	until time.Time     // until then the claims of the Client are behind others
}

// unused notes a grant that was over when the Client learned of it.
func (s *stalls) unused(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = min(max(2*s.delay, stallLeast), stallMost)
	s.until = now.Add(s.delay)
}

// used notes a grant that became a lease. It counts if it came when the claims of the Client were no longer behind others.
func (s *stalls) used(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.delay > 0 && !now.Before(s.until) {
		if s.delay /= 2; s.delay < stallLeast {
			s.delay = 0
		}
	}
}

// waited returns the waiting time of a claim that is registered now, instead of waited. It is negative while the claims of
// the Client are behind others.
func (s *stalls) waited(now time.Time, waited time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.delay == 0 {
		return waited
	}
	return min(waited, now.Sub(s.until)).Truncate(time.Millisecond)
}
