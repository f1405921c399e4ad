package notices

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/reasons"
)

const msgLimits = "redlock: clients use different limits for semaphores: the largest counts, so give every client the same"

// limitsFor is for how long the other limit of a semaphore is not written again.
const limitsFor = 24 * time.Hour

// A difference is one of the limits of some semaphores.
type difference struct {
	own, other int
	names      []string // of the semaphores, reasons.NamesMost at most
	count      int      // how many there are
}

// OtherLimit notes that another limit than this Client's is in use for the semaphore of this name. It is written once.
func (n *Notices) OtherLimit(name string, own, other int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known, ok := n.limits.Get(name); ok && known == own {
		return
	}
	n.limits.Put(name, own)
	at := slices.IndexFunc(n.differences, func(d difference) bool { return d.own == own && d.other == other })
	if at < 0 {
		at = len(n.differences)
		n.differences = append(n.differences, difference{own: own, other: other})
		n.wakeWriter()
	}
	d := &n.differences[at]
	if d.count++; len(d.names) < reasons.NamesMost {
		d.names = append(d.names, name)
	}
}

func (n *Notices) writeLimits() {
	n.mu.Lock()
	all := n.differences
	n.differences = nil
	n.mu.Unlock()
	for _, d := range all {
		n.log.Warn(msgLimits, "names", reasons.Names(d.names, d.count), "limit", d.own, "other", d.other)
	}
}
