package notices

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/redlock-go/redlock/internal/master"
)

const (
	msgLost       = "redlock: leases were lost"
	msgUnreleased = "redlock: releases were not answered by a quorum of masters: locks stay taken until they are, or for their TTL"
	msgLimits     = "redlock: clients use different limits for semaphores: the largest counts, so give every client the same"
	msgMaxTTL     = "redlock: another client has declared a larger MaxTTL, so quarantines last longer: give every client the same"
	msgRaising    = "redlock: this Client raises the MaxTTL of the masters: from now on all locks have to wait for it, and 2s, when a majority of the masters restarts"
)

// gatherLosses is how long the goroutine waits for further losses with the same cause.
const gatherLosses = 50 * time.Millisecond

// limitsFor is for how long the other limit of a semaphore is not written again.
const limitsFor = 24 * time.Hour

// raiseWithin is how long Raising waits for the Logger.
const raiseWithin = 250 * time.Millisecond

// Lost notes a lost lease of the lock of this name.
func (n *Notices) Lost(name string, why Cause) {
	n.note(&event{Cause: why, msg: msgLost, names: []string{name}, gather: gatherLosses})
}

// Unreleased notes a release of the lock of this name that has failed, and that no caller waits for.
func (n *Notices) Unreleased(name string, why Cause) {
	n.note(&event{Cause: why, msg: msgUnreleased, names: []string{name}, gather: gatherLosses})
}

// OtherLimit notes that another limit than this Client's is in use for the semaphore of this name. It is written once.
func (n *Notices) OtherLimit(name string, own, other int) {
	if n.limits.Add(fmt.Sprint(own, " ", name)) {
		n.note(&event{Cause: Cause{Kind: fmt.Sprint(own, other)}, msg: msgLimits, names: []string{name}, attrs: []any{"limit", own, "other", other}})
	}
}

// noteMaxTTL notes that another client has declared a larger MaxTTL, once for each larger value.
func (n *Notices) noteMaxTTL(status []master.Status) {
	before := n.maxTTL
	for _, s := range status {
		n.maxTTL = max(n.maxTTL, s.MaxTTL)
	}
	if n.maxTTL > before {
		n.note(&event{Cause: Cause{Kind: n.maxTTL.String()}, msg: msgMaxTTL, attrs: attrsOfTTL(before, n.maxTTL, before)})
	}
}

// Raising is called before this Client raises a master's MaxTTL. It returns when that is written, or when the Logger takes
// too long: a Logger that blocks must not keep the Client from connecting. If no client has declared a MaxTTL there, the
// default is expected, and not written.
func (n *Notices) Raising(before, now time.Duration) {
	if before == 0 && now <= n.defaultTTL {
		return
	}
	n.raise.Do(func() {
		n.note(&event{msg: msgRaising, attrs: attrsOfTTL(before, now, cmp.Or(before, n.defaultTTL)), written: n.raised})
	})
	select {
	case <-n.raised:
	case <-time.After(raiseWithin):
	}
}

// attrsOfTTL returns what is said of a MaxTTL that becomes longer.
func attrsOfTTL(before, now, usual time.Duration) []any {
	return []any{"before", before.String(), "now", now.String(),
		"hint", "to lower it, stop all clients, and then: redlock doctor --adopt --max-ttl " + usual.String()}
}

// note notes what has happened to a lock, or to all.
func (n *Notices) note(e *event) {
	e.began, e.level, e.of = time.Now(), slog.LevelWarn, ofLocks
	n.mu.Lock()
	defer n.mu.Unlock()
	if lines := join(n.noted, e); len(lines) > len(n.noted) {
		n.noted = lines
		n.wakeWriter()
	}
}
