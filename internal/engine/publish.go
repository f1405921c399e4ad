package engine

import "github.com/redlock-go/redlock/internal/quorum"

// A publishing says of which masters the holder of a tenure is sure, when it sends a value to those who wait: those where its token was set before
// the holder had the lock, and was not set again.
//
// A value must be that of a function that began after the call that takes it. No clock is needed for that. The holder has token R. A client B
// waits with claim C, which it has registered at a master after its call.
//
//  1. The script at the master sends the value only while the key holds R, and only to claims in the queue. So C was registered before that.
//  2. The answer to the registration says what the key held. If that was not R, R was set there later.
//  3. If the holder is sure of that master, R was set there before the holder had the lock, and so before the function began.
//
// So the call of B came before the registration, that before R was set, and that before the function began. One such master is enough to show
// it. A quorum must have sent the same value, so that a minority that lies cannot forge one.
//
// The holder is sure of a master if all of these hold. internal/model/flight strikes out each, and finds a value of a function that began
// before the call; its switches are in brackets.
//
//   - The master had voted when the holder got the lock [votesLate].
//   - All registrations and polls of the claim are answered when the value is sent: one that is executed late may set the key again [ignoresPoll].
//   - No poll has found the claim missing from the queue: then the key was lost, and may have been set again [ignoresNew].
//   - No heal was sent to the master [ignoresHeal].
//   - The connection has lasted since the registration: a command that was lost with it may be executed late, and a master that restarts may
//     have an earlier memory, in which the claim waits [ignoresLink].
//   - The subscription has lasted as well: a poll without one takes the key and leaves the claim in the queue, where it may be granted the key
//     later [ignoresDeaf].
//   - The script sends the value only if the key holds the token, whether the holder is sure or not [publishesBlind].
//
// The rules of a client that waits are at waits.Inbox.Value.
//
// The next client in the queue may miss the value: if the release of the former holder reaches a master after the commands of the new one, the
// new one is granted the lock at that master, and has a quorum with one more, when the value has come from that one alone. It then calls its own function. So
// does a client that was granted the lock while a poll of its claim was on its way, if its function is over before the poll is answered.
type publishing struct {
	voted    uint64        // the masters, as bits, that had voted when the holder got the lock, and were sent no heal since
	settled  func() uint64 // those that set the token no more, see waits.Inbox.Settled; nil: all
	contacts []int         // by master: the contact that must have lasted until the value is sent
}

// newPublishing returns how the tenure of a wait that has won by these votes may send a value.
func newPublishing(contacts []int, votes []quorum.Vote, settled func() uint64) *publishing {
	p := &publishing{settled: settled, contacts: contacts}
	for i, v := range votes {
		if v.Granted() {
			p.voted |= 1 << i
		}
	}
	return p
}

// Publish sends a value to those who wait in a flight for the lock of s. The lease must be one of LockFor.
func (s *Lease) Publish(value []byte) { s.tenure.publish.send(s.tenure, value) }

// send sends a value to those who wait for the lock of the tenure, ahead of the release.
func (p *publishing) send(t *tenure, value []byte) {
	if p == nil {
		return
	}
	sure := ^uint64(0)
	if p.settled != nil {
		sure = p.settled()
	}
	now := t.core.clock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || t.validity.Over(now) {
		return
	}
	for i, m := range t.core.masters {
		m.Publish(value, (sure&p.voted)>>i&1 == 1, p.contacts[i], t.claim)
	}
}
