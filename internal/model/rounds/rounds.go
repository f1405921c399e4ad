// Package rounds is what the models say of time, in which it has no numbers: a key stays, and a quarantine lasts, until rounds of commands have
// ended. The tests of the models use it.
package rounds

// A Set is a set of rounds. It contains each client's lease, which means the round that the lease rests on, and each client's undecided round.
type Set uint8

// Lease returns the round that the lease of client c rests on.
func Lease(c int) Set { return 1 << (2 * c) }

// Undecided returns the undecided round of client c.
func Undecided(c int) Set { return 2 << (2 * c) }

// Rest has the lease of client c rest on its undecided round.
func (s Set) Rest(c int) Set { return s&^(Lease(c)|Undecided(c)) | s&Undecided(c)>>1 }

// Swapped exchanges the first two clients.
func (s Set) Swapped() Set { return s>>2&3 | s&3<<2 }

// An Owner is the client whose token a key holds. Tokens need no numbers. The commands of a client are executed in order, and each SET is
// followed by its release. So if the release does not delete a key of the client, that key cannot be there at its next SET. Only a client that
// dies leaves a key, and that key then belongs to no client.
type Owner uint8

const (
	Free   Owner = 0  // there is no key
	Orphan Owner = 15 // a client that has died
)

// Client returns client c as an owner.
func Client(c int) Owner { return Owner(c + 1) }

// A Cover is the condition under which a key must stay. A master deletes a key when its TTL has run out. That is after the end of validity of
// the round that set or extended the key last, because validity is counted from before that round was sent, and is shorter by the drift.
type Cover uint8

const (
	Loose   Cover = iota // that round has ended or has been replaced: the key may go at any moment
	ByLease              // stays until the lease ends or a later round replaces that round
	ByRound              // stays until the undecided round ends
)

// A Key is the key of a lock at one master. The zero value: there is none.
type Key struct {
	Owner Owner // whose it is
	Cover Cover // until when it must stay
}

// Is reports whether the key is that of client c.
func (k *Key) Is(c int) bool { return k.Owner == Client(c) }

// End says that rounds of client c have ended by which a key is covered at most so far: a lease, or with ByRound an undecided round, too.
func (k *Key) End(c int, upTo Cover) {
	if k.Is(c) && k.Cover <= upTo {
		k.Cover = Loose
	}
}

// Rest says that the lease of client c rests on its undecided round. From now on nothing protects the keys of the round before: its validity may
// end at any moment.
func (k *Key) Rest(c int) {
	if k.Is(c) && k.Cover > Loose {
		k.Cover--
	}
}

// GiveUp says that client c has given up its undecided round. Keys that this round extended live longer than the lease, which it did not extend.
func (k *Key) GiveUp(c int) {
	if k.Is(c) {
		k.Cover = min(k.Cover, ByLease)
	}
}

// Swapped exchanges the first two clients.
func (k Key) Swapped() Key {
	if k.Is(0) || k.Is(1) {
		k.Owner = 3 - k.Owner
	}
	return k
}
