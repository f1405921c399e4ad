// Package agree explores exhaustively how clients with different values of MaxTTL agree on the
// length of a quarantine. It stands beside package model, where one MaxTTL covers every client. It
// is all tests, and it knows the protocol, not the code.
//
// # What is modelled
//
// A holder has a lease with a long TTL. Another client, whose own MaxTTL is short, wants the lock.
// Masters lose their memory: the key, and the record with the largest MaxTTL that any client has
// declared since it was written. Each client inspects a master when it likes: it writes a record
// where there is none, and raises one with a smaller MaxTTL than its own. A quarantine at a master
// lasts for the largest of three: the client's own MaxTTL, the record's, and the largest that the
// client has ever seen on these masters.
//
// One property is looked at: the other client does not get a quorum of votes while the holder's
// lease lasts.
//
// # What is abstracted
//
// There are two lengths. In the time of the model the short quarantine passes, and the long one
// does not: the holder's lease lasts to the end. A client that is connected to a master inspects
// it within a heartbeat after a restart, which is far less than the short quarantine. So the short
// quarantine passes only when the holder has inspected every master that it reaches. Raising a
// record changes its text, so that a probe shows it to clients that know the old one; in the model
// they see it at once. The holder does not notice that its keys are gone: a renewal might tell it,
// but not necessarily before the short quarantine has passed.
package agree
