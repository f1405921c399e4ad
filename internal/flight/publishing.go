package flight

// A Publishing says of which masters the holder of a tenure is sure, when it sends a value to those who wait: those where its token was set before
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
// The rules of a client that waits are at waits.Waits.Value.
//
// The next client in the queue may miss the value: if the release of the former holder reaches a master after the commands of the new one, the
// new one is granted the lock at that master, and has a quorum with one more, when the value has come from that one alone. It then calls its own function. So
// does a client that was granted the lock while a poll of its claim was on its way, if its function is over before the poll is answered.
type Publishing struct {
	voted    uint64        // the masters, as bits, that had voted when the holder got the lock, and were sent no heal since
	settled  func() uint64 // those that set the token no more; nil: all
	contacts []int         // by master: the contact that must have lasted until the value is sent
}

// NewPublishing returns the Publishing of a holder for which the masters in voted, as bits, have voted. settled returns those that set the token no
// more: see waits.Claim.Settled; nil: all are such. contacts are the contacts of the masters before the first command: see master.Contact.
func NewPublishing(contacts []int, voted uint64, settled func() uint64) *Publishing {
	return &Publishing{voted, settled, contacts}
}

// Healed says that the token is set anew at masters, as bits. The caller has the mutex that To needs. It does nothing for a nil Publishing.
func (p *Publishing) Healed(masters uint64) {
	if p != nil {
		p.voted &^= masters
	}
}

// Settled returns the masters, as bits, that set the token no more, for To.
func (p *Publishing) Settled() (masters uint64) {
	if p.settled == nil {
		return ^uint64(0)
	}
	return p.settled()
}

// To reports whether the holder is sure of master i, and returns the contact that must have lasted. Calls of To and Healed need a mutex.
func (p *Publishing) To(i int, settled uint64) (sure bool, contact int) {
	return (settled&p.voted)>>i&1 == 1, p.contacts[i]
}
