package master

import "time"

// A debt is a release that this master has not answered. It is kept for as
// long as that takes: a SET which reached a frozen master takes effect when it
// thaws, with its full TTL, and nobody but us knows that it must go.
type debt struct {
	kind   Kind
	claim  *Claim
	due    time.Time // not to be sent before; zero: at once
	echoes int       // how often it has been repeated
}

// When a connection is lost with SETs on it, and the server cannot be told to
// kill it, they may still be executed after the new connection's releases. Then
// a release of theirs is repeated so long after the first, in case that the SET
// has come since; also one that deleted the key, which another SET of the claim
// may have made.
var echoes = [...]time.Duration{1 * time.Second, 3 * time.Second, 10 * time.Second}

// oweLocked keeps a release that went unanswered, unless its token was never
// sent here.
func (m *Master) oweLocked(it item) {
	if !it.claim.mayStandAt(m.cfg.Index) {
		return
	}
	d := it.debt
	if d == nil {
		d = &debt{kind: it.kind, claim: it.claim}
	}
	m.owed = append(m.owed, d)
}

// settleLocked decides whether a release that was answered is done with.
func (m *Master) settleLocked(it item, a Answer, now time.Time) {
	switch {
	case a.Err != nil:
		if it.debt == nil {
			it.debt = &debt{kind: it.kind, claim: it.claim}
		}
		it.debt.due = now.Add(heartbeat)
		m.oweLocked(it)
	case has(&it.claim.adrift, m.cfg.Index) && now.Before(m.haunted):
		if it.debt == nil {
			it.debt = &debt{kind: it.kind, claim: it.claim}
		}
		if it.debt.echoes < len(echoes) {
			// From the moment of reconnecting on, or from now, whichever is later.
			wait := echoes[it.debt.echoes]
			if it.debt.echoes > 0 {
				wait -= echoes[it.debt.echoes-1]
			}
			it.debt.due = now.Add(wait)
			it.debt.echoes++
			m.oweLocked(it)
		}
	}
}

// payLocked returns the releases that are due at now as items to send.
func (m *Master) payLocked(now time.Time) []item {
	var pay []item
	keep := m.owed[:0]
	for _, d := range m.owed {
		if d.due.After(now) {
			keep = append(keep, d)
		} else {
			pay = append(pay, item{kind: d.kind, claim: d.claim, debt: d})
		}
	}
	clear(m.owed[len(keep):])
	m.owed = keep
	return pay
}
