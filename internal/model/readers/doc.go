// Package readers explores exhaustively how readers and writers share a lock. It complements package model,
// which explores writers alone: what is said there about time, covers, votes and quarantines holds here, too.
// It consists of tests only, and models the protocol, not the code.
//
//	go test -v ./internal/model/readers                                   a million states
//	go test -v ./internal/model/readers -run Holds -timeout 30m -args -large   several million more
//
// # What is modelled
//
// Each client is a reader or a writer. A writer's vote is a key that holds its token. While readers hold a
// master, its key is a marker that belongs to nobody, and a set contains a member for each reader. A member
// stands until its own expiry, which is the time that the reader asked for, by the server's clock. Afterwards
// it may still be in the set: then it has passed. The marker stands as long as one member does.
//
//   - A read vote is granted where no writer's key stands. If there is no key, the set is emptied first.
//     Otherwise the members that have passed are removed.
//   - A write vote is granted where there is no key.
//   - A reader's renewal counts only where the marker stands and the reader's member has not passed.
//   - A reader's heal, after a successful renewal, is a read vote that does not count.
//   - A reader's release removes its member, and the marker with the last member that stands.
//   - A writer's release deletes its key, or leaves the marker without members for a while: the turn of the
//     readers that wait.
//
// All that makes readers and writers wait for each other is left out: announcements, the turn's length, and the
// queues. A client may be refused at any time, so no property depends on these.
//
// Masters may lose their memory, or return to an earlier one. Clients may die, or sleep without noticing.
//
// Three properties are checked in every state:
//   - apart: while a writer has a lease that is valid, no other client has one.
//   - honestLoss: a renewal does not extend a lease if, before it began, a client held the lock that excludes
//     the lease.
//   - nothingLeft: a client that is idle, and whose commands have all been executed, has no key and no member
//     on any master.
//
// # What it does not cover
//
//   - More than three clients or masters.
//   - Fences.
//   - The sharing of a lease by the goroutines of a process: see package kept.
package readers
