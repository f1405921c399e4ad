// Package names explores exhaustively how a lock of several names acquires them one by one, and then puts them under
// one token. It complements package model, which explores one name: what is said there about time, votes and
// quarantines holds here, too. It consists of tests only, and models the protocol, not the code.
//
//	go test -v ./internal/model/names                                   some hundred thousand states
//	go test -v ./internal/model/names -run Holds -timeout 30m -args -large   several million more
//
// # What is modelled
//
// There are two names. A client wants both of them or one. A client that wants both acquires the first name, and then
// the second one, each with a token and a quorum of its own. All clients have the same order. Then the lease of the
// first name ends, the second one never begins, and the client merges the names: it asks all masters for all
// names with one new token.
//
//   - A master grants the merger if each key is free or holds a token of the client, and sets all keys to the new token.
//     A quorum of these votes is a lease, and no lease of a single name matters for it.
//   - A merger that fails is repeated, or released together with the tokens of the single names.
//   - After a merger that succeeds, the single names are undone at the masters that have not granted it.
//
// A client that polls asks for all names at once, without acquiring one before.
//
// The commands of a client to a master form a queue. At any time, the oldest command is executed by the master or lost.
// A command that only deletes is lost only if its client dies. Keys expire at any moment unless an undecided
// round or a lease rests on them. A client may give up at any time. The lease of the first name may end
// without its client noticing, while the client waits for the second one. Masters may lose their memory. Clients may die.
//
// These properties are checked:
//   - oneHolder: at most one client has a valid lease of a name. The lease of the first name is one, too.
//   - nothingLeft: when all commands of a client have been executed, an idle client has no key, and one that
//     holds the lock has no key with the token of a single name.
//   - notLockedOut: from each state in which a client waits, a state can be reached in which that client has the
//     lock. It is checked in worlds in which nobody gives up, no key expires, and nothing is lost: a merger that is
//     given up, or a key that expires, would end what might be a deadlock.
//
// # What is abstracted
//
// Single names are acquired by SETs that are repeated, without queues and grants. Leases are not renewed: their
// validity lasts as long as it needs to. In some worlds the first name is healed.
//
// In the worlds of every run each client acquires its names once, and a command is sent only when all earlier ones to the
// same master have been executed or lost. Some of the larger worlds relax these bounds. In all worlds an attempt for a single
// name is repeated only when none of the client's commands is under way.
//
// # What the model does not cover
//
//   - More than two names, three clients or three masters.
//   - Fences.
//   - The gates of the names, behind which the goroutines of a process queue.
//   - When a set that polls begins to acquire its names one by one.
package names
