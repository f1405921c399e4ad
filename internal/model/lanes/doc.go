// Package lanes explores exhaustively how readers and writers share a lock and are granted it. It complements package grant, which
// explores writers alone: what is said there about time, votes, messages, marks and restarts holds here, too. It consists of tests only, and
// models the protocol, not the code.
//
//	go test -v ./internal/model/lanes                                       millions of states
//	go test -v ./internal/model/lanes -run Holds -timeout 30m -args -large  many more
//
// # The protocol
//
// Each client is a reader or a writer. A writer's vote is a key that holds its token. While readers hold a master, its key is a marker
// that belongs to nobody, and a set contains a member for each reader. A member stands until its own expiry. Afterwards it may still be in the
// set: then it has passed. The marker stands as long as one member does.
//
// Clients that wait have a claim in one of two queues, here called lanes: that of writers, and that of readers.
//
//	register  A writer sets a free key, and a reader stands where the key is free or holds the marker, unless others wait that run.
//	          Otherwise both join their lane. The registration of a writer recalls the readers that stand.
//	poll      The same, repeated. If the key is free, it is passed on.
//	asks      A poll of a reader that has votes at other masters: beside readers, it stands although a writer waits.
//	release   Delete the key, or the member, and leave the lane. What leaves the key free passes it on: behind a writer, all readers
//	          that wait are granted it; behind the last reader, the first writer is.
//	commit    The second round for the fence: raise the fence, and extend the key or the member.
//	announce  By a client that stands in no lane: the readers are recalled, and others stay out for a while.
//
// # What is checked
//
// The properties are those of package grant, with these differences: a writer's lease excludes all others, that of a reader those of
// writers; the fence of a reader is not smaller than those of earlier writers, and smaller than those of later ones.
//
// The worlds of bound_test.go have time in ticks. They say for how long the lock may be unused although somebody waits, if clients are
// stopped and messages are lost.
//
// # What it does not cover
//
//   - More than three clients or masters.
//   - Who is near: any reader may find the message about its grant too old, and polls then.
//   - The sharing of a lease by the goroutines of a process: see package kept.
package lanes
