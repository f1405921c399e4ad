// Package agree explores exhaustively how clients with different values of MaxTTL agree on the
// length of a quarantine. It complements package model, where one MaxTTL covers every client. It
// consists of tests only, and models the protocol, not the code.
//
// # What is modelled
//
// A holder has a lease with a long TTL. Another client, whose own MaxTTL is short, wants the lock.
// Masters lose their memory: the key, and the record with the largest MaxTTL that any client has
// declared since it was written. Each client may inspect a master at any time: it writes a record
// if there is none, and raises a record whose MaxTTL is smaller than its own. A quarantine at a master
// lasts for the largest of three: the client's own MaxTTL, the record's, and the largest that the
// client has ever seen on these masters.
//
// A quarantine that has ended begins again if a larger MaxTTL is seen, unless the records of all other
// masters were confirmed since that record was written. An acquisition under way then has no votes any more.
// In some worlds one master does not have the key, since the holder's quorum was a bare majority, and one
// master at most loses its memory.
//
// One property is checked: the other client does not get a quorum of votes while the holder's
// lease lasts.
//
// # What is abstracted
//
// There are two lengths. A short quarantine may end in the model, and a long one does not: the
// holder's lease lasts to the end. A client that is connected to a master inspects
// it within a heartbeat after a restart, which is far less than the short quarantine. So the short
// quarantine passes only when the holder has inspected every master that it reaches. Raising a
// record changes its text, so that a probe shows it to clients that know the old one. In the model
// they see it at once. The holder does not notice that its keys are gone. A renewal might show it,
// but not necessarily before the short quarantine has ended.
package agree
