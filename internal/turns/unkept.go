package turns

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/recent"
)

const (
	// unkeptLeast is for how long a lock is not kept after others have wanted it.
	unkeptLeast = politeFor
	// unkeptMost is the longest such time. It is doubled each time that the lock had been kept in vain.
	unkeptMost = 64 * unkeptLeast
)

// Unkept are the locks that a Client does not keep for a while, by key, since others want them: see LockOptions.Keep. They are safe for
// concurrent use.
type Unkept struct {
	mu    sync.Mutex // guards what follows
	byKey recent.Map[unkept]
}

// An unkept says for how long one lock is not kept.
type unkept struct {
	since time.Time
	pause time.Duration
}

// NewUnkept returns Unkept of a Client that may keep all locks.
func NewUnkept() *Unkept { return &Unkept{byKey: recent.Map[unkept]{Keep: unkeptMost}} }

// Note notes that others want the lock of key. used says whether a goroutine has used the lock while it was kept.
func (n *Unkept) Note(key string, used bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	u, _ := n.byKey.Get(key)
	switch {
	case used:
		u.pause = unkeptLeast
	case now.Sub(u.since) >= u.pause:
		u.pause = min(max(2*u.pause, unkeptLeast), unkeptMost)
	}
	u.since = now
	n.byKey.Put(key, u)
}

// Keeps reports whether a lock that is acquired now may be kept.
func (n *Unkept) Keeps(key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	u, _ := n.byKey.Get(key)
	return time.Since(u.since) >= u.pause
}
